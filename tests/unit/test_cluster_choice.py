"""Which cluster is used, and what is said where it cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import cluster
from tests.cluster import __main__ as program
from tests.cluster import containers, existing, kind
from tests.cluster.choice import Kind, chosen
from tests.cluster.layout import Layout
from tools.stages import UserError


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, Kind.LOCAL),
        ({"CLUSTER": ""}, Kind.LOCAL),
        ({"CLUSTER": "local"}, Kind.LOCAL),
        ({"CLUSTER": "kind"}, Kind.KIND),
        ({"CLUSTER": "existing"}, Kind.EXISTING),
    ],
)
def test_the_environment_chooses(environment: dict[str, str], found: Kind) -> None:
    assert chosen(environment) is found


def test_an_unknown_choice_is_told_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"CLUSTER=docker is not known.*local, kind, existing"):
        chosen({"CLUSTER": "docker"})


def test_kind_without_docker_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs Docker, which is missing"):
        kind.up(Layout(tmp_path))


@pytest.mark.parametrize("value", [None, "/no/such/file"])
def test_an_existing_cluster_needs_its_kubeconfig(
    value: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if value:
        monkeypatch.setenv("KUBECONFIG", value)
    else:
        monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(UserError, match="needs KUBECONFIG"):
        existing.up(Layout(tmp_path))


def test_images_of_an_existing_cluster_are_the_users_task(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ctr -n k8s.io images import engine.tar"):
        existing.import_image(Layout(tmp_path), tmp_path / "engine.tar")


def test_images_count_when_every_node_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = """{"items": [
        {"status": {"images": [{"names": ["a:1", "b:1"]}, {"names": null}]}},
        {"status": {"images": [{"names": ["b:1"]}]}}]}"""
    monkeypatch.setattr(existing, "_nodes", lambda _: nodes)
    assert existing.image_names(Layout(tmp_path)) == {"b:1"}


def test_an_archive_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no image archive"):
        cluster.import_image(tmp_path / "none.tar")


def test_images_need_a_running_containerd(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="containerd does not run; start the cluster"):
        containers.image_names(Layout(tmp_path))


@pytest.mark.parametrize(
    ("name", "stale"),
    [
        ("localhost/pd-operator/proxy:old", True),
        ("localhost/pd-operator/proxy:new", False),
        ("localhost/pd-operator/proxy:dev", False),
        ("localhost/pd-operator/unknown:old", False),
        ("registry.example/pause:3", False),
    ],
)
def test_images_with_a_successor_are_stale(name: str, stale: bool) -> None:
    assert containers.is_stale(name, ["localhost/pd-operator/proxy:new"]) is stale


def _refuse() -> None:
    raise UserError("port 53 is busy")


def _no_space() -> None:
    raise OSError(28, "No space left on device", "/a/file")


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (_refuse, "cluster: port 53 is busy\n"),
        (_no_space, "cluster: /a/file: No space left on device\n"),
        (_interrupt, "cluster: interrupted; the next command takes away what is left\n"),
    ],
)
def test_errors_are_one_line(
    command: Callable[[], None],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cluster, "up", command)
    assert program.main(["up"]) == 1
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("arguments", [[], ["start"], ["up", "down"]])
def test_a_wrong_command_is_told_the_right_ones(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(arguments) == 2
    assert "up|down|status" in capsys.readouterr().err
