"""A simulated engine's metrics, with vLLM's names, labels and buckets."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

SOURCES: Final = ("local_compute", "local_cache_hit", "external_kv_transfer")
REASONS: Final = ("stop", "length", "abort", "error", "repetition")

_LATENCY: Final = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
                   120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0)  # fmt: skip
_TTFT: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
                7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)  # fmt: skip
_ITL: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5,
               10.0, 20.0, 40.0, 80.0)  # fmt: skip
_HISTOGRAMS: Final = {
    "time_to_first_token_seconds": _TTFT,
    "inter_token_latency_seconds": _ITL,
    "request_time_per_output_token_seconds": _ITL,
    **dict.fromkeys(
        (
            "e2e_request_latency_seconds",
            "request_queue_time_seconds",
            "request_prefill_time_seconds",
            "request_decode_time_seconds",
            "request_inference_time_seconds",
        ),
        _LATENCY,
    ),
}
_TOKENS: Final = ("request_prompt_tokens", "request_generation_tokens", "request_params_max_tokens")


class Histogram:
    def __init__(self, buckets: tuple[float, ...]) -> None:
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.buckets, value)] += 1
        self.sum += value

    def lines(self, name: str, label: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(float, self.buckets), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{label},le="{bound}"}} {float(total)}'
        yield f"{name}_count{{{label}}} {float(total)}"
        yield f"{name}_sum{{{label}}} {self.sum}"


def _token_buckets(most: int) -> tuple[float, ...]:
    found: list[float] = []
    scale = 1
    while True:
        for mantissa in (1, 2, 5):
            if mantissa * scale > most:
                return tuple(found)
            found.append(float(mantissa * scale))
        scale *= 10


class Counts:
    """All that is counted in the life of one engine process."""

    def __init__(self, max_model_len: int) -> None:
        self.sources = dict.fromkeys(SOURCES, 0)
        self.finished = dict.fromkeys(REASONS, 0)
        self.generated = 0
        self.histograms = {name: Histogram(buckets) for name, buckets in _HISTOGRAMS.items()}
        buckets = _token_buckets(max_model_len)
        self.histograms |= {name: Histogram(buckets) for name in _TOKENS}

    def observe(self, name: str, value: float) -> None:
        self.histograms[name].observe(value)

    def text(self, label: str, gauges: dict[str, float], more: list[str]) -> str:
        """The exposition; `more` are samples of the connector's own."""
        lines: list[str] = []
        for name, value in gauges.items():
            lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{label}}} {float(value)}"]
        cached = self.sources["local_cache_hit"] + self.sources["external_kv_transfer"]
        for name, value in {
            "prompt_tokens": sum(self.sources.values()),
            "prompt_tokens_cached": cached,
            "generation_tokens": self.generated,
            "num_preemptions": 0,
        }.items():
            lines += [
                f"# TYPE vllm:{name}_total counter",
                f"vllm:{name}_total{{{label}}} {float(value)}",
            ]
        lines.append("# TYPE vllm:prompt_tokens_by_source_total counter")
        lines += [
            f'vllm:prompt_tokens_by_source_total{{{label},source="{source}"}} {float(value)}'
            for source, value in self.sources.items()
        ]
        lines.append("# TYPE vllm:request_success_total counter")
        lines += [
            f'vllm:request_success_total{{{label},finished_reason="{reason}"}} {float(value)}'
            for reason, value in self.finished.items()
        ]
        for name, histogram in self.histograms.items():
            lines.append(f"# TYPE vllm:{name} histogram")
            lines += histogram.lines(f"vllm:{name}", label)
        return "\n".join([*lines, *more]) + "\n"
