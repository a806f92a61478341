"""From the window of samples to the signals that a decision rests on."""

import math
from collections.abc import Callable
from dataclasses import replace

from pd_operator.autoscale.decision import Queue, Signal, TierSignals
from pd_operator.autoscale.exposition import Histogram
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.window import (
    Freshness,
    History,
    Range,
    average,
    covered,
    distribution,
    freshness,
    increase,
    latest,
    quantile,
    rate,
)

PERCENTILE = 0.95
DRAINED_LEAST = 3.0
DRAINED_PART = 0.1
"""A backlog drains where so many requests, and such a part, were answered beyond those arrived."""
CHANCE = 2.0
"""Standard deviations of a count that are taken for chance."""
LENGTH_SECONDS = 300.0
"""The mean length of a prompt is taken over so long."""
WHOLE = 0.9
"""A window that is covered to this part counts as seen."""

Number = Callable[[ProxySample], float | None]


def offered(sample: ProxySample) -> float | None:
    """Requests that arrived."""
    return sample.offered


def refused(sample: ProxySample) -> float | None:
    """Requests that were refused for the client's fault."""
    return sample.refused


def ended(sample: ProxySample) -> float | None:
    """Requests that are over."""
    return sample.ended


def prompt_tokens(sample: ProxySample) -> float | None:
    """Prompt tokens of the requests that were prefilled, or are over."""
    return sample.prompt_tokens


def completion_tokens(sample: ProxySample) -> float | None:
    """Tokens that were generated."""
    return sample.completion_tokens


def prefill_in_flight(sample: ProxySample) -> float | None:
    """Requests at or before a prefiller."""
    return sample.in_flight_prefill


def decode_in_flight(sample: ProxySample) -> float | None:
    """Requests at a decoder."""
    return sample.in_flight_decode


def ttft(sample: ProxySample) -> Histogram | None:
    """Time to first token, of streams."""
    return sample.ttft


def prefill_time(sample: ProxySample) -> Histogram | None:
    """Time to the prefill answer, of all requests: a lower bound of the time to first token."""
    return sample.prefill


def tpot(sample: ProxySample) -> Histogram | None:
    """Time per output token."""
    return sample.tpot


def span(history: History, window: Range) -> float:
    """Seconds of the window that samples cover."""
    start, end = covered(history, window)
    return end - start


def requests(history: History, window: Range) -> Signal:
    """Requests offered per second."""
    return _signal(history, window, offered, rate(history, window, offered))


def prefill(history: History, window: Range) -> TierSignals:
    """The prefill tier's signals."""
    load = _signal(history, window, prompt_tokens, _offered_load(history, window))
    # Only streams have a TTFT; the prefill answer bounds it from below for the others.
    first, first_count = percentile(history, window, ttft)
    answer, answer_count = percentile(history, window, prefill_time)
    told = [value for value in (first, answer) if value is not None]
    waiting = _waiting(history, window, prefill_in_flight) if not told else None
    value = max(told, default=waiting)
    in_flight = _now(history, window, prefill_in_flight)
    trust = _best(
        freshness(history, window, ttft),
        freshness(history, window, prefill_time),
    )
    return TierSignals(
        load=load,
        latency=Signal(value, trust),
        samples=max(first_count, answer_count) if told else in_flight.value or 0.0,
        in_flight=in_flight,
        draining=_draining(history, window, answer_count),
        queue=_queue(history, window, load.value),
        before=_before(history, window),
    )


def decode(history: History, window: Range) -> TierSignals:
    """The decode tier's signals."""
    busy = average(history, window, decode_in_flight)
    active = _active(history, window)
    if busy is not None and active is not None:
        busy = min(busy, active)
    value, count = percentile(history, window, tpot)
    return TierSignals(
        load=_signal(history, window, decode_in_flight, busy),
        latency=Signal(value, freshness(history, window, tpot)),
        samples=count,
        in_flight=_now(history, window, decode_in_flight),
        draining=_emptying(history, window),
        handoff=_handoff(history, window),
        mean=_mean(history, window),
        tokens=_tokens(history, window),
    )


def _signal(history: History, window: Range, get: Number, value: float | None) -> Signal:
    trust = freshness(history, window, get)
    return Signal(value, trust)


def _now(history: History, window: Range, get: Number) -> Signal:
    value = latest(history, window, get)
    return _signal(history, window, get, value)


def percentile(
    history: History, window: Range, get: Callable[[ProxySample], Histogram | None]
) -> tuple[float | None, float]:
    """The 95th percentile in seconds of the window's observations, and how many there were."""
    seen = distribution(history, window, get)
    if seen is None:
        return None, 0.0
    return quantile(seen, PERCENTILE), seen.counts[-1]


def _waiting(history: History, window: Range, get: Number) -> float | None:
    """How long requests have been in flight without any being answered, at least; seconds."""
    start, end = covered(history, window)
    for uid in history.pods:
        points = [point for point in history.points(uid, get) if start <= point[0] <= end]
        if len(points) > 1 and all(value > 0 for _, value in points):
            return points[-1][0] - points[0][0]
    return None


def _offered_load(history: History, window: Range) -> float | None:
    """Prompt tokens that arrived per second.

    The proxy learns a prompt's tokens from the prefiller, so its counter is about what was
    answered. What arrived is taken to be as long as the prompts answered lately.
    """
    came, told = rate(history, window, offered), rate(history, window, prompt_tokens)
    if came is None or told is None:
        return None
    came -= min(came, rate(history, window, refused) or 0.0)
    lately = replace(window, start=window.end - LENGTH_SECONDS)
    answers = distribution(history, lately, prefill_time)
    answered = answers.counts[-1] if answers is not None else 0.0
    over = max(answered, sum(increase(history, lately, ended).values()))
    tokens = sum(increase(history, lately, prompt_tokens).values())
    return came * tokens / over if over > 0 and tokens > 0 else max(came, told)


def _draining(history: History, window: Range, answered: float) -> bool:
    """Whether clearly more requests were prefilled than arrived: a backlog is being worked off."""
    came = _came(history, window)
    return answered - came >= max(DRAINED_LEAST, DRAINED_PART * came)


def _active(history: History, window: Range) -> float | None:
    """Requests that are being decoded, by Little's law: without those that wait for room."""
    seen, tokens = distribution(history, window, tpot), rate(history, window, completion_tokens)
    if seen is None or tokens is None or not seen.counts[-1]:
        return None
    return tokens * seen.sum / seen.counts[-1]


def _emptying(history: History, window: Range) -> bool:
    """Whether clearly fewer requests are in flight than were on average."""
    mean = average(history, window, decode_in_flight)
    now = latest(history, window, decode_in_flight)
    if mean is None or now is None:
        return False
    return mean - now > max(DRAINED_PART * mean, CHANCE * math.sqrt(mean))


def _queue(history: History, window: Range, load: float | None) -> Queue | None:
    """By Little's law: the seconds spent per second are the requests present."""
    seen = distribution(history, window, prefill_time)
    seconds, came = span(history, window), _came(history, window)
    if seen is None or load is None or seconds <= 0 or came <= 0 or seen.counts[-1] <= 0:
        return None
    return Queue(
        busy=seen.sum / seconds,
        served=load * seen.counts[-1] / came,
        requests=came / seconds,
        count=seen.counts[-1],
        length=sum(increase(history, window, prompt_tokens).values()) / seen.counts[-1],
    )


def _mean(history: History, window: Range) -> float | None:
    """The mean time per output token."""
    seen = distribution(history, window, tpot)
    return None if seen is None or not seen.counts[-1] else seen.sum / seen.counts[-1]


def _tokens(history: History, window: Range) -> float | None:
    """Output tokens per second that are asked for: what arrived, as long as what ended lately."""
    lately = replace(window, start=window.end - LENGTH_SECONDS)
    over = sum(increase(history, lately, ended).values())
    seconds = span(history, window)
    if over <= 0 or seconds <= 0:
        return None
    each = sum(increase(history, lately, completion_tokens).values()) / over
    return each * _came(history, window) / seconds


def _before(history: History, window: Range) -> float | None:
    """The load in the window before this one; None unless it was seen wholly."""
    length = window.end - window.start
    earlier = replace(window, start=window.start - length, end=window.start)
    start, end = covered(history, earlier)
    if end - start < WHOLE * length:
        return None
    return _offered_load(history, earlier)


def _handoff(history: History, window: Range) -> float | None:
    first, answer = distribution(history, window, ttft), distribution(history, window, prefill_time)
    if first is None or answer is None or not first.counts[-1] or not answer.counts[-1]:
        return None
    return max(0.0, first.sum / first.counts[-1] - answer.sum / answer.counts[-1])


def _best(*trust: Freshness) -> Freshness:
    return min(trust, key=list(Freshness).index)


def _came(history: History, window: Range) -> float:
    """Requests that arrived in the window and are load."""
    no_load = sum(increase(history, window, refused).values())
    return max(0.0, arrived(history, window) - no_load)


def arrived(history: History, window: Range) -> float:
    """Requests that arrived in the window."""
    return sum(increase(history, window, offered).values())
