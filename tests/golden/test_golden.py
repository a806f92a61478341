"""The children of each example are what the golden files say, and Kubernetes' schema takes them."""

import pytest
import yaml
from kubernetes_validate.utils import latest_version, validate

from pd_operator.validate import problems
from tests.golden import update


@pytest.mark.parametrize("name", update.example_names())
def test_children_equal_golden_file(name: str) -> None:
    text = update.golden(name).read_text("utf-8")
    assert update.render(update.example(name)) == text, (
        "the children changed; look at the difference, then run `python -m tests.golden.update`"
    )


def test_every_golden_file_has_its_example() -> None:
    assert {path.stem for path in update.FOLDER.glob("*.yaml")} == set(update.example_names())


@pytest.mark.parametrize("name", update.example_names())
def test_golden_text_holds_the_children(name: str) -> None:
    """The YAML of a golden file says exactly what is applied."""
    loaded = list(yaml.safe_load_all(update.golden(name).read_text("utf-8")))
    assert loaded == update.children(update.example(name))


@pytest.mark.parametrize("name", update.example_names())
def test_schema_takes_every_child(name: str) -> None:
    for manifest in update.children(update.example(name)):
        validate(manifest, latest_version(), strict=True)


@pytest.mark.parametrize("name", update.example_names())
def test_example_has_no_problems(name: str) -> None:
    assert problems(update.example(name)) == ()
