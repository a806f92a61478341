"""Load on one service: `python -m tests.e2e.load URL STREAMS MAX_TOKENS WORDS`; ends by itself."""

import secrets
import sys
import threading
import time

from tests.e2e.client import completion, send

_LONGEST = 180.0
"""Seconds after which it ends, whatever happens."""


def _stream(url: str, max_tokens: int, words: int, until: float) -> None:
    while time.monotonic() < until:
        prompt = f"{secrets.token_hex(6)} " + "load " * words
        body = completion(prompt, max_tokens=max_tokens, stream=True, ignore_eos=True)
        reply = send(url, "/v1/completions", body)
        if reply.status != 200 or reply.error:
            print(f"load: {reply.status} {reply.error}", flush=True)
            time.sleep(0.5)


def main(url: str, streams: int, max_tokens: int, words: int) -> None:
    """Keep `streams` requests in flight."""
    until = time.monotonic() + _LONGEST
    threads = [
        threading.Thread(target=_stream, args=(url, max_tokens, words, until), daemon=True)
        for _ in range(streams)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
