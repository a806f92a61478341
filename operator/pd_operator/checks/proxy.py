"""`spec.proxy`: deadlines and limits within their bounds."""

from collections.abc import Iterator
from typing import Final

from pydantic.alias_generators import to_camel

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.proxy_timeouts import LONGEST, SHORTEST, ProxyTimeouts
from pd_operator.api.values import duration_seconds, quantity
from pd_operator.checks.problem import Problem
from pd_operator.checks.sizes import is_whole

_SIZES: Final = {"body_size": ("1Ki", "64Mi"), "header_size": ("1Ki", "1Mi")}
"""The least and the most of each size."""


def proxy_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Deadlines and sizes that are out of bounds."""
    proxy = deployment.spec.proxy
    times = {f"timeouts.{key}": value for key, value in _spelled(proxy.timeouts).items()}
    times["queue.timeout"] = proxy.queue.timeout
    for name, value in times.items():
        if not duration_seconds(SHORTEST) <= duration_seconds(value) <= duration_seconds(LONGEST):
            field = f"spec.proxy.{name}"
            yield Problem(
                "InvalidTimeout",
                field,
                f"{field} is {value}; it must be from {SHORTEST} to {LONGEST}",
            )
    for name, (least, most) in _SIZES.items():
        size: str = getattr(proxy.limits, name)
        number = quantity(size)
        if not (quantity(least) <= number <= quantity(most) and is_whole(number)):
            field = f"spec.proxy.limits.{to_camel(name)}"
            yield Problem(
                "InvalidSize", field, f"{field} is {size}; it must be from {least} to {most}"
            )


def _spelled(timeouts: ProxyTimeouts) -> dict[str, str]:
    return timeouts.model_dump(by_alias=True)
