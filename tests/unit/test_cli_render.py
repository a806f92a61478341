"""`kubectl pd render`: what it prints, and what it says of a wrong file."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pd_cli.__main__ import main
from tests.specs import CUDA, merged

PRESET = "decode: {replicas: 4}\nengine: {args: [--seed=1]}"


def written(folder: Path, spec: dict[str, Any], **more: Any) -> str:
    manifest = {
        "apiVersion": "pd-operator.io/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": "tiny"},
        "spec": spec,
        **more,
    }
    path = folder / "file.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return str(path)


def test_the_merged_spec_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text(PRESET)
    spec = merged(CUDA, {"presets": ["single-gpu", "mine"], "proxy": {"replicas": 3}})
    assert main(["render", "-f", written(tmp_path, spec), "--preset-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# specHash: ")
    shown = yaml.safe_load(out)
    assert shown["metadata"] == {"name": "tiny"}
    assert shown["spec"]["mode"] == "Colocated"
    assert shown["spec"]["decode"] == {"replicas": 4, "parallelism": {"tensor": 1}}
    assert shown["spec"]["engine"]["args"] == ["--seed=1"]
    assert shown["spec"]["proxy"]["replicas"] == 3
    assert "presets" not in shown["spec"]


def test_what_is_printed_gives_the_same_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = merged(CUDA, {"presets": ["pd-mooncake-rdma"]})
    assert main(["render", "-f", written(tmp_path, spec)]) == 0
    first = capsys.readouterr().out
    (tmp_path / "again.yaml").write_text(first)
    assert main(["render", "-f", str(tmp_path / "again.yaml")]) == 0
    assert capsys.readouterr().out == first


def test_children_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, CUDA)
    assert main(["render", "-f", path, "--children", "-n", "ns", "--proxy-image", "p:1"]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert sum(d["kind"] == "StatefulSet" for d in documents) == 2
    assert {d["metadata"]["namespace"] for d in documents} == {"ns"}
    (proxy,) = [d for d in documents if d["kind"] == "Deployment"]
    assert proxy["spec"]["template"]["spec"]["containers"][0]["image"] == "p:1"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (merged(CUDA, {"presets": ["absent"]}), ["spec.presets", "'absent'", "single-gpu"]),
        (merged(CUDA, {"presets": ["../file"]}), ["spec.presets", "'../file'"]),
        ({"presets": ["laptop-cpu"]}, ["spec.model", "spec.engine.image"]),
        (merged(CUDA, {"model": {"di": 1}}), ["spec.model.di"]),
        (
            merged(CUDA, {"prefill": {"resources": {"limits": {"x": 1}}}}),
            ["spec.prefill.resources.limits[x]"],
        ),
    ],
)
def test_errors_name_the_field(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spec: dict[str, Any],
    words: list[str],
) -> None:
    arguments = ["render", "-f", written(tmp_path, spec), "--preset-dir", str(tmp_path)]
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(word in captured.err for word in words), captured.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "no YAML"),
        ("kind: Pod", "0 objects of kind PDDeployment"),
        ("kind: PDDeployment\n---\nkind: PDDeployment", "2 objects"),
        ("kind: PDDeployment", "apiVersion"),
        ("kind: PDDeployment\napiVersion: pd-operator.io/v1alpha1", "metadata.name"),
        (
            "kind: PDDeployment\napiVersion: pd-operator.io/v1alpha1\nmetadata: {name: a}",
            "spec must be a map",
        ),
    ],
)
def test_a_file_without_a_deployment_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    assert main(["render", "-f", str(path)]) == 1
    assert words in capsys.readouterr().err


def test_a_missing_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-f", str(tmp_path / "absent.yaml")]) == 1
    assert "absent.yaml" in capsys.readouterr().err
