"""Mode Colocated: what of a spec is in use where no KV moves."""

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import KVTransferSpec, Protocol
from pd_operator.api.mooncake import MooncakeSpec


def effective(deployment: PDDeployment) -> PDDeployment:
    """The deployment without what its mode does not use.

    A feature of the KV transfer thus needs to know nothing of the mode: it finds itself unused.
    """
    spec = deployment.spec
    if not spec.colocated:
        return deployment
    unused = {
        "kv_transfer": KVTransferSpec(protocol=Protocol.TCP),
        "rdma": None,
        "mooncake": MooncakeSpec(),
    }
    return deployment.model_copy(update={"spec": spec.model_copy(update=unused)})
