"""No connector: each decoder is a whole engine."""

from typing import ClassVar

from pd_proxy.backends import Backend
from pd_proxy.body import Completion
from pd_proxy.protocols.base import Bodies, KvProtocol


class Colocated(KvProtocol):
    """A request goes to a decoder as the client wrote it; there is nothing to fall back from."""

    pairs: ClassVar[bool] = False

    def obstacle(self, body: Completion) -> str | None:
        """See KvProtocol: a whole engine answers all that its API has."""
        return None

    def bodies(self, body: Completion, prefiller: Backend) -> Bodies:
        """Never asked for: there are no pairs."""
        raise NotImplementedError
