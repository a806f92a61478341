"""Addresses, names and folders of the local Kubernetes."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.paths import CLUSTER

RUN_ROOT: Final = Path("/run/pd-operator")
"""Sockets and mounts of every checkout's cluster: a path here is short, and tells whose it is."""

REGISTRY: Final = RUN_ROOT / "cluster.json"
"""Which checkout's cluster runs, and what it changed on the machine."""

NODE: Final = "pd-node"
ADDRESS: Final = "10.244.255.1"
"""The node's address, on the loopback device. One machine has one: so one cluster at a time."""

CLUSTER_CIDR: Final = "10.244.0.0/16"
POD_CIDR: Final = "10.244.0.0/20"
GATEWAY: Final = "10.244.0.1"
SERVICE_CIDR: Final = "10.96.0.0/16"
API_SERVICE: Final = "10.96.0.1"
DNS_SERVICE: Final = "10.96.0.10"
DOMAIN: Final = "cluster.local"

ETCD_PORT: Final = 2379
ETCD_PEER_PORT: Final = 2380
API_PORT: Final = 6443
KUBELET_PORT: Final = 10250
DNS_PORT: Final = 53
DNS_READY_PORT: Final = 8181
PORTS: Final = {
    ETCD_PORT: "etcd",
    ETCD_PEER_PORT: "etcd's peers",
    API_PORT: "the API server",
    10248: "the kubelet's health",
    10249: "kube-proxy's metrics",
    KUBELET_PORT: "the kubelet",
    10256: "kube-proxy's health",
    10257: "the controller-manager",
    10259: "the scheduler",
    DNS_PORT: "CoreDNS",
    DNS_READY_PORT: "CoreDNS's readiness",
}

CGROUP: Final = "pd-operator"
"""The control group above all pods."""

CNI_NETWORK: Final = "pd-operator"

DEVICES: Final = {"nvidia.com/gpu": 8, "rdma/hca_shared_devices_a": 64}
"""What the device plugin advertises on the node."""


@dataclass(frozen=True)
class Layout:
    """The folders of one checkout's cluster."""

    state: Path = CLUSTER

    @property
    def run(self) -> Path:
        """Unix sockets have room for 108 characters only, so they are not in the checkout."""
        return RUN_ROOT / hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    @property
    def bin(self) -> Path:
        return self.state / "bin"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def config(self) -> Path:
        return self.state / "config"

    @property
    def containerd(self) -> Path:
        """Images and their layers; stays when the cluster goes down."""
        return self.state / "containerd"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def socket(self) -> Path:
        """containerd's socket."""
        return self.run / "containerd.sock"

    @property
    def kubelet(self) -> Path:
        """The kubelet's folder: a bind mount, so that mounts of pods are found by their path."""
        return self.run / "kubelet"

    def log(self, program: str) -> Path:
        return self.logs / f"{program}.log"
