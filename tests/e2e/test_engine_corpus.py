"""The real pair: answers through the proxy are the engine's own, and the official client works."""

import json
import re
from typing import Any

import openai
import pytest

from tests.conformance import corpus
from tests.conformance.pair import Answer, ask
from tests.conformance.pair import Pair as Engines
from tests.e2e.conftest import Pair

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

_CREATED = re.compile(rb'"created":\d+')
_ITEMS = re.compile(rb"<dict of \d+ items>")
_LOGPROB = re.compile(rb"-?\d+\.\d+(e-?\d+)?|-0\.0")


def plain(answer: Answer) -> tuple[int, str, Any]:
    """Without the time; the last digits of logprobs depend on how the prompt was computed."""
    body = _CREATED.sub(b'"created":0', answer.body)
    # What the proxy adds for the transfer counts in vLLM's words on a body that it refuses.
    body = _ITEMS.sub(b"<dict>", body)
    body = _LOGPROB.sub(lambda found: b"%.2f" % (float(found[0]) + 0.0), body)
    kind = answer.headers["content-type"]
    streamed = kind.startswith("text/event-stream")
    return answer.status, kind, folded(Answer(200, {}, body)) if streamed else body


def folded(stream: Answer) -> dict[str, Any]:
    """What a stream says as a whole: vLLM puts tokens that are there at once into one event."""
    found: dict[str, Any] = {}
    for event in stream.events():
        for choice in event.pop("choices"):
            said = found.setdefault(f"choice {choice['index']}", {})
            text = choice.pop("delta", None) or {"content": choice.pop("text", None)}
            for name, value in [*text.items(), *choice.items()]:
                _add(said, name, value)
        for name, value in event.items():
            found[name] = found.get(name) if value is None else value
    return found


def _add(said: dict[str, Any], name: str, value: Any) -> None:
    known = said.get(name)
    if isinstance(value, dict):
        if known is None:
            said[name] = {}
        for inner, more in value.items():
            _add(said[name], inner, more)
    elif isinstance(value, list) or (isinstance(value, str) and name == "content"):
        said[name] = value if known is None else known + value
    elif value is not None or name not in said:
        said[name] = value


def asked(url: str, path: str, body: bytes) -> Answer:
    return ask(url, "POST", path, body, x_request_id="same")


@pytest.mark.parametrize("name", [*corpus.ANSWERED, *corpus.REFUSED])
def test_answers_are_the_engines_own(pair: Pair, engines: Engines, name: str) -> None:
    path, body = {**corpus.ANSWERED, **corpus.REFUSED}[name]
    assert plain(asked(pair.url, path, body)) == plain(asked(engines.decoder, path, body))


def test_the_official_client(pair: Pair) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]
    with openai.OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0) as api:
        assert [model.id for model in api.models.list()] == ["tiny"]
        whole = api.completions.create(
            model="tiny", prompt="one two", max_tokens=5, temperature=0, logprobs=1
        )
        stream = api.completions.create(
            model="tiny", prompt="one two", max_tokens=5, temperature=0, stream=True
        )
        assert "".join(part.choices[0].text for part in stream) == whole.choices[0].text
        raw = api.chat.completions.with_raw_response.create(
            model="tiny", messages=messages, max_tokens=5, temperature=0
        )
        assert raw.headers["x-pd-prefiller"]
        said = api.chat.completions.create(
            model="tiny", messages=messages, max_tokens=5, temperature=0, stream=True
        )
        text = "".join(part.choices[0].delta.content or "" for part in said)
        assert text == json.loads(raw.text)["choices"][0]["message"]["content"]
        with pytest.raises(openai.BadRequestError):
            api.completions.create(model="tiny", prompt="word " * 5000)
        with pytest.raises(openai.NotFoundError):
            api.completions.create(model="nobody", prompt="a")
