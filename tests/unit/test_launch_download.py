"""What the download Job does, and the wait of the engines: with the real library against a hub of
the test's own."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pd_launch.download import (
    FAILED,
    REFUSED,
    DownloadError,
    Repository,
    Snapshot,
    download,
    repository,
)
from tests.hub import COMMIT, Hub, serving
from tests.launcher import BOUND_SECONDS, PYTHON, mounted

FILES = {"config.json": b"{}", "model.safetensors": b"weights", "original/big.pth": b"x" * 100}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub({"org/model": dict(FILES), "org/adapter": {"adapter.bin": b"a"}})) as served:
        yield served


class Job:
    """A pod of the download Job with its volume, and of engines that wait for it."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.volume = folder / "volume"
        self.volume.mkdir()
        self.result = folder / "result"
        self.code = mounted(folder)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HF_HOME": str(self.volume),
            "HF_ENDPOINT": hub.url,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }

    def link(self, name: str = "abc") -> Path:
        return self.volume / "pd-operator" / name

    def command(self, mode: str, *arguments: str) -> list[str]:
        return [PYTHON, "-B", str(self.code), mode, *arguments]

    def run(self, *arguments: str, token: str = "") -> tuple[int, str]:
        """Exit code and the last words."""
        self.result.unlink(missing_ok=True)
        ended = subprocess.run(
            self.command("download", f"--result={self.result}", *arguments),
            env={**self.environment, **({"HF_TOKEN": token} if token else {})},
            capture_output=True,
            text=True,
            timeout=BOUND_SECONDS,
            check=False,
        )
        assert token == "" or token not in ended.stderr + ended.stdout
        return ended.returncode, self.result.read_text() if self.result.exists() else ended.stderr


@pytest.fixture
def job(tmp_path: Path, hub: Hub) -> Job:
    return Job(tmp_path, hub)


def test_a_whole_repository_is_linked(job: Job) -> None:
    code, words = job.run(f"--repository={job.link()}=org/model")
    assert code == 0, words
    assert (job.link() / "model.safetensors").read_bytes() == b"weights"
    assert (job.link() / "original" / "big.pth").exists()
    assert job.link().resolve().name == COMMIT
    assert not os.path.isabs(os.readlink(job.link()))


def test_others_can_read_it(job: Job) -> None:
    job.run(f"--repository={job.link()}=org/model")
    file = (job.link() / "model.safetensors").resolve()
    for path in (file, *file.relative_to(job.volume).parents):
        mode = (job.volume / path).stat().st_mode
        assert mode & 0o044 == 0o044, path


def test_a_second_run_asks_nobody(job: Job, hub: Hub) -> None:
    assert job.run(f"--repository={job.link()}=org/model")[0] == 0
    hub.asked.clear()
    assert job.run(f"--repository={job.link()}=org/model")[0] == 0
    assert hub.asked == []


def test_what_is_linked_stays_the_commit_that_it_was(job: Job, hub: Hub) -> None:
    job.run(f"--repository={job.link('first')}=org/model")
    hub.commit, hub.repositories["org/model"] = "2" * 40, {"config.json": b"new"}
    code, _ = job.run(
        f"--repository={job.link('first')}=org/model",
        f"--repository={job.link('second')}=org/model",
    )
    assert code == 0
    assert (job.link("first") / "config.json").read_bytes() == b"{}"
    assert (job.link("second") / "config.json").read_bytes() == b"new"


def test_several_repositories_and_a_revision(job: Job) -> None:
    code, words = job.run(
        f"--repository={job.link('model')}=org/model@v1",
        f"--repository={job.link('a')}=org/adapter",
    )
    assert code == 0, words
    assert (job.link("a") / "adapter.bin").read_bytes() == b"a"


def test_what_is_ignored_is_not_fetched(job: Job, hub: Hub) -> None:
    code, words = job.run(f"--repository={job.link()}=org/model", "--ignore=original/*")
    assert code == 0, words
    assert not (job.link() / "original").exists()
    assert not [path for path in hub.asked if "big.pth" in path]


def test_a_file_that_fails_leaves_no_link_and_the_next_run_goes_on(job: Job, hub: Hub) -> None:
    hub.broken.add("model.safetensors")
    code, words = job.run(f"--repository={job.link()}=org/model")
    assert code == FAILED
    assert words.startswith("org/model: ")
    assert "status 500" in words
    assert not job.link().is_symlink()
    hub.broken.clear()
    hub.asked.clear()
    assert job.run(f"--repository={job.link()}=org/model")[0] == 0
    assert (job.link() / "model.safetensors").read_bytes() == b"weights"


def test_a_hub_that_is_away_does_not_make_the_unfinished_whole(job: Job, hub: Hub) -> None:
    hub.broken.add("model.safetensors")
    job.run(f"--repository={job.link()}=org/model")
    job.environment["HF_ENDPOINT"] = "http://127.0.0.1:1"
    code, words = job.run(f"--repository={job.link()}=org/model")
    assert code == FAILED
    assert "Connect" in words
    assert not job.link().is_symlink()


def test_a_link_that_leads_nowhere_is_made_anew(job: Job) -> None:
    job.link().parent.mkdir()
    job.link().symlink_to("../hub/gone")
    assert job.run(f"--repository={job.link()}=org/model")[0] == 0
    assert (job.link() / "config.json").exists()


@pytest.mark.parametrize(
    ("repository", "told"),
    [
        ("org/none", "org/none: the hub refuses it (RepositoryNotFoundError)"),
        ("org/model@none", "org/model: the hub has no such revision"),
        ("bad--name", "bad--name: the hub refuses it (HFValidationError)"),
    ],
)
def test_what_the_hub_refuses_is_not_tried_again(job: Job, repository: str, told: str) -> None:
    code, words = job.run(f"--repository={job.link()}={repository}")
    assert (code, words[: len(told)]) == (REFUSED, told)


def test_a_gated_repository_needs_the_token(job: Job, hub: Hub) -> None:
    hub.token = "hf_secret"
    code, words = job.run(f"--repository={job.link()}=org/model", token="hf_wrong")
    assert code == REFUSED
    assert "GatedRepoError" in words
    assert "hf_wrong" not in words
    assert job.run(f"--repository={job.link()}=org/model", token="hf_secret")[0] == 0


def test_a_volume_that_cannot_be_written_is_told(job: Job) -> None:
    job.volume.rmdir()
    job.volume.write_text("")
    code, words = job.run(f"--repository={job.link()}=org/model")
    assert code == FAILED
    assert "Not a directory" in words or "File exists" in words


def test_wrong_arguments_are_told(job: Job) -> None:
    for arguments in ((), ("--repository=org/model",), ("--repository=/a=org/model@",)):
        assert job.run(*arguments)[0] == 2


def test_an_engine_waits_for_the_link(job: Job) -> None:
    waits = subprocess.Popen(
        job.command("wait-for-model", f"--link={job.link()}", "--period-seconds=0.05"),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert waits.stderr
        assert "waits for" in waits.stderr.readline()
        assert waits.poll() is None
        job.run(f"--repository={job.link()}=org/model")
        assert waits.wait(BOUND_SECONDS) == 0
        assert "the model is there" in waits.stderr.read()
    finally:
        waits.kill()
        waits.communicate()


def test_the_wait_ends_at_once_with_a_signal(job: Job) -> None:
    waits = subprocess.Popen(
        job.command("wait-for-model", f"--link={job.link()}", "--period-seconds=600"),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert waits.stderr
        assert "waits for" in waits.stderr.readline()
        waits.terminate()
        assert waits.wait(BOUND_SECONDS) == 128 + signal.SIGTERM
    finally:
        waits.kill()
        waits.communicate()


# The same logic with another fetch.


def fetched(folder: Path, files: Sequence[str]) -> Callable[[Repository, Sequence[str]], Snapshot]:
    def fetch(wanted: Repository, ignored: Sequence[str]) -> Snapshot:
        folder.mkdir(exist_ok=True)
        (folder / "here").write_text("")
        return Snapshot(folder, tuple(files))

    return fetch


def test_a_snapshot_that_lacks_a_file_is_not_whole(tmp_path: Path) -> None:
    wanted = Repository(tmp_path / "links" / "a", "org/model", None)
    with pytest.raises(DownloadError, match="1 of 2 files are missing, such as gone") as raised:
        download([wanted], (), fetched(tmp_path / "s", ("here", "gone")))
    assert raised.value.code == FAILED
    assert not wanted.link.exists()


def test_words_have_no_signed_url(tmp_path: Path) -> None:
    def fetch(wanted: Repository, ignored: Sequence[str]) -> Snapshot:
        raise OSError("cannot get https://host/path?X-Signature=abc now")

    with pytest.raises(DownloadError) as raised:
        download([Repository(tmp_path / "a", "org/model", None)], (), fetch)
    assert str(raised.value) == "org/model: OSError: cannot get https://host/path?... now"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a/b=org/m", Repository(Path("/a/b"), "org/m", None)),
        ("/a=m@feature/x", Repository(Path("/a"), "m", "feature/x")),
    ],
)
def test_a_repository_is_read(text: str, expected: Repository) -> None:
    assert repository(text) == expected
