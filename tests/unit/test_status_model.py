"""ModelReady: what the download Job's status and pods say."""

from typing import Any

import pytest

from pd_operator.observe import Manifest
from pd_operator.status import compose, notices
from pd_operator.status.facts import Facts
from tests.made import live, others, pod, snapshot, tiers, wanted
from tests.status_facts import NOW, condition, facts, told

SPEC: dict[str, Any] = {
    "model": {"id": "org/m", "source": {"huggingFace": {"cache": {"claimName": "hub"}}}}
}
DESIRED = wanted(SPEC)
DONE = {"type": "Complete", "status": "True"}
OVER = {"type": "Failed", "status": "True", "message": "Job has reached the backoff limit"}


def job(*conditions: Manifest, failed: int = 0) -> Manifest:
    (found,) = (m for m in DESIRED.objects if m["kind"] == "Job")
    made = live(found)
    made["status"] = {"conditions": list(conditions), "failed": failed}
    return made


def ended(number: int, words: str, code: int = 1) -> Manifest:
    """A pod of the Job that failed."""
    terminated = {"exitCode": code, "reason": "Error", "message": words}
    made = pod(
        job(), number, kind="Job", phase="Failed",
        containerStatuses=[
            {"name": "download", "restartCount": 0, "state": {"terminated": terminated}}
        ],
    )  # fmt: skip
    # A Job's pods are named by chance; the later one comes first here.
    made["metadata"] |= {"name": f"job-{9 - number}", "creationTimestamp": f"2026-01-01T0{number}"}
    made["metadata"]["ownerReferences"][0]["name"] = job()["metadata"]["name"]
    return made


def seen(found: Manifest | None, *pods: Manifest, ready: int | None = None) -> Facts:
    rest = [m for m in others(DESIRED) if m["kind"] != "Job"]
    manifests = [*rest, *tiers(DESIRED, ready), *([found] if found else [])]
    return facts(snapshot(manifests, pods), spec=SPEC)


def test_a_download_that_is_done() -> None:
    assert told("ModelReady", seen(job(DONE))) == ("True", "Downloaded")
    assert told("Ready", seen(job(DONE))) == ("True", "Ready")


@pytest.mark.parametrize("found", [None, job()], ids=["none", "active"])
def test_engines_that_start_wait_for_the_download(found: Manifest | None) -> None:
    now = seen(found, ready=0)
    assert told("ModelReady", now) == ("False", "Downloading")
    assert told("Ready", now) == ("False", "Downloading")
    assert told("Progressing", now) == ("True", "Downloading")


def test_engines_that_serve_need_no_download() -> None:
    assert told("Ready", seen(job())) == ("True", "Ready")


def test_a_failed_download_tells_its_last_words() -> None:
    now = seen(job(OVER, failed=2), ended(1, "org/m: first"), ended(2, "org/m: gated"), ready=0)
    assert told("ModelReady", now) == ("False", "DownloadFailed")
    message = condition("ModelReady", now)["message"]
    assert "org/m: gated" in message
    assert "first" not in message
    assert "restartedAt" in message
    assert told("Ready", now) == ("False", "DownloadFailed")
    assert told("Progressing", now) == ("False", "DownloadFailed")
    (told_once,) = [
        notice
        for notice in notices.transitions({}, compose.status(now, NOW))
        if notice.reason == "DownloadFailed"
    ]
    assert "org/m: gated" in told_once.message


def test_a_failed_download_without_pods_tells_the_jobs_words() -> None:
    message = condition("ModelReady", seen(job(OVER), ready=0))["message"]
    assert "reached the backoff limit" in message


def test_another_attempt_tells_why_the_last_one_failed() -> None:
    now = seen(job(failed=1), ended(1, "org/m: no space"), ready=0)
    assert told("ModelReady", now) == ("False", "Downloading")
    assert "1 attempts failed" in condition("ModelReady", now)["message"]
    assert "no space" in condition("ModelReady", now)["message"]


def test_a_pod_that_cannot_start_is_the_reason() -> None:
    lost = pod(
        job(), 1, kind="Job", phase="Pending",
        conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                     "message": 'persistentvolumeclaim "hub" not found'}],
    )  # fmt: skip
    lost["metadata"]["ownerReferences"][0]["name"] = job()["metadata"]["name"]
    now = seen(job(), lost, ready=0)
    assert told("ModelReady", now) == ("False", "Unschedulable")
    assert '"hub" not found' in condition("ModelReady", now)["message"]


def test_a_job_of_another_spec_does_not_count() -> None:
    old = job(DONE)
    old["metadata"]["name"] = "tiny-model-bbbbbbbb"
    assert told("ModelReady", seen(old, ready=0)) == ("False", "Downloading")


def test_without_a_cache_there_is_no_such_condition() -> None:
    assert condition("ModelReady", facts()) == {}
