"""What one decision costs in a deployment of 1,000 pods."""

import statistics
import time

from pd_operator.simulate.others import Bounds
from pd_operator.simulate.policies import Ours
from pd_operator.simulate.proxy import SimulatedProxy
from pd_operator.simulate.setting import Tiers


def measure(pods: int = 1000, ticks: int = 400) -> dict[str, float]:
    """Milliseconds of a decision, the scrape's record included: median and 99th percentile."""
    ours, proxy = Ours(Bounds(2.0, 0.05, max=pods, budget=pods)), SimulatedProxy()
    half = pods // 2
    spent = []
    for tick in range(ticks):
        for number in range(200):
            proxy.arrived()
            proxy.prefilled(1000 + number, 0.2 + number / 1000, 0.1)
            proxy.started(0.3)
            proxy.ended(100, 0.02)
        started = time.perf_counter()
        ours.tick(15.0 * tick, proxy.sample(15.0 * tick), Tiers(half, half, half, half))
        spent.append(1000 * (time.perf_counter() - started))
    settled = spent[ticks // 2 :]
    return {
        "pods": pods,
        "median_ms": statistics.median(settled),
        "p99_ms": statistics.quantiles(settled, n=100)[98],
    }
