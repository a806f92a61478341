"""Which files are the cluster's among those that it shares with others."""

from tests.cluster.leftovers import cni_results


def test_results_of_other_networks_stay() -> None:
    names = [
        "pd-operator-0a1b-eth0",
        "cni-loopback-0a1b-lo",
        "cni-loopback-ffff-lo",
        "bridge-0a1b-eth0",
        "podman-2c3d-eth0",
    ]
    assert cni_results(names) == names[:2]
    assert cni_results(names[2:]) == []
