"""How the tier takes part in the KV transfer: vLLM's `--kv-transfer-config` and its environment."""

from dataclasses import replace

from pd_operator.build.connectors import BUILDERS
from pd_operator.build.hashing import canonical_json
from pd_operator.build.parts.part import Part, Tier
from pd_shared import labels


def part(tier: Tier) -> Part:
    """The connector; in mode Colocated that there is none."""
    if tier.colocated:
        return Part(
            annotations={labels.CONNECTOR: labels.COLOCATED},
            # Another pairing than that of any prefiller: the two must never meet.
            pairing={"connector": labels.COLOCATED},
        )
    spec = tier.deployment.spec
    found = BUILDERS[spec.connector].part(tier)
    return replace(
        found,
        args=(f"--kv-transfer-config={kv_transfer_config(tier)}", *found.args),
        annotations={labels.CONNECTOR: spec.connector.value, **found.annotations},
        pairing={
            "connector": spec.kv_transfer.connector.value,
            "protocol": spec.kv_transfer.protocol.value,
            **found.pairing,
        },
    )


def kv_transfer_config(tier: Tier) -> str:
    """The JSON text.

    Unless asked otherwise, KV that cannot be loaded is recomputed: the answer is right, only late,
    and the proxy's counters tell of it.
    """
    spec = tier.deployment.spec
    config = BUILDERS[spec.connector].config(tier)
    policy = spec.kv_transfer.load_failure_policy.value.lower()
    return canonical_json({**config, "kv_load_failure_policy": policy})
