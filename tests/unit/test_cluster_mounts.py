"""Mount points, and removing folders."""

from pathlib import Path

import pytest

from tests.cluster import mounts
from tools.stages import UserError

MOUNTINFO = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /run/pd-operator/ab/kubelet rw - ext4 /dev/vda rw
31 30 0:26 / /run/pd-operator/ab/kubelet/pods/1/volumes/with\040space rw - tmpfs tmpfs rw
"""


def test_mount_points_are_read_in_their_order() -> None:
    assert mounts.parse(MOUNTINFO) == [
        Path("/"),
        Path("/run/pd-operator/ab/kubelet"),
        Path("/run/pd-operator/ab/kubelet/pods/1/volumes/with space"),
    ]


def test_the_machines_own_mounts_are_found() -> None:
    assert Path("/proc") in mounts.under(Path("/proc"))
    assert mounts.under(Path("/no/such/folder")) == []


def test_a_folder_without_mounts_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    mounts.remove(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    mounts.remove(tmp_path / "a")


def test_a_folder_that_stays_mounted_is_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").touch()
    monkeypatch.setattr(mounts, "under", lambda folder: [folder / "volume"])
    monkeypatch.setattr(mounts, "unmount", lambda _: None)
    with pytest.raises(UserError, match=r"volume cannot be unmounted"):
        mounts.remove(tmp_path)
    assert (tmp_path / "precious").exists()
