"""A prefiller and a decoder to be checked, and how they are asked."""

import http.client
import json
import re
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Pair:
    """Base URLs; vLLM 0.32 with MooncakeConnector, kv_load_failure_policy recompute."""

    prefiller: str
    decoder: str
    bootstrap: str
    bootstrap_for_decoder: str
    """As the decoder reaches it."""
    model: str
    max_model_len: int


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[dict[str, Any]]:
        """The events of a stream that ended with [DONE]."""
        assert self.status == 200, self.body
        *events, done, rest = self.body.split(b"\n\n")
        assert (done, rest) == (b"data: [DONE]", b"")
        assert all(event.startswith(b"data: {") for event in events)
        return [json.loads(event[6:]) for event in events]


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """One request over a connection of its own; bytes are sent as they are."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    kinds = {"content-type": "application/json"} if body is not None else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, sent, kinds | named)
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())
    finally:
        connection.close()


def completion(pair: Pair, **more: Any) -> dict[str, Any]:
    """A greedy completion's body, of a prompt that nobody has asked before."""
    prompt = f"{secrets.token_hex(4)} a prefiller reads the prompt"
    return {"model": pair.model, "prompt": prompt, "max_tokens": 5, "temperature": 0,
            "ignore_eos": True, **more}  # fmt: skip


def chat(pair: Pair, **more: Any) -> dict[str, Any]:
    body = completion(pair, **more)
    body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
    return body


Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def metrics(url: str) -> Series:
    """All samples of an engine's /metrics."""
    text = ask(url, "GET", "/metrics").body.decode()
    return {
        (name, frozenset(_LABEL.findall(labels or ""))): float(value)
        for name, labels, value in _SAMPLE.findall(text)
    }


def total(series: Series, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    wanted = set(labels.items())
    return sum(v for (found, has), v in series.items() if found == name and wanted <= has)
