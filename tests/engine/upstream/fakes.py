"""Upstreams that misbehave: real HTTP servers that answer as a test tells them to."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.live import run_server

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Answer = Callable[["Call"], Awaitable[None]]


@dataclass
class Call:
    """One request to the fake, and ways to answer it."""

    body: dict[str, Any]
    headers: dict[str, str]
    send: Send
    receive: Receive

    async def start(self, status: int = 200, content_type: str = "text/event-stream", **headers: str) -> None:
        pairs = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
        raw = [(name.encode(), value.encode()) for name, value in pairs.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def refuse(self, status: int, body: bytes, **headers: str) -> None:
        """An answer in one piece."""
        await self.start(status, "application/json", **headers)
        await self.write(body)
        await self.end()

    async def stream(self, *events: bytes | Message) -> None:
        """Events and the end of the stream; objects as JSON."""
        await self.start()
        for event in events:
            await self.write(frame(event))
        await self.write(b"data: [DONE]\n\n")
        await self.end()

    async def until_left(self) -> None:
        """Wait until the client has gone."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


@dataclass
class Fake:
    """An upstream at `url` whose answers come from `answers` in turn, the last of them for ever."""

    answers: list[Answer]
    url: str = ""
    calls: list[Call] = field(default_factory=list)
    left: list[Call] = field(default_factory=list)
    """Calls whose client went away while `hang` waited."""
    health: int = 200
    health_checks: int = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["method"] == "GET":
            self.health_checks += 1
            await Call({}, headers, send, receive).refuse(self.health, b'{"data": []}')
            return
        call = Call(json.loads(await _read(receive)), headers, send, receive)
        self.calls.append(call)
        answer = self.answers[min(len(self.calls), len(self.answers)) - 1]
        await answer(call)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of all requests so far."""
        return [call.body for call in self.calls]


@contextmanager
def fake_upstream(*answers: Answer) -> Iterator[Fake]:
    fake = Fake(list(answers))
    with run_server(fake) as url:
        fake.url = url
        yield fake


def says(*events: bytes | Message) -> Answer:
    """Answers with these events."""
    return lambda call: call.stream(*events)


def refuses(status: int, error: object = None, **headers: str) -> Answer:
    """Answers with a status and an error object."""
    return lambda call: call.refuse(status, json.dumps({"error": error}).encode(), **headers)


def ends_when_told(go: threading.Event) -> Answer:
    """Streams `a`, and once `go` is set `b`, its end and its usage of 5 and 2 tokens."""

    async def answer(call: Call) -> None:
        await call.start()
        await call.write(frame(text_event("a")))
        await asyncio.to_thread(go.wait)
        await call.write(frame(text_event("b", finish="stop")) + frame(usage_event(5, 2)))
        await call.end()

    return answer


def hangs(fake: Callable[[], Fake], *events: bytes | Message) -> Answer:
    """Sends these events, headers at least if there are any, and then nothing until the client goes."""

    async def answer(call: Call) -> None:
        if events:
            await call.start()
        for event in events:
            await call.write(frame(event))
        await call.until_left()
        fake().left.append(call)

    return answer


def breaks_after(*events: bytes | Message) -> Answer:
    """Sends these events and closes the connection without an end."""

    async def answer(call: Call) -> None:
        await call.start()
        for event in events:
            await call.write(frame(event))
        raise ConnectionAbortedError("the test closes it")

    return answer


def frame(event: bytes | Message) -> bytes:
    if isinstance(event, bytes):
        return event
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def text_event(text: str, index: int = 0, finish: str | None = None, **more: Any) -> Message:
    """A chunk without log-probabilities."""
    return {"choices": [{"index": index, "text": text, "logprobs": None, "finish_reason": finish}], **more}


def token_event(
    *tokens: tuple[str, float], index: int = 0, finish: str | None = None, text: str | None = None
) -> Message:
    """A chunk with tokens in the legacy shape; its text is theirs unless given."""
    logprobs = {
        "tokens": [token for token, _ in tokens],
        "token_logprobs": [value for _, value in tokens],
        "top_logprobs": [dict([pair]) for pair in tokens],
        "text_offset": [0] * len(tokens),
    }
    said = "".join(token for token, _ in tokens) if text is None else text
    return {"choices": [{"index": index, "text": said, "logprobs": logprobs, "finish_reason": finish}]}


def usage_event(n_prompt: int, n_completion: int, **details: int) -> Message:
    return {
        "choices": [],
        "usage": {
            "prompt_tokens": n_prompt,
            "completion_tokens": n_completion,
            **({"prompt_tokens_details": details} if details else {}),
        },
    }


async def _read(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


async def _lifespan(receive: Receive, send: Send) -> None:
    for kind in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{kind}.complete"})
        await asyncio.sleep(0)
