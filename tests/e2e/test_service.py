"""The disaggregated service answers as a single engine does, and its KV cache moves."""

from collections.abc import Iterator
from typing import Any

import pytest

from demo.proof import moved_tokens
from pd_shared import labels
from tests.e2e.client import Reply, chat, completion, send
from tests.e2e.conftest import Pair
from tests.e2e.deploy import is_ready, pods
from tests.kube import Kube, Manifest, until

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

_WORDS = (
    *("a", "prefiller", "reads", "the", "prompt", "and", "one", "decoder", "writes"),
    *("its", "answer", "while", "their", "cache", "moves"),
)
_LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34, 40, 48, 55, 63, 64, 65, 80, 100, 128, 129, 144, 180, 240)


def _prompt(words: int, salt: str) -> str:
    """A prompt that no other one is a prefix of."""
    return " ".join(
        [str(words), salt, *(_WORDS[(i * 7 + words) % len(_WORDS)] for i in range(words))]
    )


@pytest.fixture(scope="module")
def single(kube: Kube, images: dict[str, str], pair: Pair) -> Iterator[str]:
    """Base URL of one engine of the same image without KV transfer."""
    (decoder,) = pods(kube, pair.name, pair.namespace, labels.DECODER)
    container = _without_transfer(decoder["spec"]["containers"][0])
    pod: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "single", "labels": {"app": "single"}},
        "spec": {
            "containers": [container],
            "volumes": [v for v in decoder["spec"]["volumes"] if "projected" not in v],
            "securityContext": decoder["spec"]["securityContext"],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
        },
    }
    kube.apply(pod, pair.namespace)

    def ready() -> Manifest | None:
        found = kube.get("pod", "single", pair.namespace)
        return found if is_ready(found) else None

    address = until(ready, 120, "the single engine")["status"]["podIP"]
    yield f"http://{address}:8000"
    kube.kubectl("delete", "pod", "single", "-n", pair.namespace, "--wait=false")


def _without_transfer(container: dict[str, Any]) -> dict[str, Any]:
    words = [*container.get("command", []), *container.get("args", [])]
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word == "--kv-transfer-config":
            skip = True
        elif not word.startswith("--kv-transfer-config="):
            kept.append(word)
    keys = ("image", "env", "volumeMounts", "securityContext", "readinessProbe", "ports")
    return {
        "name": "engine",
        "command": kept,
        **{key: container[key] for key in keys if key in container},
    }


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", ["completions", "chat/completions"])
def test_answers_equal_a_single_engines_and_every_token_moves(
    kube: Kube, pair: Pair, single: str, kind: str, stream: bool
) -> None:
    make = chat if kind.startswith("chat") else completion
    for words in _LENGTHS:
        body = make(_prompt(words, f"{kind} {stream}"), stream=stream)
        before = moved_tokens(kube, pair.name, pair.namespace)
        ours = send(pair.url, f"/v1/{kind}", body)
        theirs = send(single, f"/v1/{kind}", body)
        assert ours.status == theirs.status == 200, (ours.error, theirs.error)
        assert ours.error == ""
        assert (ours.text, ours.usage["completion_tokens"]) == (
            theirs.text,
            theirs.usage["completion_tokens"],
        )
        assert_moved(kube, pair, before, ours)


def assert_moved(kube: Kube, pair: Pair, before: dict[str, float], reply: Reply) -> None:
    """The decoder that answered got exactly the prompt's tokens by KV transfer."""
    after = moved_tokens(kube, pair.name, pair.namespace)
    decoder = reply.headers.get("x-pd-decoder") or next(iter(after))
    moved = after[decoder] - before[decoder]
    expected = reply.usage["prompt_tokens"]
    assert moved == expected, f"{moved:.0f} of {expected} prompt tokens moved to {decoder}"


def test_the_proof_fails_where_the_connector_is_wired_wrongly(kube: Kube, pair: Pair) -> None:
    """A wrong engine id: vLLM recomputes and answers 200, and only the proof tells."""
    (prefiller,) = pods(kube, pair.name, pair.namespace, labels.PREFILLER)
    (decoder,) = pods(kube, pair.name, pair.namespace, labels.DECODER)
    body = completion(_prompt(50, "wrong"))
    body["kv_transfer_params"] = {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "remote_bootstrap_addr": f"http://{prefiller['status']['podIP']}:8998",
        "remote_engine_id": "00000000-0000-0000-0000-000000000000",
        "transfer_id": "xfer-wrong",
    }
    before = moved_tokens(kube, pair.name, pair.namespace)
    reply = send(f"http://{decoder['status']['podIP']}:8000", "/v1/completions", body)
    assert reply.status == 200
    with pytest.raises(AssertionError, match=r"^0 of \d+ prompt tokens moved"):
        assert_moved(kube, pair, before, reply)


def test_client_sent_transfer_parameters_are_dropped(kube: Kube, pair: Pair) -> None:
    body = completion(_prompt(30, "dropped"))
    body["kv_transfer_params"] = {"do_remote_prefill": True, "remote_engine_id": "mine"}
    before = moved_tokens(kube, pair.name, pair.namespace)
    reply = send(pair.url, "/v1/completions", body)
    assert reply.status == 200
    assert_moved(kube, pair, before, reply)


def test_a_condition_and_the_columns_tell_that_kv_moves(kube: Kube, pair: Pair) -> None:
    def verified() -> bool:
        send(pair.url, "/v1/completions", completion(_prompt(60, "told")))
        found = kube.condition(pair.name, pair.namespace, "KVTransferVerified")
        return found.get("status") == "True"

    until(
        verified, 90, lambda: str(kube.condition(pair.name, pair.namespace, "KVTransferVerified"))
    )
    shown = kube.kubectl("get", "pdd", pair.name, "-n", pair.namespace)
    assert shown.split()[:8] == [
        "NAME",
        "READY",
        "REASON",
        "PREFILL",
        "DECODE",
        "TTFT",
        "TPOT",
        "AGE",
    ]
