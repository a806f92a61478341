"""A simulated vLLM engine: its HTTP API, the transfers of all connectors, metrics and faults.

It keeps to the protocol, so that what a router does wrong shows: an answer is made from the KV
that was transferred, not from the prompt that came with the request.
"""

from tests.engine_sim.engine import DECODER, PREFILLER, Engine
from tests.engine_sim.faults import Faults
from tests.engine_sim.shared import SharedStore

__all__ = ["DECODER", "PREFILLER", "Engine", "Faults", "SharedStore"]
