"""Every engine command of every example is one that vLLM's own parser takes."""

import json
from pathlib import Path

import pytest

from tests.kube import Kube, Manifest, until
from tests.parser.commands import engine_commands

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

SCRIPT = Path(__file__).parent.parent / "parser" / "in_engine.py"
INVENTED = {
    "invented flag": ["model", "--prefill-only"],
    "invented key": ["model", '--kv-transfer-config={"kv_role":"kv_both","num_workers":10}'],
    "invented value": ["model", "--all2all-backend=carrier_pigeon"],
}
"""What the parser must refuse, else the test would say nothing."""


def parser_pod(image: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "parser"},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [
                {
                    "name": "parser",
                    "image": image,
                    "command": ["python3", "/work/in_engine.py", "/work/commands.json"],
                    "env": [
                        {"name": "HOME", "value": "/tmp"},
                        {"name": "USER", "value": "x"},
                        # Offline, vLLM would look for the weights of every example.
                        {"name": "HF_HUB_OFFLINE", "value": "0"},
                    ],
                    "volumeMounts": [{"name": "work", "mountPath": "/work"}],
                }
            ],
            "volumes": [{"name": "work", "configMap": {"name": "parser"}}],
        },
    }


@pytest.fixture
def verdicts(kube: Kube, images: dict[str, str], namespace: str) -> dict[str, str | None]:
    """What vLLM says of each command line; None where it takes it."""
    lists = {**engine_commands(), **INVENTED}
    data = {"in_engine.py": SCRIPT.read_text(), "commands.json": json.dumps(lists)}
    config: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parser"}}
    kube.apply({**config, "data": data}, namespace)
    kube.apply(parser_pod(images["engine-cpu"]), namespace)

    def phase() -> str | None:
        found: str = kube.get("pod", "parser", namespace)["status"].get("phase", "")
        return found if found in ("Succeeded", "Failed") else None

    ended = until(phase, 240, "the end of the parser's pod")
    log = kube.kubectl("logs", "parser", "-n", namespace)
    assert ended == "Succeeded", log
    result: dict[str, str | None] = json.loads(log.splitlines()[-1])
    return result


def test_vllm_takes_every_command(verdicts: dict[str, str | None]) -> None:
    assert verdicts.keys() == {*engine_commands(), *INVENTED}
    refused = {name for name in INVENTED if verdicts.pop(name)}
    assert refused == INVENTED.keys()
    assert {name: error for name, error in verdicts.items() if error} == {}
