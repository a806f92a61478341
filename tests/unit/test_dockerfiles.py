"""What every image's Dockerfile keeps to."""

import re
from pathlib import Path

import pytest

from tools.images.python import TORCH
from tools.images.recipe import RECIPES
from tools.paths import REPOSITORY

IMAGES = REPOSITORY / "images"
DOCKERFILES = sorted(IMAGES.glob("*/Dockerfile"))


def instructions(path: Path) -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [
        (word.upper(), rest) for word, _, rest in (line.partition(" ") for line in lines) if word
    ]


def test_every_recipe_has_a_dockerfile() -> None:
    assert {path.parent.name for path in DOCKERFILES} == set(RECIPES)


@pytest.fixture(params=DOCKERFILES, ids=lambda path: path.parent.name)
def dockerfile(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_base_is_pinned(dockerfile: Path) -> None:
    found = instructions(dockerfile)
    bases = [rest for word, rest in found if word == "FROM"]
    bases += [rest.partition("=")[2] for word, rest in found if word == "ARG"]
    assert bases
    for base in bases:
        assert base in ("scratch", "${BASE}") or re.fullmatch(r"[a-z]+:\d[\w.-]+", base), base


def test_runs_as_a_numeric_user(dockerfile: Path) -> None:
    users = [rest for word, rest in instructions(dockerfile) if word == "USER"]
    # base only stands below others, each of which sets its user.
    assert users == ([] if dockerfile.parent.name == "base" else ["65532:65532"])


def test_installs_nothing_at_start(dockerfile: Path) -> None:
    found = instructions(dockerfile)
    starts = [rest for word, rest in found if word in ("ENTRYPOINT", "CMD")]
    assert len(starts) == 1
    assert starts[0].startswith("["), "a shell as PID 1 would not pass signals on"
    assert not re.search(r"\b(pip|uv|apt-get)\b", starts[0])


def test_nothing_is_installed_without_a_pin() -> None:
    for path in IMAGES.glob("*/requirements.txt"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and line[0] not in "# ":
                assert re.match(r"[\w.-]+==[\w.]+", line), f"{path}: {line}"


def test_no_script_uses_bash() -> None:
    for path in IMAGES.rglob("*.sh"):
        assert re.match(r"#!/bin/(busybox )?sh\n", path.read_text(encoding="utf-8")), path


def test_one_version_of_uv() -> None:
    bootstrap = (REPOSITORY / "tools" / "bootstrap.sh").read_text(encoding="utf-8")
    script = (IMAGES / "engine-cpu" / "install.sh").read_text(encoding="utf-8")
    assert re.findall(r"UV_VERSION=([\d.]+)", bootstrap) == re.findall(r"uv==([\d.]+)", script)


def test_one_version_of_torch() -> None:
    folder = IMAGES / "engine-cpu"
    versions = {
        version
        for path in (folder / "fetch.py", folder / "torch-index.txt")
        for version in re.findall(r"torch==([\d.]+)", path.read_text(encoding="utf-8"))
    }
    assert versions == {TORCH}


def test_engine_and_master_are_of_one_mooncake() -> None:
    pins = [
        re.findall(r"^mooncake-.*$", (IMAGES / name / "requirements.txt").read_text(), re.MULTILINE)
        for name in ("engine-cpu", "mooncake")
    ]
    assert pins[0] == pins[1]
    assert len(pins[0]) == 1
