"""A plain client of an OpenAI-compatible server, from the standard library alone."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Reply:
    """What came back; `text` and `usage` put together from the events of a stream."""

    status: int
    text: str
    usage: dict[str, Any]
    headers: dict[str, str]
    error: str = ""


def send(
    base: str, path: str, body: dict[str, Any], timeout: float = 60, key: str | None = None
) -> Reply:
    """POST a completion or chat completion, streamed where the body says so; with an API key."""
    url = urlsplit(base)
    assert url.hostname is not None
    lines = {"Content-Type": "application/json"}
    if key is not None:
        lines["Authorization"] = f"Bearer {key}"
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
    try:
        connection.request("POST", path, json.dumps(body), lines)
        response = connection.getresponse()
        headers = {key.lower(): value for key, value in response.headers.items()}
        if response.status != 200:
            return Reply(response.status, "", {}, headers, response.read().decode())
        if body.get("stream"):
            return _stream(response, headers)
        answer = json.loads(response.read())
        return Reply(200, _text(answer["choices"]), answer["usage"], headers)
    finally:
        connection.close()


def _stream(response: http.client.HTTPResponse, headers: dict[str, str]) -> Reply:
    text = ""
    usage: dict[str, Any] = {}
    ended = False
    for line in response:
        if line.startswith(b"data: [DONE]"):
            ended = True
        elif line.startswith(b"data: "):
            event = json.loads(line[6:])
            if "error" in event:
                return Reply(200, text, usage, headers, json.dumps(event["error"]))
            text += _text(event["choices"])
            usage = event.get("usage") or usage
    return Reply(200, text, usage, headers, "" if ended else "the stream ended without [DONE]")


def _text(choices: list[dict[str, Any]]) -> str:
    parts = [
        choice.get("text")
        or (choice.get("message") or {}).get("content")
        or (choice.get("delta") or {}).get("content")
        or ""
        for choice in choices
    ]
    return "".join(parts)


def completion(prompt: str, model: str = "tiny", **more: Any) -> dict[str, Any]:
    """Body of a greedy completion."""
    body = {"model": model, "prompt": prompt, "max_tokens": 16, "temperature": 0, **more}
    if body.get("stream"):
        body["stream_options"] = {"include_usage": True}
    return body


def chat(prompt: str, model: str = "tiny", **more: Any) -> dict[str, Any]:
    """Body of a greedy chat completion."""
    body = completion(prompt, model, **more)
    body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
    return body
