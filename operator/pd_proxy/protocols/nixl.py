"""vLLM's NixlConnector: the prefiller's answer says where the decoder finds the KV."""

from typing import Any, Final

import orjson

from pd_proxy.backends import Backend
from pd_proxy.body import Completion
from pd_proxy.protocols import base
from pd_proxy.protocols.base import Bodies, FlawError, KvProtocol

_ASK: Final[dict[str, Any]] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


class Nixl(KvProtocol):
    """First the prefill, then the decode with the `kv_transfer_params` of the prefill's answer.

    The prefiller keeps the blocks until the decoder has fetched them or their lease ends
    (vLLM's `kv_lease_duration`).
    """

    def obstacle(self, body: Completion) -> str | None:
        """See KvProtocol. The first sequence that fetches the blocks frees them."""
        return base.obstacle_to_transfer(body)

    def bodies(self, body: Completion, prefiller: Backend) -> Bodies:
        """See KvProtocol."""
        return Bodies(base.prefill_body(body, _ASK), b"", None)

    def decode(self, body: Completion, answer: bytes) -> bytes:
        """See KvProtocol."""
        return body.with_params(_params(answer))

    def held(self, bodies: Bodies, answer: bytes) -> bytes | None:
        """See KvProtocol."""
        try:
            return _params(answer)
        except FlawError:
            return None


def _params(answer: bytes) -> bytes:
    """What a prefiller's answer tells the decoder; FlawError where there is nothing."""
    try:
        params = orjson.loads(answer).get("kv_transfer_params")
    except (ValueError, AttributeError):
        raise FlawError("prefill_invalid") from None
    # Absent where the prefiller keeps nothing: the answer ended otherwise than by its length.
    if not isinstance(params, dict) or params.get("do_remote_prefill") is not True:
        raise FlawError(base.NOT_HELD)
    return orjson.dumps(params)
