"""What the table of backends tells, as metrics."""

from collections.abc import Iterator

from pd_proxy.backends import TIERS, Backends
from pd_proxy.metrics import Family, escape
from pd_shared import metrics as names


def families(backends: Backends, now: float) -> Iterator[Family]:
    """How many there are, what is on them and which are left alone; `now` in the loop's time."""
    yield Family(
        "gauge",
        names.BACKENDS,
        [
            f'{names.BACKENDS}{{tier="{tier}",state="{state}"}} {count}'
            for (tier, state), count in backends.counts().items()
        ],
    )
    ejected = dict.fromkeys(TIERS.values(), 0)
    in_flight = []
    for backend in backends.all():
        tier = TIERS[backend.pod.tier]
        ejected[tier] += backend.suspect_until > now
        name = escape(backend.pod.name)
        in_flight.append(
            f'{names.BACKEND_IN_FLIGHT}{{tier="{tier}",backend="{name}"}} {backend.in_flight}'
        )
    yield Family("gauge", names.BACKEND_IN_FLIGHT, in_flight)
    for kind, name, values in (
        ("gauge", names.UNKNOWN_CONNECTORS, backends.unknown_connectors()),
        ("gauge", names.EJECTED_BACKENDS, ejected),
        ("counter", names.EJECTIONS, backends.ejections),
    ):
        yield Family(kind, name, [f'{name}{{tier="{t}"}} {n}' for t, n in values.items()])
