"""kopf's credentials: of the pod's ServiceAccount, else of the kubeconfig."""

import os
from pathlib import Path
from typing import Final

import kopf

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def login() -> kopf.ConnectionInfo | None:
    """Read anew at each login: kopf logs in again when a token is refused.

    The address is that of the environment, not a DNS name: the operator works without DNS.
    """
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if host is None:
        return kopf.login_with_kubeconfig(settings=kopf.OperatorSettings())
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return kopf.ConnectionInfo(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_path=str(_ACCOUNT / "ca.crt"),
        token=(_ACCOUNT / "token").read_text(encoding="utf-8").strip(),
    )
