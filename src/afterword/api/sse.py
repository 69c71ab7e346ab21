"""Server-sent events: the frame around a chunk, and the response that runs the work behind a stream.

Does not look into events. No heartbeat comments: some clients lose text on them (docs/rules.md#chunks).
"""

from collections.abc import AsyncGenerator, Callable
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
        directly: Send | None = None,
    ) -> None:
        """`directly`: sends what follows the head of the answer; None: what sends that."""
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)
        self._frames = frames
        self._on_error = on_error
        self._directly = directly

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the whole stream. Raises `ClientLeft` when the client disconnects."""
        async with self._frames as frames, aclosing(frames):
            await unless_client_leaves(self._send_all(frames, send), receive)

    async def _send_all(self, frames: AsyncGenerator[bytes, None], send: Send) -> None:
        frame: bytes | None = await anext(frames)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            send = send if self._directly is None else self._directly
            while frame is not None:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
                try:
                    frame = await anext(frames, None)
                except Exception as error:
                    # What has raised has ended: nothing follows.
                    frame = self._on_error(error)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError as error:
            # ASGI 2.4 and later: `send` raises it when the connection is lost.
            raise ClientLeft from error
