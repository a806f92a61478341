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


def rdma_pod() -> Manifest:
    """A pod that registers memory with RDMA devices; the image says its user.

    IPC_LOCK has no effect for a user other than root, so the user is not forced.
    """
    return {"seccompProfile": {"type": "RuntimeDefault"}}


def rdma_container() -> Manifest:
    """A container with IPC_LOCK, which pinning memory for RDMA needs, and nothing more."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": False,
    }
