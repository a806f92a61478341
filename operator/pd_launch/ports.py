"""TCP ports, repeated from pd_shared, which is not in the engine's image."""

from __future__ import annotations

HTTP = 8000
GROUP = 8996
GROUP_HEALTH = 8997
