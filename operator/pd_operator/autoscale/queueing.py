"""How many replicas can be of use at all. Pure.

Loads are in erlangs: the replicas that would be busy on average if nobody had to wait.
"""

import math
from typing import Final

MOST: Final = 1000
"""No tier is sized beyond this many replicas."""


def useful(erlangs: float) -> int:
    """Replicas beyond which nobody waits any more: others cannot make anything faster.

    At least two: beside a single replica another one always takes away some waiting.
    """
    return min(MOST, max(2, math.ceil(erlangs + 3 * math.sqrt(max(0.0, erlangs)))))
