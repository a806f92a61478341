"""Kubernetes' own rule for keys of labels, taints and resources."""

import re
from typing import Final

_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_qualified_name(text: str) -> bool:
    """Whether `text` is `name` or `domain/name`: 63 and 253 characters at most."""
    domain, slash, name = text.rpartition("/")
    if slash and not (len(domain) <= 253 and _DOMAIN.fullmatch(domain)):
        return False
    return len(name) <= 63 and _PART.fullmatch(name) is not None
