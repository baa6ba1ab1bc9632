"""A small Hugging Face hub on a loopback port, which serves the files of datasets to the real client."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
"""The newest commit of every dataset; each has all the others too."""


class HubStub(ThreadingHTTPServer):
    """Datasets by name, each with its files by path."""

    daemon_threads = True

    def __init__(self, datasets: Mapping[str, Mapping[str, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Hub)
        self.datasets = datasets
        self.listed: list[tuple[str, str]] = []
        """Datasets and revisions of which the files were listed."""
        self.fetched: list[str] = []
        """Files that were downloaded."""


class _Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        stub, path = cast("HubStub", self.server), self.path.partition("?")[0]
        for name, files in stub.datasets.items():
            if path == f"/api/datasets/{name}" or path.startswith(f"/api/datasets/{name}/revision/"):
                revision = path.partition("/revision/")[2] or COMMIT
                stub.listed.append((name, revision))
                siblings = [{"rfilename": one} for one in files]
                self._send(json.dumps({"id": name, "sha": revision, "siblings": siblings}).encode(), {}, body=body)
                return
            prefix = f"/datasets/{name}/resolve/"
            if path.startswith(prefix):
                revision, _, file = path.removeprefix(prefix).partition("/")
                if file in files:
                    if body:
                        stub.fetched.append(file)
                    etag = f'"{hashlib.sha1(files[file]).hexdigest()}"'
                    self._send(files[file], {"ETag": etag, "X-Repo-Commit": revision}, body=body)
                    return
        self._send(b"{}", {"X-Error-Code": "RepoNotFound"}, body=body, status=404)

    def _send(self, content: bytes, headers: Mapping[str, str], *, body: bool, status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  named by the base class
        """Print nothing."""


@contextmanager
def hub_stub(datasets: Mapping[str, Mapping[str, bytes]], cache: Path, patch: pytest.MonkeyPatch) -> Iterator[HubStub]:
    """Serve the datasets as the hub, with an empty cache."""
    with HubStub(datasets) as stub:
        thread = threading.Thread(target=stub.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        patch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{stub.server_port}")
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
        try:
            yield stub
        finally:
            stub.shutdown()
            thread.join()


def json_lines(*rows: Mapping[str, Any]) -> bytes:
    """Return rows as the content of a file in JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
