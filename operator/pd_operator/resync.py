"""A look at all PDDeployments from time to time: a dropped event is mended by the next one."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from pd_operator.client import Api
from pd_operator.errors import ApiError
from pd_operator.kinds import PD_DEPLOYMENT
from pd_operator.queue import Key

_LOG: Final = logging.getLogger(__name__)
_RANDOM: Final = random.SystemRandom()
_RETRY: Final = 5.0
_SPREAD: Final = 0.1
"""Part of the interval over which the reconciles of one resync are spread."""


async def available(api: Api, namespace: str) -> None:
    """Wait until PDDeployments can be listed: the CRD is there, and the rights to read it."""
    told = ""
    while True:
        try:
            await api.list(PD_DEPLOYMENT, namespace)
        except ApiError as error:
            if str(error) != told:
                told = str(error)
                _LOG.warning("waiting: %s cannot be listed: %s", PD_DEPLOYMENT.plural, told)
            await asyncio.sleep(_RANDOM.uniform(0.5, 1.0) * _RETRY)
        else:
            return


async def once(
    api: Api, namespace: str, spread: float, add: Callable[[Key, float], None]
) -> set[Key]:
    """Queue every PDDeployment within `spread` seconds; returns their keys. Raises ApiError."""
    found = await api.list(PD_DEPLOYMENT, namespace)
    keys = {(m["metadata"]["namespace"], m["metadata"]["name"]) for m in found}
    for key in keys:
        add(key, _RANDOM.uniform(0.0, spread))
    return keys


async def forever(
    api: Api,
    namespace: str,
    interval: float,
    add: Callable[[Key, float], None],
    done: Callable[[], None],
) -> None:
    """Resync about every `interval` seconds, the first time at once; `done` after each."""
    spread = 0.0
    while True:
        try:
            await once(api, namespace, spread, add)
        except ApiError as error:
            _LOG.warning("resync: %s", error)
            await asyncio.sleep(_RANDOM.uniform(0.5, 1.0) * _RETRY)
            continue
        done()
        spread = interval * _SPREAD
        await asyncio.sleep(interval * _RANDOM.uniform(0.85, 1.15))
