"""ModelReady: whether the shared cache has what the engines load."""

from pd_operator.observe import JobState, JobView
from pd_operator.pods import PodView
from pd_operator.status.facts import Facts, Verdict
from pd_shared import labels

LOOP = "CrashLoopBackOff"
DOWNLOADED = "Downloaded"
DOWNLOADING = "Downloading"
DOWNLOAD_FAILED = "DownloadFailed"

_AGAIN = (
    "mend the cause, then annotate the PDDeployment with another value of"
    f" {labels.RESTARTED_AT}, or delete the Job"
)


def model_ready(facts: Facts) -> Verdict | None:
    """ModelReady: the download Job of the present spec is done; None where there is none."""
    wanted = [
        manifest["metadata"]["name"]
        for manifest in facts.desired.objects
        if manifest["kind"] == "Job"
    ]
    if not wanted:
        return None
    job = next((job for job in facts.snapshot.jobs if job.name in wanted), None)
    if job is None:
        return Verdict("False", DOWNLOADING, "the download is not created yet")
    if job.state is JobState.COMPLETE:
        return Verdict("True", DOWNLOADED, f"Job {job.name} is done")
    pods = [pod for pod in facts.snapshot.pods_of(labels.MODEL) if pod.owner == job.name]
    words = _last_words(pods)
    if job.state is JobState.FAILED:
        return Verdict(
            "False", DOWNLOAD_FAILED, f"Job {job.name}: {words or job.message}; {_AGAIN}"
        )
    return _running(job, pods, words)


def _running(job: JobView, pods: list[PodView], words: str) -> Verdict:
    # A pod of a Job is not started again: one whose container has ended is about to end.
    stuck = next((p for p in pods if p.failure and not p.ended and p.failure.reason != LOOP), None)
    if stuck and stuck.failure:
        text = f"Job {job.name}: pod {stuck.name}: {stuck.failure.message}"
        return Verdict("False", stuck.failure.reason, text)
    if job.attempts:
        text = f"Job {job.name}: {job.attempts} attempts failed, is tried again; {words}"
        return Verdict("False", DOWNLOADING, text.rstrip("; "))
    return Verdict("False", DOWNLOADING, f"Job {job.name} runs")


def _last_words(pods: list[PodView]) -> str:
    """What the last pod that failed said."""
    failed = [pod for pod in pods if pod.failure and pod.ended]
    if not failed:
        return ""
    last = max(failed, key=lambda pod: (pod.created, pod.name))
    return last.failure.message if last.failure else ""
