"""Generates the CustomResourceDefinition from the models: `python -m pd_operator.api.crd`.

Structural schemas allow a part of JSON Schema only (no $ref, no anyOf beside type, no
exclusiveMinimum, no additionalProperties beside properties), so pydantic's output is rewritten.
Defaults stay out of the schema: the API server would store them in the user's object, which
GitOps tools report as drift. The effective default is in each field's description.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import yaml
from pydantic import BaseModel

from pd_operator.api.base import ApiModel, Rule
from pd_operator.api.deployment import KIND, PLURAL, ROOT_RULES, VERSION, PDDeploymentSpec
from pd_operator.api.status import PDDeploymentStatus
from pd_shared.labels import GROUP

_KEPT: Final = (
    "description", "enum", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum",
    "minItems", "minLength", "minimum", "pattern", "properties", "required", "type",
    "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip

_COLUMNS: Final = (
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 0),
    ("Prefill", "integer", ".status.prefill.readyReplicas", 0),
    ("Decode", "integer", ".status.decode.readyReplicas", 0),
    ("TTFT", "string", ".status.latency.ttft", 0),
    ("TPOT", "string", ".status.latency.tpot", 0),
    ("Mode", "string", ".status.mode", 1),
    ("URL", "string", ".status.url", 1),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)


def _models(root: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield root
    for field in root.model_fields.values():
        pending = [field.annotation]
        while pending:
            annotation = pending.pop()
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from _models(annotation)
            pending.extend(get_args(annotation))


def _rules(root: type[BaseModel]) -> dict[str, tuple[Rule, ...]]:
    return {
        model.__name__: model.cel
        for model in _models(root)
        if issubclass(model, ApiModel) and model.cel
    }


def _validations(rules: tuple[Rule, ...]) -> list[dict[str, str]]:
    return [{"rule": rule.expression, "message": rule.message} for rule in rules]


def _map_values(node: dict[str, Any]) -> dict[str, Any] | None:
    # Pydantic renders a dict whose keys have a pattern as patternProperties, which structural
    # schemas do not know: a CEL rule says it of the keys.
    by_pattern: dict[str, dict[str, Any]] = node.get("patternProperties", {})
    if by_pattern:
        (schema,) = by_pattern.values()
        return schema
    return node.get("additionalProperties") or None


def structural(root: type[BaseModel]) -> dict[str, Any]:
    """The structural OpenAPI v3 schema of a model, with its CEL rules beside the fields."""
    schema = root.model_json_schema(by_alias=True)
    definitions: dict[str, Any] = schema.pop("$defs", {})
    rules = _rules(root)

    def rewrite(node: dict[str, Any]) -> dict[str, Any]:
        name = None
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[1]
            node = {**definitions[name], **{k: v for k, v in node.items() if k != "$ref"}}
        if "anyOf" in node:  # Optional[X]: absence is enough, null is not accepted
            (some,) = [option for option in node["anyOf"] if option.get("type") != "null"]
            return rewrite({**some, **{k: v for k, v in node.items() if k != "anyOf"}})
        result: dict[str, Any] = {key: node[key] for key in _KEPT if key in node}
        if "const" in node:
            result["enum"] = [node["const"]]
        if "properties" in result:
            result["properties"] = {k: rewrite(v) for k, v in node["properties"].items()}
        elif values := _map_values(node):
            result["additionalProperties"] = rewrite(values)
        if "items" in result:
            result["items"] = rewrite(node["items"])
        if name in rules:
            result["x-kubernetes-validations"] = _validations(rules[name])
        return result

    result = rewrite(schema)
    if root.__name__ in rules:
        result["x-kubernetes-validations"] = _validations(rules[root.__name__])
    return result


def _without_required(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec's schema where presets may give what is required: a rule says it instead."""
    for node, fields in (
        (spec, ("model", "engine")),
        (spec["properties"]["model"], ("id",)),
        (spec["properties"]["engine"], ("image",)),
    ):
        kept = [name for name in node.pop("required", []) if name not in fields]
        if kept:
            node["required"] = kept
    return spec


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition of PDDeployment."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["pdd"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {
                        "status": {},
                        # One /scale per resource: the decoders, the tier that HPA users scale.
                        "scale": {
                            "specReplicasPath": ".spec.decode.replicas",
                            "statusReplicasPath": ".status.decode.replicas",
                            "labelSelectorPath": ".status.decode.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "priority": priority}
                        for name, kind, path, priority in _COLUMNS
                    ],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "vLLM serving with prefill and decode on separate pods.",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": _without_required(structural(PDDeploymentSpec)),
                                "status": structural(PDDeploymentStatus),
                            },
                            "x-kubernetes-validations": _validations(ROOT_RULES),
                        }
                    },
                }
            ],
        },
    }


class _Plain(yaml.SafeDumper):
    """Without anchors: not every tool that reads CRDs knows them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def render() -> str:
    """The CRD as YAML, ready to be applied."""
    header = "# Generated by `make generate` from operator/pd_operator/api; do not edit.\n"
    return header + yaml.dump(crd(), Dumper=_Plain, sort_keys=False, width=100)


def main(paths: list[str]) -> None:
    """Write the CRD to each path."""
    for path in paths:
        Path(path).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
