"""The pairing: a hash of all that a prefiller and a decoder must agree on."""

from typing import Final

from pd_operator.build.hashing import short_hash
from pd_operator.build.parts import Part

_INTERFACE: Final = 1
"""Raised when the operator's own part of the engines' command line becomes incompatible."""


def pairing(part: Part) -> str:
    """8 letters; pods of different pairings must not exchange KV.

    Parallelism is absent (the connector maps ranks of different tensor parallelism), and so is
    all that concerns one pod alone: resources, placement, devices, store sizes, tokens.
    """
    agreed = {name: value for name, value in part.pairing.items() if value}
    return short_hash({"interface": _INTERFACE, **agreed})
