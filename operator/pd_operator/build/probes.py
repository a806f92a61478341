"""Probes of the pods beside the engines, which start within seconds."""

from pd_operator.build.manifest import Manifest


def readiness(check: Manifest) -> Manifest:
    """Ready by the second, and out of it after three failures."""
    return {**check, "periodSeconds": 2, "timeoutSeconds": 3, "failureThreshold": 3}


def liveness(check: Manifest) -> Manifest:
    """Restarted after a minute without an answer: a busy process may be slow."""
    return {
        **check,
        "initialDelaySeconds": 10,
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": 6,
    }
