"""The command lines of all engines in the golden files."""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.golden import update

_PLACEHOLDERS: Final = {
    "{node_rank}": "1",
    "{leader_address}": "127.0.0.1",
    "{start_rank}": "1",
    "$(VLLM_HOST_IP)": "127.0.0.1",
}
"""What the launcher and the kubelet fill in."""


def engine_commands() -> dict[str, list[str]]:
    """`example/StatefulSet` to the arguments after `vllm serve`; of groups for each member."""
    return dict(_commands())


def _commands() -> Iterator[tuple[str, list[str]]]:
    for name in update.example_names():
        for child in yaml.safe_load_all(update.golden(name).read_text("utf-8")):
            if child["kind"] != "StatefulSet":
                continue
            for container in child["spec"]["template"]["spec"]["containers"]:
                if container["name"] != "engine":
                    continue
                for member in ("leader", "worker") if is_group(container) else ("",):
                    key = f"{name}/{child['metadata']['name']}/{member}".rstrip("/")
                    yield key, serve_arguments(container, member)


def is_group(container: dict[str, Any]) -> bool:
    """Whether the launcher joins several pods."""
    return any(word.startswith("--group-size=") for word in container["command"])


def serve_arguments(container: dict[str, Any], member: str = "") -> list[str]:
    """The arguments after `vllm serve`, placeholders filled in; with those of a group's member."""
    option = f"--{member}-arg="
    own = [w.removeprefix(option) for w in container["command"] if member and w.startswith(option)]
    words = [*container["command"], *container.get("args", []), *own]
    start = next(i for i, word in enumerate(words) if word == "serve" and words[i - 1] == "vllm")
    arguments = []
    for word in words[start + 1 :]:
        for placeholder, value in _PLACEHOLDERS.items():
            word = word.replace(placeholder, value)  # noqa: PLW2901
        arguments.append(word)
    return arguments
