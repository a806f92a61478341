"""Why a pod is not ready."""

from typing import Any

import pytest

from pd_operator.observe import Manifest
from pd_operator.pods import Failure, view
from tests.made import pod, tiers, waiting, wanted

OWNER = tiers(wanted())[0]
EXITED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}


def reason(**status: Any) -> str:
    failure = view(pod(OWNER, **status)).failure
    return "" if failure is None else failure.reason


def containers(*statuses: Manifest) -> dict[str, Any]:
    return {"containerStatuses": list(statuses)}


@pytest.mark.parametrize("told", ["ContainerCreating", "PodInitializing"])
def test_a_start_is_no_failure(told: str) -> None:
    assert reason(**containers(waiting(told))) == ""


def test_unschedulable() -> None:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "why"}
    assert view(pod(OWNER, conditions=[told])).failure == Failure("Unschedulable", "why")


@pytest.mark.parametrize("told", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"])
def test_a_failing_pull_is_one_thing_with_one_text(told: str) -> None:
    failure = view(pod(OWNER, **containers(waiting(told)))).failure
    assert failure is not None
    assert failure.reason == "ImagePullBackOff"
    assert "engine:1" in failure.message


@pytest.mark.parametrize(
    "status",
    [
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": EXITED},
        {"state": EXITED},
        {"state": {"running": {}}, "lastState": EXITED, "restartCount": 2},
    ],
)
def test_a_crash_loop_is_one_thing_at_each_of_its_turns(status: Manifest) -> None:
    failure = view(pod(OWNER, **containers({"name": "engine", **status}))).failure
    assert failure == Failure(
        "CrashLoopBackOff", "container engine ended with exit code 137 (OOMKilled)"
    )


def test_the_first_restart_is_no_crash_loop() -> None:
    status = {"state": {"running": {}}, "lastState": EXITED, "restartCount": 1}
    assert reason(**containers({"name": "engine", **status})) == ""


def test_the_last_line_that_a_container_left_is_told() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "first\nlast\n"}}
    failure = view(pod(OWNER, **containers({"name": "engine", "state": ended}))).failure
    assert failure is not None
    assert failure.message == "container engine ended with exit code 1: last"


def test_other_reasons_are_told_as_they_are() -> None:
    told = waiting("CreateContainerConfigError")
    assert view(pod(OWNER, initContainerStatuses=[told])).failure == Failure(
        "CreateContainerConfigError", "why"
    )
    assert reason(phase="Failed", reason="Evicted") == "Evicted"


def test_a_ready_pod_has_no_failure() -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    seen = view(pod(OWNER, conditions=conditions, **containers({"name": "e", "state": EXITED})))
    assert seen.ready
    assert seen.failure is None


def test_restarts_are_summed() -> None:
    two = [{"name": "a", "restartCount": 2}, {"name": "b", "restartCount": 3}]
    assert view(pod(OWNER, **containers(*two))).restarts == 5
