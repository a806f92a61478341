"""The programs of the cluster: built from the Go module here, kept by content in the cache."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cluster.gotool import Go, find
from tools.paths import cache
from tools.stages import UserError, say, stage

WHO: Final = "cluster"
MODULE: Final = Path(__file__).parent / "kube"
KUBERNETES: Final = "1.35.4"
KWOK: Final = "v0.8.0"
KIND: Final = "v0.33.0"

_KEPT: Final = 3
_HEARTBEAT: Final = 15.0
_BUILD_SPACE: Final = 6 * 2**30
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
_VERSION: Final = {
    **{
        f"{package}.git{field}": value
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for field, value in (("Version", f"v{KUBERNETES}"), ("Major", _MAJOR), ("Minor", _MINOR))
    },
    # Helm takes the version that it renders and lints for from here, not from its modules.
    **{
        f"helm.sh/helm/v3/pkg/{package}.k8sVersion{field}": value
        for package in ("chartutil", "lint/rules")
        for field, value in (("Major", _MAJOR), ("Minor", _MINOR))
    },
}
_FLAGS: Final = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in _VERSION.items())])


def kubernetes() -> Path:
    """The folder with `kube` and `helm`, built if they are not in the cache."""
    go = find(_wanted_go())
    folder = _folder("kubernetes", digest(MODULE, go.version, _FLAGS))

    def build(work: Path) -> None:
        _go(
            go,
            [
                "build",
                "-trimpath",
                "-ldflags",
                _FLAGS,
                "-o",
                f"{work}/",
                ".",
                "helm.sh/helm/v3/cmd/helm",
            ],
            MODULE,
            "building Kubernetes and Helm (about 5 minutes on 2 cores, the first time only)",
        )

    return _cached(folder, ("kube", "helm"), build)


def kwok() -> Path:
    """The folder with `kwok` and its `stages`, built if they are not in the cache."""

    def add_stages(work: Path, go: Go) -> None:
        told = subprocess.run(
            [go.program, "mod", "download", "-json", f"sigs.k8s.io/kwok@{KWOK}"],
            cwd=work,
            env=_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        source = Path(json.loads(told.stdout)["Dir"]) / "kustomize" / "stage"
        (work / "stages").mkdir()
        for name in ("node/fast", "node/heartbeat", "pod/fast"):
            for path in sorted((source / name).glob("*.yaml")):
                if path.name != "kustomization.yaml":
                    (work / "stages" / path.name).write_bytes(path.read_bytes())

    return _installed("kwok", f"sigs.k8s.io/kwok/cmd/kwok@{KWOK}", ("kwok", "stages"), add_stages)


def kind() -> Path:
    """The folder with `kind`, built if it is not in the cache."""
    return _installed("kind", f"sigs.k8s.io/kind@{KIND}", ("kind",), lambda _work, _go: None)


def _installed(
    name: str, package: str, names: Sequence[str], more: Callable[[Path, Go], None]
) -> Path:
    go = find(_wanted_go())

    def build(work: Path) -> None:
        what = f"building {name} (the first time only)"
        command = ["install", "-trimpath", "-ldflags", "-s -w", package]
        _go(go, command, work, what, GOBIN=str(work))
        more(work, go)

    return _cached(_folder(name, digest(None, package, go.version)), names, build)


def digest(module: Path | None, *facts: str) -> str:
    """Twelve hex digits over the files of a Go module and what else decides the outcome."""
    total = hashlib.sha256(repr(facts).encode())
    for path in sorted(module.rglob("*")) if module else ():
        if path.suffix in {".go", ".mod", ".sum"} and not path.name.endswith("_test.go"):
            total.update(f"\0{path.relative_to(module or path)}\0".encode())
            total.update(path.read_bytes())
    return total.hexdigest()[:12]


def _folder(kind: str, key: str) -> Path:
    return cache() / "bin" / f"{kind}-{key}"


def _wanted_go() -> str:
    for line in (MODULE / "go.mod").read_text(encoding="utf-8").splitlines():
        if line.startswith("go "):
            return line.split()[1]
    raise UserError(f"{MODULE / 'go.mod'} names no Go version")


@contextmanager
def _lock(what: str) -> Iterator[None]:
    folder = cache() / "bin"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write to {folder} ({error.strerror}); set XDG_CACHE_HOME to another folder"
        ) from None
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(WHO, f"waiting for another command that makes {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cached(folder: Path, names: Sequence[str], build: Callable[[Path], None]) -> Path:
    if all((folder / name).exists() for name in names):
        os.utime(folder)  # pruning keeps what was used last
        return folder
    with _lock(folder.name):
        if all((folder / name).exists() for name in names):
            return folder
        for left in folder.parent.glob(".building-*"):
            shutil.rmtree(left, ignore_errors=True)
        _check_space(folder.parent)
        work = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
        try:
            build(work)
            work.chmod(0o755)
            shutil.rmtree(folder, ignore_errors=True)
            work.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        _prune(folder)
    return folder


def _prune(newest: Path) -> None:
    kind = newest.name.partition("-")[0]
    folders = sorted(newest.parent.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime)
    for old in folders[:-_KEPT]:
        if old != newest:
            shutil.rmtree(old, ignore_errors=True)


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _BUILD_SPACE:
        raise UserError(
            f"{folder} has {free / 2**30:.1f} GiB free, building Kubernetes needs "
            f"{_BUILD_SPACE / 2**30:.0f}; free some, or set XDG_CACHE_HOME elsewhere"
        )


def _environment() -> dict[str, str]:
    # Flags that the user has set for other work must not decide what is built here.
    return {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}


def _go(go: Go, arguments: Sequence[str], where: Path, what: str, **environment: str) -> None:
    with stage(WHO, what), tempfile.TemporaryFile("w+") as output:
        begin = time.monotonic()
        with subprocess.Popen(
            [go.program, *arguments],
            cwd=where,
            env={**_environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                while True:
                    try:
                        code = process.wait(_HEARTBEAT)
                        break
                    except subprocess.TimeoutExpired:
                        say(WHO, f"  still building, {time.monotonic() - begin:.0f} s")
            except BaseException:
                process.terminate()
                raise
        if code != 0:
            output.seek(0)
            lines = [x for x in output.read().splitlines() if not x.startswith("go: downloading")]
            last = "\n  ".join(lines[-8:])
            raise UserError(
                f"`go {arguments[0]}` failed (are there disk space, and a Go module proxy that "
                f"can be reached?); its last lines:\n  {last}"
            )
