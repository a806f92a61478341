"""Load scales each tier up and back, and status says why."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pd_shared import labels
from tests.e2e.deploy import pods, reached, tiny
from tests.kube import Kube, until
from tools.paths import REPOSITORY

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


@contextmanager
def load(url: str, streams: int, max_tokens: int, words: int) -> Iterator[None]:
    """Requests one after the other in each of some streams, for at most 180 s."""
    command = [
        sys.executable,
        "-m",
        "tests.e2e.load",
        url,
        str(streams),
        str(max_tokens),
        str(words),
    ]
    process = subprocess.Popen(command, cwd=REPOSITORY)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _scaled(kube: Kube, namespace: str, tier: str, component: str, count: int) -> dict[str, Any]:
    """Wait until the tier has as many pods; its last decision."""

    def look() -> dict[str, Any] | None:
        alive = pods(kube, "scaled", namespace, component)
        status = kube.get("pdd", "scaled", namespace).get("status", {})
        decision: dict[str, Any] = status.get("scaling", {}).get(tier, {})
        return decision if len(alive) == count and decision.get("desired") == count else None

    def explain() -> str:
        status = kube.get("pdd", "scaled", namespace).get("status", {})
        return json.dumps(status.get("scaling"), indent=1)

    return until(look, 150, lambda: f"{tier} at {count}: {explain()}", pause=0.5)


@pytest.mark.parametrize(
    ("tier", "component", "target", "streams", "tokens", "words"),
    [
        # Targets that one busy engine on a CPU cannot hold.
        ("decode", labels.DECODER, {"tpot": "1ms"}, 4, 64, 5),
        ("prefill", labels.PREFILLER, {"ttft": "10ms"}, 4, 2, 300),
    ],
    ids=["decoders by TPOT", "prefillers by TTFT"],
)
def test_load_scales_a_tier_up_and_back(
    kube: Kube,
    images: dict[str, str],
    operator: str,
    namespace: str,
    tier: str,
    component: str,
    target: dict[str, str],
    streams: int,
    tokens: int,
    words: int,
) -> None:
    manifest = tiny(images, "scaled")
    manifest["spec"]["autoscaling"] = {
        "mode": "Auto",
        "slo": target,
        tier: {"min": 1, "max": 2},
        "scaleDown": {"stabilizationWindow": "5s"},
    }
    kube.apply(manifest, namespace)
    kube.wait_ready("scaled", namespace)
    other = labels.PREFILLER if component == labels.DECODER else labels.DECODER
    with reached(kube, "scaled", namespace) as url, load(url, streams, tokens, words):
        up = _scaled(kube, namespace, tier, component, 2)
        assert next(iter(target)).upper() in up["message"] + up["reason"], up
        assert len(pods(kube, "scaled", namespace, other)) == 1
    down = _scaled(kube, namespace, tier, component, 1)
    assert down["reason"], down

    def told() -> set[int]:
        events = kube.list("events", namespace)
        texts = [e["message"] for e in events if e["involvedObject"]["kind"] == "PDDeployment"]
        return {
            new
            for old, new in ((1, 2), (2, 1))
            if any(f"{old} -> {new}" in text or f"from {old} to {new}" in text for text in texts)
        }

    # Events are sent behind the status.
    until(lambda: told() == {1, 2}, 30, lambda: f"events of both; there are those to {told()}")
