"""Carries out a plan: applies, then prunes; one failing object does not stop the others."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pd_operator import kinds
from pd_operator.client import Api
from pd_operator.compare import digest
from pd_operator.errors import ApiError, Class, classify
from pd_operator.observe import Child, Manifest, Owner, Ownership, Ref, Snapshot, child
from pd_operator.outcome import Failed, Outcome
from pd_operator.plan import Change, Plan, differs

_LOG: Final = logging.getLogger(__name__)

_CONCURRENT: Final = 8
_PAUSES: Final = (0.1, 0.2, 0.4)
"""Seconds: a RoleBinding right after its Role may be told for a moment that there is no Role."""

_FIRST: Final = frozenset(
    {kinds.SERVICE_ACCOUNT, kinds.CONFIG_MAP, kinds.ROLE, kinds.SERVICE, kinds.DISRUPTION_BUDGET}
)
"""What pods need to be there before they are made."""


@dataclass
class _Progress:
    created: list[Manifest] = field(default_factory=list)
    changed: list[Manifest] = field(default_factory=list)
    deleted: list[Ref] = field(default_factory=list)
    conflicts: list[Ref] = field(default_factory=list)
    waiting: list[Ref] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)

    def outcome(self) -> Outcome:
        return Outcome(
            tuple(self.created),
            tuple(self.changed),
            tuple(self.deleted),
            tuple(self.conflicts),
            tuple(self.waiting),
            tuple(self.failed),
        )


class Memory:
    """What each object was right after it was applied last.

    An object that differs from what was applied and has not changed since would not take it the
    second time either: writing it again and again would help nobody. Empty after a restart.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[str, ...]] = {}

    def useless(self, owner: Owner, change: Change, snapshot: Snapshot) -> bool:
        """Whether applying a change again can have no effect."""
        ref = change.ref
        live = snapshot.children.get((ref.kind.name, ref.name))
        known = self._known.get((owner.namespace, ref.kind.name, ref.name))
        if live is None or known is None:
            return False
        return known == (live.ref.uid, live.ref.resource_version, digest(change.manifest))

    def note(self, owner: Owner, written: Manifest, change: Change) -> None:
        """Remember an object as it came back from being applied."""
        identity = (owner.namespace, change.ref.kind.name, change.ref.name)
        if not differs(written, change.manifest):
            self._known.pop(identity, None)
            return
        if identity not in self._known:
            _LOG.warning("%s/%s does not stay as it was applied", owner.namespace, change.ref)
        metadata = written["metadata"]
        self._known[identity] = (
            metadata["uid"],
            metadata["resourceVersion"],
            digest(change.manifest),
        )


async def carry_out(api: Api, owner: Owner, plan: Plan, memory: Memory | None = None) -> Outcome:
    """Write a plan's changes; errors of single objects are in the outcome, never raised."""
    progress = _Progress(conflicts=list(plan.conflicts), waiting=list(plan.waiting))
    limit = asyncio.Semaphore(_CONCURRENT)
    # All look-ups come first and at once: most of the time of a creation is waiting for answers.
    fresh = await _unheld(api, owner, plan.apply, progress, limit)
    early = [change for change in fresh if change.ref.kind in _FIRST]
    late = [change for change in fresh if change.ref.kind not in _FIRST]
    for stage in (early, late):
        await asyncio.gather(*(_apply(api, change, progress, limit) for change in stage))
    if memory is not None:
        _remember(memory, owner, plan, progress)
    await asyncio.gather(*(_delete(api, owner, ref, progress, limit) for ref in plan.delete))
    return progress.outcome()


def _remember(memory: Memory, owner: Owner, plan: Plan, progress: _Progress) -> None:
    written = {
        (m["kind"], m["metadata"]["name"]): m for m in (*progress.created, *progress.changed)
    }
    for change in plan.apply:
        found = written.get((change.ref.kind.name, change.ref.name))
        if found is not None:
            memory.note(owner, found, change)


async def _unheld(
    api: Api,
    owner: Owner,
    changes: Iterable[Change],
    progress: _Progress,
    limit: asyncio.Semaphore,
) -> list[Change]:
    """The changes whose names are free or ours."""

    async def look(change: Change) -> Change | None:
        if change.uid:
            return change
        ref = change.ref
        try:
            async with limit:
                found = await api.get(ref.kind, owner.namespace, ref.name)
        except ApiError as error:
            progress.failed.append(Failed(ref, error))
            return None
        return change if found is None else _held(change, child(ref.kind, found, owner), progress)

    looked = await asyncio.gather(*(look(change) for change in changes))
    return [change for change in looked if change is not None]


def _held(change: Change, holder: Child, progress: _Progress) -> Change | None:
    if holder.ownership is Ownership.FOREIGN:
        progress.conflicts.append(holder.ref)
        return None
    if holder.deleting or holder.ownership is Ownership.PREVIOUS:
        progress.waiting.append(holder.ref)
        return None
    # It is ours and was not listed: its label was taken off, or the list was older than it.
    if differs(holder.manifest, change.manifest):
        return Change(change.manifest, holder.ref.uid)
    return None


async def _apply(api: Api, change: Change, progress: _Progress, limit: asyncio.Semaphore) -> None:
    manifest = change.manifest
    if change.uid:
        # With the uid an object that is gone meanwhile is not brought back by an old plan.
        manifest = {**manifest, "metadata": {**manifest["metadata"], "uid": change.uid}}
    pauses = iter(_PAUSES)
    while True:
        try:
            async with limit:
                written = await api.apply(manifest)
        except ApiError as error:
            again = error.status == 404 or (error.status == 409 and not change.uid)
            pause = next(pauses, None)
            if not again or pause is None or classify(error) is Class.ENDING:
                progress.failed.append(Failed(change.ref, error))
                return
            await asyncio.sleep(pause)
        else:
            (progress.changed if change.uid else progress.created).append(written)
            return


async def _delete(
    api: Api, owner: Owner, ref: Ref, progress: _Progress, limit: asyncio.Semaphore
) -> None:
    try:
        async with limit:
            await api.delete(ref.kind, owner.namespace, ref.name, ref.uid, ref.resource_version)
    except ApiError as error:
        progress.failed.append(Failed(ref, error))
    else:
        progress.deleted.append(ref)
