"""What a failed test on the cluster leaves: logs, events and objects, in one folder."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.kube import CommandError, Kube
from tools.paths import BUILD

FOLDER = BUILD / "failures"
_KINDS = "pdd,statefulset,deployment,pod,service,configmap,pdb,job"


def collect(test: str, namespaces: Sequence[str], system: str) -> str:
    """Write what is known of the test's namespaces and of the operator; the last lines of it."""
    folder = FOLDER / re.sub(r"[^A-Za-z0-9_.-]+", "-", test)[:120]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kube = Kube()
    shown = [f"all of it is in {folder}"]
    for where in dict.fromkeys((*namespaces, system)):
        _namespace(kube, where, folder)
        events = (folder / f"{where}-events.txt").read_text().splitlines()
        shown += [f"--- events of {where}", *events[-15:]]
        for log in sorted(folder.glob(f"{where}-*.log")):
            shown += [f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-12:]]
    return "\n".join(shown)


def _namespace(kube: Kube, namespace: str, folder: Path) -> None:
    _write(
        *(kube, folder / f"{namespace}-events.txt"),
        *("get", "events", "-n", namespace, "--sort-by=.lastTimestamp"),
    )
    _write(kube, folder / f"{namespace}-objects.yaml", "get", _KINDS, "-n", namespace, "-o", "yaml")
    _write(kube, folder / f"{namespace}-pods.txt", "get", "pods", "-n", namespace, "-o", "wide")
    try:
        pods = kube.list("pods", namespace)
    except CommandError:
        return
    for pod in pods:
        name = pod["metadata"]["name"]
        log = folder / f"{namespace}-{name}.log"
        _write(kube, log, "logs", name, "-n", namespace, "--all-containers", "--tail=2000")
        statuses = pod.get("status", {}).get("containerStatuses", [])
        if any(status.get("restartCount") for status in statuses):
            before = folder / f"{namespace}-{name}.previous.log"
            _write(kube, before, "logs", name, "-n", namespace, "--previous", "--tail=2000")


def _write(kube: Kube, path: Path, *command: str) -> None:
    try:
        path.write_text(kube.kubectl(*command))
    except (CommandError, OSError) as error:
        path.write_text(f"{error}\n")
