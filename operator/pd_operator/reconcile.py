"""One reconcile of one PDDeployment, start to end.

It starts from what the API server says now and remembers nothing: whatever was cut off before,
the next one goes on from what it finds.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from pd_operator import events, kinds, presets
from pd_operator.adopt import adopt
from pd_operator.api.deployment import InvalidSpecError, PDDeployment, parse
from pd_operator.apply import Memory, carry_out
from pd_operator.build import Defaults, desired, url
from pd_operator.client import Api
from pd_operator.errors import ApiError, Class, FencedError, classify
from pd_operator.kinds import Kind
from pd_operator.metrics import Metrics, Result
from pd_operator.observe import Manifest, Owner, Snapshot, observe, selector
from pd_operator.outcome import Outcome
from pd_operator.plan import plan
from pd_operator.queue import Again, Key
from pd_operator.replicas import replicas
from pd_operator.status import compose, notices
from pd_operator.status.facts import Facts
from pd_operator.traffic import Scaler
from pd_operator.validate import problems

_LOG: Final = logging.getLogger(__name__)

_GONE_SOON: Final = 1.0
"""Seconds until the holder of a needed name is looked at again."""
_COMPLAINT: Final = 5.0
"""Seconds: why a StatefulSet cannot make pods is told in Events, which are not watched."""
_PRESETS: Final = 15.0
"""Seconds, at most, until the ConfigMaps of presets are read again."""
_REFUSED: Final = 30.0
"""Seconds, at least, until something that the API server refused is tried again."""


@dataclass(frozen=True)
class _Listed:
    """Raw objects of one PDDeployment."""

    children: Mapping[Kind, list[Manifest]]
    pods: list[Manifest]
    complaints: list[Manifest]

    def snapshot(self, owner: Owner) -> Snapshot:
        return observe(owner, self.children, self.pods, self.complaints)

    def after(self, owner: Owner, outcome: Outcome) -> Snapshot:
        """The snapshot with what was written just now, so that no second look is needed."""
        gone = {(ref.kind.name, ref.name) for ref in outcome.deleted}
        children: dict[Kind, list[Manifest]] = {}
        for kind, manifests in self.children.items():
            objects = {m["metadata"]["name"]: m for m in manifests}
            written = (*outcome.created, *outcome.changed)
            objects |= {m["metadata"]["name"]: m for m in written if m["kind"] == kind.name}
            children[kind] = [m for name, m in objects.items() if (kind.name, name) not in gone]
        return observe(owner, children, self.pods, self.complaints)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Reconciler:
    """Reconciles PDDeployments by key; `instance` names this process in Events."""

    def __init__(
        self,
        api: Api,
        defaults: Defaults,
        scaler: Scaler,
        metrics: Metrics,
        *,
        instance: str = "pd-operator",
        now: Callable[[], str] = _now,
    ) -> None:
        self._api = api
        self._defaults = defaults
        self._scaler = scaler
        self._metrics = metrics
        self._instance = instance
        self._now = now
        self._memory = Memory()

    async def __call__(self, key: Key) -> Again:
        """One reconcile; never raises for what the API server says."""
        started = time.monotonic()
        result = Result.ERROR
        try:
            result, again = await self._reconcile(*key)
        except FencedError:
            _LOG.warning("%s/%s: stopped, leadership is in doubt", *key)
            result, again = Result.FENCED, Again()
        except ApiError as error:
            result, again = _failure(key, error)
        finally:
            self._metrics.reconciled(result, time.monotonic() - started)
        return again

    async def _reconcile(self, namespace: str, name: str) -> tuple[Result, Again]:
        raw, listed = await asyncio.gather(
            self._api.get(kinds.PD_DEPLOYMENT, namespace, name), self._list(namespace, name)
        )
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            # Its children go by their owner references; a write now could only bring one back.
            self._scaler.forget(namespace, name)
            return Result.GONE, Again()
        owner = Owner(namespace, name, raw["metadata"]["uid"])
        if not presets.listed(raw.get("spec")):
            return await self._checked(owner, raw, raw, listed)
        # ConfigMaps of presets are not watched: a change is seen at the next look.
        try:
            merged = presets.merge(raw["spec"], await self._presets(namespace, raw["spec"]))
        except presets.PresetError as error:
            result, _ = await self._invalid(owner, raw, error.reason, str(error))
            return result, Again(after=_PRESETS)
        with_presets = {**raw, "spec": merged.spec}
        result, again = await self._checked(owner, raw, with_presets, listed, merged.hash)
        return result, _soon(again, _PRESETS) if merged.live else again

    async def _presets(self, namespace: str, spec: Manifest) -> dict[str, str]:
        names = presets.outside(spec)
        found = await asyncio.gather(
            *(self._api.get(kinds.CONFIG_MAP, namespace, name) for name in names)
        )
        texts = {
            name: presets.of_config_map(manifest)
            for name, manifest in zip(names, found, strict=True)
            if manifest is not None
        }
        return {name: text for name, text in texts.items() if text is not None}

    async def _checked(
        self, owner: Owner, raw: Manifest, whole: Manifest, listed: _Listed, spec_hash: str = ""
    ) -> tuple[Result, Again]:
        """With `whole`, the object `raw` with its presets laid under its spec."""
        try:
            deployment = parse(whole)
        except InvalidSpecError as error:
            return await self._invalid(owner, raw, "InvalidSpec", str(error))
        found = problems(deployment)
        if found:
            text = "; ".join(f"{problem.field}: {problem.message}" for problem in found)
            return await self._invalid(owner, raw, found[0].reason, text)
        return await self._valid(owner, raw, deployment, listed, spec_hash)

    async def _valid(
        self,
        owner: Owner,
        raw: Manifest,
        deployment: PDDeployment,
        listed: _Listed,
        spec_hash: str,
    ) -> tuple[Result, Again]:
        before = listed.snapshot(owner)
        wanted = adopt(before, desired(deployment, self._defaults))
        outlook = await self._scaler.look(deployment, before)
        numbers = replicas(deployment, wanted, before, outlook)
        planned = plan(before, wanted, numbers)
        useful = [c for c in planned.apply if not self._memory.useless(owner, c, before)]
        planned = replace(planned, apply=tuple(useful))
        outcome = await carry_out(self._api, owner, planned, self._memory)
        _log(owner, outcome)
        facts = Facts(
            deployment=deployment,
            desired=wanted,
            snapshot=listed.after(owner, outcome),
            replicas=numbers,
            outcome=outcome,
            outlook=outlook,
            url=url(deployment, self._defaults),
            spec_hash=spec_hash,
        )
        await self._publish(
            owner, raw, compose.status(facts, self._now()), notices.writes(facts, before)
        )
        return _next(outcome, facts.snapshot)

    async def _invalid(
        self, owner: Owner, raw: Manifest, reason: str, message: str
    ) -> tuple[Result, Again]:
        generation = raw["metadata"].get("generation", 0)
        status = compose.invalid_status(
            raw.get("status") or {}, generation, reason, message, self._now()
        )
        await self._publish(owner, raw, status, ())
        return Result.INVALID, Again()

    async def _publish(
        self, owner: Owner, raw: Manifest, status: Manifest, told: Iterable[notices.Notice]
    ) -> None:
        before = raw.get("status") or {}
        # Events first: cut off in between, the next reconcile tells the same and no one twice.
        news = (*told, *notices.transitions(before, status))
        await events.post(self._api, owner, news, self._instance)
        if compose.changed(before, status):
            kind = kinds.PD_DEPLOYMENT
            await self._api.apply_status(
                compose.patch(raw["metadata"], kind.api_version, kind.name, status)
            )

    async def _list(self, namespace: str, name: str) -> _Listed:
        labels = selector(name)
        *children, pods = await asyncio.gather(
            *(self._api.list(kind, namespace, labels) for kind in (*kinds.CHILDREN, kinds.POD))
        )
        by_kind = dict(zip(kinds.CHILDREN, children, strict=True))
        return _Listed(by_kind, pods, await self._complaints(namespace, by_kind))

    async def _complaints(
        self, namespace: str, children: Mapping[Kind, list[Manifest]]
    ) -> list[Manifest]:
        # A StatefulSet tells in Events only why it cannot make pods (quota, Pod Security).
        if not any(_lacks_pods(m) for m in children[kinds.STATEFUL_SET]):
            return []
        fields = "involvedObject.kind=StatefulSet,reason=FailedCreate"
        try:
            return await self._api.list(kinds.EVENT, namespace, fields=fields)
        except ApiError as error:
            if classify(error) is not Class.REFUSED:
                raise
            _LOG.debug("%s: cannot read Events: %s", namespace, error)
            return []


def _lacks_pods(stateful_set: Mapping[str, Any]) -> bool:
    wanted: int = stateful_set.get("spec", {}).get("replicas", 1)
    there: int = stateful_set.get("status", {}).get("replicas", 0)
    return there < wanted


def _log(owner: Owner, outcome: Outcome) -> None:
    for word, things in (
        ("created", [f"{m['kind']} {m['metadata']['name']}" for m in outcome.created]),
        ("changed", [f"{m['kind']} {m['metadata']['name']}" for m in outcome.changed]),
        ("deleted", [str(ref) for ref in outcome.deleted]),
        ("failed", [f"{failed.ref}: {failed.error}" for failed in outcome.failed]),
        ("not ours", [str(ref) for ref in outcome.conflicts]),
    ):
        if things:
            _LOG.info("%s/%s: %s %s", owner.namespace, owner.name, word, ", ".join(things))


def _next(outcome: Outcome, snapshot: Snapshot) -> tuple[Result, Again]:
    classes = {failed.kind for failed in outcome.failed}
    if classes & {Class.TRANSIENT, Class.CONFLICT}:
        waits = [failed.error.retry_after or 0.0 for failed in outcome.failed]
        return Result.ERROR, Again(after=max(waits), failed=True)
    if Class.REFUSED in classes or outcome.conflicts:
        return Result.REFUSED, Again(after=_REFUSED, failed=True)
    if Class.ENDING in classes:
        return Result.GONE, Again()
    if outcome.waiting:
        return Result.OK, Again(after=_GONE_SOON)
    lacking = any(s.pods < s.replicas for s in snapshot.stateful_sets)
    return Result.OK, Again(after=_COMPLAINT if lacking else None)


def _soon(again: Again, limit: float) -> Again:
    after = limit if again.after is None else min(again.after, limit)
    return again if again.failed else replace(again, after=after)


def _failure(key: Key, error: ApiError) -> tuple[Result, Again]:
    kind = classify(error)
    if kind is Class.ENDING or (error.status == 404):
        return Result.GONE, Again()
    if kind is not Class.CONFLICT:
        _LOG.warning("%s/%s: %s", *key, error)
    after = _REFUSED if kind is Class.REFUSED else error.retry_after
    return Result.ERROR, Again(after=after, failed=True)
