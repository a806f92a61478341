"""From apply to all children created: `make bench-reconcile`.

Measured at the API server: from sending the PDDeployment until its status tells of the first
reconcile, which the operator writes after all children. Then all children must be there.
"""

import json
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any, Final

import yaml
from kubernetes import client, config

from pd_operator.api.deployment import PLURAL, VERSION, parse
from pd_operator.build import Defaults, desired
from pd_shared.labels import DEPLOYMENT, GROUP
from tests.conftest import RELEASE, SYSTEM, image_values
from tests.kube import CommandError, Kube, example, until
from tools.paths import BUILD, REPOSITORY
from tools.stages import UserError, fail, say, stage

WHO: Final = "bench-reconcile"
NAMESPACE: Final = "pd-bench"
RUNS: Final = 10
EXAMPLES: Final = ("tiny-cpu", "store-cpu")
_KINDS: Final = (
    "statefulset,deployment,service,configmap,serviceaccount,role,rolebinding,"
    "poddisruptionbudget,networkpolicy"
)


@dataclass(frozen=True)
class Row:
    """One example's figures; seconds."""

    example: str
    children: int
    seconds: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """The row for build/bench/reconcile.json."""
        return {
            "example": self.example,
            "children": self.children,
            "runs": len(self.seconds),
            "median": statistics.median(self.seconds),
            "min": min(self.seconds),
            "max": max(self.seconds),
        }


def _run(api: client.CustomObjectsApi, kube: Kube, name: str, manifest: dict[str, Any]) -> float:
    manifest["metadata"]["name"] = name
    start = time.perf_counter()
    api.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, manifest)
    while True:
        found: Any = api.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, name)
        if found.get("status", {}).get("observedGeneration"):
            took = time.perf_counter() - start
            break
        if time.perf_counter() - start > 60:
            raise UserError(f"{name}: no status after 60 s; does the operator run?")
        time.sleep(0.005)
    wanted = desired(parse(found), Defaults("proxy:x", "mooncake:x"))
    names = {
        (m["kind"], m["metadata"]["name"])
        for m in (*wanted.objects, *(tier.stateful_set for tier in wanted.tiers))
    }
    children = kube.list(_KINDS, NAMESPACE, f"{DEPLOYMENT}={name}")
    missing = names - {(c["kind"], c["metadata"]["name"]) for c in children}
    if missing:
        raise UserError(f"{name}: the status was written without these children: {missing}")
    return took


def _wait_gone(kube: Kube, name: str) -> None:
    selector = f"{DEPLOYMENT}={name}"
    until(lambda: not kube.list("pods", NAMESPACE, selector), 60, f"no pod of {name}")


def _measure(api: client.CustomObjectsApi, kube: Kube, which: str, image: str) -> Row:
    manifest = example(which)
    manifest["spec"]["engine"]["image"] = image  # the engines need not start for this
    seconds = []
    children = 0
    for i in range(RUNS + 1):
        name = f"bench-{i}"
        seconds.append(_run(api, kube, name, manifest))
        children = len(kube.list(_KINDS, NAMESPACE, f"{DEPLOYMENT}={name}"))
        kube.kubectl("delete", "pdd", name, "-n", NAMESPACE)
        _wait_gone(kube, name)
    return Row(which, children, tuple(seconds[1:]))  # the first one warms connections


def run() -> None:
    """Measure and write; needs the cluster and the operator, and brings up both."""
    from tests import cluster
    from tools import images

    with stage(WHO, "cluster, images and operator"):
        cluster.up()
        references = images.load() | images.load(["pause"])
        kube = Kube()
        values = BUILD / "bench-values.json"
        values.write_text(yaml.safe_dump(image_values(references)))
        kube.helm(
            *("upgrade", "--install", RELEASE, str(REPOSITORY / "charts" / "pd-operator")),
            *("--namespace", SYSTEM, "--create-namespace", "--values", str(values), "--wait"),
        )
    if kube.find("namespace", NAMESPACE, "default") is None:
        kube.kubectl("create", "namespace", NAMESPACE)
    until(lambda: kube.find("serviceaccount", "default", NAMESPACE), 30, "ServiceAccount")
    config.load_kube_config(str(kube.kubeconfig))  # type: ignore[no-untyped-call] # it has no types
    rows = [
        _measure(client.CustomObjectsApi(), kube, which, references["pause"]).as_json()
        for which in EXAMPLES
    ]
    kube.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    path = BUILD / "bench" / "reconcile.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"unit": "seconds", "rows": rows}, indent=1) + "\n")
    print(f"{'example':<12}{'children':>9}{'runs':>6}{'median':>9}{'min':>8}{'max':>8}")
    for row in rows:
        print(
            f"{row['example']:<12}{row['children']:>9}{row['runs']:>6}"
            f"{row['median']:>8.3f}s{row['min']:>7.3f}s{row['max']:>7.3f}s"
        )
    say(WHO, f"written to {path.relative_to(REPOSITORY)}")


def main() -> int:
    """The exit code."""
    try:
        run()
    except UserError as error:
        return fail(WHO, error)
    except CommandError as error:
        return fail(WHO, UserError(str(error)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
