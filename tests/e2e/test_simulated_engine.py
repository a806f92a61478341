"""The image engine-sim in place of vLLM: nothing else of a deployment changes."""

import json
import urllib.request
from typing import Any

import pytest

from demo.proof import moved_tokens
from tests.e2e.deploy import reached, tiny
from tests.kube import Kube, until

pytestmark = pytest.mark.cluster


def complete(url: str, prompt: str) -> dict[str, Any]:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 4}
    asked = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=60) as response:
        value: dict[str, Any] = json.loads(response.read())
        assert response.headers["x-pd-prefiller"]
        return value


@pytest.mark.parametrize("example", ["tiny-cpu", "nixl-cpu"])
def test_a_simulated_pair_moves_kv(
    kube: Kube, images: dict[str, str], operator: str, namespace: str, example: str
) -> None:
    manifest = tiny(images, "sim", example)
    manifest["spec"]["engine"]["image"] = images["engine-sim"]
    kube.apply(manifest, namespace)
    kube.wait_ready("sim", namespace)
    with reached(kube, "sim", namespace) as url:
        value = complete(url, "one two three four")
    assert value["usage"]["prompt_tokens"] == 4
    until(lambda: sum(moved_tokens(kube, "sim", namespace).values()) == 4, 30, "KV to move")
