"""Command lines of the cluster's programs; all pure."""

from typing import Final

from tests.cluster.layout import (
    ADDRESS,
    API_PORT,
    CLUSTER_CIDR,
    DEVICES,
    DOMAIN,
    ETCD_PEER_PORT,
    ETCD_PORT,
    NODE,
    SERVICE_CIDR,
    Layout,
)

CONTROL: Final = ("etcd", "apiserver", "controller-manager", "scheduler")
PROGRAMS: Final = ("containerd", *CONTROL, "kubelet", "proxy", "coredns", "device-plugin")
"""All programs, in the order of their start."""


def etcd(layout: Layout) -> list[str]:
    pki = layout.pki
    client = f"https://{ADDRESS}:{ETCD_PORT}"
    peer = f"https://{ADDRESS}:{ETCD_PEER_PORT}"
    return [
        "--name=etcd",
        f"--data-dir={layout.state / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=etcd={peer}",
        f"--cert-file={pki / 'server.crt'}",
        f"--key-file={pki / 'server.key'}",
        f"--trusted-ca-file={pki / 'ca.crt'}",
        "--client-cert-auth",
        f"--peer-cert-file={pki / 'server.crt'}",
        f"--peer-key-file={pki / 'server.key'}",
        f"--peer-trusted-ca-file={pki / 'ca.crt'}",
        "--peer-client-cert-auth",
        "--unsafe-no-fsync",  # nothing here has to outlive a power cut
        "--log-level=warn",
    ]


def apiserver(layout: Layout) -> list[str]:
    pki = layout.pki
    return [
        f"--etcd-servers=https://{ADDRESS}:{ETCD_PORT}",
        f"--etcd-cafile={pki / 'ca.crt'}",
        f"--etcd-certfile={pki / 'apiserver-client.crt'}",
        f"--etcd-keyfile={pki / 'apiserver-client.key'}",
        f"--bind-address={ADDRESS}",
        f"--advertise-address={ADDRESS}",
        f"--secure-port={API_PORT}",
        f"--tls-cert-file={pki / 'server.crt'}",
        f"--tls-private-key-file={pki / 'server.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--endpoint-reconciler-type=lease",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'apiserver-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-client.key'}",
        "--allow-privileged=true",
        f"--audit-policy-file={layout.config / 'audit.json'}",
        f"--audit-log-path={layout.logs / 'audit.log'}",
        "--audit-log-maxsize=200",
        "--audit-log-maxbackup=1",
        "--profiling=false",
    ]


def controller_manager(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.config / 'controller-manager.kubeconfig'}",
        f"--bind-address={ADDRESS}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--service-account-private-key-file={layout.pki / 'sa.key'}",
        f"--tls-cert-file={layout.pki / 'server.crt'}",
        f"--tls-private-key-file={layout.pki / 'server.key'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--profiling=false",
    ]


def scheduler(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.config / 'scheduler.kubeconfig'}",
        f"--bind-address={ADDRESS}",
        f"--tls-cert-file={layout.pki / 'server.crt'}",
        f"--tls-private-key-file={layout.pki / 'server.key'}",
        "--leader-elect=false",
        "--profiling=false",
    ]


def kubelet(layout: Layout) -> list[str]:
    return [
        f"--config={layout.config / 'kubelet.json'}",
        f"--kubeconfig={layout.config / 'kubelet.kubeconfig'}",
        f"--root-dir={layout.kubelet}",
        f"--hostname-override={NODE}",
        f"--node-ip={ADDRESS}",
    ]


def proxy(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.config / 'proxy.kubeconfig'}",
        "--proxy-mode=nftables",
        f"--hostname-override={NODE}",
        f"--cluster-cidr={CLUSTER_CIDR}",
        f"--healthz-bind-address={ADDRESS}:10256",
        f"--metrics-bind-address={ADDRESS}:10249",
        # The machine's own limits of connection tracking stay as they are.
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]


def coredns(layout: Layout) -> list[str]:
    return ["-conf", str(layout.config / "Corefile")]


def device_plugin(_: Layout) -> list[str]:
    return [word for name, count in DEVICES.items() for word in ("-resource", f"{name}={count}")]


def containerd(layout: Layout) -> list[str]:
    return ["--config", str(layout.config / "containerd.toml"), "--log-level", "warn"]
