"""Configuration files and command lines of the cluster's programs."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.cluster import commands, files, start
from tests.cluster.layout import ADDRESS, DEVICES, DNS_SERVICE, PORTS, Layout

LAYOUT = Layout(Path("/a b/with space/.cluster"))
TEXTS = files.files(LAYOUT, "localhost/pause:1", "/usr/lib/cni")


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith(("json", "conflist"))])
def test_json_files_are_json(name: str) -> None:
    assert json.loads(TEXTS[name])


def test_containerd_keeps_everything_in_folders_of_its_own() -> None:
    config = tomllib.loads(TEXTS["containerd.toml"])
    assert config["root"] == str(LAYOUT.containerd)
    assert config["state"].startswith(str(LAYOUT.run))
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == "localhost/pause:1"
    assert cri["netns_mounts_under_state_dir"] is True
    assert cri["containerd"]["runtimes"]["runc"]["options"]["Root"].startswith(str(LAYOUT.run))


def test_the_audit_log_leaves_out_the_clusters_own_parts_only() -> None:
    rules = json.loads(TEXTS["audit.json"])["rules"]
    assert rules[-1] == {"level": "Metadata"}
    silent = [user for rule in rules for user in rule.get("users", [])]
    assert silent
    assert not [user for user in silent if "pd-" in user or "serviceaccount" in user]


@pytest.mark.parametrize("name", commands.PROGRAMS)
def test_every_program_has_a_command_line(name: str) -> None:
    arguments = start.arguments(LAYOUT, name)
    assert arguments
    assert all(isinstance(word, str) for word in arguments)


def test_every_device_is_advertised() -> None:
    arguments = commands.device_plugin(LAYOUT)
    assert [f"{name}={count}" for name, count in DEVICES.items()] == arguments[1::2]


def test_servers_listen_on_the_nodes_address_alone() -> None:
    for name in ("apiserver", "controller-manager", "scheduler"):
        assert f"--bind-address={ADDRESS}" in start.arguments(LAYOUT, name)
    kubelet = json.loads(TEXTS["kubelet.json"])
    assert kubelet["address"] == kubelet["healthzBindAddress"] == ADDRESS
    assert f"bind {ADDRESS}\n" in TEXTS["Corefile"]
    assert 6443 in PORTS


def test_pods_ask_the_clusters_name_server() -> None:
    assert json.loads(TEXTS["kubelet.json"])["clusterDNS"] == [DNS_SERVICE]
    service, endpoints = files.dns().values()
    assert service["spec"]["clusterIP"] == DNS_SERVICE
    assert endpoints["endpoints"][0]["addresses"] == [ADDRESS]
    assert {port["protocol"] for port in endpoints["ports"]} == {"UDP", "TCP"}
