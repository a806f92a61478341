"""MooncakeStoreConnector: the prefiller writes KV into Mooncake Store, the decoder reads it."""

from typing import Final

from pd_operator.build.connectors.builder import Builder, role
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Tier


def config(tier: Tier) -> Manifest:
    """All else is in the file of MOONCAKE_CONFIG_PATH."""
    return {"kv_connector": "MooncakeStoreConnector", "kv_role": role(tier)}


BUILDER: Final = Builder(config, store_file=True)
