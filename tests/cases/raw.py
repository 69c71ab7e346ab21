"""HTTP as bytes on a socket, for what no client library would send. Knows no application."""

import json
import socket
import urllib.parse
from dataclasses import dataclass
from typing import Any, Self, cast

BODY = b'{"prompt":"A","max_tokens":1,"temperature":0}'
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a connection."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """Of the first choice."""
        body: dict[str, Any] = json.loads(self.content)
        return cast(str, body["choices"][0]["text"])


class Connection:
    """A connection to a server, closed with the context."""

    def __init__(self, url: str) -> None:
        address = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=60)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()

    def send(self, content: bytes) -> None:
        """All of it."""
        self.socket.sendall(content)

    def rest(self) -> bytes:
        """What comes until the server closes."""
        return self._file.read()

    def line(self) -> bytes:
        """The next line with its end; nothing if the server has closed."""
        return self._file.readline()

    def answer(self) -> Answer:
        """The next answer, whose length must be known."""
        status = int(self.line().split()[1])
        headers = dict(line.decode("ascii").strip().split(": ", 1) for line in iter(self.line, b"\r\n"))
        headers = {name.lower(): value for name, value in headers.items()}
        if headers.get("transfer-encoding") == "chunked":
            content = b"".join(iter(self._chunk, b""))
        else:
            content = self._file.read(int(headers["content-length"]))
        return Answer(status, headers, content)

    def _chunk(self) -> bytes:
        content = self._file.read(int(self.line(), 16))
        assert self.line() == b"\r\n"
        return content


def connected(url: str) -> Connection:
    """A connection to the server."""
    return Connection(url)


def talk(url: str, *pieces: bytes) -> bytes:
    """Send the pieces and read until the server closes the connection."""
    with connected(url) as connection:
        for piece in pieces:
            connection.send(piece)
        return connection.rest()
