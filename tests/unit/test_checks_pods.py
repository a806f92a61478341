"""Variables, arguments, volumes and mounts that a tier must not have."""

from typing import Any

import pytest

from pd_operator.api.engine import AGREED_FLAGS, OWNED_FLAGS
from pd_operator.api.pods import OWNED_VARIABLES, OWNED_VOLUMES
from pd_operator.validate import problems
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, STORE, at, deployment, merged, part

REFERENCE = {"name": "n", "key": "k"}
SCRATCH = [{"name": "v", "emptyDir": {}}]


def variable(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "A", **fields}]


def mount(path: str, **fields: Any) -> dict[str, Any]:
    return {"volumes": SCRATCH, "volumeMounts": [{"name": "v", "mountPath": path, **fields}]}


CASES: list[tuple[dict[str, Any], str, str]] = [
    (at("engine.env", [{"name": "VLLM_HOST_IP", "value": "::"}]), "VariableSetByOperator",
     "spec.engine.env[0].name"),
    (at("prefill.env", [{"name": "VLLM_PORT"}]), "VariableSetByOperator",
     "spec.prefill.env[0].name"),
    (at("decode.env", [*variable(), {"name": "HF_TOKEN"}]), "VariableSetByOperator",
     "spec.decode.env[1].name"),
    (at("decode.env", [*variable(), *variable(value="x")]), "InvalidVariable",
     "spec.decode.env[1].name"),
    (at("decode.env", [{"name": "VLLM_KV_CACHE_LAYOUT", "value": "HND"}]), "InvalidVariable",
     "spec.decode.env[0].name"),
    (at("engine.env", variable(value="x", valueFrom={"secretKeyRef": REFERENCE})),
     "InvalidVariable", "spec.engine.env[0].value"),
    (at("engine.env", variable(valueFrom={})), "InvalidVariable",
     "spec.engine.env[0].valueFrom"),
    (at("engine.env", variable(valueFrom={"secretKeyRef": {"name": "n", "key": ".."}})),
     "InvalidVariable", "spec.engine.env[0].valueFrom.secretKeyRef.key"),
    (at("prefill.volumes", [{"name": "shm", "emptyDir": {}}]), "InvalidVolume",
     "spec.prefill.volumes[0].name"),
    (at("prefill.volumes", [*SCRATCH, *SCRATCH]), "InvalidVolume",
     "spec.prefill.volumes[1].name"),
    (at("prefill.volumes", [{"name": "v"}]), "InvalidVolume", "spec.prefill.volumes[0]"),
    (at("prefill.volumes", [{"name": "v", "emptyDir": {"sizeLimit": "0"}}]), "InvalidVolume",
     "spec.prefill.volumes[0].emptyDir.sizeLimit"),
    ({"decode": {"volumeMounts": [{"name": "tmp", "mountPath": "/mnt/x"}]}}, "InvalidVolume",
     "spec.decode.volumeMounts[0].name"),
    ({"decode": mount("/tmp/x")}, "InvalidVolume", "spec.decode.volumeMounts[0].mountPath"),
    ({"decode": mount("/dev/infiniband")}, "InvalidVolume",
     "spec.decode.volumeMounts[0].mountPath"),
    ({"decode": mount("/usr")}, "InvalidVolume", "spec.decode.volumeMounts[0].mountPath"),
    ({"decode": mount("/mnt"), "model": {"source": {"pvc": {"claimName": "c"}}}},
     "InvalidVolume", "spec.decode.volumeMounts[0].mountPath"),
    ({"decode": mount("/models"), "model": {"source": {"local": {"path": "/models/tiny"}}}},
     "InvalidVolume", "spec.decode.volumeMounts[0].mountPath"),
    ({"decode": {"volumes": SCRATCH, "volumeMounts": [
        {"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}},
     "InvalidVolume", "spec.decode.volumeMounts[1].mountPath"),
    (at("decode.args", ["--seed", "1", "--port=1"]), "ArgumentNotAllowed",
     "spec.decode.args[2]"),
    (at("prefill.args", ["tiny"]), "ArgumentNotAllowed", "spec.prefill.args[0]"),
    (at("prefill.args", ["--nnodes=2"]), "ArgumentNotAllowed", "spec.prefill.args[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "reason", "field"), CASES)
def test_problem(changes: dict[str, Any], reason: str, field: str) -> None:
    (problem,) = problems(deployment(merged(CUDA, changes)))
    assert (problem.reason, problem.field) == (reason, field)
    assert field in problem.message
    assert "\n" not in problem.message


@pytest.mark.parametrize("flag", AGREED_FLAGS)
@pytest.mark.parametrize("spelling", ["{}", "{}=x", "{} x"])
@pytest.mark.parametrize("tier", ["prefill", "decode"])
def test_flags_on_which_both_tiers_must_agree(flag: str, spelling: str, tier: str) -> None:
    changes = at(f"{tier}.args", [spelling.format(flag)])
    (problem,) = problems(deployment(merged(CUDA, changes)))
    assert problem.field == f"spec.{tier}.args[0]"
    assert "set it in spec.engine.args" in problem.message
    assert problems(deployment(merged(CUDA, at("engine.args", [f"{flag}=x"])))) == ()


@pytest.mark.parametrize("argument", ["--kv_cache_dtype=fp8", "--quant=fp8", "-qfp8"])
def test_such_flags_in_other_spellings(argument: str) -> None:
    (problem,) = problems(deployment(merged(CUDA, at("decode.args", [argument]))))
    assert problem.field == "spec.decode.args[0]"


@pytest.mark.parametrize("flag", OWNED_FLAGS)
def test_flags_of_the_operator(flag: str) -> None:
    (problem,) = problems(deployment(merged(CUDA, at("decode.args", [f"{flag}=1"]))))
    assert problem.field == "spec.decode.args[0]"


@pytest.mark.parametrize(
    "changes",
    [
        at("decode.args", ["--max-num-seqs", "64", "--gpu-memory-utilization=0.8", "-O3"]),
        at("engine.env", variable(value="$(VLLM_HOST_IP)")),
        at("engine.env", [{"name": "VLLM_KV_CACHE_LAYOUT", "value": "HND"}]),
        at("decode.env", [{"name": "OMP_NUM_THREADS", "value": "4"}]),
        {"decode": mount("/etc/ssl/own", readOnly=True, subPath="a/.b")},
        {"decode": mount("/root/.cache")},
        {"decode": mount("/mnt/data")},
    ],
    ids=str,
)
def test_good_ones(changes: dict[str, Any]) -> None:
    assert problems(deployment(merged(CUDA, changes))) == ()


@pytest.mark.parametrize("spec", [CPU, CUDA, merged(CUDA, STORE)])
@pytest.mark.parametrize("component", [PREFILLER, DECODER])
def test_every_variable_and_volume_of_the_operator_is_refused(
    spec: dict[str, Any], component: str
) -> None:
    tier = "prefill" if component == PREFILLER else "decode"
    own = part(spec, component)
    names = {*own.env, *own.env_from, *own.first_env, *OWNED_VARIABLES}
    for name in names:
        changes = at(f"{tier}.env", [{"name": name, "value": "x"}])
        (problem,) = problems(deployment(merged(spec, changes)))
        assert problem.reason == "VariableSetByOperator"
    for name in {*(volume["name"] for volume in own.volumes), *OWNED_VOLUMES}:
        changes = at(f"{tier}.volumes", [{"name": name, "emptyDir": {}}])
        (problem,) = problems(deployment(merged(spec, changes)))
        assert problem.reason == "InvalidVolume"
