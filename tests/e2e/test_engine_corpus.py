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
_LOGPROB = re.compile(rb"-?\d+\.\d+(e-?\d+)?|-0\.0")


def plain(answer: Answer) -> tuple[int, str, bytes]:
    """Without the time; the last digits of logprobs depend on how the prompt was computed."""
    body = _CREATED.sub(b'"created":0', answer.body)
    body = _LOGPROB.sub(lambda found: b"%.2f" % (float(found[0]) + 0.0), body)
    return answer.status, answer.headers["content-type"], body


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
