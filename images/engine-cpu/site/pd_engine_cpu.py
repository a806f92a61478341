"""Plugin of vLLM for engines without an accelerator; vLLM calls `register` in each process."""

import ctypes
import functools
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.triton_utils import dispatcher

_PR_SET_PDEATHSIG = 1


def register() -> None:
    """Let Mooncake's and LMCache's connectors run on the CPU, and fork the engine's core."""
    _device_index()
    _metrics_of_two_connectors()
    _kernels_beside_llvmlite()
    _fork()


def _device_index() -> None:
    # MooncakeConnector asks for the current device only to name it, and torch raises without one.
    if not torch.accelerator.is_available():
        torch.accelerator.current_device_index = lambda: 0


def _metrics_of_two_connectors() -> None:
    # vLLM before 0.33.0 ends at the first transfer of a MultiConnector: MooncakeConnector sends
    # statistics but has no metrics for them. This cure is what +pd in the version stands for.
    if not any("MultiConnector" in argument for argument in sys.argv):
        return
    from vllm.distributed.kv_transfer.kv_connector.v1 import multi_connector  # noqa: PLC0415 - slow

    metrics = multi_connector.MultiKVConnectorPromMetrics
    original = metrics.observe

    @functools.wraps(original)
    def observe(self: Any, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        known = {k: v for k, v in transfer_stats_data.items() if k in self._prom_metrics}
        original(self, known, engine_idx)

    metrics.observe = observe


def _kernels_beside_llvmlite() -> None:
    # vLLM looks into every object of every module for its kernels; llvmlite, which LMCache brings,
    # has one that answers any attribute, `__dict__` as well, with a function.
    dispatcher.vars = lambda value: found if isinstance(found := value.__dict__, Mapping) else {}


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
