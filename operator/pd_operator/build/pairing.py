"""The pairing: a hash of all that a prefiller and a decoder must agree on."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.build.engine import model_argument
from pd_operator.build.hashing import short_hash

_INTERFACE: Final = 1
"""Raised when the operator's own part of the engines' command line becomes incompatible."""


def pairing(deployment: PDDeployment) -> str:
    """8 hex digits; pods of different pairings must not exchange KV.

    Parallelism is absent (the connector maps ranks of different tensor parallelism), and so is
    all that concerns one pod alone: resources, placement, devices, store sizes, tokens.
    """
    spec = deployment.spec
    source = spec.model.source
    return short_hash(
        {
            "interface": _INTERFACE,
            "image": spec.engine.image,
            "version": spec.engine.version,
            "device": spec.engine.device.value,
            "args": list(spec.engine.args),
            "model": model_argument(spec.model),
            "servedName": spec.model.served_name or spec.model.id,
            "revision": source.hugging_face.revision if source.hugging_face else None,
            "claim": source.pvc.claim_name if source.pvc else None,
            "connector": spec.kv_transfer.connector.value,
            "protocol": spec.kv_transfer.protocol.value,
            "store": spec.mooncake.store.enabled,
        }
    )
