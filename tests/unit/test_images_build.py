"""What `build` refuses, and that it does nothing where all is built."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import images
from tools.images import archive, builder, making, python
from tools.images.__main__ import main
from tools.images.recipe import RECIPES
from tools.stages import UserError


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("BUILDER", "buildah")
    monkeypatch.setattr(images, "_LIST", tmp_path / "images.json")
    archive.folder().mkdir(parents=True)
    return archive.folder()


def test_unknown_image() -> None:
    with pytest.raises(UserError, match="no image is named 'engine'; there are base, pause"):
        images.build(["engine"])


def test_unknown_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILDER", "kaniko")
    with pytest.raises(UserError, match="BUILDER=kaniko"):
        images.build(["pause"])


def test_what_is_built_is_not_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is to be built")

    monkeypatch.setattr(images, "make", refuse)
    monkeypatch.setattr(images, "prepare", refuse)
    expected = making.references(debian=True)
    for name, reference in expected.items():
        archive.path(name, making.tag(reference)).write_text("")
    assert images.build() == expected
    assert json.loads((tmp_path / "images.json").read_text()) == expected


def test_without_root_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UserError, match="needs root"):
        images.build(["pause"])


@pytest.mark.parametrize(("wheel", "needed"), [(Path("torch.whl"), 6), (None, 18)])
def test_too_little_space(monkeypatch: pytest.MonkeyPatch, wheel: Path | None, needed: int) -> None:
    usage = SimpleNamespace(free=1 << 30)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    monkeypatch.setattr(python, "torch_wheel", lambda: wheel)
    with pytest.raises(UserError, match=rf"1\.0 GiB free, .* engine-cpu needs {needed}\.0 GiB"):
        making.make(RECIPES["engine-cpu"], builder.Docker(), {"engine-cpu": "localhost/x:1"})


def test_sources_that_change_meanwhile_are_not_built_under_the_old_tag() -> None:
    images_before = {**making.references(debian=False), "pause": f"localhost/x:{'0' * 12}"}
    with pytest.raises(UserError, match="pause changed meanwhile; run it again"):
        making.make(RECIPES["pause"], builder.Docker(), images_before)
    assert not list(archive.folder().glob("work-*"))


def test_a_failed_command_tells_its_last_lines() -> None:
    script = "for i in $(seq 50); do echo line $i; done; echo broken >&2; exit 3"
    with pytest.raises(UserError) as caught:
        builder.run(["sh", "-c", script], "the try")
    lines = str(caught.value).splitlines()
    assert lines[0] == "the try failed; its last lines:"
    assert lines[-1] == "broken"
    assert len(lines) == builder.TAIL + 1


def test_a_bad_command_line_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bild"]) == 1
    assert "say what to do" in capsys.readouterr().err
