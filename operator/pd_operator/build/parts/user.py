"""What the user adds to the engines by hand: arguments, variables, volumes."""

from collections.abc import Mapping
from typing import Any

from pd_operator.api.base import ApiModel
from pd_operator.api.pods import Variable
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.quantities import canonical


def part(tier: Tier) -> Part:
    """Arguments and variables of both tiers, then the tier's own; they come last."""
    engine = tier.deployment.spec.engine
    return Part(
        args=(*engine.args, *tier.spec.args),
        user_env=user_variables(variables(engine.env, tier.spec.env)),
        volumes=tuple(_volume(_json(given)) for given in tier.spec.volumes),
        mounts=tuple(_json(given) for given in tier.spec.volume_mounts),
        pairing={
            "args": list(engine.args),
            "env": [_variable(given) for given in engine.env],
        },
    )


def variables(shared: tuple[Variable, ...], own: tuple[Variable, ...]) -> dict[str, Variable]:
    """By name; a tier's own variable takes the place of a shared one."""
    return {given.name: given for given in (*shared, *own)}


def user_variables(given: Mapping[str, Variable]) -> tuple[Manifest, ...]:
    """Variables as EnvVar objects."""
    return tuple(_variable(each) for each in given.values())


def _variable(given: Variable) -> Manifest:
    if given.value_from is None:
        return {"name": given.name, "value": given.value or ""}
    return _json(given)


def _volume(volume: Manifest) -> Manifest:
    scratch: dict[str, Any] = volume.get("emptyDir", {})
    if "sizeLimit" in scratch:
        scratch["sizeLimit"] = canonical(scratch["sizeLimit"])
    return volume


def _json(given: ApiModel) -> Manifest:
    return given.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, mode="json")
