"""The event stream owns the work behind it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import Message, Scope

from afterword.api.disconnect import ClientLeft, unless_client_leaves
from afterword.api.sse import EventStream

SCOPE: Scope = {"type": "http"}


class Work:
    """A source of frames that tells whether it was entered and left."""

    def __init__(self, frames: list[bytes | Exception], *, ends: bool = True) -> None:
        self._frames = frames
        self._ends = ends
        self.entered = False
        self.left = False
        self.waiting = asyncio.Event()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        self.entered = True
        try:
            yield self._produce()
        finally:
            self.left = True

    async def _produce(self) -> AsyncGenerator[bytes, None]:
        for frame in self._frames:
            if isinstance(frame, Exception):
                raise frame
            yield frame
        if not self._ends:
            self.waiting.set()
            await asyncio.Event().wait()


class Client:
    """The other end: keeps what it was sent, goes when told to, may break or stall while it is being sent to."""

    def __init__(self, *, breaks: bool = False, stalls: bool = False) -> None:
        self.sent: list[Message] = []
        self.gone = asyncio.Event()
        self.stalled = asyncio.Event()
        self._breaks = breaks
        self._stalls = stalls

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self._breaks:
            raise OSError("broken pipe")
        if self._stalls:
            self.stalled.set()
            await asyncio.Event().wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def on_error(error: Exception) -> bytes:
    return f"data: {error}\n\n".encode()


async def test_frames_arrive_in_order_and_the_body_ends() -> None:
    work, client = Work([b"one", b"two"]), Client()
    await EventStream(work.run(), on_error)(SCOPE, client.receive, client.send)
    assert [message["type"] for message in client.sent] == ["http.response.start"] + ["http.response.body"] * 3
    assert client.body == b"onetwo"
    assert [message.get("more_body") for message in client.sent] == [None, True, True, False]
    assert work.left


async def test_only_the_head_goes_the_whole_way_where_there_is_a_shorter_one() -> None:
    client, server = Client(), Client()
    stream = EventStream(Work([b"one", ValueError("late")]).run(), on_error, server.send)
    await stream(SCOPE, client.receive, client.send)
    assert [message["type"] for message in client.sent] == ["http.response.start"]
    assert server.body == b"onedata: late\n\n"
    assert server.sent[-1]["more_body"] is False


async def test_the_headers_of_a_stream() -> None:
    client = Client()
    await EventStream(Work([b"one"]).run(), on_error)(SCOPE, client.receive, client.send)
    assert client.sent[0]["status"] == 200
    assert client.sent[0]["headers"] == [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
    ]


async def test_an_error_before_the_first_frame_leaves_the_answer_unbegun() -> None:
    work, client = Work([ValueError("early")]), Client()
    with pytest.raises(ValueError, match="early"):
        await EventStream(work.run(), on_error)(SCOPE, client.receive, client.send)
    assert client.sent == []
    assert work.left


async def test_a_later_error_is_the_last_event() -> None:
    work, client = Work([b"one", ValueError("late"), b"never"]), Client()
    await EventStream(work.run(), on_error)(SCOPE, client.receive, client.send)
    assert client.body == b"onedata: late\n\n"
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert work.left


@pytest.mark.parametrize("before", [pytest.param([], id="before the first frame"), pytest.param([b"one"], id="later")])
async def test_a_client_that_leaves_cancels_the_work(before: list[bytes | Exception]) -> None:
    work, client = Work(before, ends=False), Client()
    serving = asyncio.create_task(EventStream(work.run(), on_error)(SCOPE, client.receive, client.send))
    await work.waiting.wait()
    assert not work.left
    client.gone.set()
    with pytest.raises(ClientLeft):
        await serving
    assert work.left


async def test_a_client_that_stalls_and_leaves_cancels_the_work() -> None:
    work, client = Work([b"one", b"two"]), Client(stalls=True)
    serving = asyncio.create_task(EventStream(work.run(), on_error)(SCOPE, client.receive, client.send))
    await client.stalled.wait()
    client.gone.set()
    with pytest.raises(ClientLeft):
        await serving
    assert work.left


async def test_a_broken_connection_cancels_the_work() -> None:
    work, client = Work([b"one", b"two"]), Client(breaks=True)
    with pytest.raises(ClientLeft):
        await EventStream(work.run(), on_error)(SCOPE, client.receive, client.send)
    assert work.left


async def test_cancelling_the_server_cancels_the_work() -> None:
    work, client = Work([b"one"], ends=False), Client()
    serving = asyncio.create_task(EventStream(work.run(), on_error)(SCOPE, client.receive, client.send))
    await work.waiting.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert work.left


async def test_work_that_is_done_first_gives_its_result() -> None:
    async def work() -> int:
        return 7

    assert await unless_client_leaves(work(), Client().receive) == 7


async def test_work_that_fails_raises_its_own_error() -> None:
    async def work() -> int:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await unless_client_leaves(work(), Client().receive)
