"""Workloads with their targets: what the policies are compared on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pd_operator.simulate import traces
from pd_operator.simulate.traces import Trace


@dataclass(frozen=True)
class Scenario:
    """A workload, its targets in seconds, and the split that every policy begins with.

    `ratio` is the prefillers beside a decoder for the policy that keeps a ratio.
    """

    name: str
    trace: Trace
    ttft: float
    tpot: float
    initial: tuple[int, int]
    ratio: float

    @property
    def targets(self) -> tuple[float, float]:
        """TTFT and TPOT."""
        return self.ttft, self.tpot


def _conv(folder: Path, seed: int) -> Scenario:
    trace = traces.mooncake(folder / "mooncake_conversation_trace.jsonl")
    return Scenario("conv", trace, 2.0, 0.05, (5, 2), 4.0)


def _code(folder: Path, seed: int) -> Scenario:
    trace = traces.azure(folder / "AzureLLMInferenceTrace_code.csv", copies=8, seed=seed)
    return Scenario("code", trace, 1.0, 0.05, (5, 1), 6.0)


def _servegen(folder: Path, seed: int) -> Scenario:
    trace = traces.servegen(folder / "servegen_language_m-large_600s.csv", seed=seed)
    return Scenario("sg", trace, 2.0, 0.05, (3, 1), 3.0)


def _sine(folder: Path, seed: int) -> Scenario:
    trace = traces.sine(
        low=1, high=24, period=600, seconds=3600, prompt=4000, output=200, seed=seed
    )
    return Scenario("sine", trace, 3.0, 0.05, (3, 1), 3.0)


SCENARIOS: Final[dict[str, Callable[[Path, int], Scenario]]] = {
    "conv": _conv,
    "code": _code,
    "sg": _servegen,
    "sine": _sine,
}
"""From the folder of the traces and a seed, by name."""
