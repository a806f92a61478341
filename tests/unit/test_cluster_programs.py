"""The cache of built programs, and the choice of Go."""

import os
from pathlib import Path

import pytest

from tests.cluster import gotool, programs
from tools.stages import UserError


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    (folder / "inner").mkdir(parents=True)
    (folder / "go.mod").write_text("module m\ngo 1.26.0\n")
    (folder / "inner" / "a.go").write_text("package inner\n")
    return folder


def test_the_digest_follows_what_decides_the_outcome(module: Path) -> None:
    first = programs.digest(module, "1.26")
    assert programs.digest(module, "1.26") == first
    assert programs.digest(module, "1.27") != first
    (module / "inner" / "a_test.go").write_text("package inner\n")
    (module / "README").write_text("text")
    assert programs.digest(module, "1.26") == first
    (module / "inner" / "a.go").write_text("package inner // changed\n")
    assert programs.digest(module, "1.26") != first


def test_go_mod_tells_the_version_of_kubernetes_that_is_stamped() -> None:
    text = (programs.MODULE / "go.mod").read_text(encoding="utf-8")
    assert f"k8s.io/kubernetes v{programs.KUBERNETES}\n" in text
    assert f"k8s.io/api => k8s.io/api v0.{programs.KUBERNETES.partition('.')[2]}\n" in text


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("1.26.8", (1, 26, 8)), ("1.26", (1, 26)), ("1.27rc1", (1, 27)), ("devel", ())],
)
def test_versions_are_compared_by_number(version: str, numbers: tuple[int, ...]) -> None:
    assert gotool.numbers(version) == numbers


def _fake_go(folder: Path, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / "go"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    return program


def test_a_go_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _fake_go(tmp_path / "bin", "go1.100.2")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert gotool.find("1.26.0") == gotool.Go(str(program), "1.100.2")


@pytest.mark.parametrize(
    ("version", "told"), [("go1.19.8", "Go 1.19.8 is too old"), ("", "missing")]
)
def test_without_a_good_go_the_message_says_what_to_install(
    version: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "uv").write_text("#!/bin/sh\necho 'no index reachable' >&2\nexit 1\n")
    (folder / "uv").chmod(0o755)
    if version:
        _fake_go(folder, version)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin" if version else str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(gotool, "uv", lambda: Path("/bin/sh"))
    with pytest.raises(UserError, match=told) as error:
        gotool.find("1.26.0")
    assert "install Go 1.26.0 or newer" in str(error.value)
    assert list((tmp_path / "cache" / "pd-operator").glob("go-*")) == []


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(programs, "_BUILD_SPACE", 0)
    return tmp_path / "cache" / "pd-operator" / "bin"


def test_what_is_in_the_cache_is_not_built_again(cached: Path) -> None:
    built = []

    def build(work: Path) -> None:
        built.append(work)
        (work / "tool").write_text("x")

    for _ in range(2):
        assert programs._cached(cached / "tool-1", ("tool",), build) == cached / "tool-1"
    assert len(built) == 1
    assert (cached / "tool-1" / "tool").read_text() == "x"


def test_a_build_that_fails_leaves_nothing(cached: Path) -> None:
    def build(work: Path) -> None:
        (work / "half").write_text("x")
        raise UserError("no")

    with pytest.raises(UserError, match="no"):
        programs._cached(cached / "tool-1", ("tool",), build)
    assert [path.name for path in cached.iterdir()] == ["lock"]


def test_old_programs_are_removed_and_other_kinds_stay(cached: Path) -> None:
    for number in range(5):
        programs._cached(cached / f"tool-{number}", ("tool",), lambda work: (work / "tool").touch())
        os.utime(cached / f"tool-{number}", (number, number))
    programs._cached(cached / "other-1", ("tool",), lambda work: (work / "tool").touch())
    names = {path.name for path in cached.iterdir()}
    assert {"tool-4", "tool-3", "other-1"} <= names
    assert "tool-0" not in names


def test_a_full_disk_is_told_before_the_build(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_BUILD_SPACE", 2**62)
    with pytest.raises(UserError, match="GiB free, building Kubernetes needs"):
        programs._cached(cached / "tool-1", ("tool",), lambda _: None)


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    folder = tmp_path / "file" / "pd-operator" / "bin" / "tool-1"
    with pytest.raises(UserError, match="set XDG_CACHE_HOME"):
        programs._cached(folder, ("tool",), lambda _: None)
