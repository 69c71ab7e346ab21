"""A client of an application in process, which reads as much as a test wants and leaves when it wants."""

import asyncio
import json
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

Message = MutableMapping[str, Any]


@dataclass(slots=True)
class Sent:
    """What has come of an answer."""

    status: int | None = None
    body: bytes = b""

    @property
    def events(self) -> list[Message]:
        """The events of a stream, without its end."""
        lines = [line.removeprefix("data: ") for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    @property
    def n_chunks(self) -> int:
        """Events with text."""
        return sum(event["choices"][0]["text"] != "" for event in self.events if event.get("choices"))

    @property
    def is_finished(self) -> bool:
        """A choice has ended."""
        return any(choice["finish_reason"] for event in self.events for choice in event.get("choices", []))

    @property
    def usage(self) -> Message | None:
        """The last counts that came."""
        told = self.events if self.body.startswith(b"data:") else [json.loads(self.body or b"{}")]
        return next((event["usage"] for event in reversed(told) if event.get("usage")), None)


@dataclass
class Client:
    """One request, and its client's will."""

    app: FastAPI
    key: str
    leaves: Callable[[Sent], bool] = lambda _: False
    """Asked at every turn of the loop."""
    reads: bool = True
    """Otherwise nothing of the body is taken, and the server waits for its reader."""
    sent: Sent = field(default_factory=Sent)

    async def ask(self, body: Message) -> Sent:
        """Send it; returns when the server is done with it."""
        self._content = json.dumps(body).encode()
        self._gone = asyncio.Event()
        self._took_body = False
        headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {self.key}".encode())]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/completions",
            "raw_path": b"/v1/completions",
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        watching = asyncio.create_task(self._watch())
        try:
            async with asyncio.timeout(30):
                await self.app(scope, self._receive, self._send)
        finally:
            watching.cancel()
        return self.sent

    async def _watch(self) -> None:
        while not self.leaves(self.sent):
            await asyncio.sleep(0)
        self._gone.set()

    async def _receive(self) -> Message:
        if not self._took_body:
            self._took_body = True
            return {"type": "http.request", "body": self._content, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._gone.is_set():
            raise OSError("the client has gone")
        if message["type"] == "http.response.start":
            self.sent.status = message["status"]
            return
        if not self.reads:
            await asyncio.Event().wait()
        self.sent.body += message.get("body", b"")
        await asyncio.sleep(0)
