"""kubectl and helm against the cluster under test, and waiting for what they show."""

import http.client
import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests import kube_api
from tools.paths import CLUSTER

Manifest = dict[str, Any]
T = TypeVar("T")
_PATIENCE = 60.0


class CommandError(Exception):
    """A command ended with an error; holds what it printed."""

    def __init__(self, command: Sequence[str], stdout: str, stderr: str) -> None:
        super().__init__(f"{' '.join(command)}\n{stdout}{stderr}".rstrip())
        self.stdout = stdout
        self.stderr = stderr


def _kubeconfig() -> Path:
    if os.environ.get("CLUSTER") == "existing" and os.environ.get("KUBECONFIG"):
        return Path(os.environ["KUBECONFIG"])
    return CLUSTER / "kubeconfig"


@dataclass(frozen=True)
class Kube:
    """A cluster seen through kubectl and helm."""

    kubeconfig: Path = field(default_factory=_kubeconfig)
    programs: Path = CLUSTER / "bin"

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """What kubectl printed; CommandError where it failed."""
        return self._run("kubectl", arguments, stdin, timeout)

    def helm(self, *arguments: str, timeout: float = 300) -> str:
        """What helm printed; CommandError where it failed."""
        return self._run("helm", arguments, None, timeout)

    def apply(self, manifest: Manifest | str, namespace: str, *options: str) -> str:
        """Apply one object, or YAML text."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.kubectl("apply", "-n", namespace, *options, "-f", "-", stdin=text)

    def raw(self, path: str) -> str:
        """What the API server answers at a path; CommandError where it refuses."""
        return self._ask("GET", path)

    def create(self, path: str, body: Manifest) -> None:
        """Create an object at a path; CommandError with the API server's words where it refuses."""
        self._ask("POST", path, body)

    def get(self, kind: str, name: str, namespace: str) -> Manifest:
        """One object; CommandError where there is none."""
        api = self._api()
        if api is None:
            text = self.kubectl("get", kind, name, "-n", namespace, "-o", "json")
        else:
            text = self._ask("GET", _resource(api, kind).path(namespace, name))
        result: Manifest = json.loads(text)
        return result

    def find(self, kind: str, name: str, namespace: str) -> Manifest | None:
        """One object, or None where there is none."""
        try:
            return self.get(kind, name, namespace)
        except CommandError as error:
            if "NotFound" in error.stderr:
                return None
            raise

    def list(self, kind: str, namespace: str, selector: str = "") -> list[Manifest]:
        """All objects of a kind (or kinds, comma-separated) that the selector matches."""
        api = self._api()
        if api is None:
            options = ["-l", selector] if selector else []
            text = self.kubectl("get", kind, "-n", namespace, "-o", "json", *options)
            items: list[Manifest] = json.loads(text)["items"]
            return items
        found: list[Manifest] = []
        for one in kind.split(","):
            resource = _resource(api, one)
            text = self._ask("GET", resource.path(namespace, selector=selector))
            # The items of a list do not say what they are.
            kinds = {"apiVersion": resource.api_version, "kind": resource.kind}
            found += [kinds | item for item in json.loads(text)["items"]]
        return found

    def patch(self, kind: str, name: str, namespace: str, patch: Manifest) -> None:
        """Merge a patch into an object."""
        self.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(patch))

    def condition(self, name: str, namespace: str, kind: str) -> Manifest:
        """A PDDeployment's condition; empty where it is not there yet."""
        found = self.find("pdd", name, namespace) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def wait_ready(self, name: str, namespace: str, timeout: float = 300) -> Manifest:
        """Wait until a PDDeployment's latest generation is Ready; returns it."""

        def look() -> Manifest | None:
            found = self.find("pdd", name, namespace)
            if found is None:
                return None
            ready: Manifest = next(
                (c for c in found.get("status", {}).get("conditions", []) if c["type"] == "Ready"),
                {},
            )
            current = ready.get("observedGeneration") == found["metadata"]["generation"]
            return found if current and ready.get("status") == "True" else None

        return until(look, timeout, lambda: f"{name} Ready: {self._explain(name, namespace)}")

    def _explain(self, name: str, namespace: str) -> str:
        found = self.find("pdd", name, namespace)
        pods = self.kubectl("get", "pods", "-n", namespace, "-o", "wide")
        conditions = (found or {}).get("status", {}).get("conditions", [])
        lines = [f"{c['type']}={c['status']} {c['reason']}: {c['message']}" for c in conditions]
        return "\n".join([*lines, pods])

    def _api(self) -> kube_api.Api | None:
        try:
            return kube_api.connect(self.kubeconfig)
        except OSError as error:
            raise CommandError(["read", str(self.kubeconfig)], "", str(error)) from error

    def _ask(self, method: str, path: str, body: Manifest | None = None) -> str:
        api = self._api()
        if api is None:
            verb = "get" if method == "GET" else "create"
            given = ("-f", "-") if body is not None else ()
            return self.kubectl(verb, "--raw", path, *given, stdin=json.dumps(body))
        try:
            answer = api.ask(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            raise CommandError([method, path], "", f"no answer: {error!r}") from error
        if answer.status >= 400:
            raise CommandError([method, path], "", _refusal(answer))
        return answer.text

    def _run(
        self, program: str, arguments: Sequence[str], stdin: str | None, timeout: float
    ) -> str:
        command = [str(self.programs / program), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={**os.environ, "HELM_CACHE_HOME": str(CLUSTER / "helm")},
        )
        if done.returncode != 0:
            raise CommandError([program, *arguments], done.stdout, done.stderr)
        return done.stdout


def _resource(api: kube_api.Api, name: str) -> kube_api.Resource:
    try:
        return api.resource(name)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise CommandError(["discover", name], "", f"no answer: {error!r}") from error
    except KeyError as error:
        words = f'the server doesn\'t have a resource type "{name}"'
        raise CommandError(["discover", name], "", words) from error


def _refusal(answer: kube_api.Answer) -> str:
    """As kubectl says it."""
    try:
        status = json.loads(answer.text)
        return f"Error from server ({status['reason']}): {status['message']}"
    except (ValueError, KeyError, TypeError):
        return f"Error from server: {answer.status} {answer.text}"


def until(
    look: Callable[[], T | None],
    timeout: float,
    what: str | Callable[[], str],
    pause: float = 0.3,
) -> T:
    """What `look` returns once it is neither None nor False; AssertionError after `timeout` s.

    A timeout shorter than a minute is one: patience costs nothing where all is well, and the
    machine may be busy.
    """
    timeout = max(timeout, _PATIENCE)
    deadline = time.monotonic() + timeout
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            text = what if isinstance(what, str) else what()
            raise AssertionError(f"not seen within {timeout:.0f} s: {text}")
        time.sleep(pause)


def example(name: str) -> Manifest:
    """An example of crds/examples, the PDDeployment in it."""
    path = Path(__file__).parent.parent / "crds" / "examples" / f"{name}.yaml"
    documents = [d for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d]
    result: Manifest = next(d for d in documents if d["kind"] == "PDDeployment")
    return result
