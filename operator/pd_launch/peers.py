"""Whether the other tier's pods can be reached, as far as that shows before engines run.

At the first start there are none, and those that there are may not listen yet: neither is a fault.
A pod that refuses a connection has been reached. Only silence is told: packets that nobody answers.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

CONNECT_SECONDS = 3.0
MAX_ADDRESSES = 16


def silent(peer: str) -> bool:
    """Whether HOST:PORT has addresses and none of them answers in any way."""
    host, _, port = peer.rpartition(":")
    try:
        number = int(port)
        found = socket.getaddrinfo(host.strip("[]"), number, type=socket.SOCK_STREAM)
    except (OSError, ValueError, OverflowError):
        return False  # no pod has been there yet
    addresses = sorted({str(entry[4][0]) for entry in found})[:MAX_ADDRESSES]
    return bool(addresses) and not any(_answers(addresses, number))


def _answers(addresses: Sequence[str], port: int) -> list[bool]:
    with ThreadPoolExecutor(len(addresses)) as pool:
        return list(pool.map(lambda address: _answer(address, port), addresses))


def _answer(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), CONNECT_SECONDS):
            return True
    except ConnectionError:
        return True  # refused or reset: by a host that is there
    except (OSError, OverflowError):
        return False
