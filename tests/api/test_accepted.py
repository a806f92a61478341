"""What the API server accepts: every example, and the less usual spellings of good values."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pd_operator.api.deployment import PLURAL, parse
from tests.api.conftest import Submit
from tests.kube import Kube
from tools.paths import REPOSITORY

pytestmark = pytest.mark.cluster

EXAMPLES = sorted((REPOSITORY / "crds" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(kube: Kube, crd: str, path: Path) -> None:
    command = ("create", "--dry-run=server", "--validate=strict", "-n", "default", "-o", "name")
    documents = [d for d in yaml.safe_load_all(path.read_text()) if d]
    assert len(kube.kubectl(*command, "-f", str(path)).splitlines()) == len(documents)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"rdma": {"resource": "rdma/hca", "count": 2, "devices": ["mlx5_0", "mlx5_1"]}},
        {"kvTransfer": {"connector": "Mooncake", "protocol": "tcp"}},
        {"prefill": {"resources": {"requests": {"cpu": 2, "memory": "1.5Gi"}}}},
        {"prefill": {"nodeSelector": {"a.example/b": ""}, "tolerations": [{"operator": "Exists"}]}},
        {"prefill": {"parallelism": {"tensor": 8}}, "decode": {"parallelism": {"tensor": 2}}},
        {"decode": {"parallelism": {"tensor": 4}}},
        {"mooncake": {"store": {"enabled": True, "segmentSize": "64Gi"}}},
        {"proxy": {"routing": {"prefixAware": False, "sessionHeader": "x_user-1"}}},
        {"autoscaling": {"mode": "Auto", "slo": {"ttft": "500ms"}, "decode": {"max": 4}}},
        {"engine": {"image": "a@sha256:0", "args": ["--porter", "--hostess=1", "x.--port"]}},
        {"model": {"id": "m", "source": {"huggingFace": {"tokenSecret": {"name": "hf"}}}}},
        {
            "model": {
                "id": "m",
                "source": {"huggingFace": {"cache": {"claimName": "c", "path": "a/b"}}},
            }
        },
        {"model": {"id": "m", "source": {"pvc": {"claimName": "c", "path": "a/b"}}}},
    ],
    ids=str,
)
def test_good_specs(submit: Submit, spec: dict[str, Any]) -> None:
    base = {"model": {"id": "org/model"}, "engine": {"image": "vllm:1"}}
    manifest = {
        "apiVersion": "pd-operator.io/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": "a" * 33},
        "spec": base | spec,
    }
    assert submit(manifest) == ""
    # What gets past the API server must get past the models too.
    assert parse(manifest | {"metadata": {"name": "a", "namespace": "b", "uid": "c"}}).spec


def test_nothing_is_added_to_the_spec(kube: Kube, crd: str) -> None:
    # Defaults in the schema would be drift to a GitOps tool.
    path = EXAMPLES[0]
    (before,) = [d for d in yaml.safe_load_all(path.read_text()) if d]
    text = kube.kubectl(
        *("create", "--dry-run=server", "-n", "default", "-o", "yaml", "-f", str(path))
    )
    assert yaml.safe_load(text)["spec"] == before["spec"]


def test_crd_is_served_with_its_short_name_and_subresources(kube: Kube, crd: str) -> None:
    resources = kube.raw("/apis/pd-operator.io/v1alpha1")
    served = {item["name"]: item for item in yaml.safe_load(resources)["resources"]}
    assert served[PLURAL]["shortNames"] == ["pdd"]
    assert {f"{PLURAL}/status", f"{PLURAL}/scale"} <= set(served)


def test_crd_schema_is_structural(kube: Kube, crd: str) -> None:
    conditions = yaml.safe_load(kube.kubectl("get", "crd", crd, "-o", "yaml"))["status"]
    states = {c["type"]: (c["status"], c.get("message", "")) for c in conditions["conditions"]}
    assert states["Established"][0] == "True"
    assert states.get("NonStructuralSchema", ("False", ""))[0] == "False", states
