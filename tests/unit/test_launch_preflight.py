"""The RDMA preflight over trees like the kernel's."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_launch import environment, preflight
from pd_launch.check import preflight as run
from pd_launch.preflight import MAX_BYTES, Finding, Wanted, check, falling_back, with_peers
from pd_launch.sysfs import Roots, allocated
from pd_operator import preflight as operator
from tests.launcher import free_port, launched

GID = "0000:0000:0000:0000:0000:ffff:0a00:0001"
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


class Node:
    """A node's /sys, /proc and /dev/infiniband."""

    def __init__(self, root: Path) -> None:
        self.roots = Roots(root / "sys", root / "proc", root / "dev")
        self.write("proc/modules", "mlx5_core 1 0 - Live 0x0\nnvidia_peermem 2 0 - Live 0x0\n")
        self.write("sys/class/net/net1/mtu", "9000\n")

    def path(self, name: str) -> Path:
        return self.roots.sys.parent / name

    def write(self, name: str, text: str | bytes) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def device(self, number: int, link_layer: str = "Ethernet", given: bool = True) -> str:
        """Add a device; what is not given to the pod is in /sys all the same."""
        name = f"mlx5_{number}"
        self.write(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", f"{name}\n")
        port = f"sys/class/infiniband/{name}/ports/1"
        self.write(f"{port}/state", "4: ACTIVE\n")
        self.write(f"{port}/link_layer", f"{link_layer}\n")
        kinds = ["IB/RoCE v1", "IB/RoCE v1", "IB/RoCE v1", "RoCE v2"]
        for index in range(6):
            self.write(f"{port}/gids/{index}", f"{GID if index < 4 else NO_GID}\n")
            if index < 4:
                self.write(f"{port}/gid_attrs/types/{index}", f"{kinds[index]}\n")
                self.write(f"{port}/gid_attrs/ndevs/{index}", "net1\n")
        if given:
            self.write(f"dev/uverbs{number}", "")
        return port

    def check(self, memlock: int = -1, **wanted: object) -> Finding:
        return check(Wanted(**wanted), self.roots, memlock, Path.is_file)  # type: ignore[arg-type]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


def test_all_is_well(node: Node) -> None:
    node.device(0)
    finding = node.check(
        memlock=1 << 40, link_layer="Ethernet", gid_index=3, mtu=4096, memlock_bytes=1 << 30,
        peermem=True, devices=("mlx5_0",),
    )  # fmt: skip
    assert finding == Finding("Passed", "1 RDMA devices can be used", devices=("mlx5_0",))
    assert finding.ok


def test_only_what_the_kubelet_gave_counts(node: Node) -> None:
    node.device(0, given=False)
    node.device(1)
    node.write("dev/rdma_cm", "")
    node.write("dev/uverbsX", "")
    assert allocated(node.roots, Path.is_file) == ("mlx5_1",)
    # Files are not devices.
    assert allocated(node.roots) == ()
    finding = node.check(devices=("mlx5_0",))
    assert finding.reason == "DeviceMissing"
    assert finding.message.startswith("RDMA devices not given to this pod: mlx5_0; it has mlx5_1")


def test_too_few_devices(node: Node) -> None:
    assert node.check().reason == "DeviceMissing"
    node.device(0)
    assert node.check(count=2).reason == "DeviceMissing"
    node.device(1)
    assert node.check(count=2).devices == ("mlx5_0", "mlx5_1")


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", "x" * 65, "a b"])
def test_a_device_with_a_strange_name_is_none(node: Node, name: str) -> None:
    node.device(0)
    node.write("sys/class/infiniband_verbs/uverbs0/ibdev", name)
    assert node.check().reason == "DeviceMissing"


@pytest.mark.parametrize("state", ["1: DOWN", "2: INIT", "", "4", "ACTIVE_DEFER"])
def test_port_down(node: Node, state: str) -> None:
    port = node.device(0)
    node.write(f"{port}/state", state)
    finding = node.check()
    assert finding.reason == "PortDown"
    assert "mlx5_0 port 1 is" in finding.message


def test_other_port(node: Node) -> None:
    node.device(0)
    assert node.check(port=2).message == "mlx5_0 port 2 is unknown"


def test_link_layer(node: Node) -> None:
    node.device(0, "InfiniBand")
    assert node.check(link_layer="InfiniBand").ok
    assert node.check(link_layer="Ethernet").reason == "LinkLayerMismatch"


def test_gid(node: Node) -> None:
    port = node.device(0)
    finding = node.check(gid_index=1)  # RoCE v1
    assert finding.reason == "GIDMissing"
    assert finding.message.endswith("no RoCE v2 GID at index 1; there are: 3")
    assert node.check(gid_index=5).reason == "GIDMissing"
    assert node.check(gid_index=3).ok
    node.write(f"{port}/gid_attrs/types/3", "IB/RoCE v1")
    assert node.check().message.endswith("there are: none")


def test_gid_of_infiniband_has_no_version(node: Node) -> None:
    node.device(0, "InfiniBand")
    assert node.check(gid_index=0).ok
    assert node.check(gid_index=5).reason == "GIDMissing"


def test_mtu(node: Node) -> None:
    node.device(0)
    node.write("sys/class/net/net1/mtu", "4153")
    finding = node.check(mtu=4096)
    assert (finding.reason, finding.message) == (
        "MTUTooLow", "mlx5_0 port 1: net1 has an MTU of 4153, needs 4154",
    )  # fmt: skip
    assert node.check(mtu=1024).ok
    # An interface that is not in the pod's network says nothing.
    node.path("sys/class/net/net1/mtu").unlink()
    assert node.check(mtu=4096).ok


@pytest.mark.parametrize(("limit", "ok"), [(-1, True), (1000, True), (999, False), (0, False)])
def test_memlock(node: Node, limit: int, ok: bool) -> None:
    node.device(0)
    finding = node.check(memlock=limit, memlock_bytes=1000)
    assert finding.reason == ("Passed" if ok else "MemlockTooLow")
    assert node.check(memlock=limit).ok


def test_peermem(node: Node) -> None:
    node.device(0)
    node.write("proc/modules", "\n\nmlx5_core 1\n")
    assert node.check(peermem=True).reason == "PeermemMissing"
    assert node.check().ok


@pytest.mark.parametrize("damage", ["remove", "empty", "folder", "bytes", "cut"])
def test_whatever_is_damaged_is_told_and_nothing_raises(tmp_path: Path, damage: str) -> None:
    names = sorted(
        path.relative_to(tmp_path / "0")
        for path in _whole(tmp_path / "0").path("").rglob("*")
        if path.is_file()
    )
    assert len(names) > 15
    for number, name in enumerate(names, 1):
        node = _whole(tmp_path / str(number))
        path = node.path(str(name))
        content = path.read_bytes()
        path.unlink()
        if damage == "folder":
            path.mkdir()
        elif damage != "remove":
            path.write_bytes({"empty": b"", "bytes": b"\xff\0\n" * 99, "cut": content[:1]}[damage])
        finding = node.check(link_layer="Ethernet", mtu=1024, peermem=True)
        assert finding.reason in preflight.REASONS
        assert operator.parse(finding.json()) is not None


def _whole(root: Path) -> Node:
    node = Node(root)
    node.device(0)
    return node


@given(st.text(), st.text(), st.lists(st.text()), st.sampled_from(preflight.REASONS))
def test_the_operator_reads_what_is_written(
    message: str, hint: str, devices: list[str], reason: str
) -> None:
    finding = Finding(reason, message * 50, hint * 50, tuple(devices * 20))
    text = finding.json()
    assert len(text.encode()) <= MAX_BYTES
    result = operator.parse(text)
    assert result is not None
    assert (result.ok, result.reason) == (finding.ok, reason)
    assert finding.message.startswith(result.message)


def test_a_long_message_is_cut() -> None:
    text = Finding("PortDown", "\U0001f600" * 1000, "\U0001f600" * 1000, ("x" * 64,) * 99).json()
    assert len(text.encode()) <= MAX_BYTES
    assert operator.parse(text) is not None


def test_reasons_are_the_operators() -> None:
    assert set(preflight.REASONS) == operator.REASONS


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "{}", "null", '{"ok":1,"reason":"Passed"}', '{"ok":true,"reason":"Other"}',
     '{"ok":true,"reason":["Passed"]}', '{"ok":true}', "[" * 100_000],
)  # fmt: skip
def test_other_termination_messages(text: str) -> None:
    assert operator.parse(text) is None


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_can_be_parsed(text: str) -> None:
    operator.parse(text)
    assert environment.applied({"A": "b"}, text).get("A") == "b"


def test_a_strange_rest_is_left_out() -> None:
    text = '{"ok":false,"reason":"PortDown","message":5,"hint":null,"devices":["a",1]}'
    result = operator.PreflightResult(False, "PortDown", "", "", ("a",))
    assert operator.parse(text) == result


def test_peers_are_told_and_block_nothing(node: Node) -> None:
    node.device(0)
    finding = with_peers(node.check(), ["a:1", "b:2"])
    assert (finding.reason, finding.ok) == ("PeerUnreachable", True)
    assert finding.message == "no answer from a:1, b:2"
    bad = Finding("PortDown", "")
    assert with_peers(bad, ["a:1"]) == bad
    assert falling_back(finding) == finding


def test_environment_file() -> None:
    before = {"MC_FORCE_HCA": "1", "MC_TE_FILTERS": "mlx5_9", "A": "b"}
    fell_back = environment.content(True, ("mlx5_0",))
    assert environment.applied(before, fell_back) == {"MC_FORCE_TCP": "1", "A": "b"}
    found = environment.content(False, ("mlx5_0", "mlx5_1"))
    assert environment.applied(before, found) == before
    assert environment.applied({}, found) == {"MC_TE_FILTERS": "mlx5_0,mlx5_1"}
    assert environment.applied({}, environment.content(False, ())) == {}


@pytest.mark.parametrize(
    "text",
    ['{"set":{"PATH":"x"},"unset":["A"],"default":{"LD_PRELOAD":"x"}}', '{"unset":[["A"]]}',
     '{"set":{"MC_FORCE_TCP":1}}', '{"set":{"MC_FORCE_TCP":"\\u0000"}}', '{"set":5,"unset":6}'],
)  # fmt: skip
def test_the_file_changes_nothing_else(text: str) -> None:
    assert environment.applied({"A": "b"}, text) == {"A": "b"}


def options(node: Node, tmp_path: Path, *more: str) -> list[str]:
    roots = node.roots
    return [
        "preflight", f"--sys={roots.sys}", f"--proc={roots.proc}", f"--dev={roots.dev}",
        f"--result={tmp_path / 'result'}", f"--environment={tmp_path / 'environment'}", *more,
    ]  # fmt: skip


def test_a_failed_check_ends_with_1(node: Node, tmp_path: Path) -> None:
    with launched(tmp_path, *options(node, tmp_path, "--peer=localhost:1")) as process:
        assert process.ends() == 1
        assert "pd-launch: preflight: DeviceMissing: " in process.log
    result = operator.parse((tmp_path / "result").read_text())
    assert result is not None
    assert (result.ok, result.reason) == (False, "DeviceMissing")
    assert not (tmp_path / "environment").exists()


def test_with_the_fallback_the_engine_uses_tcp(node: Node, tmp_path: Path) -> None:
    with launched(tmp_path, *options(node, tmp_path, "--fallback=TCP")) as process:
        assert process.ends() == 0
    result = operator.parse((tmp_path / "result").read_text())
    assert result is not None
    assert (result.ok, result.reason) == (False, "TCPFallback")
    assert result.message.startswith("KV goes over TCP: DeviceMissing: ")
    show = "import os; print('seen', sorted(e for e in os.environ if e.startswith('MC_')))"
    arguments = ("launch", f"--environment={tmp_path / 'environment'}", "--")
    with launched(
        tmp_path, *arguments, sys.executable, "-c", show, env={"MC_FORCE_HCA": "1"}
    ) as process:
        assert process.ends() == 0
        assert "seen ['MC_FORCE_TCP']" in process.log


def test_an_environment_file_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    arguments = ("launch", f"--environment={tmp_path / 'none'}", "--", "sh", "-c", "echo $MC_X")
    with launched(tmp_path, *arguments, env={"MC_X": "kept"}) as process:
        assert process.ends() == 0
        assert "kept" in process.log


def _with_files(wanted: Wanted, roots: Roots, memlock: int) -> Finding:
    return check(wanted, roots, memlock, Path.is_file)


def test_a_check_that_passes(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node.device(0)
    monkeypatch.setattr("pd_launch.check.check", _with_files)
    assert run(options(node, tmp_path, "--gid-index=3", "--fallback=TCP")[1:]) == 0
    result = operator.parse((tmp_path / "result").read_text())
    assert result is not None
    assert (result.ok, result.reason, result.devices) == (True, "Passed", ("mlx5_0",))
    changes = environment.applied({}, (tmp_path / "environment").read_text())
    assert changes == {"MC_TE_FILTERS": "mlx5_0"}
    monkeypatch.setattr("pd_launch.check.silent", lambda peer: peer == "gone:1")
    peers = (f"--peer=127.0.0.1:{free_port()}", "--peer=gone:1")
    assert run(options(node, tmp_path, *peers)[1:]) == 0
    result = operator.parse((tmp_path / "result").read_text())
    assert result is not None
    assert result.reason == "PeerUnreachable"


def test_a_file_that_cannot_be_written(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.device(0)
    monkeypatch.setattr("pd_launch.check.check", _with_files)
    # The message is for people; without the environment the engine would not know what to use.
    assert run(options(node, tmp_path, f"--result={tmp_path}/no/file")[1:]) == 0
    assert run(options(node, tmp_path, f"--environment={tmp_path}/no/file")[1:]) == 1
