"""A decision in words, with the numbers that it rests on."""

from dataclasses import dataclass

from pd_operator.autoscale.case import Case
from pd_operator.autoscale.decision import Input, Limit, Reason
from pd_operator.autoscale.window import Freshness


@dataclass(frozen=True)
class Outcome:
    """What was decided, and until when it waits (seconds from now; 0: not at all)."""

    desired: int
    unbounded: int
    reason: Reason
    limit: Limit
    wait: float = 0.0


def inputs(case: Case) -> tuple[Input, ...]:
    """Every number of the tier, for the journal and for whoever asks why."""
    words, view, signals = case.words, case.view, case.view.signals
    known = Freshness.FRESH
    return (
        Input("load", signals.load.value, words.load, signals.load.freshness),
        Input("latency", signals.latency.value, "s", signals.latency.freshness),
        Input("target", case.tier.target, "s", known),
        Input("samples", signals.samples, "requests", signals.latency.freshness),
        Input("inFlight", signals.in_flight.value, "requests", signals.in_flight.freshness),
        Input("ready", view.ready, words.pods, known),
        Input("current", view.current, words.pods, known),
    )


def message(case: Case, outcome: Outcome) -> str:
    """One sentence for a user: what was measured, what follows, what bound it."""
    return f"{_why(case, outcome)}: {_what(case, outcome)}"


def seconds(value: float) -> str:
    """A time as text with three digits, such as `0.123s`."""
    return f"{value:.3g}s" if value < 1000 else f"{value:.0f}s"


def _what(case: Case, outcome: Outcome) -> str:
    pods, current = case.words.pods, case.view.current
    if outcome.desired == current:
        text = f"stays at {current} {pods}"
    else:
        text = f"{current} -> {outcome.desired} {pods}"
    if outcome.unbounded != outcome.desired:
        text += f" ({outcome.unbounded} without the limit {outcome.limit})"
    return text


def _why(case: Case, outcome: Outcome) -> str:
    known = {
        Reason.NO_METRICS: "no proxy has told this tier's load and latency yet",
        Reason.STALE_METRICS: "no proxy has told its metrics lately",
        Reason.NO_TARGET: f"no target is set for {case.words.latency.removesuffix(' p95')}",
        Reason.NO_TRAFFIC: f"no request in the last {case.policy.window:.0f}s",
    }.get(outcome.reason)
    if known is not None:
        return known
    view, soon = case.view, f"{outcome.wait:.0f}s more"
    beside = {
        Reason.NOT_READY: f"; {view.ready} of {view.current} {case.words.pods} are ready",
        Reason.AT_MAX: f"; the maximum is {case.tier.max}",
        Reason.AT_MIN: f"; the minimum is {case.tier.min}",
        Reason.TARGET_UNATTAINABLE: f"; more {case.words.pods} would not help",
        Reason.BACKLOG_DRAINING: "; a backlog is being worked off",
        Reason.COOLDOWN: f"; waits for latencies of the present pods, {soon}",
        Reason.STABILIZATION_WINDOW: f"; less must be enough for {soon}",
    }.get(outcome.reason, "")
    return _measured(case) + beside


def _measured(case: Case) -> str:
    words, signals, target = case.words, case.view.signals, case.tier.target
    load = "unknown" if signals.load.value is None else f"{signals.load.value:.3g}"
    text = f"{load} {words.load} on {case.view.ready} ready"
    if signals.latency.value is None or target is None:
        return f"{text}, {words.latency} unknown"
    relation = "above" if signals.latency.value > target else "within"
    return (
        f"{words.latency} {seconds(signals.latency.value)} {relation} the target"
        f" {seconds(target)} at {text}"
    )
