"""CLUSTER=kind and CLUSTER=existing, against programs that only write down how they are called."""

from pathlib import Path

import pytest

from tests.cluster import existing, kind
from tests.cluster.layout import Layout
from tools.stages import UserError

_SCRIPT = """#!/bin/sh
echo "$(basename "$0") $*" >>{calls}
case "$(basename "$0") $*" in
"kind get clusters") cat {folder}/clusters 2>/dev/null || : ;;
"kind create cluster"*) echo pd-operator >{folder}/clusters ;;
"kubectl get nodes"*) cat {folder}/nodes ;;
"docker exec"*) echo '{{"images": [{{"repoTags": ["a:1", "b:1"]}}, {{"repoTags": null}}]}}' ;;
"docker version"*) [ ! -e {folder}/no-daemon ] || {{ echo "no daemon" >&2; exit 1; }} ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the programs look; `calls` holds how they were called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("docker", "kind", "kubectl", "helm"):
        text = _SCRIPT.format(calls=tmp_path / "calls", folder=tmp_path)
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return tmp_path


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    path.write_text("")
    return lines


def test_kind_makes_one_cluster_and_gives_its_node_devices(folder: Path) -> None:
    layout = Layout(folder / ".cluster")
    kind.up(layout)
    first = calls(folder)
    created = [line for line in first if line.startswith("kind create cluster")]
    assert len(created) == 1
    assert f"--kubeconfig {layout.kubeconfig}" in created[0]
    patched = [line for line in first if " patch node pd-operator-control-plane " in line]
    assert len(patched) == 1
    assert "--subresource=status" in patched[0]
    assert '"nvidia.com/gpu": "8"' in patched[0]

    kind.up(layout)
    second = calls(folder)
    assert not [line for line in second if line.startswith("kind create")]
    assert [line for line in second if line.startswith("kind export kubeconfig")]


def test_kind_loads_and_lists_images(folder: Path) -> None:
    layout = Layout(folder / ".cluster")
    kind.import_image(layout, folder / "x.tar")
    assert f"kind load image-archive {folder}/x.tar --name pd-operator" in calls(folder)
    assert kind.image_names(layout) == {"a:1", "b:1"}


def test_kind_takes_its_cluster_away(folder: Path) -> None:
    layout = Layout(folder / ".cluster")
    kind.up(layout)
    layout.kubeconfig.touch()
    calls(folder)
    kind.down(layout)
    assert calls(folder)[-1] == "kind delete cluster --name pd-operator"
    assert not layout.kubeconfig.exists()


def test_docker_without_its_daemon_is_told(folder: Path) -> None:
    (folder / "no-daemon").touch()
    with pytest.raises(UserError, match=r"docker version .*no daemon"):
        kind.up(Layout(folder / ".cluster"))


def test_an_existing_cluster_is_used_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(folder / ".cluster")
    (folder / "nodes").write_text('{"items": [{"status": {"images": [{"names": ["a:1"]}]}}]}')
    (folder / "config").touch()
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
    existing.up(layout)
    assert str(folder / "config") in (layout.bin / "kubectl").read_text()
    assert existing.image_names(layout) == {"a:1"}
    assert existing.status(layout)
    existing.down(layout)
    assert "stays" in capsys.readouterr().out


def test_an_existing_cluster_that_does_not_answer_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "config").touch()
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
    with pytest.raises(UserError, match="does not answer; try `kubectl get nodes`"):
        existing.up(Layout(folder / ".cluster"))
