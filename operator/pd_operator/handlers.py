"""kopf as the source of wake-ups, and of nothing else.

A handler puts a key on the queue and returns nothing, so kopf writes nothing to the cluster: no
finalizer, no annotation, no status.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import kopf

from pd_operator import kinds
from pd_operator.kinds import Kind
from pd_operator.queue import Key
from pd_shared import labels

_CHILD_DELAY: Final = 0.2
"""Seconds: the events of one's own writes come in a bunch, and one look at them is enough."""
_WATCHED: Final = (*kinds.CHILDREN, kinds.POD)


class Wake:
    """Turns events into keys."""

    def __init__(self, add: Callable[[Key, float], None], beat: Callable[[], None]) -> None:
        self._add = add
        self._beat = beat
        self._seen: dict[Key, tuple[str, int]] = {}

    def deployment(self, event: str | None, metadata: Mapping[str, Any]) -> None:
        """A PDDeployment; `event` is None in the initial listing.

        The same generation again is the operator's own write of the status, or of no interest.
        """
        self._beat()
        key = (metadata["namespace"], metadata["name"])
        version = (metadata["uid"], metadata.get("generation", 0))
        if event == "DELETED":
            self._seen.pop(key, None)
        elif self._seen.get(key) == version:
            return
        else:
            self._seen[key] = version
        self._add(key, 0.0)

    def child(self, metadata: Mapping[str, Any]) -> None:
        """A child or pod of a PDDeployment, by its label; a reconcile checks the owner."""
        self._beat()
        name = (metadata.get("labels") or {}).get(labels.DEPLOYMENT)
        if name:
            self._add((metadata["namespace"], name), _CHILD_DELAY)


def register(
    wake: Wake,
    login: Callable[[], kopf.ConnectionInfo | None],
    cleanup: Callable[[], Awaitable[None]],
) -> kopf.OperatorRegistry:
    """All handlers, each with an id of its own; `cleanup` runs once kopf has stopped watching."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(id="login", registry=registry)
    async def _login(**_: Any) -> kopf.ConnectionInfo | None:
        return login()

    @kopf.on.cleanup(id="cleanup", registry=registry)
    async def _cleanup(**_: Any) -> None:
        await cleanup()

    @kopf.on.event(*_selector(kinds.PD_DEPLOYMENT), id="deployment", registry=registry)
    async def _deployment(type: str | None, meta: Mapping[str, Any], **_: Any) -> None:
        wake.deployment(type, meta)

    async def _child(meta: Mapping[str, Any], **_: Any) -> None:
        wake.child(meta)

    for kind in _WATCHED:
        kopf.on.event(*_selector(kind), id=kind.plural, registry=registry)(_child)
    return registry


def settings() -> kopf.OperatorSettings:
    """How kopf watches."""
    result = kopf.OperatorSettings()
    result.peering.standalone = True
    result.posting.enabled = False
    # Namespaces and CRDs are not watched: that would take rights on both.
    result.scanning.disabled = True
    # The API server refuses a fraction here.
    result.watching.server_timeout = 300
    result.watching.client_timeout = 330.0
    result.watching.connect_timeout = 5.0
    result.watching.chunk_size = 500
    result.networking.request_timeout = 30.0
    result.networking.connect_timeout = 5.0
    result.queueing.idle_timeout = 1.0
    result.process.ultimate_exiting_timeout = 25.0
    for kind in _WATCHED:
        # At the server: without it every pod of the cluster would be held in memory.
        result.watching.label_selectors[_selector(kind)] = labels.DEPLOYMENT
    return result


def _selector(kind: Kind) -> tuple[str, str, str]:
    return (kind.group, kind.version, kind.plural)
