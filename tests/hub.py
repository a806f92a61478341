"""A Hugging Face hub: as much of it as a download needs. It imports the standard library alone.

In a pod: `python3 hub.py NAME FOLDER PORT TOKEN` serves the files of a folder as one repository.
"""

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "1" * 40


class Hub:
    """Repositories by name, each of one commit; `token` is asked for where it is not empty."""

    def __init__(self, repositories: dict[str, dict[str, bytes]], token: str = "") -> None:
        self.repositories = repositories
        self.token = token
        self.commit = COMMIT
        self.broken: set[str] = set()
        """Files that the hub fails to send."""
        self.asked: list[str] = []
        self.url = ""

    def answer(self, path: str, token: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a GET or HEAD."""
        self.asked.append(path)
        if self.token and token != f"Bearer {self.token}":
            return 403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"}, b""
        api, _, rest = path.removeprefix("/api/models/").partition("/tree/")
        if path.startswith("/api/models/") and rest:
            files = self.repositories.get(api)
            return _absent() if files is None else _json([_entry(*file) for file in files.items()])
        if path.startswith("/api/models/"):
            name, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            files = self.repositories.get(name)
            if files is None:
                return _absent()
            if revision not in ("", "main", "v1", self.commit):
                return 404, {"X-Error-Code": "RevisionNotFound"}, b""
            siblings = [{"rfilename": file} for file in files]
            return _json({"id": name, "sha": self.commit, "siblings": siblings})
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        file = rest.partition("/")[2]
        content = self.repositories.get(name, {}).get(file)
        if content is None:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        if file in self.broken:
            return 500, {}, b""
        etag = hashlib.sha1(content).hexdigest()
        return 200, {"ETag": f'"{etag}"', "X-Repo-Commit": self.commit}, content


def _absent() -> tuple[int, dict[str, str], bytes]:
    return 404, {"X-Error-Code": "RepoNotFound"}, b""


def _json(value: object) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _entry(name: str, content: bytes) -> dict[str, object]:
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": name, "size": len(content), "oid": oid}


def _server(hub: Hub, address: tuple[str, int]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            status, headers, body = hub.answer(path, self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the name that the server looks for

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(address, Handler)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub on the loopback interface, at `hub.url`."""
    server = _server(hub, ("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main(name: str, folder: str, port: str, token: str) -> None:
    """Serve a folder until the end."""
    files = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    _server(Hub({name: files}, token), ("", int(port))).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
