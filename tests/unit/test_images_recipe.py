"""A tag changes when an input changes, and only then."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.images import making, python
from tools.images.recipe import RECIPES, digest, files

SOURCES = ("images/a", "operator/p")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "images/a/Dockerfile": "FROM scratch\n",
        "images/a/run.sh": "true\n",
        "operator/p/__init__.py": "",
        "operator/p/deep/module.py": "x = 1\n",
        "operator/other/module.py": "y = 1\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def _write(name: str, text: str) -> Callable[[Path], object]:
    def change(tree: Path) -> None:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_write("images/a/Dockerfile", "FROM other\n"), id="Dockerfile"),
        pytest.param(_write("operator/p/deep/module.py", "x = 2\n"), id="deep file"),
        pytest.param(_write("operator/p/new.py", ""), id="new empty file"),
        pytest.param(lambda tree: (tree / "operator/p/__init__.py").unlink(), id="file removed"),
        pytest.param(
            lambda tree: (tree / "images/a/run.sh").rename(tree / "images/a/ran.sh"), id="renamed"
        ),
        pytest.param(lambda tree: (tree / "images/a/run.sh").chmod(0o755), id="made to run"),
    ],
)
def test_changes_with_an_input(tree: Path, change: Callable[[Path], object]) -> None:
    before = digest(tree, SOURCES)
    change(tree)
    assert digest(tree, SOURCES) != before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_write("operator/other/module.py", "y = 2\n"), id="file of another image"),
        pytest.param(_write("operator/p/__pycache__/m.cpython-311.pyc", "x"), id="bytecode"),
        pytest.param(_write("images/a/Dockerfile.dockerignore", "*\n"), id="dockerignore"),
        pytest.param(lambda tree: os.utime(tree / "images/a/run.sh", (1, 1)), id="time"),
        pytest.param(lambda tree: (tree / "images/a/run.sh").chmod(0o600), id="not made to run"),
    ],
)
def test_stays_else(tree: Path, change: Callable[[Path], object]) -> None:
    before = digest(tree, SOURCES)
    change(tree)
    assert digest(tree, SOURCES) == before


def test_is_the_same_in_another_checkout(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = tmp_path_factory.mktemp("copy")
    for path in files(tree, SOURCES):
        _write(str(path), (tree / path).read_text())(copy)
    assert digest(copy, SOURCES) == digest(tree, SOURCES)


def test_changes_with_a_fact(tree: Path) -> None:
    tags = {digest(tree, SOURCES, facts) for facts in ([], ["base:1"], ["base:2"], ["base:1", ""])}
    assert len(tags) == 4


def test_images_on_the_base_change_with_it(tree: Path) -> None:
    for recipe in RECIPES.values():
        for source in recipe.sources:
            _write(f"{source}/file", "")(tree)
    before = making.references(debian=True, root=tree)
    _write("images/base/packages.txt", "more")(tree)
    after = making.references(debian=True, root=tree)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"base", "operator", "proxy", "mooncake", "engine-cpu", "engine-sim"}


def test_docker_takes_the_dockerfiles_own_base() -> None:
    assert making.references(debian=False)["base"] == "python:3.11-slim-bookworm"


def test_an_operator_source_changes_the_operator_alone(tree: Path) -> None:
    for recipe in RECIPES.values():
        for source in recipe.sources:
            _write(f"{source}/file", "")(tree)
    before = making.references(debian=True, root=tree)
    _write("operator/pd_operator/plan.py", "")(tree)
    after = making.references(debian=True, root=tree)
    assert {name for name in before if before[name] != after[name]} == {"operator"}


def test_the_wheel_of_torch_is_an_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    wheel = tmp_path / f"torch-{python.TORCH}+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    monkeypatch.setenv("WHEELS", str(tmp_path))
    tags = []
    for content in ("a", "ab"):
        wheel.write_text(content)
        tags.append(making.references(debian=True))
    changed = {name for name in tags[0] if tags[0][name] != tags[1][name]}
    assert changed == {"engine-cpu"}
