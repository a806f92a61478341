"""`kubectl pd render`: the merged spec, or all children, as YAML; pure but for the preset files."""

from pathlib import Path
from typing import Any, Final

import yaml

from pd_operator import presets
from pd_operator.api.deployment import API_VERSION, KIND, InvalidSpecError, PDDeployment, parse
from pd_operator.build import Defaults, desired
from pd_operator.validate import problems

DEFAULTS: Final = Defaults("PROXY-IMAGE", "MOONCAKE-IMAGE")
"""Without a cluster the images that the operator was installed with are not known."""
_UID: Final = "00000000-0000-0000-0000-000000000000"


class RenderError(Exception):
    """The file is no PDDeployment, or a wrong one; `str()` names each field."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def render(
    text: str, folder: Path | None, namespace: str, defaults: Defaults, *, children: bool
) -> str:
    """The PDDeployment in `text` merged, or its children; RenderError where it is wrong."""
    given = _read(text)
    names = presets.outside(given.get("spec"))
    found = {name: _preset(folder, name) for name in names} if folder else {}
    try:
        merged = presets.merge(
            given.get("spec") or {}, {name: t for name, t in found.items() if t is not None}
        )
        metadata = {"namespace": namespace, "uid": _UID, "generation": 1, **given["metadata"]}
        deployment = parse({"metadata": metadata, "spec": merged.spec})
    except (presets.PresetError, InvalidSpecError) as error:
        raise RenderError(str(error)) from error
    wrong = problems(deployment)
    if wrong:
        raise RenderError("\n".join(f"{problem.field}: {problem.message}" for problem in wrong))
    if children:
        return _yaml(_children(deployment, defaults))
    spec = {key: value for key, value in merged.spec.items() if key != presets.FIELD}
    return f"# specHash: {merged.hash}\n" + _yaml([{**given, "spec": spec}])


def _children(deployment: PDDeployment, defaults: Defaults) -> list[dict[str, Any]]:
    built = desired(deployment, defaults)
    return [*built.objects, *(tier.stateful_set for tier in built.tiers)]


def _read(text: str) -> dict[str, Any]:
    try:
        documents = [d for d in yaml.safe_load_all(text) if isinstance(d, dict)]
    except yaml.YAMLError as error:
        raise RenderError(f"no YAML: {' '.join(str(error).split())}") from error
    found = [d for d in documents if d.get("kind") == KIND]
    if len(found) != 1:
        raise RenderError(f"the file has {len(found)} objects of kind {KIND}; it must have one")
    (one,) = found
    if one.get("apiVersion") != API_VERSION:
        raise RenderError(f"apiVersion is {one.get('apiVersion')!r}; it must be {API_VERSION}")
    metadata, spec = one.get("metadata"), one.get("spec")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise RenderError("metadata.name must be set")
    if not isinstance(spec, dict):
        raise RenderError("spec must be a map of fields")
    return one


def _preset(folder: Path, name: str) -> str | None:
    path = folder / f"{name}.yaml"
    # A name with a slash would lead out of the folder.
    return path.read_text("utf-8") if path.parent == folder and path.is_file() else None


def _yaml(documents: list[dict[str, Any]]) -> str:
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)
