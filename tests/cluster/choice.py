"""Which cluster the environment asks for."""

import os
from collections.abc import Mapping
from enum import StrEnum

from tools.stages import UserError


class Kind(StrEnum):
    """The ways to have a cluster."""

    LOCAL = "local"
    KIND = "kind"
    EXISTING = "existing"


def chosen(environment: Mapping[str, str] = os.environ) -> Kind:
    """What CLUSTER names; UserError where it is none of the known."""
    name = environment.get("CLUSTER") or Kind.LOCAL
    try:
        return Kind(name)
    except ValueError:
        known = ", ".join(Kind)
        raise UserError(f"CLUSTER={name} is not known; it is one of: {known}") from None
