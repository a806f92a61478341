"""What all tests on the cluster share: the operator and one prefill/decode pair.

Several processes may run the tests of one run (pytest-xdist); what they share is made once, by
the first that needs it, and removed by `remove` when the whole run is over.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.kube import CommandError, Kube, Manifest, until
from tools.paths import BUILD, REPOSITORY

RELEASE: Final = "pd-operator"
SYSTEM: Final = "pd-system"
PAIR: Final = "t-pair"
"""Namespace of the pair."""
KEEP: Final = "PD_TEST_KEEP_OPERATOR"
"""In the environment: what is shared stays after the run, for the next one."""

RUN: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID") or secrets.token_hex(8)
"""The same in all processes of one run."""
_FOLDER: Final = BUILD / "shared"
GROUPS: Final = _FOLDER / f"groups-{RUN}.json"
"""Which tests of this run must share a process."""


@contextmanager
def locked(what: str) -> Iterator[None]:
    """One process at a time."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / f"{what}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def once(what: str, make: Callable[[], None]) -> None:
    """Make it unless another process of this run did."""
    with locked(what):
        done = _FOLDER / f"{what}.run"
        if done.exists() and done.read_text() == RUN:
            return
        make()
        done.write_text(RUN)


def used() -> bool:
    """Whether this run made anything."""
    return any(path.read_text() == RUN for path in _FOLDER.glob("*.run"))


def install(kube: Kube, values: str) -> None:
    """Install the operator by its chart, with a file of values."""
    kube.helm(
        *("upgrade", "--install", RELEASE, str(REPOSITORY / "charts" / "pd-operator")),
        *("--namespace", SYSTEM, "--create-namespace", "--values", values),
        *("--wait", "--timeout", "3m"),
    )


def image_values(images: dict[str, str]) -> dict[str, Any]:
    """The chart's values for the images under test, at the pace of a test."""
    return {
        "image": images["operator"],
        "proxyImage": images["proxy"],
        "mooncakeImage": images["mooncake"],
        "imagePullPolicy": "IfNotPresent",
        "scalingInterval": 2,
        "resyncInterval": 30,
    }


def create_namespace(kube: Kube, name: str) -> None:
    """Make a namespace in which pods may be made; one of before may still be on its way out."""

    def gone() -> bool:
        found: Manifest | None = kube.find("namespace", name, "default")
        return found is None or "deletionTimestamp" not in found["metadata"]

    until(gone, 120, f"the namespace {name} of before to go")
    if kube.find("namespace", name, "default") is None:
        kube.kubectl("create", "namespace", name)
    # Pods made before the default ServiceAccount exists are refused.
    until(lambda: kube.find("serviceaccount", "default", name), 30, "the default ServiceAccount")


def drop_namespace(kube: Kube, name: str) -> None:
    """Delete a namespace without waiting; its pods get no time to end.

    Engines may take minutes to end in peace, and take their share of the machine from the tests
    that follow.
    """
    try:
        kube.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
        kube.kubectl(
            *("delete", "pods", "--all", "-n", name),
            *("--grace-period=1", "--wait=false", "--ignore-not-found"),
        )
    except CommandError as error:
        if "NotFound" not in error.stderr:
            raise


@contextmanager
def namespace(kube: Kube, name: str) -> Iterator[None]:
    """A namespace for as long as the block lasts, with whatever ends it."""
    create_namespace(kube, name)
    try:
        yield
    finally:
        drop_namespace(kube, name)


def remove(kube: Kube) -> None:
    """Remove what is shared, if it is there."""
    drop_namespace(kube, PAIR)
    kube.helm(
        *("uninstall", RELEASE, "--namespace", SYSTEM, "--ignore-not-found"),
        *("--wait", "--timeout", "2m"),
    )
