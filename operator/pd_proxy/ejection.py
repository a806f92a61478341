"""Which engines are left alone for a while: outlier ejection, a pure state machine.

An engine is good, ejected, or on trial. A grave failure, or a few lesser ones in a row, eject it;
when its time is over, one request tries it while others still stay away; that one's success makes
it good again, its failure ejects it for twice as long. All times are in seconds.
"""

from dataclasses import dataclass, replace
from typing import Final

LESSER_FAILURES: Final = 3
"""So many in a row eject: an error may be the request's own fault."""
FIRST_SECONDS: Final = 0.5
MOST_SECONDS: Final = 10.0
TRIAL_SECONDS: Final = 10.0
"""A trial that tells nothing, such as of a client that leaves, is over after so long."""
MOST_PART: Final = 2 / 3
"""More of a tier is never ejected: then not the engines are to blame, or there is no better one."""


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of one engine."""

    failures: int = 0
    """Lesser ones since it last did its work."""
    ejections: int = 0
    """How often it was ejected lately; each success takes one off."""
    until: float = 0.0
    """Others are preferred until then; 0 where it is good."""
    trial: bool = False

    @property
    def good(self) -> bool:
        """Whether nothing speaks against it now, whatever was before."""
        return self.until == 0.0


GOOD: Final = Health()


def failed(health: Health, now: float, *, grave: bool) -> Health:
    """It did not do its work; `grave`: it was not there, or kept somebody waiting in vain."""
    if not health.good and not health.trial and now < health.until:
        return health  # what was sent before it was ejected
    failures = health.failures + 1
    if health.good and not grave and failures < LESSER_FAILURES:
        return replace(health, failures=failures)
    # Not more than 2**8 times: far past the most, and no overflow.
    pause = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(health.ejections, 8))
    return Health(0, health.ejections + 1, now + pause)


def succeeded(health: Health) -> Health:
    """It did its work."""
    return GOOD if health.ejections <= 1 else Health(ejections=health.ejections - 1)


def chosen(health: Health, now: float) -> Health:
    """A request goes there; where its time is over, that is its trial."""
    if health.good or now < health.until:
        return health
    return replace(health, until=now + TRIAL_SECONDS, trial=True)


def held(health: Health, until: float) -> Health:
    """It is known to be still down: no request need try it before then."""
    return health if health.good else replace(health, until=max(health.until, until), trial=False)


def may_eject(engines: int, ejected: int) -> bool:
    """Whether one more of a tier's engines may be ejected, beside those that are."""
    return ejected + 1 <= int(engines * MOST_PART)
