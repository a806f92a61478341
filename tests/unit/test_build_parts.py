"""Putting the parts of an engine pod together."""

import pytest

from pd_operator.build.parts.part import Part, combined


def test_lists_keep_the_order_of_the_parts() -> None:
    both = combined([Part(args=("a",), capabilities=("X",)), Part(args=("b", "c"))])
    assert both.args == ("a", "b", "c")
    assert both.capabilities == ("X",)
    assert combined([]) == Part()


def test_two_parts_must_not_set_the_same() -> None:
    with pytest.raises(ValueError, match="two parts set env"):
        combined([Part(env={"A": "1"}), Part(env={"A": "1"})])
    with pytest.raises(ValueError, match="two parts set pod"):
        combined([Part(pod={"nodeSelector": {}}), Part(pod={"nodeSelector": {}})])


def test_affinity_terms_of_one_list_are_joined() -> None:
    a = Part(affinity={"nodeAffinity": {"preferred": ({"weight": 1},)}}, image_user=True)
    b = Part(affinity={"nodeAffinity": {"preferred": ({"weight": 2},)}, "podAffinity": {}})
    both = combined([a, b])
    assert both.affinity["nodeAffinity"] == {"preferred": ({"weight": 1}, {"weight": 2})}
    assert both.image_user
