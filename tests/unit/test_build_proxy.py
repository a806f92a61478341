"""The proxy's Deployment, configuration and rights."""

import json
from typing import Any

from pd_operator.build import url
from tests.specs import CUDA, DEFAULTS, children, deployment, merged


def proxy(changes: dict[str, Any] | None = None, uid: str = "uid-1") -> dict[str, Any]:
    found = children(deployment(merged(CUDA, changes or {}), uid=uid))
    return found["Deployment", "tiny-proxy"]


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    result = manifest["spec"]["template"]["spec"]
    assert isinstance(result, dict)
    return result


def config(changes: dict[str, Any]) -> dict[str, Any]:
    found = children(deployment(merged(CUDA, changes)))
    result: dict[str, Any] = json.loads(found["ConfigMap", "tiny-proxy"]["data"]["config.json"])
    return result


def test_configuration() -> None:
    assert config({}) == {
        "deployment": "tiny",
        "namespace": "ns",
        "deploymentUid": "uid-1",
        "servedNames": ["org/model"],
        "listen": {"host": "", "port": 8000},
        "admin": {"host": "", "port": 9090},
        "timeouts": {
            "connect": 2.0, "bootstrap": 5.0, "prefill": 120.0, "firstToken": 150.0,
            "betweenTokens": 60.0, "kvWait": 60.0, "drain": 120.0,
        },
        "limits": {
            "bodyBytes": 33554432, "headerBytes": 65536, "connections": 4096, "inFlight": 1024,
        },
        "queue": {"size": 512, "timeout": 30.0, "perDecoder": 512, "perPrefiller": 256},
        "routing": {
            "prefixAware": True, "sessionHeader": "X-Session-Id",
            "localPrefill": {"enabled": False, "maxTokens": 256},
        },
    }  # fmt: skip


def test_timeouts_and_limits() -> None:
    found = config(
        {
            "proxy": {
                "timeouts": {
                    "connect": "500ms", "bootstrap": "1s", "prefill": "3m", "kvWait": "20s",
                    "firstToken": "5m", "betweenTokens": "90s", "drain": "1h",
                },
                "limits": {
                    "bodySize": "1Mi", "headerSize": "8Ki", "connections": 10, "inFlight": 5,
                },
            }
        }
    )  # fmt: skip
    assert found["timeouts"] == {
        "connect": 0.5, "bootstrap": 1.0, "prefill": 180.0, "kvWait": 20.0, "firstToken": 300.0,
        "betweenTokens": 90.0, "drain": 3600.0,
    }  # fmt: skip
    assert found["limits"] == {
        "bodyBytes": 1048576, "headerBytes": 8192, "connections": 10, "inFlight": 5,
    }  # fmt: skip


def test_queue() -> None:
    given = {"size": 0, "timeout": "5s", "requestsPerDecoder": 16, "requestsPerPrefiller": 4}
    assert config({"proxy": {"queue": given}})["queue"] == {
        "size": 0, "timeout": 5.0, "perDecoder": 16, "perPrefiller": 4,
    }  # fmt: skip


def test_api_keys_and_tls() -> None:
    changes = {"proxy": {"apiKeys": {"secretName": "clients"}, "tls": {"secretName": "web"}}}
    found = config(changes)
    assert found["apiKeys"] == {"folder": "/etc/pd-proxy-keys", "isolateCache": True}
    assert found["tls"] == {"folder": "/etc/pd-proxy-tls"}
    shared = {"proxy": {"apiKeys": {"secretName": "clients", "isolateCache": False}}}
    assert config(shared)["apiKeys"]["isolateCache"] is False
    spec = pod(proxy(changes))
    secrets = {v["name"]: v["secret"] for v in spec["volumes"] if "secret" in v}
    assert secrets == {"api-keys": {"secretName": "clients"}, "tls": {"secretName": "web"}}
    mounts = {m["name"]: m for m in spec["containers"][0]["volumeMounts"]}
    for name, path in (("api-keys", found["apiKeys"]["folder"]), ("tls", found["tls"]["folder"])):
        # A subPath would never be renewed.
        assert mounts[name] == {"name": name, "mountPath": path, "readOnly": True}
    assert not {"apiKeys", "tls"} & set(config({}))
    assert not any("secret" in v for v in pod(proxy())["volumes"])


def test_access_log() -> None:
    assert config({"proxy": {"accessLog": True}})["accessLog"] is True
    assert "accessLog" not in config({})


def test_url_tells_of_tls() -> None:
    plain, secure = (deployment(merged(CUDA, c)) for c in (
        {}, {"proxy": {"tls": {"secretName": "web"}}}))  # fmt: skip
    assert url(plain, DEFAULTS).startswith("http://")
    assert url(secure, DEFAULTS).startswith("https://")


def test_timeouts_touch_no_engine() -> None:
    changed = children(deployment(merged(CUDA, {"proxy": {"timeouts": {"prefill": "1m"}}})))
    for key, manifest in children(deployment(CUDA)).items():
        assert (changed[key] == manifest) is (key[1] != "tiny-proxy" or key[0] not in (
            "Deployment", "ConfigMap"))  # fmt: skip


def test_routing() -> None:
    routing = {
        "prefixAware": False, "sessionHeader": "X-User",
        "localPrefill": {"enabled": True, "maxTokens": 64},
    }  # fmt: skip
    assert config({"proxy": {"routing": routing}})["routing"] == routing


def test_served_name() -> None:
    assert config({"model": {"servedName": "gpt"}})["servedNames"] == ["gpt"]


def test_replicas_and_image() -> None:
    assert proxy()["spec"]["replicas"] == 2
    assert pod(proxy())["containers"][0]["image"] == "registry.example/proxy:1"
    own = proxy({"proxy": {"replicas": 1, "image": "registry.example/own:1"}})
    assert own["spec"]["replicas"] == 1
    assert pod(own)["containers"][0]["image"] == "registry.example/own:1"


def test_new_configuration_means_new_pods() -> None:
    def template(changes: dict[str, Any]) -> Any:
        return proxy(changes)["spec"]["template"]

    assert template({}) != template({"model": {"servedName": "gpt"}})
    assert template({}) == template({"prefill": {"replicas": 4}})


def test_no_proxy_goes_before_its_successor_is_ready() -> None:
    manifest = proxy()
    assert manifest["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    container = pod(manifest)["containers"][0]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "admin"}


def test_grace_period_covers_the_drain() -> None:
    found = pod(proxy())
    (container,) = found["containers"]
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert found["terminationGracePeriodSeconds"] > sleep + 120
    longer = pod(proxy({"proxy": {"timeouts": {"drain": "10m"}}}))
    assert longer["terminationGracePeriodSeconds"] > sleep + 600


def test_command_reads_the_mounted_file() -> None:
    (container,) = pod(proxy())["containers"]
    assert container["command"][1:] == [
        "-m", "pd_proxy", "--config", "/etc/pd-proxy/config.json",
    ]  # fmt: skip
    assert container["volumeMounts"][0]["mountPath"] == "/etc/pd-proxy"


def test_rights_are_to_watch_pods() -> None:
    found = children(deployment(CUDA))
    assert found["Role", "tiny-proxy"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    ]
    binding = found["RoleBinding", "tiny-proxy"]
    assert binding["roleRef"]["name"] == "tiny-proxy"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "tiny-proxy", "namespace": "ns"}
    ]
    assert pod(proxy())["serviceAccountName"] == "tiny-proxy"
    assert pod(proxy())["automountServiceAccountToken"] is True
