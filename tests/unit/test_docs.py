"""The documentation speaks of what exists: reasons, conditions, links, make targets."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pd_operator.autoscale.decision import Reason
from pd_operator.preflight import REASONS
from pd_operator.status.conditions import ORDER
from tools.paths import REPOSITORY

OPERATOR = REPOSITORY / "operator" / "pd_operator"
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
TROUBLESHOOTING = (REPOSITORY / "docs" / "troubleshooting.md").read_text()
REASON_ARGUMENT = {
    "CompatibilityRule": 1, "Failure": 0, "PresetError": 0, "Problem": 0, "Verdict": 1,
}  # fmt: skip
"""Position of the reason in calls of these."""
KUBELETS = {"CreateContainerConfigError"}
"""Reasons that the operator passes on from a container's state as they are."""


def reasons_in(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        position = REASON_ARGUMENT.get(node.func.id)
        if position is None or len(node.args) <= position:
            continue
        if isinstance(node.args[position], ast.JoinedStr):
            continue  # put together from a Reason
        for part in ast.walk(node.args[position]):
            value = constants.get(part.id) if isinstance(part, ast.Name) else None
            if isinstance(part, ast.Constant):
                value = part.value
            if isinstance(value, str) and re.fullmatch("[A-Z][A-Za-z]+", value):
                yield value


def reasons() -> set[str]:
    found = {reason for path in OPERATOR.rglob("*.py") for reason in reasons_in(path)}
    return found | set(Reason) | REASONS | KUBELETS | {"InvalidSpec"}


def documented() -> set[str]:
    rows = re.findall(r"^\| (`.*?) \|", TROUBLESHOOTING, re.M)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


def test_reasons_are_found_in_the_code() -> None:
    # Else the tests below would compare nothing.
    assert {"KVNotMoving", "Starting", "ArgumentNotAllowed", "CrashLoopBackOff"} <= reasons()


def test_every_reason_and_condition_is_explained() -> None:
    assert (reasons() | set(ORDER)) - documented() == set()


def test_no_reason_or_condition_is_explained_that_does_not_exist() -> None:
    assert documented() - reasons() - set(ORDER) == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (REPOSITORY / "Makefile").read_text(), re.M))
    named = re.findall(r"(?:^|`)make ((?:[a-z0-9-]+ ?)+)", document.read_text(), re.M)
    assert [word for words in named for word in words.split() if word not in targets] == []
