"""Plugin of vLLM for engines without an accelerator; vLLM calls `register` in each process."""

import ctypes
import functools
import os
import signal
from typing import Any

import torch
from vllm.platforms.cpu import CpuPlatform

_PR_SET_PDEATHSIG = 1


def register() -> None:
    """Let MooncakeConnector run on the CPU, and fork the engine's core instead of spawning it."""
    _device_index()
    _fork()


def _device_index() -> None:
    # MooncakeConnector asks for the current device only to name it, and torch raises without one.
    if not torch.accelerator.is_available():
        torch.accelerator.current_device_index = lambda: 0


def _fork() -> None:
    # The platform forces spawn so that threads can be bound to cores before torch is loaded.
    # Nothing is bound here, and a spawned core imports everything again: 6 s of a start.
    original = CpuPlatform.check_and_update_config.__func__
    if getattr(original, "forks", False):
        return

    @functools.wraps(original)
    def check_and_update_config(cls: type, vllm_config: Any) -> None:
        original(cls, vllm_config)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"

    check_and_update_config.forks = True
    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)
    os.register_at_fork(after_in_child=_die_with_parent)


def _die_with_parent() -> None:
    # A core that outlived its API server would hold the memory and the port of a restarted one.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
