"""Liveness and metrics over HTTP, and what they say."""

import asyncio

import pytest

from pd_operator.endpoints import Answer, Endpoint
from pd_operator.health import Health
from pd_operator.metrics import Metrics, Result


async def ask(port: int, head: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"GET /healthz?verbose HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"HEAD /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK"),
        (b"GET /other HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found"),
        (b"POST /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
        (b"GET " + b"x" * 9000, b""),
    ],
)
async def test_pages(head: bytes, expected: bytes) -> None:
    endpoint = Endpoint(0, {"/healthz": lambda: Answer(200, b"ok\n")}, "127.0.0.1")
    port = await endpoint.start()
    try:
        answer = await ask(port, head)
    finally:
        await endpoint.close()
    assert answer.startswith(expected)
    assert bool(answer) == bool(expected)
    assert answer.endswith(b"ok\n") == (b"200" in expected and not head.startswith(b"HEAD"))


async def test_a_taken_port_is_an_error() -> None:
    first = Endpoint(0, {}, "127.0.0.1")
    port = await first.start()
    with pytest.raises(OSError, match="in use"):
        await Endpoint(port, {}, "127.0.0.1").start()
    await first.close()


def test_a_leader_without_a_sign_of_life_is_dead() -> None:
    now = 0.0
    health = Health(limit=10, clock=lambda: now)
    now = 100.0
    assert health.alive  # a standby
    health.beat()
    now = 109.9
    assert health.alive
    now = 110.0
    assert not health.alive
    health.beat()
    assert health.alive


def test_metrics() -> None:
    metrics = Metrics()
    metrics.reconciled(Result.OK, 0.2)
    metrics.wrote("Service", "apply")
    metrics.leader.set(1)
    metrics.queue_depth.set_function(lambda: 4)
    text = metrics.text().decode()
    for line in (
        'pd_operator_reconciles_total{result="ok"} 1.0',
        'pd_operator_reconciles_total{result="error"} 0.0',
        'pd_operator_writes_total{kind="Service",verb="apply"} 1.0',
        "pd_operator_leader 1.0",
        "pd_operator_queue_depth 4.0",
        'pd_operator_reconcile_seconds_bucket{le="0.25"} 1.0',
    ):
        assert f"{line}\n" in text
    assert "_created" not in text
