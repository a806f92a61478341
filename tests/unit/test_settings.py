"""Settings name what is wrong with them."""

import logging

import pytest

from pd_operator.settings import SettingsError, from_environment

GOOD = {
    "PD_NAMESPACE": "pd-system",
    "PD_POD_NAME": "pd-operator-1",
    "PD_PROXY_IMAGE": "proxy:1",
    "PD_MOONCAKE_IMAGE": "mooncake:1",
}


def test_defaults() -> None:
    found = from_environment(GOOD)
    assert found.watch_namespaces == ()
    assert found.cluster_domain == "cluster.local"
    assert (found.scaling_interval, found.resync_interval) == (15.0, 120.0)
    assert found.log_level == logging.INFO


def test_values() -> None:
    found = from_environment(
        {
            **GOOD,
            "PD_WATCH_NAMESPACES": "team-a,team-b, team-a",
            "PD_CLUSTER_DOMAIN": "k8s.example",
            "PD_SCALING_INTERVAL": "2.5",
            "PD_RESYNC_INTERVAL": "30",
            "PD_LOG_LEVEL": "Debug",
        }
    )
    assert found.watch_namespaces == ("team-a", "team-b")
    assert found.cluster_domain == "k8s.example"
    assert (found.scaling_interval, found.resync_interval) == (2.5, 30.0)
    assert found.log_level == logging.DEBUG


@pytest.mark.parametrize("name", GOOD)
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        from_environment({**GOOD, name: ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PD_SCALING_INTERVAL", "soon"),
        ("PD_SCALING_INTERVAL", "0"),
        ("PD_RESYNC_INTERVAL", "-5"),
        ("PD_RESYNC_INTERVAL", "nan"),
        ("PD_RESYNC_INTERVAL", "1e9"),
        ("PD_LOG_LEVEL", "loud"),
        ("PD_WATCH_NAMESPACES", "a,,b"),
        ("PD_WATCH_NAMESPACES", "Team A"),
        ("PD_WATCH_NAMESPACES", "a" * 64),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}={value!r}: write"):
        from_environment({**GOOD, name: value})
