"""The engine pod: devices, security, probes, drain, placement."""

import socket
import subprocess
import sys
from typing import Any

import pytest

from pd_operator.build.engine_pod import PRE_STOP_SECONDS
from pd_operator.build.engine_pod import resources as pod_resources
from pd_operator.build.parts.server import SHUTDOWN_SECONDS
from pd_operator.build.wait import WAIT_SCRIPT
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, STORE, engine_pod, merged, part, tier

TCP = merged(CUDA, {"kvTransfer": {"protocol": "tcp"}})


def pod(spec: dict[str, Any], component: str = PREFILLER) -> dict[str, Any]:
    return engine_pod(spec, component)


def resources(spec: dict[str, Any], component: str) -> dict[str, Any]:
    return pod_resources(tier(spec, component), part(spec, component))


def engine(spec: dict[str, Any], component: str = PREFILLER) -> dict[str, Any]:
    (container,) = pod(spec, component)["containers"]
    assert isinstance(container, dict)
    return container


def test_devices_are_added_to_requests_and_limits() -> None:
    spec = merged(
        CUDA,
        {
            "rdma": {"resource": "rdma/ib", "count": 4},
            "prefill": {
                "parallelism": {"tensor": 8},
                "resources": {"requests": {"cpu": 4}, "limits": {"memory": "1024Mi"}},
            },
        },
    )
    devices = {"nvidia.com/gpu": "8", "rdma/ib": "4"}
    assert resources(spec, PREFILLER) == {
        "requests": {"cpu": "4", **devices},
        "limits": {"memory": "1Gi", **devices},
    }


def test_default_rdma_resource() -> None:
    devices = {"nvidia.com/gpu": "1", "rdma/hca_shared_devices_a": "1"}
    assert resources(CUDA, DECODER) == {"requests": devices, "limits": devices}


@pytest.mark.parametrize(("spec", "expected"), [(CPU, {}), (TCP, {"nvidia.com/gpu": "1"})])
def test_no_device_without_need(spec: dict[str, Any], expected: dict[str, str]) -> None:
    assert resources(spec, DECODER).get("limits", {}) == expected


@pytest.mark.parametrize("spec", [CPU, TCP, merged(CPU, STORE)])
def test_restricted_profile_without_rdma(spec: dict[str, Any]) -> None:
    found = pod(spec)
    assert found["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in [*found["containers"], *found.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def test_rdma_adds_the_right_to_lock_memory_and_no_more() -> None:
    found = pod(CUDA)
    assert found["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = found["containers"]
    assert container["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"], "drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("spec", [CPU, CUDA])
def test_no_token_and_no_service_variables(spec: dict[str, Any]) -> None:
    found = pod(spec)
    assert found["automountServiceAccountToken"] is False
    assert found["enableServiceLinks"] is False
    assert found["serviceAccountName"] == "tiny-engine"


def test_grace_period_covers_the_drain() -> None:
    found = pod(CUDA)
    (container,) = found["containers"]
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}}
    assert found["terminationGracePeriodSeconds"] > PRE_STOP_SECONDS + SHUTDOWN_SECONDS


def test_probes_ask_for_health() -> None:
    container = engine(CUDA)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 3600


def test_command_does_not_depend_on_the_image() -> None:
    assert engine(CPU)["command"] == [
        "python3", "-I", "-B", "/etc/pd-launch/pd_launch", "launch", "--", "vllm", "serve",
    ]  # fmt: skip


def test_ports() -> None:
    def names(component: str) -> list[tuple[str, int]]:
        found = engine(CUDA, component)["ports"]
        return [(port["name"], port["containerPort"]) for port in found]

    assert names(PREFILLER) == [("http", 8000), ("bootstrap", 8998)]
    assert names(DECODER) == [("http", 8000)]


def test_claim_is_mounted_read_only() -> None:
    spec = merged(CUDA, {"model": {"source": {"pvc": {"claimName": "models"}}}})
    claim = {"claimName": "models", "readOnly": True}
    assert {"name": "model", "persistentVolumeClaim": claim} in pod(spec)["volumes"]
    mount = {"name": "model", "mountPath": "/mnt/model", "readOnly": True}
    assert mount in engine(spec)["volumeMounts"]


def test_image_with_weights_is_mounted_read_only() -> None:
    oci = {"image": "registry.example/weights:1", "pullPolicy": "IfNotPresent"}
    spec = merged(CUDA, {"model": {"source": {"oci": oci}}})
    image = {"reference": "registry.example/weights:1", "pullPolicy": "IfNotPresent"}
    assert {"name": "model", "image": image} in pod(spec)["volumes"]
    mount = {"name": "model", "mountPath": "/mnt/model", "readOnly": True}
    assert mount in engine(spec)["volumeMounts"]


def test_shared_memory_is_memory() -> None:
    shm = next(volume for volume in pod(CUDA)["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"]["medium"] == "Memory"
    assert {"name": "shm", "mountPath": "/dev/shm"} in engine(CUDA)["volumeMounts"]


def test_placement_of_the_user() -> None:
    tolerations = [
        {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoExecute",
         "tolerationSeconds": 30},
        {"operator": "Exists"},
    ]  # fmt: skip
    tier = {"nodeSelector": {"pool": "h100"}, "tolerations": tolerations}
    spec = merged(CUDA, {"decode": tier})
    assert pod(spec, DECODER)["nodeSelector"] == {"pool": "h100"}
    assert pod(spec, DECODER)["tolerations"] == tolerations
    assert not {"nodeSelector", "tolerations"} & pod(spec, PREFILLER).keys()


def test_affinities_never_forbid_a_node() -> None:
    """Labels of nodes are habits; only the device plugin's resource is certain."""
    affinity = pod(CUDA)["affinity"]
    assert affinity.keys() == {"podAntiAffinity", "nodeAffinity"}
    for rules in affinity.values():
        assert rules.keys() == {"preferredDuringSchedulingIgnoredDuringExecution"}
    assert "nodeAffinity" not in pod(TCP)["affinity"]


def test_engines_wait_for_the_master_only_with_the_store() -> None:
    assert "initContainers" not in pod(CPU)
    *_, wait = pod(merged(CUDA, STORE))["initContainers"]
    assert wait["image"] == "registry.example/vllm:1"
    assert wait["command"][:2] == ["python3", "-c"]
    assert wait["command"][3:] == ["tiny-mooncake.ns.svc.cluster.local", "50051"]


def test_waiting_ends_when_the_master_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-c", WAIT_SCRIPT, "127.0.0.1", str(port)],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert done.stdout.splitlines() == [
        f"waiting for the Mooncake master at 127.0.0.1:{port}",
        "the Mooncake master answers",
    ]


def test_waiting_says_why_it_still_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", WAIT_SCRIPT, "127.0.0.1", str(port)],
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        line = process.stdout.readline()
        process.kill()
    assert line.startswith(f"no Mooncake master at 127.0.0.1:{port} yet: ")
