"""A LoRA adapter through a real pair: its own answers, its own KV."""

import json
import secrets
import urllib.request
from collections.abc import Iterator

import pytest

from demo.proof import moved_tokens
from tests import shared
from tests.e2e.client import Reply, completion, send
from tests.e2e.deploy import reached, tiny
from tests.kube import Kube

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

NAMESPACE = "t-adapters"
NAME = "lora"
ADAPTER = "tiny-lora"
BLOCK = 128
"""Tokens of a block on the CPU: what the decoder may compute again."""


@pytest.fixture(scope="module")
def url(kube: Kube, images: dict[str, str], operator: str) -> Iterator[str]:
    with shared.namespace(kube, NAMESPACE):
        kube.apply(tiny(images, NAME, "lora-cpu"), NAMESPACE)
        kube.wait_ready(NAME, NAMESPACE)
        with reached(kube, NAME, NAMESPACE) as base:
            yield base


def answer(url: str, prompt: str, model: str) -> Reply:
    reply = send(url, "/v1/completions", completion(prompt, model))
    assert (reply.status, reply.error) == (200, "")
    assert reply.headers["x-pd-prefiller"]
    return reply


def test_its_kv_moves_and_is_never_taken_for_the_models(kube: Kube, url: str) -> None:
    prompt = " ".join([secrets.token_hex(8), *(f"w{i % 17}" for i in range(300))])
    moved = 0.0
    texts = {}
    for model in (ADAPTER, "tiny"):
        reply = answer(url, prompt, model)
        texts[model] = reply.text
        # The same tokens as before, and KV of its own: all of it comes from the prefiller.
        now = sum(moved_tokens(kube, NAME, NAMESPACE).values())
        assert now - moved >= reply.usage["prompt_tokens"] - BLOCK
        moved = now
    assert texts[ADAPTER] != texts["tiny"]
    for model, text in texts.items():
        assert answer(url, prompt, model).text == text


def test_the_models_are_listed(url: str) -> None:
    with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as response:
        listed = {model["id"] for model in json.load(response)["data"]}
    assert listed == {"tiny", ADAPTER}


def test_an_unknown_adapter_is_not_answered_by_the_model(url: str) -> None:
    assert send(url, "/v1/completions", completion("hello", "other-lora")).status == 404
