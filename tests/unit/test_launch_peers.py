"""Peers that do not answer: a pod that is not there yet is none of them."""

import socket
from typing import Any

import pytest

from pd_launch.peers import silent
from tests.launcher import free_port

HERE = "pods.test"


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exception | None]:
    """Addresses of one Service, and what a connection to each raises."""
    found: dict[str, Exception | None] = {}

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        if host != HERE:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        assert timeout > 0
        if raised := found[address[0]]:
            raise raised
        return socket.socket()

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    return found


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, False),
        (ConnectionRefusedError(), False),
        (ConnectionResetError(), False),
        (TimeoutError(), True),
        (OSError(113, "No route to host"), True),
    ],
)
def test_only_silence_is_told(
    pods: dict[str, Exception | None], answer: Exception | None, told: bool
) -> None:
    pods["10.0.0.1"] = answer
    assert silent(f"{HERE}:8998") is told


def test_one_that_answers_is_enough(pods: dict[str, Exception | None]) -> None:
    # The address of a pod that has just gone is still in the DNS.
    pods |= {"10.0.0.1": TimeoutError(), "10.0.0.2": ConnectionRefusedError()}
    assert not silent(f"{HERE}:8998")


@pytest.mark.parametrize("peer", ["nobody.test:8998", "", "nobody", f"{HERE}:x", f"{HERE}:8998"])
def test_no_pod_is_no_fault(pods: dict[str, Exception | None], peer: str) -> None:
    assert pods == {}
    assert not silent(peer)


def test_a_real_port_that_is_closed() -> None:
    assert not silent(f"127.0.0.1:{free_port()}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not silent(f"[127.0.0.1]:{server.getsockname()[1]}")
