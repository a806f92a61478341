"""`kubectl port-forward` for as long as it is needed."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kube import Kube
from tools.stages import UserError


@contextmanager
def forwarded(kube: Kube, target: str, port: int, namespace: str) -> Iterator[int]:
    """A free local port that leads to a pod's or Service's port."""
    command = [
        *(str(kube.programs / "kubectl"), "--kubeconfig", str(kube.kubeconfig)),
        *("port-forward", "-n", namespace, "--address", "127.0.0.1", target, f":{port}"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if found is None:
            raise UserError(f"kubectl port-forward {target}: {line.strip()}")
        yield int(found[1])
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
