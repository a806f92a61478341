"""Init containers that wait for another process of the deployment."""

from typing import Final

from pd_operator.build.manifest import Manifest

WAIT_SCRIPT: Final = """\
import socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
print(f"waiting for the Mooncake master at {host}:{port}", flush=True)
while True:
    try:
        socket.create_connection((host, port), 5).close()
        break
    except OSError as error:
        print(f"no Mooncake master at {host}:{port} yet: {error}", flush=True)
        time.sleep(2)
print("the Mooncake master answers", flush=True)
"""
"""Python program: returns when a connection to argv[1]:argv[2] succeeds."""

_WORDS: Final = {"mooncake": "Mooncake master", "lmcache": "LMCache server"}


def wait_for(what: str, image: str, host: str, port: int) -> Manifest:
    """An init container that ends when `what` (`mooncake` or `lmcache`) answers at host:port.

    It runs the image of the container that waits, so that no other image decides about its pod.
    """
    return {
        "name": f"wait-for-{what}",
        "image": image,
        "command": [
            "python3", "-c", WAIT_SCRIPT.replace(_WORDS["mooncake"], _WORDS[what]), host, str(port),
        ],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "128Mi"},
        },
    }  # fmt: skip
