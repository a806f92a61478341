"""Archives in the cache: names, pruning."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tools.images import archive


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive.folder().mkdir(parents=True)
    return archive.folder()


def _make(name: str, tag: str, used: int) -> None:
    path = archive.path(name, tag)
    path.write_text("")
    os.utime(path, (used, used))


def test_prune_keeps_the_last_used_of_each_name() -> None:
    for number in range(5):
        _make("proxy", f"{number:012x}", used=number)
        _make("proxy-more", f"{number:012x}", used=number)
    assert archive.exists("proxy", f"{0:012x}")  # the oldest, used again
    assert archive.prune("proxy") == [f"{2:012x}", f"{1:012x}"]
    left = sorted(path.name for path in archive.folder().glob("proxy-0*.tar"))
    assert left == [f"proxy-{number:012x}.tar" for number in (0, 3, 4)]
    assert len(list(archive.folder().glob("proxy-more-*.tar"))) == 5


def test_a_missing_archive_does_not_exist() -> None:
    assert not archive.exists("proxy", "0" * 12)


def test_add_name(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["a:1"], "Layers": []}]).encode()
    with tarfile.open(path, "w") as tar:
        for name, content in (("c.json", b"{}"), ("manifest.json", manifest)):
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    archive.add_name(path, "a:dev")
    with tarfile.open(path) as tar:
        member = tar.extractfile("manifest.json")
        assert member is not None
        assert json.loads(member.read())[0] == {
            "Config": "c.json",
            "RepoTags": ["a:1", "a:dev"],
            "Layers": [],
        }
        config = tar.extractfile("c.json")
        assert config is not None
        assert config.read() == b"{}"
