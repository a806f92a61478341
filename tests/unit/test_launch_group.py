"""Groups of launchers on loopback: they meet, serve, and end as one."""

import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pd_launch.launch import GROUP_LOST
from tests.launcher import BOUND_SECONDS, ENGINE, Launched, alive, free_port, launched, pids, until

SET = "tiny-decoder-abcdefgh"


class Group:
    """Launchers of one group; members are started one by one."""

    def __init__(self, stack: ExitStack, tmp_path: Path, size: int, *options: str) -> None:
        self.size = size
        self.port = free_port()
        self.engine_port = free_port()
        self.health_ports = [free_port() for _ in range(size)]
        self.members: dict[int, Launched] = {}
        self._stack = stack
        self._tmp_path = tmp_path
        self._options = options
        self._started = 0

    def pids_file(self, rank: int) -> Path:
        return self._tmp_path / f"pids-{rank}"

    def start(self, rank: int, *options: str, code: str = "9") -> Launched:
        """The member of a rank in the second group of the set."""
        serves = rank == 0
        self._started += 1
        self.pids_file(rank).unlink(missing_ok=True)
        arguments = (
            "launch",
            f"--group-size={self.size}",
            f"--pod={SET}-{self.size + rank}",
            "--leader-address=localhost",
            "--ranks-per-node=4",
            "--revision=r1",
            "--leader-arg=leads",
            "--worker-arg=--headless",
            f"--group-port={self.port}",
            f"--group-health-port={self.health_ports[rank]}",
            f"--health-port={self.engine_port}",
            "--kill-seconds=1",
            *self._options,
            *options,
            "--",
            sys.executable, "-c", ENGINE, str(self.engine_port if serves else 0),
            str(self.pids_file(rank)), code,
            "{node_rank}", "{start_rank}", "{leader_address}",
        )  # fmt: skip
        run = launched(self._tmp_path, *arguments, name=f"member-{rank}-{self._started}")
        member = self._stack.enter_context(run)
        self.members[rank] = member
        return member

    def start_all(self) -> list[list[int]]:
        """All members, until their engines run: the engines' processes."""
        for rank in reversed(range(self.size)):
            self.start(rank)
        return self.engines()

    def engines(self) -> list[list[int]]:
        return [
            self._stack.enter_context(pids(self.pids_file(rank)))() for rank in range(self.size)
        ]

    def get(self, rank: int, path: str) -> int:
        """Status of a member's own server; 0 when there is none."""
        url = f"http://127.0.0.1:{self.health_ports[rank]}{path}"
        try:
            with urllib.request.urlopen(url, timeout=BOUND_SECONDS) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def ready(self) -> None:
        until(
            lambda: all(self.get(rank, "/ready") == 200 for rank in range(self.size)),
            "all members are ready",
        )


@contextmanager
def group(tmp_path: Path, size: int, *options: str) -> Iterator[Group]:
    with ExitStack() as stack:
        yield Group(stack, tmp_path, size, *options)


def gone(engines: list[list[int]]) -> None:
    found = [pid for each in engines for pid in each]
    until(lambda: not any(map(alive, found)), "all engines have ended")


def hello(**changes: Any) -> bytes:
    message = {
        "group": f"{SET}/1", "size": 2, "ordinal": 3, "revision": "r1", "incarnation": "x",
    }  # fmt: skip
    return json.dumps({**message, **changes}).encode() + b"\n"


def says(port: int, data: bytes) -> list[dict[str, Any]]:
    """All that the leader answers to a stranger before it closes the connection."""
    with socket.create_connection(("localhost", port), BOUND_SECONDS) as sock:
        sock.sendall(data)
        answer = b""
        try:
            while more := sock.recv(4096):
                answer += more
        except ConnectionResetError:
            pass
    return [json.loads(line) for line in answer.splitlines()]


def test_engines_start_when_all_are_there_and_know_their_place(tmp_path: Path) -> None:
    with group(tmp_path, 3) as g:
        g.start(2)
        g.start(0).logged("waits for 2 more")
        g.members[0].logged(f"{SET}-5 is there")
        assert not g.pids_file(0).exists()
        assert not g.pids_file(2).exists()
        assert [g.get(rank, "/ready") for rank in (0, 2)] == [503, 503]
        assert [g.get(rank, "/live") for rank in (0, 2)] == [200, 200]
        assert g.get(0, "/metrics") == 404
        g.start(1)
        g.engines()
        g.ready()
        told = [g.pids_file(rank).read_text().split()[2:] for rank in range(3)]
        assert told == [
            ["0", "0", "localhost", "leads"],
            ["1", "4", "localhost", "--headless"],
            ["2", "8", "localhost", "--headless"],
        ]
        assert [g.get(rank, "/live") for rank in range(3)] == [200, 200, 200]


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_end_of_one_engine_ends_all(tmp_path: Path, rank: int) -> None:
    with group(tmp_path, 3) as g:
        engines = g.start_all()
        g.ready()
        os.kill(engines[rank][0], signal.SIGKILL)
        codes = [g.members[each].ends() for each in range(3)]
        expected = [GROUP_LOST] * 3
        expected[rank] = 128 + signal.SIGKILL
        assert codes == expected
        gone(engines)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_member_that_vanishes_ends_all_and_they_meet_anew(tmp_path: Path, rank: int) -> None:
    with group(tmp_path, 2) as g:
        engines = g.start_all()
        g.ready()
        g.members[rank].process.kill()
        assert g.members[1 - rank].ends() == GROUP_LOST
        g.members[rank].process.wait()
        # In a pod they end with process 1.
        for pid in engines[rank]:
            os.kill(pid, signal.SIGKILL)
        gone(engines)
        assert g.get(1 - rank, "/ready") == 0
        again = g.start_all()
        g.ready()
        assert not {tuple(each) for each in again} & {tuple(each) for each in engines}


def test_a_member_that_is_silent_counts_as_lost(tmp_path: Path) -> None:
    with group(tmp_path, 2, "--keepalive-seconds=5") as g:
        g.start_all()
        g.members[1].send(signal.SIGSTOP)
        assert g.members[0].ends() == GROUP_LOST
        assert f"{SET}-3 silent for 5 s" in g.members[0].log
        g.members[1].send(signal.SIGCONT)
        assert g.members[1].ends() == GROUP_LOST


def test_a_worker_that_restarts_before_the_start_is_waited_for(tmp_path: Path) -> None:
    with group(tmp_path, 3) as g:
        leader = g.start(0)
        g.start(1)
        leader.logged(f"{SET}-4 is there")
        g.members[1].process.kill()
        leader.logged(f"{SET}-4 closed the connection")
        g.start(2)
        leader.logged(f"{SET}-5 is there")
        assert not g.pids_file(0).exists()
        g.start(1)
        g.engines()
        g.ready()


def test_a_leader_that_restarts_before_the_start_is_found_again(tmp_path: Path) -> None:
    with group(tmp_path, 3) as g:
        worker = g.start(1)
        g.start(0).logged(f"{SET}-4 is there")
        g.members[0].process.kill()
        worker.logged("the leader closed the connection")
        g.start(2)
        g.start(0)
        g.engines()
        g.ready()
        assert worker.process.poll() is None


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_while_the_group_gathers(tmp_path: Path, rank: int) -> None:
    with group(tmp_path, 2) as g:
        g.start(rank).logged("waits for" if rank == 0 else "looks for its leader")
        g.members[rank].send(signal.SIGTERM)
        assert g.members[rank].ends() == 128 + signal.SIGTERM
        assert not g.pids_file(rank).exists()


def test_a_worker_that_is_stopped_lets_the_leader_drain(tmp_path: Path) -> None:
    with group(tmp_path, 3) as g:
        engines = g.start_all()
        g.ready()
        for _ in range(5):
            g.members[1].send(signal.SIGTERM)
        # The engine's own way to end, not that of the group's loss.
        assert g.members[0].ends() == 9
        assert "SIGTERM passed on to the engine, which serves" in g.members[0].log
        assert "SIGTERM: the leader drains first" in g.members[1].log
        assert g.members[1].ends() == 128 + signal.SIGTERM
        assert g.members[2].ends() == GROUP_LOST
        gone(engines)


def test_a_group_that_is_stopped_ends_in_order(tmp_path: Path) -> None:
    with group(tmp_path, 2) as g:
        engines = g.start_all()
        g.ready()
        for member in g.members.values():
            member.send(signal.SIGTERM)
        assert g.members[0].ends() == 9
        assert g.members[1].ends() == 128 + signal.SIGTERM
        gone(engines)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"group": f"{SET}/0"}, "another group"),
        ({"group": ["x"]}, "another group"),
        ({"size": 3}, "another size"),
        ({"ordinal": 2}, "ordinal is not of here"),
        ({"ordinal": 4}, "ordinal is not of here"),
        ({"ordinal": True}, "ordinal is not of here"),
        ({"ordinal": [3]}, "ordinal is not of here"),
        ({"ordinal": "3"}, "ordinal is not of here"),
        ({"revision": "r2"}, "another revision"),
        ({"incarnation": ""}, "no incarnation"),
        ({"incarnation": 5}, "no incarnation"),
        ({"incarnation": "x" * 65}, "no incarnation"),
    ],
)
def test_strangers_are_refused(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with group(tmp_path, 2) as g:
        g.start(0).logged("waits for 1 more")
        (answer,) = says(g.port, hello(**change))
        assert list(answer) == ["refused"]
        assert why in answer["refused"]
        assert g.members[0].process.poll() is None
        assert "is there" not in g.members[0].log


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"x" * 5000, b"[1]\n", b"\xff\n", b"[" * 1000 + b"\n"]
)
def test_what_is_not_a_message_ends_the_connection(tmp_path: Path, data: bytes) -> None:
    with group(tmp_path, 2) as g:
        g.start(0).logged("waits for 1 more")
        assert says(g.port, data) == []
        g.start(1)
        g.ready()


def test_a_running_group_takes_nobody_in_and_is_not_disturbed(tmp_path: Path) -> None:
    with group(tmp_path, 2) as g:
        g.start_all()
        g.ready()
        for data in (hello(), hello(leaving=True), hello(incarnation="y") + b'{"leaving":true}\n'):
            assert [list(each) for each in says(g.port, data)] == [["refused"]]
        assert says(g.port, b"x" * 5000) == []
        g.ready()
        assert all(member.process.poll() is None for member in g.members.values())


def test_another_incarnation_on_the_same_connection_is_refused(tmp_path: Path) -> None:
    with group(tmp_path, 2) as g:
        g.start(0).logged("waits for 1 more")
        answers = says(g.port, hello() + b'{"incarnation":"y","leaving":true}\n')
        assert "refused" not in answers[0]
        g.members[0].logged("the group is lost: tiny-decoder-abcdefgh-3 is another one now")
        assert g.members[0].ends() == GROUP_LOST


def test_a_second_connection_does_not_replace_the_first(tmp_path: Path) -> None:
    with group(tmp_path, 3) as g:
        g.start(1)
        g.start(0).logged(f"{SET}-4 is there")
        (answer,) = says(g.port, hello(ordinal=4, size=3))
        assert "connected already" in answer["refused"]
        assert g.members[1].process.poll() is None
        g.start(2)
        g.ready()


def test_the_port_is_taken(tmp_path: Path) -> None:
    with group(tmp_path, 2) as g, socket.create_server(("", g.port)):
        assert g.start(0).ends() == 1
        assert "cannot listen" in g.members[0].log


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pod=node"], "'node' is not the name of a StatefulSet's pod"),
        (["--pod=a-1"], "a group needs --service and --namespace"),
    ],
)
def test_wrong_group(tmp_path: Path, options: list[str], message: str) -> None:
    with launched(tmp_path, "launch", "--group-size=2", *options, "--", "true") as run:
        assert run.ends() == 2
        assert message in run.log


def test_the_pods_name_comes_from_the_environment(tmp_path: Path) -> None:
    options = ("--group-size=2", "--service=s", "--namespace=n", "--cluster-domain=invalid")
    ports = (f"--group-port={free_port()}", f"--group-health-port={free_port()}")
    arguments = ("launch", *options, *ports, "--", "true")
    with launched(tmp_path, *arguments, env={"POD_NAME": "a-7"}) as run:
        run.logged("rank 1 of a/3: looks for its leader a-6.s.n.svc.invalid")
        run.logged("the leader is not there: ")
        run.send(signal.SIGTERM)
        assert run.ends() == 128 + signal.SIGTERM
