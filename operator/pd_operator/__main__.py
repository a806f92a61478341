"""The operator process: `python -m pd_operator`."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

import kopf

from pd_operator import handlers, kinds, logs, resync
from pd_operator.build import Defaults
from pd_operator.client import KubernetesApi, configuration
from pd_operator.endpoints import Answer, Endpoint
from pd_operator.errors import ApiError
from pd_operator.guard import GuardedApi
from pd_operator.health import Health
from pd_operator.lease import Lease
from pd_operator.login import login
from pd_operator.metrics import CONTENT_TYPE, Metrics
from pd_operator.queue import Queue
from pd_operator.reconcile import Reconciler
from pd_operator.scaling import ProxyScaler
from pd_operator.scrape import Scraper
from pd_operator.settings import Settings, SettingsError, from_environment
from pd_shared import ports

_LOG: Final = logging.getLogger("pd_operator")

_GRACE: Final = 8.0
"""Seconds for running reconciles at shutdown; the pod has 30 in all."""
_WORKERS: Final = 8
_WATCHING: Final = "watching"


@dataclass(frozen=True)
class _Process:
    """What lives as long as the process."""

    settings: Settings
    api: KubernetesApi
    lease: Lease
    metrics: Metrics
    health: Health
    stop: asyncio.Event


async def run(settings: Settings) -> int:
    """Stand by, lead, and stop; the exit code."""
    metrics = Metrics()
    health = Health(limit=3 * settings.resync_interval + 60)
    endpoints = (
        Endpoint(ports.OPERATOR_HEALTH, {"/healthz": lambda: _health(health)}),
        Endpoint(
            ports.OPERATOR_METRICS, {"/metrics": lambda: Answer(200, metrics.text(), CONTENT_TYPE)}
        ),
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        for endpoint in endpoints:
            await endpoint.start()
            stack.push_async_callback(endpoint.close)
        api = KubernetesApi(await configuration())
        stack.push_async_callback(api.close)
        lease = Lease(api, settings.namespace, settings.pod_name)
        stack.push_async_callback(lease.release)
        # Watches of a kind that is not there yet would silently stay empty.
        if not await _until(resync.available(api, settings.watch_namespaces), stop):
            return 0
        if not await _until(lease.acquire(), stop):
            return 0
        metrics.leader.set(1)
        return await _lead(_Process(settings, api, lease, metrics, health, stop))


async def _lead(process: _Process) -> int:
    settings, lease, health = process.settings, process.lease, process.health
    api = GuardedApi(process.api, lambda: lease.held, process.metrics)
    defaults = Defaults(settings.proxy_image, settings.mooncake_image, settings.cluster_domain)
    async with Scraper() as scraper:
        scaler = ProxyScaler(
            settings.scaling_interval, scraper, lambda namespace, name: queue.add((namespace, name))
        )
        reconciler = Reconciler(api, defaults, scaler, process.metrics, instance=settings.pod_name)
        queue = Queue(reconciler, _WORKERS)
        process.metrics.queue_depth.set_function(lambda: queue.depth)

        async def cleanup() -> None:
            await queue.stop(_GRACE)
            # kopf's own task that waits for the flag would hold it up for 5 s after a signal.
            process.stop.set()

        wake = handlers.Wake(queue.add, health.beat)
        resyncing = resync.forever(
            api, settings.watch_namespaces, settings.resync_interval, queue.add, health.beat
        )
        watching = kopf.operator(
            registry=handlers.register(wake, login, cleanup),
            settings=handlers.settings(),
            standalone=True,
            clusterwide=not settings.watch_namespaces,
            namespaces=settings.watch_namespaces,
            stop_flag=process.stop,
        )
        health.beat()
        queue.start()
        # The watches come last: kopf cancels at its end every task that began after it.
        jobs = (
            ("lease", lease.keep()),
            ("scaling", scaler.run()),
            ("resync", resyncing),
            (_WATCHING, watching),
        )
        tasks = [asyncio.create_task(job, name=name) for name, job in jobs]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Without the Lease no write may follow: what runs is cut off, not waited for.
            await (queue.stop(_GRACE) if lease.held else queue.cancel())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return _exit_code(done)


def _exit_code(done: set[asyncio.Task[None]]) -> int:
    for task in done:
        if task.get_name() != _WATCHING:
            # Only the watches may end by themselves, on a signal.
            _LOG.error("%s ended, so the operator does", task.get_name())
            return 1
        error = task.exception()
        if error is not None:
            _LOG.error("watching failed: %s", error)
            return 1
    return 0


async def _until(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Whether `work` was done before `stop` was set; otherwise it is cancelled."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    done = task.done()
    task.cancel()
    stopped.cancel()
    await asyncio.gather(task, stopped, return_exceptions=True)
    if done:
        task.result()
    return done


def _health(health: Health) -> Answer:
    if health.alive:
        return Answer(200, b"ok\n")
    return Answer(503, f"no event and no listing of {kinds.PD_DEPLOYMENT.plural} lately\n".encode())


def main() -> int:
    """The exit code; one clear line where the operator cannot start."""
    try:
        settings = from_environment(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"pd-operator: {error}\n")
        return 2
    logs.configure(settings.log_level)
    try:
        return asyncio.run(run(settings))
    except (ApiError, OSError) as error:
        _LOG.error("cannot start: %s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
