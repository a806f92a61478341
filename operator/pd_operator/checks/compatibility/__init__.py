"""What does not work together, by connector and engine version: one table.

A row here is checked at apply (`pd_operator.validate`) and told in docs/compatibility.md.
"""

from collections.abc import Iterator

from pd_operator.api.deployment import PDDeployment
from pd_operator.checks.compatibility.rules import RULES, Found
from pd_operator.checks.compatibility.versions import KNOWN, known
from pd_operator.checks.problem import Problem

__all__ = ["compatibility_problems", "version_warning"]


def compatibility_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """A problem for each row that the spec breaks."""
    spec = deployment.spec
    for rule in RULES:
        if spec.colocated and not rule.colocated:
            continue
        if rule.connectors and spec.connector not in rule.connectors:
            continue
        broken = rule.broken(spec)
        if broken:
            found = broken if isinstance(broken, Found) else Found(rule.field, broken)
            told = f"{found.message} [{rule.name}: {rule.source}]"
            yield Problem(rule.reason, found.field, told)


def version_warning(deployment: PDDeployment) -> str | None:
    """Why rules that depend on the engine's version say nothing; None where they do."""
    version = deployment.spec.engine.version
    if known(version):
        return None
    told = "not set" if version is None else f"{version}, which this release does not know"
    return (
        f"spec.engine.version is {told}; it knows {', '.join(KNOWN)}, so what depends on the"
        " version was not checked"
    )
