"""The HTTP API: fields in their order, streams, errors."""

from typing import Any

from tests.conformance.pair import Answer, Pair, ask, chat, completion

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"

_USAGE = ["prompt_tokens", "total_tokens", "completion_tokens"]
_USAGE_WHOLE = [*_USAGE, "prompt_tokens_details", "completion_tokens_details"]


def check_facts(pair: Pair) -> None:
    health = ask(pair.decoder, "GET", "/health")
    assert (health.status, health.body) == (200, b"")
    assert ask(pair.decoder, "GET", "/ping").status == 200
    version = ask(pair.decoder, "GET", "/version")
    assert list(version.json()) == ["version"]
    assert version.headers["content-type"] == "application/json"
    assert list(ask(pair.decoder, "GET", "/load").json()) == ["server_load"]


def check_models(pair: Pair) -> None:
    answer = ask(pair.decoder, "GET", "/v1/models").json()
    assert list(answer) == ["object", "data"]
    (card,) = answer["data"]
    assert list(card) == [
        "id", "object", "created", "owned_by", "root", "parent", "max_model_len", "permission",
    ]  # fmt: skip
    assert (card["id"], card["object"], card["owned_by"]) == (pair.model, "model", "vllm")
    assert card["max_model_len"] == pair.max_model_len
    assert list(card["permission"][0]) == [
        "id", "object", "created", "allow_create_engine", "allow_sampling", "allow_logprobs",
        "allow_search_indices", "allow_view", "allow_fine_tuning", "organization", "group",
        "is_blocking",
    ]  # fmt: skip


def check_paths_that_are_not_there(pair: Pair) -> None:
    for path in ("/nothing", "/v1/models/x", "/v1/embeddings", "/collective_rpc"):
        answer = ask(pair.decoder, "POST" if "emb" in path else "GET", path)
        assert (answer.status, answer.json()) == (404, {"detail": "Not Found"}), path
    wrong = ask(pair.decoder, "GET", COMPLETIONS)
    assert (wrong.status, wrong.json()) == (405, {"detail": "Method Not Allowed"})
    assert wrong.headers["allow"] == "POST"


def check_a_completion(pair: Pair) -> None:
    answer = ask(pair.decoder, "POST", COMPLETIONS, completion(pair), x_request_id="mine")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    value = answer.json()
    assert list(value) == [
        "id", "object", "created", "model", "choices", "service_tier", "system_fingerprint",
        "usage", "kv_transfer_params", "ec_transfer_params", "metrics",
    ]  # fmt: skip
    assert (value["id"], value["object"]) == ("cmpl-mine", "text_completion")
    assert value["model"] == pair.model
    assert isinstance(value["created"], int)
    assert value["system_fingerprint"].startswith("vllm-")
    assert list(value["usage"]) == _USAGE_WHOLE
    assert value["usage"]["completion_tokens"] == 5
    (choice,) = value["choices"]
    assert list(choice) == [
        "index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids",
        "prompt_logprobs", "prompt_token_ids", "routed_experts",
    ]  # fmt: skip
    assert (choice["index"], choice["finish_reason"]) == (0, "length")
    assert isinstance(choice["text"], str)


def check_a_chat(pair: Pair) -> None:
    value = ask(pair.decoder, "POST", CHAT, chat(pair), x_request_id="mine").json()
    assert list(value) == [
        "id", "object", "created", "model", "choices", "service_tier", "system_fingerprint",
        "usage", "prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params",
        "ec_transfer_params", "metrics",
    ]  # fmt: skip
    assert (value["id"], value["object"]) == ("chatcmpl-mine", "chat.completion")
    (choice,) = value["choices"]
    assert list(choice) == [
        "index", "message", "logprobs", "finish_reason", "stop_reason", "token_ids",
        "routed_experts",
    ]  # fmt: skip
    assert list(choice["message"]) == [
        "role", "content", "refusal", "annotations", "audio", "function_call", "reasoning",
    ]  # fmt: skip
    assert (choice["message"]["role"], choice["finish_reason"]) == ("assistant", "length")


def _streamed(answer: Answer) -> list[dict[str, Any]]:
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["transfer-encoding"] == "chunked"
    return answer.events()


def check_a_completions_stream(pair: Pair) -> None:
    body = completion(pair, stream=True)
    events = _streamed(ask(pair.decoder, "POST", COMPLETIONS, body, x_request_id="mine"))
    *parts, last = events
    base = ["id", "object", "created", "model", "choices"]
    assert all(list(part) == base for part in parts)
    assert list(last) == [*base, "system_fingerprint"]
    for event in events:
        assert (event["id"], event["object"]) == ("cmpl-mine", "text_completion")
        (choice,) = event["choices"]
        assert list(choice) == [
            "index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids",
            "token_ids",
        ]  # fmt: skip
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None] * len(parts) + ["length"]
    whole = ask(pair.decoder, "POST", COMPLETIONS, {**body, "stream": False}).json()
    text = "".join(event["choices"][0]["text"] for event in events)
    assert text == whole["choices"][0]["text"]


def check_a_chats_stream(pair: Pair) -> None:
    body = chat(pair, stream=True)
    role, *parts = _streamed(ask(pair.decoder, "POST", CHAT, body, x_request_id="mine"))
    base = ["id", "object", "created", "model", "choices"]
    assert list(role) == [*base, "prompt_token_ids", "prompt_text"]
    assert (role["id"], role["object"]) == ("chatcmpl-mine", "chat.completion.chunk")
    assert role["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None,
         "finish_reason": None}
    ]  # fmt: skip
    for part in parts[:-1]:
        assert list(part) == base
        assert list(part["choices"][0]) == [
            "index", "delta", "logprobs", "finish_reason", "token_ids",
        ]  # fmt: skip
        assert list(part["choices"][0]["delta"]) == ["content"]
    last = parts[-1]
    assert list(last) == [*base, "system_fingerprint"]
    assert list(last["choices"][0]) == [
        "index", "delta", "logprobs", "finish_reason", "stop_reason", "token_ids",
    ]  # fmt: skip
    assert last["choices"][0]["finish_reason"] == "length"


def check_usage_in_streams(pair: Pair) -> None:
    for path, make in ((COMPLETIONS, completion), (CHAT, chat)):
        body = make(pair, stream=True, stream_options={"include_usage": True})
        *parts, last = ask(pair.decoder, "POST", path, body).events()
        assert not any("usage" in part or "system_fingerprint" in part for part in parts)
        assert last["choices"] == []
        assert list(last)[-2:] == ["usage", "system_fingerprint"]
        assert list(last["usage"]) == _USAGE
        assert last["usage"]["completion_tokens"] == 5
        options = {"include_usage": True, "continuous_usage_stats": True}
        *parts, _ = ask(pair.decoder, "POST", path, {**body, "stream_options": options}).events()
        assert [part["usage"]["completion_tokens"] for part in parts][-1] == 5
        each = [*_USAGE, "completion_tokens_details"] if path == CHAT else _USAGE
        assert all(list(part["usage"]) == each for part in parts), parts


def check_several_answers(pair: Pair) -> None:
    body = completion(pair, n=2, temperature=1, seed=1)
    value = ask(pair.decoder, "POST", COMPLETIONS, body).json()
    assert [choice["index"] for choice in value["choices"]] == [0, 1]
    assert value["usage"]["completion_tokens"] == 10
    events = ask(pair.decoder, "POST", COMPLETIONS, {**body, "stream": True}).events()
    ended = [e["choices"][0]["index"] for e in events if e["choices"][0]["finish_reason"]]
    assert sorted(ended) == [0, 1]
    prompts = {**completion(pair), "prompt": ["one two", "three four five"]}
    value = ask(pair.decoder, "POST", COMPLETIONS, prompts).json()
    assert [choice["index"] for choice in value["choices"]] == [0, 1]


def check_logprobs(pair: Pair) -> None:
    body = completion(pair, logprobs=2)
    found = ask(pair.decoder, "POST", COMPLETIONS, body).json()["choices"][0]["logprobs"]
    assert list(found) == ["text_offset", "token_logprobs", "tokens", "top_logprobs"]
    assert {len(values) for values in found.values()} == {5}
    assert found["text_offset"][0] == 0
    assert all(value <= 0 for value in found["token_logprobs"])
    assert all(2 <= len(top) <= 3 for top in found["top_logprobs"]), found["top_logprobs"]
    events = ask(pair.decoder, "POST", COMPLETIONS, {**body, "stream": True}).events()
    assert [len(e["choices"][0]["logprobs"]["tokens"]) for e in events] == [1] * 5
    more = chat(pair, logprobs=True, top_logprobs=2)
    content = ask(pair.decoder, "POST", CHAT, more).json()["choices"][0]["logprobs"]["content"]
    assert len(content) == 5
    for one in content:
        assert list(one) == ["token", "logprob", "bytes", "top_logprobs"]
        assert len(one["top_logprobs"]) == 2
        assert list(one["top_logprobs"][0]) == ["token", "logprob", "bytes"]


def check_echo(pair: Pair) -> None:
    body = completion(pair, echo=True)
    whole = ask(pair.decoder, "POST", COMPLETIONS, body).json()["choices"][0]["text"]
    assert whole.startswith(body["prompt"])
    first, *_ = ask(pair.decoder, "POST", COMPLETIONS, {**body, "stream": True}).events()
    assert first["choices"][0]["text"].startswith(body["prompt"])


def check_tokenize(pair: Pair) -> None:
    body = {"model": pair.model, "prompt": "one two three", "return_token_strs": True}
    value = ask(pair.decoder, "POST", "/tokenize", body).json()
    assert list(value) == ["count", "max_model_len", "tokens", "token_strs"]
    assert value["count"] == len(value["tokens"]) == len(value["token_strs"])
    assert value["max_model_len"] == pair.max_model_len


def check_errors(pair: Pair) -> None:
    good = completion(pair)
    bare = {key: value for key, value in good.items() if key != "prompt"}
    many = "word " * (2 * pair.max_model_len)
    for path, body, status, kind, params in (
        (COMPLETIONS, b'{"model"', 400, "Bad Request", ("body.8",)),
        (COMPLETIONS, b"[1]", 400, "Bad Request", ("body",)),
        (COMPLETIONS, bare, 400, "BadRequestError", ("prompt",)),
        (CHAT, bare, 400, "Bad Request", ("body.messages",)),
        (COMPLETIONS, {**good, "max_tokens": "x"}, 400, "Bad Request", ("body.max_tokens",)),
        (COMPLETIONS, {**good, "max_tokens": 0}, 400, "BadRequestError", ("max_tokens",)),
        (COMPLETIONS, {**good, "n": 2}, 400, "BadRequestError", (None,)),
        (COMPLETIONS, {**good, "model": "no"}, 404, "NotFoundError", ("model",)),
        (CHAT, {**chat(pair), "model": "no"}, 404, "NotFoundError", ("model",)),
        (COMPLETIONS, {**good, "stream_options": {"include_usage": True}}, 400, "BadRequestError",
         ("stream_options",)),
        (COMPLETIONS, {**good, "prompt": many}, 400, "BadRequestError",
         ("input_tokens", "input_text")),
        (COMPLETIONS, {**good, "prompt": many, "stream": True}, 400, "BadRequestError",
         ("input_tokens", "input_text")),
    ):  # fmt: skip
        answer = ask(pair.decoder, "POST", path, body)
        what = (path, str(body)[:80], answer.body[:300])
        assert answer.status == status, what
        assert answer.headers["content-type"] == "application/json", what
        assert list(answer.json()) == ["error"], what
        error = answer.json()["error"]
        assert list(error) == ["message", "type", "param", "code"], what
        assert (error["type"], error["code"]) == (kind, status), what
        assert error["param"] in params, what
    other = ask(pair.decoder, "POST", COMPLETIONS, good, content_type="text/plain")
    assert (other.status, other.json()["error"]["param"]) == (400, None)
