"""Keys and certificates of the cluster, made with openssl, and the kubeconfigs that hold them."""

import base64
import json
from pathlib import Path
from typing import Final

from tests.cluster.command import run
from tests.cluster.layout import ADDRESS, API_PORT, API_SERVICE, DOMAIN, NODE, Layout

_DAYS: Final = "3650"
_CURVE: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_SERVER_NAMES: Final = (
    *(f"DNS:{name}" for name in ("kubernetes", "kubernetes.default", "kubernetes.default.svc")),
    f"DNS:kubernetes.default.svc.{DOMAIN}",
    f"DNS:{NODE}",
    f"IP:{ADDRESS}",
    f"IP:{API_SERVICE}",
)

CLIENTS: Final = {
    "admin": "/O=system:masters/CN=admin",
    "apiserver": "/O=system:masters/CN=system:apiserver",
    "controller-manager": "/CN=system:kube-controller-manager",
    "coredns": "/O=system:masters/CN=system:coredns",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
    "proxy": "/CN=system:kube-proxy",
    "scheduler": "/CN=system:kube-scheduler",
}
"""Subject of each client's certificate."""


def make(layout: Layout) -> None:
    """Make all keys, certificates and kubeconfigs, those that exist anew."""
    pki = layout.pki
    pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    extensions = pki / "extensions"
    extensions.write_text(
        f"[server]\nsubjectAltName={','.join(_SERVER_NAMES)}\nextendedKeyUsage=serverAuth\n"
        # etcd calls itself with its own certificate.
        f"[both]\nsubjectAltName={','.join(_SERVER_NAMES)}\nextendedKeyUsage=serverAuth,clientAuth\n"
        "[client]\nextendedKeyUsage=clientAuth\n"
    )
    _openssl(
        *("req", "-x509", *_CURVE, "-days", _DAYS, "-subj", "/CN=pd-operator local cluster"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-keyout", str(pki / "ca.key"), "-out", str(pki / "ca.crt")),
    )
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(pki / "sa.key"))
    _openssl("ec", "-in", str(pki / "sa.key"), "-pubout", "-out", str(pki / "sa.pub"))
    _issue(pki, "server", "/CN=server", "both")
    for name, subject in CLIENTS.items():
        _issue(pki, f"{name}-client", subject, "client")
        if name != "admin":
            _write_private(layout.config / f"{name}.kubeconfig", kubeconfig(pki, name))
    write_kubeconfig(layout)


def write_kubeconfig(layout: Layout) -> None:
    """The administrator's kubeconfig."""
    _write_private(layout.kubeconfig, kubeconfig(layout.pki, "admin"))


def kubeconfig(pki: Path, client: str) -> str:
    """A kubeconfig (JSON is YAML) with everything embedded."""

    def data(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    server = f"https://{ADDRESS}:{API_PORT}"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pd-operator",
        "clusters": [
            {
                "name": "pd-operator",
                "cluster": {"server": server, "certificate-authority-data": data("ca.crt")},
            }
        ],
        "users": [
            {
                "name": client,
                "user": {
                    "client-certificate-data": data(f"{client}-client.crt"),
                    "client-key-data": data(f"{client}-client.key"),
                },
            }
        ],
        "contexts": [
            {"name": "pd-operator", "context": {"cluster": "pd-operator", "user": client}}
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def _issue(pki: Path, name: str, subject: str, extensions: str) -> None:
    request = pki / f"{name}.csr"
    _openssl(
        *("req", "-new", *_CURVE, "-subj", subject),
        *("-keyout", str(pki / f"{name}.key"), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-days", _DAYS, "-CAcreateserial"),
        *("-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key")),
        *("-extfile", str(pki / "extensions"), "-extensions", extensions),
        *("-out", str(pki / f"{name}.crt")),
    )
    request.unlink()


def _openssl(*arguments: str) -> None:
    run(["openssl", *arguments])


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
