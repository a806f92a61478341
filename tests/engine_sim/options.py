"""vLLM's command line and environment, as far as a simulated engine follows them. Pure.

How fast it is comes from the environment: SIM_PREFILL (seconds: "base,per token,per token²") and
SIM_DECODE ("step,per running sequence").
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pd_shared import labels, ports
from tests.engine_sim.pace import Pace

_CONNECTORS: Final = {
    "MooncakeConnector": labels.MOONCAKE_CONNECTOR,
    "NixlConnector": labels.NIXL,
    "MooncakeStoreConnector": labels.MOONCAKE_STORE,
    "LMCacheConnectorV1": labels.LMCACHE,
    "LMCacheMPConnector": labels.LMCACHE_MP,
    "MultiConnector": labels.MULTI,
}
_FLAGS: Final = frozenset(
    {"--enforce-eager", "--headless", "--trust-remote-code", "--data-parallel-external-lb",
     "--data-parallel-hybrid-lb", "--enable-expert-parallel", "-ep", "--disable-log-stats"}
)  # fmt: skip
_SHORT: Final = {"-tp": "--tensor-parallel-size", "-dp": "--data-parallel-size"}
_BYTES_PER_TOKEN: Final = 1024
"""Of the tiny model: --kv-cache-memory-bytes 64M is 65,536 tokens."""
_UNITS: Final = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class OptionError(Exception):
    """What is wrong with the command line, in a sentence."""


@dataclass(frozen=True)
class Options:
    """What an engine is told."""

    model: str
    served: tuple[str, ...]
    host: str
    port: int
    connector: str
    produces: bool
    """Whether it is a prefiller."""
    recompute: bool
    max_model_len: int
    max_num_seqs: int
    kv_tokens: int
    ranks: int
    shutdown_seconds: float
    api_key: str
    headless: bool
    advertised: str
    bootstrap_port: int
    side_channel_port: int
    abort_seconds: float
    pace: Pace


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Read `serve MODEL …`; OptionError where it cannot be followed."""
    model, found = _split(arguments)
    transfer = _transfer(found.get("--kv-transfer-config", ["{}"])[-1])
    name = transfer.get("kv_connector")
    role = transfer.get("kv_role")
    if name is not None and name not in _CONNECTORS:
        raise OptionError(f"no connector is named {name!r}")
    if name is not None and role not in ("kv_producer", "kv_consumer", "kv_both"):
        raise OptionError("kv_role is missing, or is none of kv_producer, kv_consumer, kv_both")

    def one(key: str, default: str) -> str:
        return found.get(key, [default])[-1]

    local = one("--data-parallel-size-local", one("--data-parallel-size", "1"))
    return Options(
        model=model,
        served=tuple(found.get("--served-model-name", [model])),
        host=one("--host", "0.0.0.0"),
        port=_number(one("--port", str(ports.HTTP))),
        connector=_CONNECTORS[name] if name else labels.COLOCATED,
        produces=role == "kv_producer",
        recompute=transfer.get("kv_load_failure_policy", "fail") == "recompute",
        max_model_len=_number(one("--max-model-len", "32768")),
        max_num_seqs=_number(one("--max-num-seqs", "256")),
        kv_tokens=max(1, _bytes(one("--kv-cache-memory-bytes", "1G")) // _BYTES_PER_TOKEN),
        ranks=_number(local),
        shutdown_seconds=float(one("--shutdown-timeout", "0")),
        api_key=one("--api-key", environment.get("VLLM_API_KEY", "")),
        headless="--headless" in found,
        advertised=environment.get("VLLM_HOST_IP", "127.0.0.1"),
        bootstrap_port=_number(
            environment.get("VLLM_MOONCAKE_BOOTSTRAP_PORT", str(ports.BOOTSTRAP))
        ),
        side_channel_port=_number(environment.get("VLLM_NIXL_SIDE_CHANNEL_PORT", str(ports.NIXL)))
        if name == "NixlConnector"
        else 0,
        abort_seconds=_abort_seconds(name, transfer, environment),
        pace=_pace(environment),
    )


def _split(arguments: Sequence[str]) -> tuple[str, dict[str, list[str]]]:
    """The model, and each option's values. An option that is not known may have one value."""
    rest = list(arguments[1:]) if arguments[:1] == ["serve"] else list(arguments)
    model = ""
    found: dict[str, list[str]] = {}
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            model = model or word
            continue
        key, mark, value = word.partition("=")
        key = _SHORT.get(key, key).replace("_", "-")
        if mark:
            found[key] = [value]
        elif key in _FLAGS:
            found[key] = []
        else:
            values = found[key] = []
            while rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
                if key != "--served-model-name":
                    break
    model = model or (found.get("--model") or [""])[0]
    if not model:
        raise OptionError("no model: serve MODEL …")
    return model, found


def _transfer(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as wrong:
        raise OptionError(f"--kv-transfer-config is no JSON: {wrong}") from None
    if not isinstance(value, dict):
        raise OptionError("--kv-transfer-config is no JSON object")
    return value


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{text!r} is no number") from None


def _bytes(text: str) -> int:
    try:
        return int(float(text[:-1]) * _UNITS[text[-1]]) if text[-1:] in _UNITS else int(text)
    except ValueError:
        raise OptionError(f"{text!r} is no size") from None


def _abort_seconds(
    name: str | None, transfer: dict[str, Any], environment: Mapping[str, str]
) -> float:
    if name == "NixlConnector":
        return float((transfer.get("kv_connector_extra_config") or {}).get("kv_lease_duration", 30))
    return float(environment.get("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "480"))


def _pace(environment: Mapping[str, str]) -> Pace:
    def numbers(name: str, most: int) -> list[float]:
        text = environment.get(name, "")
        try:
            values = [float(part) for part in text.split(",")] if text else []
        except ValueError:
            raise OptionError(f"{name}={text!r}: numbers with commas between them") from None
        if len(values) > most or any(value < 0 for value in values):
            raise OptionError(f"{name}={text!r}: at most {most} numbers, none below 0")
        return [*values, *[0.0] * (most - len(values))]

    base, per_token, per_square = numbers("SIM_PREFILL", 3)
    step, per_sequence = numbers("SIM_DECODE", 2)
    return Pace(base, per_token, per_square, step, per_sequence)
