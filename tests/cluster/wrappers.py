"""Commands for the user in .cluster/bin, which know the cluster by themselves."""

import shlex
import shutil
from collections.abc import Mapping, Sequence

from tests.cluster import programs
from tests.cluster.layout import Layout


def write(layout: Layout, commands: Mapping[str, Sequence[str]], kubeconfig: str = "") -> None:
    """Make one script for each command; KUBECONFIG of the environment goes before the default."""
    layout.bin.mkdir(parents=True, exist_ok=True)
    default = shlex.quote(kubeconfig or str(layout.kubeconfig))
    for name, command in commands.items():
        path = layout.bin / name
        partial = path.with_suffix(".part")
        partial.write_text(
            f"#!/bin/sh\nexport KUBECONFIG=${{KUBECONFIG:-{default}}}\n"
            f'exec {shlex.join(command)} "$@"\n',
            encoding="utf-8",
        )
        partial.chmod(0o755)
        partial.replace(path)


def clients() -> dict[str, list[str]]:
    """The commands kubectl and helm: the machine's own, else those built here."""
    found = {name: shutil.which(name) for name in ("kubectl", "helm")}
    present = {name: [path] for name, path in found.items() if path}
    if len(present) == len(found):
        return present
    folder = programs.kubernetes()
    return {"kubectl": [str(folder / "kube"), "kubectl"], "helm": [str(folder / "helm")]}
