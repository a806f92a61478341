"""What the RDMA preflight of a pod found, read from its termination message. Pure."""

import json
from dataclasses import dataclass
from typing import Final

TCP_FALLBACK: Final = "TCPFallback"
PEER_UNREACHABLE: Final = "PeerUnreachable"
REASONS: Final = frozenset(
    {
        "Passed", "DeviceMissing", "PortDown", "LinkLayerMismatch", "GIDMissing", "MTUTooLow",
        "MemlockTooLow", "PeermemMissing", "PeerUnreachable", "TCPFallback",
    }
)  # fmt: skip
"""All that the preflight says; a pod's own text is never taken as a reason."""

CONTAINER: Final = "rdma-preflight"
"""Name of the init container that runs it."""

_MAX_TEXT: Final = 1000


@dataclass(frozen=True)
class PreflightResult:
    """The preflight's words."""

    ok: bool
    reason: str
    message: str
    hint: str
    devices: tuple[str, ...]

    @property
    def told(self) -> str:
        """The message, and the hint where there is one."""
        return f"{self.message}. {self.hint}" if self.hint else self.message


def parse(text: str) -> PreflightResult | None:
    """The result in a termination message; None for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("ok"), bool):
        return None
    reason = found.get("reason")
    if not isinstance(reason, str) or reason not in REASONS:
        return None
    devices = found.get("devices")
    return PreflightResult(
        ok=found["ok"],
        reason=reason,
        message=_text(found.get("message")),
        hint=_text(found.get("hint")),
        devices=tuple(each[:64] for each in devices[:32] if isinstance(each, str))
        if isinstance(devices, list)
        else (),
    )


def _text(value: object) -> str:
    return value[:_MAX_TEXT] if isinstance(value, str) else ""
