"""How the launcher gets into engine pods."""

from typing import Any

import pytest

from pd_operator.build.launcher import FOLDER, launcher_files
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, children, deployment, engine_pod


@pytest.mark.parametrize("component", [PREFILLER, DECODER])
def test_pods_mount_the_config_map_of_the_files(component: str) -> None:
    pod = engine_pod(CUDA, component)
    (volume,) = [each for each in pod["volumes"] if each["name"] == "launcher"]
    config_map = children(deployment(CUDA))["ConfigMap", volume["configMap"]["name"]]
    assert config_map["data"] == launcher_files()
    assert "__main__.py" in config_map["data"]
    assert config_map["immutable"] is True
    mounts: list[dict[str, Any]] = pod["containers"][0]["volumeMounts"]
    assert {"name": "launcher", "mountPath": FOLDER, "readOnly": True} in mounts


def test_the_longest_name_is_a_label() -> None:
    names = [name for kind, name in children(deployment(CPU, name="a" * 33)) if kind == "ConfigMap"]
    assert max(map(len, names)) <= 63
