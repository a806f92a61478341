"""Without the Lease nothing is written."""

import pytest

from pd_operator import kinds
from pd_operator.errors import FencedError
from pd_operator.guard import GuardedApi
from pd_operator.metrics import Metrics
from tests.faults.server import Manifest, Server

MANIFEST: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "ns"},
    "status": {},
}


async def test_a_leader_reads_and_writes_and_counts() -> None:
    metrics = Metrics()
    api = GuardedApi(Server(), lambda: True, metrics)
    created = await api.create(MANIFEST)
    assert await api.get(kinds.CONFIG_MAP, "ns", "a") == created
    assert await api.list(kinds.CONFIG_MAP, "ns") == [created]
    await api.apply({**MANIFEST, "data": {"a": "1"}})
    await api.apply_status({**MANIFEST, "status": {"b": "2"}})
    found = await api.get(kinds.CONFIG_MAP, "ns", "a")
    assert found is not None
    await api.replace(found)
    await api.delete(kinds.CONFIG_MAP, "ns", "a", "", "")
    text = metrics.text().decode()
    for verb in ("create", "apply", "apply_status", "replace", "delete"):
        assert f'pd_operator_writes_total{{kind="ConfigMap",verb="{verb}"}} 1.0' in text


async def test_any_other_reads_only() -> None:
    server = Server()
    server.put(MANIFEST)
    api = GuardedApi(server, lambda: False, Metrics())
    assert await api.get(kinds.CONFIG_MAP, "ns", "a")
    assert await api.list(kinds.CONFIG_MAP, "ns")
    for write in (api.create, api.apply, api.apply_status, api.replace):
        with pytest.raises(FencedError):
            await write(MANIFEST)
    with pytest.raises(FencedError):
        await api.delete(kinds.CONFIG_MAP, "ns", "a", "", "")
    assert server.writes == []
