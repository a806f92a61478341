"""The children of every example, as YAML: `python -m tests.golden.update` writes them."""

from pathlib import Path
from typing import Any, Final
from unittest import mock

import yaml

from pd_operator import presets
from pd_operator.api.deployment import PDDeployment, parse
from pd_operator.build import Defaults, Manifest, desired, launcher
from tools.paths import REPOSITORY

EXAMPLES: Final = REPOSITORY / "crds" / "examples"
FOLDER: Final = Path(__file__).parent

DEFAULTS: Final = Defaults(
    proxy_image="registry.example/pd-operator/proxy:1",
    mooncake_image="registry.example/pd-operator/mooncake:1",
)
NAMESPACE: Final = "models"
UID: Final = "3f2b8c1e-0000-4000-8000-000000000001"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def example_names() -> list[str]:
    """Names of all examples, without ending."""
    return sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


def example(name: str) -> PDDeployment:
    """An example as the operator would read it from the API server."""
    manifest = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text("utf-8"))
    manifest["metadata"] |= {"namespace": NAMESPACE, "uid": UID, "generation": 1}
    return parse({**manifest, "spec": presets.merge(manifest["spec"], {}).spec})


def children(deployment: PDDeployment) -> list[Manifest]:
    """All children: the shared ones in apply order, then the tiers.

    The launcher's files are left out, and their hash: each change of them would change all.
    """
    with (
        mock.patch.object(launcher, "launcher_files", return_value={"__main__.py": "# left out\n"}),
        mock.patch.object(launcher, "_digest", return_value="left-out"),
    ):
        built = desired(deployment, DEFAULTS)
    return [*built.objects, *(tier.stateful_set for tier in built.tiers)]


def render(deployment: PDDeployment) -> str:
    """The golden text of a deployment's children."""
    header = "# Written by `python -m tests.golden.update`; do not edit.\n---\n"
    return header + yaml.dump_all(
        children(deployment), Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True
    )


def golden(name: str) -> Path:
    """The golden file of an example."""
    return FOLDER / f"{name}.yaml"


def main() -> None:
    """Write all golden files, and remove those whose example is gone."""
    names = example_names()
    for path in FOLDER.glob("*.yaml"):
        if path.stem not in names:
            path.unlink()
    for name in names:
        golden(name).write_text(render(example(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
