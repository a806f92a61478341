"""docs/fields.md: fresh, and each field says what is made of it."""

import pytest

from pd_operator.api import fields
from tools.paths import REPOSITORY

ROWS = list(fields.rows())
SECTIONS = {row.path for row in ROWS if any(r.path.startswith(f"{row.path}.") for r in ROWS)}
LEAVES = [row for row in ROWS if row.path not in SECTIONS and not row.path.endswith("]")]


def test_file_is_fresh() -> None:
    text = (REPOSITORY / "docs" / "fields.md").read_text("utf-8")
    assert text == fields.render(), "docs/fields.md is stale: run `make generate`"


def test_all_kinds_of_fields_are_found() -> None:
    paths = {row.path for row in ROWS}
    assert {"model.id", "prefill.tolerations[].key", "autoscaling.slo.ttft"} <= paths


@pytest.mark.parametrize("row", LEAVES, ids=lambda row: str(row.path))
def test_field_says_what_it_means_and_becomes(row: fields.Row) -> None:
    assert row.meaning, "the docstring must say what the field means"
    assert row.becomes, "the docstring must end with `Becomes: …`"


@pytest.mark.parametrize("row", LEAVES, ids=lambda row: str(row.path))
def test_types_are_told(row: fields.Row) -> None:
    assert row.type
    assert "\n" not in row.default + row.meaning + row.becomes
