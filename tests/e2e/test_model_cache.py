"""The shared cache with real engines: a Job downloads the model once, from the test's own hub."""

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pd_shared import labels
from tests import hub, shared
from tests.e2e.client import completion, send
from tests.e2e.deploy import is_ready, pods, reached, tiny
from tests.kube import Kube, Manifest, until

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

NAMESPACE = "t-cache"
NAME = "cached"
CLAIM = "hub"
TOKEN = "hf_of-this-test"
PORT = 8080


def volume(folder: str) -> list[Manifest]:
    """A folder of the node as a claim of many readers and writers."""
    size = {"storage": "1Gi"}
    modes = ["ReadWriteMany"]
    name = Path(folder).name
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": size,
                "accessModes": modes,
                "storageClassName": "",
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": folder, "type": "DirectoryOrCreate"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM},
            "spec": {
                "accessModes": modes,
                "storageClassName": "",
                "volumeName": name,
                "resources": {"requests": size},
            },
        },
    ]


def hub_pod(image: str) -> Manifest:
    """A hub with the image's model; it opens the volume to all users as an NFS server might."""
    command = f"chmod 777 /volume && exec python3 /work/hub.py org/tiny /models/tiny {PORT} {TOKEN}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hub"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "hub",
                    "image": image,
                    "command": ["sh", "-c", command],
                    "securityContext": {"runAsUser": 0},
                    "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                    "volumeMounts": [
                        {"name": "work", "mountPath": "/work"},
                        {"name": "volume", "mountPath": "/volume"},
                    ],
                }
            ],
            "volumes": [
                {"name": "work", "configMap": {"name": "hub"}},
                {"name": "volume", "persistentVolumeClaim": {"claimName": CLAIM}},
            ],
        },
    }


def manifest(images: dict[str, str], endpoint: str, name: str, model: str) -> Manifest:
    made = tiny(images, name)
    made["spec"]["model"] = {
        "id": model,
        "servedName": "tiny",
        "source": {
            "huggingFace": {"tokenSecret": {"name": "hf"}, "cache": {"claimName": CLAIM}},
        },
    }
    made["spec"]["engine"]["env"] = [{"name": "HF_ENDPOINT", "value": endpoint}]
    return made


@pytest.fixture(scope="module")
def endpoint(kube: Kube, images: dict[str, str], operator: str) -> Iterator[str]:
    folder = f"/tmp/pd-hub-{secrets.token_hex(4)}"
    with shared.namespace(kube, NAMESPACE):
        script = {"hub.py": Path(hub.__file__).read_text()}
        secret = {"token": TOKEN}
        try:
            for one in (
                *volume(folder),
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hub"},
                 "data": script},
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"},
                 "stringData": secret},
                hub_pod(images["engine-cpu"]),
            ):  # fmt: skip
                kube.apply(one, NAMESPACE)
            until(lambda: is_ready(kube.get("pod", "hub", NAMESPACE)), 120, "the hub")
            yield f"http://{kube.get('pod', 'hub', NAMESPACE)['status']['podIP']}:{PORT}"
        finally:
            kube.kubectl("delete", "pv", Path(folder).name, "--ignore-not-found", "--wait=false")
            shutil.rmtree(folder, ignore_errors=True)


def jobs(kube: Kube, name: str) -> list[Manifest]:
    return kube.list("jobs", NAMESPACE, f"{labels.DEPLOYMENT}={name}")


def model_ready(kube: Kube, name: str, status: str) -> Manifest:
    def look() -> Manifest | None:
        found = kube.condition(name, NAMESPACE, "ModelReady")
        return found if found.get("status") == status and found["reason"] != "Downloading" else None

    return until(look, 180, lambda: f"ModelReady: {kube.condition(name, NAMESPACE, 'ModelReady')}")


def test_engines_start_from_what_was_downloaded_once(
    kube: Kube, images: dict[str, str], endpoint: str
) -> None:
    kube.apply(manifest(images, endpoint, NAME, "org/tiny"), NAMESPACE)
    kube.wait_ready(NAME, NAMESPACE)
    assert model_ready(kube, NAME, "True")["reason"] == "Downloaded"
    (job,) = jobs(kube, NAME)

    for component in (labels.PREFILLER, labels.DECODER):
        (pod,) = pods(kube, NAME, NAMESPACE, component)
        (engine,) = pod["spec"]["containers"]
        variables = {each["name"]: each.get("value") for each in engine["env"]}
        assert "HF_TOKEN" not in variables
        assert variables["HF_HUB_OFFLINE"] == "1"
    with reached(kube, NAME, NAMESPACE) as url:
        reply = send(url, "/v1/completions", completion("one two three"))
        assert (reply.status, reply.error) == (200, "")
        assert reply.headers["x-pd-prefiller"]

    # Without the hub another engine starts all the same, and no other Job is made.
    kube.kubectl("delete", "pod", "hub", "-n", NAMESPACE, "--grace-period=1")
    before: dict[str, Any] = pods(kube, NAME, NAMESPACE, labels.DECODER)[0]["metadata"]
    kube.kubectl(
        "delete", "pod", before["name"], "-n", NAMESPACE, "--grace-period=1", "--wait=false"
    )

    def back() -> bool:
        now = pods(kube, NAME, NAMESPACE, labels.DECODER)
        return [p["metadata"]["uid"] for p in now if is_ready(p)] not in ([], [before["uid"]])

    until(back, 180, "a decoder without the hub")
    assert [each["metadata"]["uid"] for each in jobs(kube, NAME)] == [job["metadata"]["uid"]]
    kube.kubectl("delete", "pdd", NAME, "-n", NAMESPACE, "--wait=false")
    kube.apply(hub_pod(images["engine-cpu"]), NAMESPACE)
    until(lambda: is_ready(kube.get("pod", "hub", NAMESPACE)), 120, "the hub anew")


def test_what_the_hub_refuses_is_told(kube: Kube, images: dict[str, str], endpoint: str) -> None:
    url = f"http://{kube.get('pod', 'hub', NAMESPACE)['status']['podIP']}:{PORT}"
    kube.apply(manifest(images, url, "refused", "org/none"), NAMESPACE)
    told = model_ready(kube, "refused", "False")
    assert told["reason"] == "DownloadFailed"
    assert "org/none: the hub refuses it (RepositoryNotFoundError)" in told["message"]
    ready = until(
        lambda: (
            found
            if (found := kube.condition("refused", NAMESPACE, "Ready")).get("reason")
            == "DownloadFailed"
            else None
        ),
        60,
        "Ready with the download's reason",
    )
    assert ready["status"] == "False"
    assert TOKEN not in str(kube.get("pdd", "refused", NAMESPACE))
