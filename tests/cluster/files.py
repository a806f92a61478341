"""Configuration files of the cluster's programs, and the objects it begins with; all pure."""

import json
from typing import Any

from tests.cluster.layout import (
    ADDRESS,
    CGROUP,
    CNI_NETWORK,
    DNS_PORT,
    DNS_READY_PORT,
    DNS_SERVICE,
    DOMAIN,
    POD_CIDR,
    Layout,
)


def files(layout: Layout, pause: str, cni: str) -> dict[str, str]:
    """Content of each configuration file by its name in the config folder.

    pause: reference of the image that holds a pod's namespaces. cni: folder of the CNI plugins.
    """
    return {
        "audit.json": _json(_audit()),
        "kubelet.json": _json(_kubelet(layout)),
        "containerd.toml": _containerd(layout, pause, cni),
        "Corefile": _corefile(layout),
        "cni/pd-operator.conflist": _json(_cni(layout)),
    }


def dns() -> dict[str, dict[str, Any]]:
    """API path and content of the objects that make CoreDNS the cluster's name server."""
    metadata = {"name": "kube-dns", "namespace": "kube-system"}
    ports = [
        {"name": f"dns-{protocol.lower()}", "port": DNS_PORT, "protocol": protocol}
        for protocol in ("UDP", "TCP")
    ]
    return {
        "/api/v1/namespaces/kube-system/services/kube-dns": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"clusterIP": DNS_SERVICE, "ports": ports},
        },
        "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns": {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
            "ports": ports,
        },
    }


def _json(content: object) -> str:
    return json.dumps(content, indent=2) + "\n"


def _audit() -> dict[str, Any]:
    parts = ["apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            # What the cluster's own parts do would bury all else.
            {"level": "None", "users": [f"system:{part}" for part in parts]},
            {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
            {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*", "/version"]},
            {"level": "Metadata"},
        ],
    }


def _kubelet(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "healthzBindAddress": ADDRESS,
        "tlsCertFile": str(layout.pki / "server.crt"),
        "tlsPrivateKeyFile": str(layout.pki / "server.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{layout.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": DOMAIN,
        "enforceNodeAllocatable": [],
        # A pod knows no name server but the cluster's.
        "resolvConf": "",
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "200Mi",
            "imagefs.available": "200Mi",
        },
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "maxPods": 250,
        # New devices are told to the API server at the next update only; by default every 10 s.
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "5m",
        "oomScoreAdj": 0,
        "podLogsDir": str(layout.logs / "pods"),
        "protectKernelDefaults": False,
        "registerNode": True,
        "serializeImagePulls": False,
    }


def _containerd(layout: Layout, pause: str, cni: str) -> str:
    # JSON's strings are valid in TOML. oom_score: lowering it needs CAP_SYS_RESOURCE, which the
    # machine may lack; without the restriction every pod would fail.
    return f"""version = 2
root = {json.dumps(str(layout.containerd))}
state = {json.dumps(str(layout.run / "containerd"))}
[grpc]
address = {json.dumps(str(layout.socket))}
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = {json.dumps(pause)}
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
disable_tcp_service = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {json.dumps(cni)}
conf_dir = {json.dumps(str(layout.config / "cni"))}
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = {json.dumps(str(layout.run / "runc"))}
"""


def _corefile(layout: Layout) -> str:
    return f""".:{DNS_PORT} {{
    bind {ADDRESS}
    errors
    ready {ADDRESS}:{DNS_READY_PORT}
    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {layout.config / "coredns.kubeconfig"}
        ttl 5
    }}
    cache 5 {{
        denial 9984 1
    }}
}}
"""


def _cni(layout: Layout) -> dict[str, Any]:
    return {
        "cniVersion": "0.4.0",
        "name": CNI_NETWORK,
        "plugins": [
            {
                # Routed through the host, so that its packet filter sees what pods say to pods.
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(layout.run / "cni"),
                    "ranges": [[{"subnet": POD_CIDR}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
