"""`args` of the engine and of the tiers: flags that must not be there, in all their spellings.

How vLLM's parser reads them: `pd_operator.checks.flags`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.engine import AGREED_FLAGS, OWNED_FLAGS
from pd_operator.checks.flags import flag_name, sets
from pd_operator.checks.problem import Problem

_REASON: Final = "ArgumentNotAllowed"
_SET: Final = "the operator sets it"
_PARALLELISM: Final = "the operator sets it from parallelism"
_BALANCED: Final = (
    "the proxy balances between replicas, and the leader of one between its ranks; see"
    " docs/parallelism.md"
)
_NO_CONTEXT: Final = "the connector moves no KV that is split over the context"
_EXPERT: Final = "the operator sets it from parallelism.expert"
_OTHER_SERVER: Final = "the proxy talks HTTP to the engine's port"
_NO_SERVER: Final = "the engine would print text and end"
_AGREED: Final = "both tiers must agree on it; set it in spec.engine.args"

_REFUSED: Final = {
    **dict.fromkeys(OWNED_FLAGS, _SET),
    "--all2all-backend": _EXPERT,
    "--config": "it sets flags that cannot be checked; write them into args",
    "--data-parallel": _PARALLELISM,
    "--data-parallel-external-lb": _BALANCED,
    "--data-parallel-hybrid-lb": _BALANCED,
    "--data-parallel-multi-port-external-lb": _BALANCED,
    "--dbo-decode-token-threshold": _EXPERT,
    "--dbo-prefill-token-threshold": _EXPERT,
    "--disable-log-stats": "the proof that KV moved is read from the engine's metrics",
    "--enable-dbo": _EXPERT,
    "--enable-eplb": _EXPERT,
    "--enable-expert-parallel": _EXPERT,
    "--eplb-config": _EXPERT,
    "--grpc": _OTHER_SERVER,
    "--help": _NO_SERVER,
    "--kv-offloading-backend": "it replaces the connector between prefiller and decoder",
    "--kv-offloading-size": "it replaces the connector between prefiller and decoder",
    "--master-addr": _PARALLELISM,
    "--master-port": _PARALLELISM,
    "--nnodes": _PARALLELISM,
    "--node-rank": _PARALLELISM,
    "--prefill-context-parallel-size": _NO_CONTEXT,
    "--uds": _OTHER_SERVER,
    "--version": _NO_SERVER,
    "-ep": _EXPERT,
    "-h": _NO_SERVER,
    "-n": _PARALLELISM,
    "-pcp": _NO_CONTEXT,
    "-r": _PARALLELISM,
    "-v": _NO_SERVER,
}
_FAMILIES: Final = ("--data-parallel", "-dp")
"""Flags whose longer forms are refused as well."""

_VALUE_BESIDE: Final = re.compile(r"(-[nr])[0-9]+")


def argument_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Arguments that the operator owns, and words that are no flag's value."""
    spec = deployment.spec
    yield from _list("spec.engine.args", spec.engine.args, tier=False)
    yield from _list("spec.prefill.args", spec.prefill.args, tier=True)
    yield from _list("spec.decode.args", spec.decode.args, tier=True)


def _list(path: str, arguments: Iterable[str], *, tier: bool) -> Iterator[Problem]:
    may_be_value = False
    for index, argument in enumerate(arguments):
        field = f"{path}[{index}]"
        name = flag_name(argument)
        if name:
            may_be_value = "=" not in argument
            message = _flag_message(name, argument, tier=tier)
        elif argument == "--" or not (argument.startswith("-") or may_be_value):
            message = (
                f"must not be {argument!r}, a word without a flag: spec.model says what is served"
            )
        else:
            message = None
        if message:
            yield Problem(_REASON, field, f"{field} {message}")


def _flag_message(name: str, argument: str, *, tier: bool) -> str | None:
    # What switches a flag off sets it too.
    for flag in (name, name.replace("--no-", "--", 1)):
        refused = _refused(flag) or (_agreed(flag) if tier else None)
        if refused:
            return f"must not set {refused[0]}: {refused[1]}"
    if argument[len(name) :][:1].isspace():
        return f"must be one word: write {name}=VALUE, or the value as the next element"
    return None


def _agreed(name: str) -> tuple[str, str] | None:
    for flag in AGREED_FLAGS:
        if sets(name, flag):
            return flag, _AGREED
    return None


def _refused(name: str) -> tuple[str, str] | None:
    beside = _VALUE_BESIDE.fullmatch(name)
    if beside:
        name = beside[1]
    for refused, why in _REFUSED.items():
        if refused.startswith(name) and (name.startswith("--") == refused.startswith("--")):
            return refused, why
    for family in _FAMILIES:
        if name.startswith(family):
            return name, _PARALLELISM
    return None
