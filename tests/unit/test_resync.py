"""A resync of a list of namespaces looks into each of them and nowhere else."""

from typing import Any

import pytest

from pd_operator import resync
from tests.faults.server import Server
from tests.made import raw


@pytest.mark.parametrize(
    ("namespaces", "seen"),
    [((), {"a", "b", "c"}), (("a",), {"a"}), (("a", "c"), {"a", "c"}), (("x",), set())],
)
async def test_only_watched_namespaces_are_queued(
    namespaces: tuple[str, ...], seen: set[str]
) -> None:
    server = Server()
    for namespace in ("a", "b", "c"):
        made: dict[str, Any] = raw()
        made["metadata"]["namespace"] = namespace
        server.put(made)
    queued: list[tuple[str, str]] = []
    found = await resync.once(server, namespaces, 0.0, lambda key, _: queued.append(key))
    assert {namespace for namespace, _ in queued} == seen
    assert set(queued) == found
