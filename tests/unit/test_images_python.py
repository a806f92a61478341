"""Python packages of an image: installed once for a list, never half."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.images import python
from tools.stages import UserError


class Installer:
    """Stands for uv: leaves one file, and counts."""

    def __init__(self) -> None:
        self.runs = 0
        self.fails = False

    def __call__(self, command: Sequence[str], what: str) -> str:
        if "--target" in command:
            self.runs += 1
            target = Path(command[command.index("--target") + 1])
            target.mkdir(parents=True)
            (target / "module.py").write_text(f"run = {self.runs}\n")
            if self.fails:
                raise UserError(f"{what} failed")
        return ""


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Installer:
    made = Installer()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(python, "run", made)
    monkeypatch.setattr(python, "uv", lambda: tmp_path / "uv")
    return made


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    path = tmp_path / "images" / "proxy" / "requirements.txt"
    path.parent.mkdir(parents=True)
    path.write_text("a==1\n")
    return path


def test_an_unchanged_list_is_installed_once(
    installer: Installer, requirements: Path, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        python.install(requirements, tmp_path / name)
    assert installer.runs == 1
    assert (tmp_path / "second" / "module.py").read_text() == "run = 1\n"


def test_a_changed_list_is_installed_again(
    installer: Installer, requirements: Path, tmp_path: Path
) -> None:
    python.install(requirements, tmp_path / "first")
    requirements.write_text("a==2\n")
    python.install(requirements, tmp_path / "second")
    assert (tmp_path / "second" / "module.py").read_text() == "run = 2\n"


def test_a_failed_installation_is_not_taken_for_a_whole_one(
    installer: Installer, requirements: Path, tmp_path: Path
) -> None:
    installer.fails = True
    with pytest.raises(UserError, match=r"images/proxy/requirements\.txt"):
        python.install(requirements, tmp_path / "first")
    installer.fails = False
    python.install(requirements, tmp_path / "second")
    assert (tmp_path / "second" / "module.py").read_text() == "run = 2\n"


def test_old_lists_are_pruned(installer: Installer, requirements: Path, tmp_path: Path) -> None:
    for number in range(4):
        requirements.write_text(f"a=={number}\n")
        python.install(requirements, tmp_path / str(number))
    kept = list((tmp_path / "cache" / "pd-operator" / "images").glob("python-proxy-*"))
    assert len(kept) == 2


def test_wheels_without_torch_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WHEELS", str(tmp_path))
    with pytest.raises(UserError, match="unset it to take torch from an index"):
        python.torch_wheel()
