"""What is read out of the packet filter and the addresses."""

import json
from pathlib import Path

import pytest

from tests.cluster import network

PORT_MAPS = """\
-P PREROUTING ACCEPT
-N CNI-DN-a657d47782a001f64aef4
-N CNI-HOSTPORT-DNAT
-N DOCKER
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j DOCKER
-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 18080 -j CNI-DN-a657d47782a001f64aef4
"""


def test_port_maps_are_removed_and_nothing_else() -> None:
    assert network.port_map_removals(PORT_MAPS) == [
        ["-D", "PREROUTING", *["-m", "addrtype", "--dst-type", "LOCAL", "-j", "CNI-HOSTPORT-DNAT"]],
        [
            *("-D", "POSTROUTING", "-m", "comment", "--comment"),
            *("CNI portfwd requiring masquerade", "-j", "CNI-HOSTPORT-DNAT"),
        ],
        ["-F", "CNI-DN-a657d47782a001f64aef4"],
        ["-F", "CNI-HOSTPORT-DNAT"],
        ["-X", "CNI-DN-a657d47782a001f64aef4"],
        ["-X", "CNI-HOSTPORT-DNAT"],
    ]


def test_without_port_maps_nothing_is_removed() -> None:
    assert network.port_map_removals("-P INPUT ACCEPT\n-N DOCKER\n-A INPUT -j DOCKER\n") == []


def test_links_of_pods_are_known_by_the_gateway() -> None:
    addresses = [
        {"ifname": "lo", "addr_info": [{"local": "10.244.0.1"}]},
        {"ifname": "veth1", "addr_info": [{"local": "10.244.0.1"}]},
        {"ifname": "veth2", "addr_info": [{"local": "172.17.0.1"}]},
        {"ifname": "veth3"},
    ]
    assert network.devices(json.dumps(addresses)) == ["veth1"]
    assert network.devices("") == []


def test_only_settings_of_the_cluster_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_SYSCTL", tmp_path)
    for name in (*network.SETTINGS, "kernel/other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    saved = network.settings()
    assert saved == dict.fromkeys(network.SETTINGS, "1")
    for name in network.SETTINGS:
        (tmp_path / name).write_text("0")
    network.restore({**saved, "kernel/other": "9"})
    assert {(tmp_path / name).read_text() for name in network.SETTINGS} == {"1"}
    assert (tmp_path / "kernel/other").read_text() == "1\n"
