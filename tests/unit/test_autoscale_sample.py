"""The autoscaler reads what the proxy writes."""

import dataclasses

from pd_operator.autoscale.sample import ProxySample, read
from pd_proxy.measure import Measure
from pd_proxy.metrics import Family, Metrics
from pd_shared import metrics as names


def scraped(metrics: Metrics) -> ProxySample:
    ready = Family("gauge", names.BACKENDS, [f'{names.BACKENDS}{{tier="prefill",state="ready"}} 1'])
    return read(metrics.text([ready]).decode())


def test_everything_is_told_before_the_first_request() -> None:
    sample = scraped(Metrics())
    told = {f.name: getattr(sample, f.name) for f in dataclasses.fields(sample)}
    assert [name for name, value in told.items() if value is None] == []
    assert sample.ttft is not None
    assert sample.ttft.bounds == names.TTFT_BUCKETS


def test_a_request_from_its_arrival_to_its_end() -> None:
    metrics = Metrics()
    measure = Measure(metrics, 10.0, size=400)
    measure.enter(names.TIER_PREFILL)
    assert (scraped(metrics).offered, scraped(metrics).in_flight_prefill) == (1, 1)
    measure.prefilled(10.5)
    measure.prompt(143)
    measure.enter(names.TIER_DECODE)
    measure.token(10.7)
    measure.token(11.7)
    measure.generated(11)
    metrics.kv_expected.add("decoder-0", 143)
    metrics.kv_moved.add("decoder-0", 143)
    measure.end("ok", 11.8)
    sample = scraped(metrics)
    assert (sample.prompt_tokens, sample.completion_tokens) == (143, 11)
    assert (sample.ended, sample.refused) == (1, 0)
    assert (sample.in_flight_prefill, sample.in_flight_decode) == (0, 0)
    assert (sample.kv_expected, sample.kv_moved) == ({"decoder-0": 143}, {"decoder-0": 143})
    assert sample.prefill is not None
    assert sample.tpot is not None
    assert sample.prefill.sum == 0.5
    assert (sample.tpot.counts[-1], round(sample.tpot.sum, 6)) == (1, 0.1)
