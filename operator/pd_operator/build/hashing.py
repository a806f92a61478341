"""Short stable hashes of JSON values, for revisions, pairings and configuration."""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON that is equal for equal values: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(value: Any) -> str:
    """8 hex digits that stand for a JSON value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:8]
