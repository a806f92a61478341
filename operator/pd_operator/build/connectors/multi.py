"""MultiConnector of MooncakeConnector and MooncakeStoreConnector.

Loads come from the first connector that has the blocks, saves go to all of them.
"""

from typing import Final

from pd_operator.build.connectors import mooncake
from pd_operator.build.connectors.builder import Builder, role
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Tier


def config(tier: Tier) -> Manifest:
    """Prefillers read the store as well: what one has computed, the others need not."""
    store = {
        "kv_connector": "MooncakeStoreConnector",
        "kv_role": "kv_both" if tier.is_prefiller else role(tier),
    }
    return {
        "kv_connector": "MultiConnector",
        "kv_role": role(tier),
        "kv_connector_extra_config": {"connectors": [mooncake.config(tier), store]},
    }


BUILDER: Final = Builder(config, mooncake.part, store_file=True)
