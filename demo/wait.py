"""Waits for a PDDeployment and says what it waits for."""

import time
from collections.abc import Callable
from typing import Any

from tests.kube import Kube
from tools.stages import UserError


def waits_for(deployment: dict[str, Any]) -> str:
    """The conditions that are not yet true, in words; empty where it is Ready.

    A condition counts only where it speaks of the object's latest generation.
    """
    status = deployment.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", [])}
    generation = deployment["metadata"]["generation"]
    ready = conditions.get("Ready")
    if ready is None or ready.get("observedGeneration") != generation:
        return "the operator"
    if ready["status"] == "True":
        return ""
    open_ones = [
        f"{kind} ({condition['reason']})"
        for kind, condition in sorted(conditions.items())
        if condition["status"] == "False" and kind.endswith("Ready") and kind != "Ready"
    ]
    return ", ".join(open_ones) or f"{ready['reason']}: {ready['message']}"


def wait_ready(
    kube: Kube, name: str, namespace: str, timeout: float, say: Callable[[str], None]
) -> None:
    """Wait until it is Ready, saying each time what changes; UserError after `timeout` seconds."""
    start = time.monotonic()
    told = ""
    while True:
        text = waits_for(kube.get("pdd", name, namespace))
        if not text:
            return
        if text != told:
            say(f"  waits for {text}")
            told = text
        if time.monotonic() - start > timeout:
            raise UserError(
                f"not ready after {timeout:.0f} s, it waits for {text};"
                f" look at: kubectl -n {namespace} describe pdd {name}"
            )
        time.sleep(0.5)
