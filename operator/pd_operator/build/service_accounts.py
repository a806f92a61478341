"""ServiceAccounts of the engines and the proxy."""

from pd_operator.api.deployment import PDDeployment
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child
from pd_shared import labels


def service_accounts(deployment: PDDeployment) -> tuple[Manifest, ...]:
    """One for the engines and the Mooncake master, without rights; one for the proxy; one, without
    rights too, for the download of the model where there is one."""
    name = deployment.metadata.name
    hub = deployment.spec.model.source.hugging_face
    downloads = ((names.model(name), labels.MODEL),) if hub and hub.cache else ()
    return tuple(
        child(
            deployment, "v1", "ServiceAccount", account, component,
            automountServiceAccountToken=False,
        )
        for account, component in (
            (names.engine(name), labels.ENGINE),
            (names.proxy(name), labels.PROXY),
            *downloads,
        )
    )  # fmt: skip
