"""Generates the types of a pod's fields: `python -m tools.pod_fields FILE`.

They are those of Kubernetes' own client, so of the OpenAPI schema that it is generated from.
"""

import json
import re
import sys
from pathlib import Path
from typing import Final

from kubernetes.client import models

ROOT: Final = "V1PodSpec"

_MODEL: Final = re.compile(r"\w*V[0-9]\w+")


def render() -> str:
    """JSON: for each type that a pod's spec reaches, the type of each field."""
    found: dict[str, dict[str, str]] = {}
    todo = [ROOT]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        model = getattr(models, name)
        found[name] = {model.attribute_map[key]: kind for key, kind in model.openapi_types.items()}
        todo += [inner for kind in found[name].values() for inner in _MODEL.findall(kind)]
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
