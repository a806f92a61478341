"""The configuration file, and the file of backends."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pd_operator.api.deployment import parse as parse_deployment
from pd_operator.build.proxy_config import proxy_config
from pd_proxy import config
from pd_proxy.backends import READY
from pd_proxy.config import ConfigError
from pd_proxy.discovery.file import read_file
from tests.kube import example

VALID: dict[str, Any] = {
    "deployment": "tiny",
    "namespace": "ns",
    "deploymentUid": "u",
    "servedNames": ["tiny"],
    "listen": {"host": "", "port": 8000},
    "admin": {"host": "", "port": 9090},
    "timeouts": {
        "connect": 2.0, "bootstrap": 5.0, "prefill": 120.0, "firstToken": 150.0,
        "betweenTokens": 60.0,
    },
    "limits": {"bodyBytes": 1, "headerBytes": 1, "connections": 1, "inFlight": 1},
    "routing": {
        "prefixAware": True, "sessionHeader": "X-Session-Id",
        "localPrefill": {"enabled": False, "maxTokens": 256},
    },
}  # fmt: skip
QUEUE = {"size": 0, "timeout": 1.0, "perDecoder": 1, "perPrefiller": 1}


def test_valid() -> None:
    parsed = config.parse(VALID)
    assert parsed.timeouts.first_token == 150.0
    assert parsed.admin.port == 9090
    assert parsed.served_names == ("tiny",)


def written() -> dict[str, Any]:
    """What the operator writes for a deployment that says nothing of its proxy."""
    manifest = example("tiny-cpu")
    manifest["metadata"] |= {"namespace": "ns", "uid": "u"}
    result: dict[str, Any] = json.loads(proxy_config(parse_deployment(manifest)))
    return result


def test_what_the_operator_writes_is_accepted() -> None:
    parsed = config.parse(written())
    assert parsed.deployment == "tiny"
    assert parsed.deployment_uid == "u"


def test_defaults_are_the_operators() -> None:
    """What may be absent means what the operator writes where the spec says nothing."""
    value = written()
    del value["timeouts"]["kvWait"], value["timeouts"]["drain"]
    assert config.parse(value) == config.parse(written())


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        (("extra",), 1, "extra is not known"),
        (("timeouts", "extra"), 1, "timeouts.extra is not known"),
        (("timeouts", "prefill"), 0, "timeouts.prefill"),
        (("timeouts", "prefill"), True, "timeouts.prefill"),
        (("timeouts", "prefill"), "5s", "timeouts.prefill"),
        (("limits", "inFlight"), 1.5, "limits.inFlight"),
        (("limits", "connections"), -1, "limits.connections"),
        (("connector",), "Mooncake", "connector is not known"),
        (("timeouts", "kvWait"), 0, "timeouts.kvWait"),
        (("apiKeys",), {}, "apiKeys.folder is missing"),
        (("apiKeys",), {"folder": "", "isolateCache": True}, "apiKeys.folder"),
        (("apiKeys",), {"folder": "/k", "isolateCache": 1}, "isolateCache must be true or false"),
        (("tls",), {}, "tls.folder is missing"),
        (("accessLog",), "yes", "accessLog must be true or false"),
        (("queue",), {}, "queue.size is missing"),
        (("queue",), QUEUE | {"size": -1}, "queue.size must be a whole number above -1"),
        (("queue",), QUEUE | {"perDecoder": 0}, "queue.perDecoder"),
        (("queue",), QUEUE | {"timeout": 0}, "queue.timeout"),
        (("queue",), QUEUE | {"fair": True}, "queue.fair is not known"),
        (("routing", "prefixAware"), "yes", "routing.prefixAware must be true or false"),
        (("routing", "sessionHeader"), "", "routing.sessionHeader"),
        (("routing", "localPrefill", "enabled"), 1, "routing.localPrefill.enabled"),
        (("routing", "localPrefill", "maxTokens"), 0, "routing.localPrefill.maxTokens"),
        (("routing", "localPrefill", "extra"), 0, "routing.localPrefill.extra is not known"),
        (("routing", "extra"), 1, "routing.extra is not known"),
        (("listen", "port"), 70000, "listen.port"),
        (("listen", "host"), None, "listen.host"),
        (("deployment",), "", "deployment"),
        (("servedNames",), "tiny", "servedNames"),
        (("servedNames",), [1], "servedNames[0]"),
        (("admin",), [], "admin must be an object"),
    ],
)
def test_wrong_values_are_named(path: tuple[str, ...], value: Any, names: str) -> None:
    broken = copy.deepcopy(VALID)
    inner = broken
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ConfigError, match=names.replace("[", r"\[").replace("]", r"\]")):
        config.parse(broken)


@pytest.mark.parametrize("key", list(VALID))
def test_missing_keys_are_named(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is missing"):
        config.parse({k: v for k, v in VALID.items() if k != key})


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        config.load(file)
    file.write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json is not JSON"):
        config.load(file)
    file.write_text("[]")
    with pytest.raises(ConfigError, match="must be an object"):
        config.load(file)


def test_backends_file(tmp_path: Path) -> None:
    file = tmp_path / "backends.json"
    file.write_text(json.dumps([{"name": "p", "tier": "prefiller", "host": "10.0.0.1"}]))
    (pod,) = read_file(file)
    assert (pod.uid, pod.port, pod.bootstrap_port, pod.state) == ("p", 8000, 8998, READY)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({}, "must be a list"),
        ([1], "backend 0 must be an object"),
        ([{"name": "p", "tier": "x", "host": "h"}], "tier must be"),
        ([{"name": "p", "tier": "decoder"}], "host must be"),
        ([{"name": "p", "tier": "decoder", "host": "h", "x": 1}], "x is not known"),
        ([{"name": "p", "tier": "decoder", "host": "h", "port": 0}], "port must be"),
        ([{"name": "p", "tier": "decoder", "host": "h", "state": "x"}], "state must be"),
        ([{"name": "p", "tier": "decoder", "host": "h"}] * 2, "the same uid or name"),
    ],
)
def test_wrong_backends_are_named(tmp_path: Path, value: Any, names: str) -> None:
    file = tmp_path / "backends.json"
    file.write_text(json.dumps(value))
    with pytest.raises(ConfigError, match=names):
        read_file(file)
