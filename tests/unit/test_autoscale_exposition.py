import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_operator.autoscale import exposition
from pd_operator.autoscale.exposition import ExpositionError, Histogram, parse
from pd_operator.autoscale.sample import read
from pd_shared import metrics


def test_reads_values_labels_and_histograms() -> None:
    text = (
        "# HELP pd_a help\n# TYPE pd_a counter\n"
        "pd_a 3\n"
        'pd_b{tier="x\\"y\\\\z\\n"} 1.5e3\n'
        'pd_h_bucket{le="0.1"} 1\npd_h_bucket{le="1"} 4.0\npd_h_bucket{le="+Inf"} 5\n'
        "pd_h_sum 9\npd_h_count 5\n"
        "other 7\n"
    )
    read_text = parse(text, "pd_")
    assert read_text.value("pd_a") == 3
    assert read_text.value("pd_b", tier='x"y\\z\n') == 1500
    assert read_text.by_label("pd_b", "tier") == {'x"y\\z\n': 1500}
    assert read_text.histogram("pd_h") == Histogram((0.1, 1.0), (1, 4, 5), 9)
    assert read_text.value("other") is None


@pytest.mark.parametrize(
    "line",
    [
        "pd_a NaN",
        "pd_a +Inf",
        "pd_a -1",
        "pd_a",
        "pd_a one",
        "pd_a 1_000",
        "pd_a 1 1700000000000",
        "pd_a 1 # {} 1",
        'pd_a{x="1} 1',
        'pd_a{x="1",x="2"} 1',
        "pd_a 1\npd_a 1",
        "pd_a NaN\npd_a 1",
    ],
)
def test_a_bad_sample_is_absent(line: str) -> None:
    read_text = parse(f"pd_ok 1\n{line}\npd_also 2\n", "pd_")
    assert read_text.value("pd_a") is None
    assert read_text.by_label("pd_a", "x") is None
    assert (read_text.value("pd_ok"), read_text.value("pd_also")) == (1, 2)


def test_labelled_samples_of_a_metric_are_all_known_or_none() -> None:
    assert parse('a{d="x"} 1\na{d="y"} 2\n', "a").by_label("a", "d") == {"x": 1, "y": 2}
    assert parse('a{d="x"} 1\na{d="y"} NaN\n', "a").by_label("a", "d") is None
    assert parse("", "a").by_label("a", "d") == {}


def test_a_cut_last_line_is_absent() -> None:
    assert parse("pd_a 1\npd_b 12", "pd_").value("pd_b") is None


@pytest.mark.parametrize(
    "text",
    [
        'h_bucket{le="1"} 5\nh_bucket{le="+Inf"} 4\nh_count 4\nh_sum 1\n',
        'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 4\nh_count 5\nh_sum 1\n',
        'h_bucket{le="1"} 1\nh_count 1\nh_sum 1\n',
        'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1\nh_sum 1\n',
        'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1\nh_count 1\n',
        'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1\nh_count 1\nh_sum NaN\n',
        'h_bucket{le="x"} 1\nh_bucket{le="+Inf"} 1\nh_count 1\nh_sum 1\n',
        'h_bucket{le="1"} NaN\nh_bucket{le="1.0"} 1\nh_bucket{le="+Inf"} NaN\nh_count 1\nh_sum 1\n',
    ],
)
def test_a_histogram_that_contradicts_itself_is_absent(text: str) -> None:
    assert parse(text, "h").histogram("h") is None


def test_what_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MAX_SERIES", 3)
    with pytest.raises(ExpositionError, match="more than 3 series"):
        parse("".join(f'pd_a{{x="{i}"}} 1\n' for i in range(4)), "pd_")
    monkeypatch.setattr(exposition, "MAX_BYTES", 10)
    with pytest.raises(ExpositionError, match="longer than 10 bytes"):
        parse("pd_a 1\n" * 2, "pd_")


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for name in ("pd_a", "a"):
        value = parse(text, "").value(name)
        assert value is None or (math.isfinite(value) and value >= 0)


def test_reads_a_proxys_metrics() -> None:
    text = (
        f"{metrics.REQUESTS_OFFERED} 7\n{metrics.PROMPT_TOKENS_OFFERED} 700\n"
        f'{metrics.IN_FLIGHT}{{tier="prefill"}} 1\n{metrics.IN_FLIGHT}{{tier="decode"}} 2\n'
        f'{metrics.KV_EXPECTED_TOKENS}{{decoder="d-0"}} 143\n'
        f'{metrics.KV_EXPECTED_REQUESTS}{{decoder="d-0"}} 2\n'
        f'{metrics.KV_MOVED_TOKENS}{{decoder="d-0"}} 142\n'
        f"{metrics.COMPLETION_TOKENS} NaN\n"
        f'{metrics.REQUESTS}{{outcome="ok"}} 4\n{metrics.REQUESTS}{{outcome="client_error"}} 1\n'
    )
    sample = read(text)
    assert (sample.offered, sample.prompt_tokens) == (7, 700)
    assert (sample.refused, sample.ended) == (1, 5)
    assert (sample.in_flight_prefill, sample.in_flight_decode) == (1, 2)
    assert (sample.kv_expected, sample.kv_moved) == ({"d-0": 143}, {"d-0": 142})
    assert sample.kv_requests == {"d-0": 2}
    assert sample.completion_tokens is None
    assert sample.ttft is None
