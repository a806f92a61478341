"""Services: headless ones of the tiers, the clients' one of the proxy, the Mooncake master's."""

from typing import Any

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import OVER_MOONCAKE, Connector
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child, selector
from pd_shared import labels, ports


def services(deployment: PDDeployment) -> tuple[Manifest, ...]:
    """All Services of the deployment: of the tiers that it has; the Mooncake master's only with
    the store, the LMCache server's only with its connector.
    """
    name = deployment.metadata.name
    result = [
        _headless(deployment, labels.DECODER, _port("http", ports.HTTP)),
        _service(deployment, names.proxy(name), labels.PROXY, ports=[_port("http", ports.HTTP)]),
    ]
    if not deployment.spec.colocated:
        prefiller = [_port("http", ports.HTTP)]
        if deployment.spec.connector in OVER_MOONCAKE:
            prefiller.append(_port("bootstrap", ports.BOOTSTRAP))
        result.insert(0, _headless(deployment, labels.PREFILLER, *prefiller))
    if deployment.spec.uses_store:
        master = deployment.spec.mooncake.master
        # The master's admin port can remove all keys without a password: no Service leads there.
        result.append(
            _service(
                deployment, names.mooncake(name), labels.MOONCAKE,
                ports=[_port("rpc", master.port),
                       _port("metadata", master.metadata_port)],
            )
        )  # fmt: skip
    if deployment.spec.connector is Connector.LMCACHE_MP:
        result.append(
            _service(deployment, names.lmcache(name), labels.LMCACHE_SERVER,
                     ports=[_port("lmcache", ports.LMCACHE)])
        )  # fmt: skip
    return tuple(result)


def _headless(deployment: PDDeployment, component: str, *port_list: Manifest) -> Manifest:
    return _service(
        deployment,
        names.tier(deployment.metadata.name, component),
        component,
        clusterIP="None",
        # Pods resolve one another before they are ready, and the proxy judges readiness itself.
        publishNotReadyAddresses=True,
        ports=list(port_list),
    )


def _service(deployment: PDDeployment, name: str, component: str, **spec: Any) -> Manifest:
    return child(
        deployment,
        "v1",
        "Service",
        name,
        component,
        spec={"selector": selector(deployment.metadata.name, component), **spec},
    )


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "port": number, "protocol": "TCP", "targetPort": name}
