"""What counts as a difference between a live object and the desired one."""

from typing import Any

import pytest

from pd_operator.compare import contains, digest


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({}, {"a": {}}),
        ({}, {"a": []}),
        ({}, {"a": ""}),
        ({}, {"a": False}),
        ({"a": [1, 2]}, {"a": [1, 2]}),
        ({"a": [1, 2]}, {"a": (1, 2)}),
        ({"requests": {"cpu": "500m"}}, {"requests": {"cpu": "0.5"}}),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}),
        ({"limits": {"gpu": "1"}}, {"limits": {"gpu": 1}}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}}),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1024Mi"}}),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": 1073741824}}),
        ({"resourceFieldRef": {"divisor": "1"}}, {"resourceFieldRef": {"divisor": "1000m"}}),
        (
            {"env": [{"name": "x"}, {"name": "a", "value": "1"}]},
            {"env": [{"name": "a", "value": "1"}]},
        ),
        (
            {"ports": [{"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}]},
            {"ports": [{"port": 1}]},
        ),
    ],
)
def test_the_live_object_may_hold_more(live: Any, desired: Any) -> None:
    assert contains(live, desired)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 2}, {"a": 1}),
        ({}, {"a": 1}),
        ({}, {"a": True}),
        ({"a": True}, {"a": 1}),
        ({"a": 1}, {"a": {"b": 1}}),
        ({"a": "x"}, {"a": ["x"]}),
        ({"args": ["a", "b"]}, {"args": ["a"]}),
        ({"args": ["b", "a"]}, {"args": ["a", "b"]}),
        ({"rules": [{"verbs": ["get"]}, {"verbs": ["*"]}]}, {"rules": [{"verbs": ["get"]}]}),
        ({"subjects": [{"name": "a"}, {"name": "b"}]}, {"subjects": [{"name": "a"}]}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
        ({"requests": {}}, {"requests": {"cpu": "2"}}),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1G"}}),
        ({"emptyDir": {}}, {"emptyDir": {"sizeLimit": "1G"}}),
        ({"requests": {"cpu": "odd"}}, {"requests": {"cpu": "2"}}),
        ({"env": [{"name": "a", "value": "2"}]}, {"env": [{"name": "a", "value": "1"}]}),
        ({"env": []}, {"env": [{"name": "a"}]}),
        ({"ports": [{"port": 1, "protocol": "UDP"}]}, {"ports": [{"port": 1}]}),
    ],
)
def test_what_was_set_must_be_there(live: Any, desired: Any) -> None:
    assert not contains(live, desired)


def test_the_digest_is_of_content_not_of_order() -> None:
    assert digest({"a": 1, "b": [1]}) == digest({"b": [1], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert len(digest({})) == 16
