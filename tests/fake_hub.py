"""A model hub on loopback: the routes that its library and programs ask, over files in memory.

Large files are answered as the real one does: with a redirect to another address, which serves ranges.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants

COMMIT = "c" * 40


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a file's bytes."""

    path: str
    range: str | None
    authorization: str | None


@dataclass(slots=True)
class FakeHub:
    """What there is, and what was asked for."""

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """`organisation/name` -> path -> content."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Path after `/files/` -> content: a plain server of files."""
    tokens: dict[str, str] = field(default_factory=dict)
    """Repositories that want a token."""
    takes_ranges: bool = True
    stops_at: int | None = None
    """Bytes of a file after which nothing comes until `goes_on` is set; then the connection is closed."""
    stopped: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)
    asked: list[Asked] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Method and path of each."""
    url: str = ""
    storage: str = ""
    """Where the bytes of large files are."""


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """The hub, on a free port."""
    hub = FakeHub()
    with ExitStack() as servers:
        hub.url, hub.storage = (servers.enter_context(_server(hub, name)) for name in ("hub", "storage"))
        try:
            yield hub
        finally:
            hub.goes_on.set()


@contextmanager
def hub_of_this_process(folder: Path) -> Iterator[FakeHub]:
    """The hub, to which the library is pointed in this process; its cache is `folder`, and there is no token."""
    with fake_hub() as hub, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(constants, "HF_HUB_CACHE", str(folder))
        patch.setattr(constants, "HF_TOKEN_PATH", str(folder / "token"))
        patch.delenv("HF_TOKEN", raising=False)
        yield hub


@contextmanager
def _server(hub: FakeHub, name: str) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name=name)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client has left, which is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self._answer(unquote(urlsplit(self.path).path))

    def do_GET(self) -> None:
        self._answer(unquote(urlsplit(self.path).path))

    def _answer(self, path: str) -> None:
        self.hub.requests.append(f"{self.command} {path}")
        match path.strip("/").split("/"):
            case ["api", "models", organisation, name, *rest]:
                self._api(f"{organisation}/{name}", rest)
            case [organisation, name, "resolve", _, *file]:
                self._resolve(f"{organisation}/{name}", "/".join(file))
            case ["blobs", sha256]:
                contents = (one for files in self.hub.repositories.values() for one in files.values())
                self._bytes(next(one for one in contents if hashlib.sha256(one).hexdigest() == sha256))
            case ["files", *file] if "/".join(file) in self.hub.files:
                self._bytes(self.hub.files["/".join(file)])
            case _:
                self._refuse(404, "")

    def _api(self, repository: str, rest: list[str]) -> None:
        if not self._permitted(repository):
            return
        files = self.hub.repositories[repository]
        if rest[:1] == ["tree"]:
            self._json(
                [
                    {"type": "file", "path": path, "size": len(content), "oid": _oid(content), "lfs": _lfs(content)}
                    for path, content in files.items()
                ]
            )
            return
        self._json({"id": repository, "sha": COMMIT, "siblings": [{"rfilename": path} for path in files]})

    def _resolve(self, repository: str, path: str) -> None:
        if not self._permitted(repository):
            return
        content = self.hub.repositories[repository].get(path)
        if content is None:
            self._refuse(404, "EntryNotFound")
            return
        sha256 = hashlib.sha256(content).hexdigest()
        self.send_response(302)
        self.send_header("Location", f"{self.hub.storage}/blobs/{sha256}")
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-Etag", f'"{sha256}"')
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _permitted(self, repository: str) -> bool:
        if repository not in self.hub.repositories:
            self._refuse(401, "RepoNotFound")
            return False
        token = self.hub.tokens.get(repository)
        if token is not None and self.headers["Authorization"] != f"Bearer {token}":
            self._refuse(403, "GatedRepo")
            return False
        return True

    def _bytes(self, content: bytes) -> None:
        asked = self.headers["Range"]
        self.hub.asked.append(Asked(self.path, asked, self.headers["Authorization"]))
        at = int(asked.removeprefix("bytes=").removesuffix("-")) if asked is not None and self.hub.takes_ranges else 0
        if at > 0 and at >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200 if at == 0 else 206)
        if at > 0:
            self.send_header("Content-Range", f"bytes {at}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - at))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.end_headers()
        if self.command == "GET":
            self._send(content, at)

    def _send(self, content: bytes, at: int) -> None:
        stop = self.hub.stops_at
        try:
            self.wfile.write(content[at:] if stop is None else content[at:stop])
            if stop is not None and stop < len(content):
                self.wfile.flush()
                self.hub.stopped.set()
                self.hub.goes_on.wait()
                self.close_connection = True
        except ConnectionError:
            self.close_connection = True

    def _json(self, answer: object) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _lfs(content: bytes) -> dict[str, object]:
    return {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
