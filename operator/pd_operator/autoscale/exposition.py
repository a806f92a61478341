"""Parser of the Prometheus text format, strict: a bad sample is absent, never zero."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

MAX_BYTES: Final = 4 * 1024 * 1024
"""A longer exposition is refused."""
MAX_SERIES: Final = 50_000
"""An exposition with more wanted series is refused."""

Labels = tuple[tuple[str, str], ...]
"""Label pairs, sorted by name."""

_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)[ \t]*")
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\["\\n])*)"\s*(,|$)')
_ESCAPE: Final = re.compile(r'\\(["\\n])')


class ExpositionError(ValueError):
    """The text as a whole cannot be used; `str()` says why in one line."""


@dataclass(frozen=True)
class Histogram:
    """A histogram's cumulative bucket counts at one moment.

    `bounds` are the finite upper bounds in rising order; `counts` has one entry more, the last
    being the count of all observations, which add up to `sum`.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float


class Exposition:
    """The samples of one scrape that could be read."""

    def __init__(
        self, series: Mapping[str, Mapping[Labels, float]], bad: Collection[str] = ()
    ) -> None:
        self._series = series
        self._bad = bad

    def value(self, name: str, **labels: str) -> float | None:
        """The sample with exactly these labels; None where it is absent or was bad."""
        return self._series.get(name, {}).get(tuple(sorted(labels.items())))

    def by_label(self, name: str, label: str) -> dict[str, float] | None:
        """All samples of a metric that has this one label, by its value.

        None where any of them was bad: what is missing then is not known to be zero.
        """
        if name in self._bad:
            return None
        return {
            labels[0][1]: value
            for labels, value in self._series.get(name, {}).items()
            if len(labels) == 1 and labels[0][0] == label
        }

    def histogram(self, name: str) -> Histogram | None:
        """The histogram without other labels; None where any part is missing or contradicts."""
        buckets: dict[float, float] = {}
        for labels, count in self._series.get(f"{name}_bucket", {}).items():
            if len(labels) != 1 or labels[0][0] != "le":
                continue
            bound = _number(labels[0][1])
            if bound is None or bound in buckets:
                return None
            buckets[bound] = count
        total, added = self.value(f"{name}_count"), self.value(f"{name}_sum")
        if total is None or added is None or buckets.get(math.inf) != total:
            return None
        bounds = tuple(sorted(buckets))
        counts = tuple(buckets[bound] for bound in bounds)
        if any(after < before for before, after in pairwise(counts)):
            return None
        return Histogram(bounds[:-1], counts, added)


def parse(text: str, prefix: str) -> Exposition:
    """The samples whose name starts with `prefix`.

    A sample is left out where its line is garbled, its value is NaN, infinite or negative, it
    has a time stamp (nobody can say how old it is) or the series occurs twice.
    ExpositionError where the text is too long.
    """
    if len(text) > MAX_BYTES:
        raise ExpositionError(f"the metrics are longer than {MAX_BYTES} bytes")
    series: dict[str, dict[Labels, float]] = {}
    seen: set[tuple[str, Labels | None]] = set()
    bad: set[str] = set()
    for name, labels, value in _samples(text, prefix):
        key = (name, labels)
        if labels is None or value is None or key in seen:
            bad.add(name)
            if labels is not None:
                series.get(name, {}).pop(labels, None)
        else:
            series.setdefault(name, {})[labels] = value
        if labels is not None:
            seen.add(key)
        if len(seen) > MAX_SERIES:
            raise ExpositionError(f"the metrics have more than {MAX_SERIES} series")
    return Exposition(series, bad)


def _samples(text: str, prefix: str) -> Iterator[tuple[str, Labels | None, float | None]]:
    """Name, labels and value of each line; None for what cannot be read."""
    lines = text.split("\n")
    # What stands behind the last line break was cut off: `12` may have been `123`.
    for line in lines[:-1]:
        if not line.startswith(prefix):
            continue
        match = _SAMPLE.fullmatch(line.removesuffix("\r"))
        if match is not None:
            yield match[1], _labels(match[2] or ""), _measured(match[3])
        elif name := _NAME.match(line):
            yield name[0], None, None


def _labels(text: str) -> Labels | None:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None or match[1] in labels:
            return None
        labels[match[1]] = _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], match[2])
        position = match.end()
    return tuple(sorted(labels.items()))


def _number(text: str) -> float | None:
    if "_" in text:  # float() takes 1_000, the format does not
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _measured(text: str) -> float | None:
    number = _number(text)
    return number if number is not None and math.isfinite(number) and number >= 0 else None
