"""HTTP as bytes on a socket, for what no client library would send. Knows no application."""

import json
import socket
import urllib.parse
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any, cast

BODY = b'{"prompt":"A","max_tokens":1,"temperature":0}'
POST = b"POST /v1/completions HTTP/1.1\r\nHost: test\r\n"
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


def connected(url: str) -> socket.socket:
    """A connection to the server."""
    address = urllib.parse.urlsplit(url)
    return socket.create_connection((address.hostname, address.port), timeout=60)


def talk(url: str, *pieces: bytes) -> bytes:
    """Send the pieces and read until the server closes the connection."""
    answer = b""
    with connected(url) as connection:
        for piece in pieces:
            connection.sendall(piece)
        while piece := connection.recv(65536):
            answer += piece
    return answer


def answer_on(connection: socket.socket) -> Answer:
    """The next answer on a connection, read by the standard library's client."""
    response = HTTPResponse(connection)
    response.begin()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
