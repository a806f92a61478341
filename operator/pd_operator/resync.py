"""A look at all PDDeployments from time to time: a dropped event is mended by the next one."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from typing import Final

from pd_operator.client import Api, Manifest
from pd_operator.errors import ApiError
from pd_operator.kinds import PD_DEPLOYMENT
from pd_operator.queue import Key

_LOG: Final = logging.getLogger(__name__)
_RANDOM: Final = random.SystemRandom()
_RETRY: Final = 5.0
_SPREAD: Final = 0.1
"""Part of the interval over which the reconciles of one resync are spread."""


async def listed(api: Api, namespaces: Collection[str]) -> list[Manifest]:
    """All PDDeployments of these namespaces, of all where none is named. Raises ApiError."""
    found: list[Manifest] = []
    for namespace in namespaces or ("",):
        found += await api.list(PD_DEPLOYMENT, namespace)
    return found


async def available(api: Api, namespaces: Collection[str]) -> None:
    """Wait until PDDeployments can be listed: the CRD is there, and the rights to read it."""
    told = ""
    while True:
        try:
            await listed(api, namespaces)
        except ApiError as error:
            if str(error) != told:
                told = str(error)
                _LOG.warning("waiting: %s cannot be listed: %s", PD_DEPLOYMENT.plural, told)
            await asyncio.sleep(_RANDOM.uniform(0.5, 1.0) * _RETRY)
        else:
            return


async def once(
    api: Api, namespaces: Collection[str], spread: float, add: Callable[[Key, float], None]
) -> set[Key]:
    """Queue every PDDeployment within `spread` seconds; returns their keys. Raises ApiError."""
    found = await listed(api, namespaces)
    keys = {(m["metadata"]["namespace"], m["metadata"]["name"]) for m in found}
    for key in keys:
        add(key, _RANDOM.uniform(0.0, spread))
    return keys


async def forever(
    api: Api,
    namespaces: Collection[str],
    interval: float,
    add: Callable[[Key, float], None],
    done: Callable[[], None],
) -> None:
    """Resync about every `interval` seconds, the first time at once; `done` after each."""
    spread = 0.0
    while True:
        try:
            await once(api, namespaces, spread, add)
        except ApiError as error:
            _LOG.warning("resync: %s", error)
            await asyncio.sleep(_RANDOM.uniform(0.5, 1.0) * _RETRY)
            continue
        done()
        spread = interval * _SPREAD
        await asyncio.sleep(interval * _RANDOM.uniform(0.85, 1.15))
