"""All checks, by name."""

from collections.abc import Callable

from tests.conformance import surface, transfers
from tests.conformance.pair import Pair

CHECKS: dict[str, Callable[[Pair], None]] = {
    name.removeprefix("check_"): check
    for module in (surface, transfers)
    for name, check in vars(module).items()
    if name.startswith("check_")
}
