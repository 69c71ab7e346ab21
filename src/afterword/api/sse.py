"""Server-sent events: the frame around a chunk, and the response that runs the work behind a stream.

Does not look into events. No heartbeat comments: some clients lose text on them (docs/rules.md#chunks).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from afterword.api.disconnect import ClientLeft, unless_client_leaves

HEADERS = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}


def frame(json: bytes) -> bytes:
    """One event of one line of JSON."""
    return b"data: " + json + b"\n\n"


class EventStream(Response):
    """Sends frames as they come, inside the context that produces them.

    `frames` is entered before anything is sent and left in every case, so the work is cancelled even if the body was
    never started. An error before the first frame is raised: it is still a plain HTTP error. A later one is sent as
    the frame that `on_error` makes of it, and ends the stream.
    """

    def __init__(
        self,
        frames: AbstractAsyncContextManager[AsyncGenerator[bytes, None]],
        on_error: Callable[[Exception], bytes],
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)
        self._frames = frames
        self._on_error = on_error

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the whole stream. Raises `ClientLeft` when the client disconnects."""
        async with self._frames as frames, aclosing(frames):
            await unless_client_leaves(self._send_all(frames, send), receive)

    async def _send_all(self, frames: AsyncIterator[bytes], send: Send) -> None:
        first = await anext(frames)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": first, "more_body": True})
            async with aclosing(self._until_error(frames)) as later_frames:
                async for later in later_frames:
                    await send({"type": "http.response.body", "body": later, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError as error:
            # ASGI 2.4 and later: `send` raises it when the connection is lost.
            raise ClientLeft from error

    async def _until_error(self, frames: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            async for later in frames:
                yield later
        except Exception as error:
            yield self._on_error(error)
