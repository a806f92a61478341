"""Security contexts of pods and containers."""

from typing import Final

from pd_operator.build.manifest import Manifest

NON_ROOT: Final = 65532
"""UID and GID of every pod under the restricted profile."""


def restricted_pod() -> Manifest:
    """A pod's security context under the restricted Pod Security profile."""
    return {
        "runAsNonRoot": True,
        "runAsUser": NON_ROOT,
        "runAsGroup": NON_ROOT,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def restricted_container() -> Manifest:
    """A container's security context under the restricted profile, with a read-only root."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def engine_pod(*, image_user: bool) -> Manifest:
    """An engine pod's security context; with `image_user` the image says its user."""
    if image_user:
        return {"seccompProfile": {"type": "RuntimeDefault"}}
    return restricted_pod()


def engine_container(capabilities: tuple[str, ...], *, image_user: bool) -> Manifest:
    """An engine container's security context: restricted but for `capabilities`."""
    if not image_user and not capabilities:
        return restricted_container()
    added = {"add": sorted(capabilities)} if capabilities else {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {**added, "drop": ["ALL"]},
        "readOnlyRootFilesystem": not image_user,
    }
