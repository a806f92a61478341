"""ServiceAccounts of the engines and the proxy."""

from pd_operator.api.deployment import PDDeployment
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child
from pd_shared import labels


def service_accounts(deployment: PDDeployment) -> tuple[Manifest, ...]:
    """One for the engines and the Mooncake master, without rights; one for the proxy."""
    name = deployment.metadata.name
    return tuple(
        child(
            deployment, "v1", "ServiceAccount", account, component,
            automountServiceAccountToken=False,
        )
        for account, component in (
            (names.engine(name), labels.ENGINE),
            (names.proxy(name), labels.PROXY),
        )
    )  # fmt: skip
