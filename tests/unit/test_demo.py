"""The demo: what it says that it waits for, and how it reads a stream."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from demo.ask import ask
from demo.proof import read_moved
from demo.wait import waits_for
from tools.stages import UserError


def _deployment(*conditions: tuple[str, str, str], generation: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"generation": generation},
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": f"{kind} {reason}",
                    "observedGeneration": 1,
                }
                for kind, status, reason in conditions
            ]
        },
    }


@pytest.mark.parametrize(
    ("deployment", "expected"),
    [
        ({"metadata": {"generation": 1}}, "the operator"),
        (_deployment(("Ready", "True", "Ready")), ""),
        (_deployment(("Ready", "True", "Ready"), generation=2), "the operator"),
        (
            _deployment(
                ("Ready", "False", "Starting"),
                ("PrefillReady", "False", "Starting"),
                ("DecodeReady", "True", "Ready"),
                ("ProxyReady", "False", "ImagePull"),
            ),
            "PrefillReady (Starting), ProxyReady (ImagePull)",
        ),
        (
            _deployment(("Ready", "False", "Invalid"), ("Valid", "False", "Invalid")),
            "Invalid: Ready Invalid",
        ),
    ],
)
def test_it_says_what_it_waits_for(deployment: dict[str, Any], expected: str) -> None:
    assert waits_for(deployment) == expected


def test_only_transferred_prompt_tokens_count_as_moved() -> None:
    text = (
        "# TYPE vllm:prompt_tokens_by_source_total counter\n"
        'vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 5.0\n'
        'vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"} 12.0\n'
        'vllm:prompt_tokens_by_source_total{engine="1",source="external_kv_transfer"} 30.0\n'
    )
    assert read_moved(text) == 42.0


class _Handler(BaseHTTPRequestHandler):
    status = 200
    body = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("x-pd-prefiller", "p-0")
        self.send_header("x-pd-decoder", "d-0")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests' output is for the tests."""


@pytest.fixture
def server() -> Iterator[tuple[int, type[_Handler]]]:
    handler = type("Handler", (_Handler,), {})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield http.server_port, handler
        http.shutdown()
        thread.join()


def _events(*events: dict[str, Any] | str) -> bytes:
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def _delta(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


def test_an_answer_is_shown_as_it_comes(server: tuple[int, type[_Handler]]) -> None:
    port, handler = server
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    handler.body = _events(_delta(""), _delta("one "), _delta("two"), usage, "[DONE]")
    shown: list[str] = []
    answer = ask(port, "tiny", shown.append)
    assert shown == ["one ", "two"]
    assert (answer.prompt_tokens, answer.completion_tokens) == (7, 2)
    assert (answer.prefiller, answer.decoder) == ("p-0", "d-0")
    assert answer.tpot is not None
    assert answer.ttft > 0


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (503, b"no backend", "answered 503: no backend"),
        (200, _events({"error": {"message": "lost"}}), "ended with an error"),
        (200, _events(_delta("one")), "ended without a token"),
        (200, b"", "ended without a token"),
    ],
)
def test_a_bad_answer_is_told(
    server: tuple[int, type[_Handler]], status: int, body: bytes, expected: str
) -> None:
    port, handler = server
    handler.status, handler.body = status, body
    with pytest.raises(UserError, match=expected):
        ask(port, "tiny", lambda text: None)


def test_no_answer_is_told() -> None:
    with HTTPServer(("127.0.0.1", 0), _Handler) as free:
        port = free.server_port
    with pytest.raises(UserError, match="did not answer"):
        ask(port, "tiny", lambda text: None)
