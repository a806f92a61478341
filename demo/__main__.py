"""`make demo` and `make demo-stop`."""

import json
import os
import signal
import sys
import time
from typing import Final, NoReturn

from demo.ask import ask
from demo.forward import forwarded
from demo.proof import moved_tokens
from demo.wait import wait_ready
from tests import cluster
from tests.kube import CommandError, Kube, example
from tools import images
from tools.paths import BUILD, REPOSITORY
from tools.stages import UserError, fail, say, stage

WHO: Final = "demo"
NAMESPACE: Final = "pd-demo"
SYSTEM: Final = "pd-system"
NAME: Final = "tiny"
ENGINES: Final = {"cpu": "engine-cpu", "sim": "engine-sim"}
"""Images by the value of ENGINE: a real vLLM, or one that only simulates it."""
EXAMPLE: Final = REPOSITORY / "crds" / "examples" / "tiny-cpu.yaml"


def start() -> int:
    """From nothing to a first token; 0 only where the KV cache was seen to move."""
    begin = time.monotonic()
    engine = _engine()
    with stage(WHO, "cluster"):
        cluster.up()
    with stage(WHO, "images"):
        references = images.load(["operator", "proxy", "mooncake", engine])
    kube = Kube()
    with stage(WHO, "operator by Helm"):
        _install(kube, references)
    with stage(WHO, f"kubectl apply -f {EXAMPLE.relative_to(REPOSITORY)}"):
        _apply(kube, references[engine])
    with stage(WHO, "prefill/decode pair"):
        wait_ready(kube, NAME, NAMESPACE, timeout=300, say=lambda text: say(WHO, text))
    good = _show(kube)
    say(WHO, f"all of it: {time.monotonic() - begin:.1f} s")
    _what_next()
    return 0 if good else 1


def _install(kube: Kube, references: dict[str, str]) -> None:
    values = BUILD / "demo-values.json"
    values.parent.mkdir(exist_ok=True)
    chosen = {
        "image": references["operator"],
        "proxyImage": references["proxy"],
        "mooncakeImage": references["mooncake"],
    }
    values.write_text(json.dumps(chosen))
    kube.helm(
        *("upgrade", "--install", "pd-operator", str(REPOSITORY / "charts" / "pd-operator")),
        *("--namespace", SYSTEM, "--create-namespace", "--values", str(values)),
        *("--wait", "--timeout", "3m"),
    )


def _engine() -> str:
    chosen = os.environ.get("ENGINE") or "cpu"
    if chosen not in ENGINES:
        raise UserError(f"ENGINE={chosen!r}: one of {', '.join(ENGINES)}")
    return ENGINES[chosen]


def _apply(kube: Kube, image: str) -> None:
    if kube.find("namespace", NAMESPACE, "default") is None:
        kube.kubectl("create", "namespace", NAMESPACE)
    manifest = example("tiny-cpu")
    # The node holds the image under the tag of its content.
    manifest["spec"]["engine"]["image"] = image
    kube.apply(manifest, NAMESPACE)


def _show(kube: Kube) -> bool:
    before = moved_tokens(kube, NAME, NAMESPACE)
    with forwarded(kube, f"service/{NAME}-proxy", 8000, NAMESPACE) as port:
        say(WHO, "one chat completion, streamed; random weights, so its words are noise:")
        answer = ask(port, NAME, lambda text: print(text, end="", flush=True))
        print()
    after = moved_tokens(kube, NAME, NAMESPACE)
    moved = round(after[answer.decoder] - before.get(answer.decoder, 0.0))
    tpot = f"{answer.tpot * 1000:.0f} ms" if answer.tpot is not None else "unknown (one token)"
    say(WHO, f"TTFT {answer.ttft * 1000:.0f} ms, TPOT {tpot}, {answer.completion_tokens} tokens")
    say(
        WHO,
        f"KV moved: {moved} of {answer.prompt_tokens} prompt tokens,"
        f" prefiller {answer.prefiller} -> decoder {answer.decoder}",
    )
    if moved != answer.prompt_tokens:
        say(WHO, f"the KV cache did not move; look at: kubectl -n {NAMESPACE} describe pdd {NAME}")
        return False
    return True


def _what_next() -> None:
    kubectl = "kubectl" if os.environ.get("CLUSTER") == "existing" else ".cluster/bin/kubectl"
    body = json.dumps(
        {"model": NAME, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    )
    print(f"""
Talk to it:
  {kubectl} -n {NAMESPACE} port-forward service/{NAME}-proxy 8000 &
  curl -N localhost:8000/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{body}'
Look at it:
  {kubectl} -n {NAMESPACE} get pdd,pods
  {kubectl} -n {NAMESPACE} describe pdd {NAME}
Stop it:
  make demo-stop""")


def stop() -> int:
    """Remove the demo's objects and the operator, and stop the cluster where it is ours."""
    kube = Kube()
    if kube.kubeconfig.exists():
        try:
            with stage(WHO, "removing the demo"):
                kube.kubectl(
                    *("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
                )
                kube.helm("uninstall", "pd-operator", "--namespace", SYSTEM, "--ignore-not-found")
        except CommandError as error:
            # A cluster that does not answer is removed as a whole below.
            say(WHO, f"the cluster did not answer: {error.stderr.strip().splitlines()[-1]}")
    with stage(WHO, "stopping the cluster"):
        cluster.down()
    return 0


def _interrupted(number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt(number)


def main(arguments: list[str]) -> int:
    """Start or stop; the exit code."""
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        if arguments == []:
            return start()
        if arguments == ["stop"]:
            return stop()
        raise UserError(f"unknown argument {arguments[0]!r}; the only one is: stop")
    except UserError as error:
        return fail(WHO, error)
    except CommandError as error:
        return fail(WHO, UserError(str(error)))
    except KeyboardInterrupt:
        return fail(WHO, UserError("stopped; what runs stays: go on with `make demo`"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
