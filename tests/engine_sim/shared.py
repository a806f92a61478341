"""The store between the tiers: what prefillers have saved, and the counters of their saves."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

CHUNK_TOKENS: Final = 256


@dataclass
class SharedStore:
    """Holds whole chunks of prompts. A save is done some time after the prefiller's answer."""

    save_seconds: float = 0.0
    counted: bool = True
    """Whether prefillers tell of their saves, as with MooncakeStoreConnector."""
    saved: set[str] = field(default_factory=set)
    lookups: int = 0
    puts: int = 0

    def save(self, prompt: str, lost: bool = False) -> None:
        """Begin to save a prompt."""
        asyncio.get_running_loop().call_later(self.save_seconds, self._done, prompt, lost)

    def _done(self, prompt: str, lost: bool) -> None:
        self.lookups += 1
        if prompt not in self.saved and not lost:
            self.saved.add(prompt)
            self.puts += 1

    def load(self, prompt: str, tokens: int) -> int:
        """How many of its tokens a decoder gets."""
        return (tokens - 1) // CHUNK_TOKENS * CHUNK_TOKENS if prompt in self.saved else 0

    def metrics(self, label: str) -> list[str]:
        """The samples, with vLLM's names; labelled counters are absent until first raised."""
        return [
            f'vllm:mooncake_store_operation_total{{{label},operation="{name}",status="ok"}} {value}'
            for name, value in (("save_exists", self.lookups), ("save_put", self.puts))
            if self.counted and value
        ]
