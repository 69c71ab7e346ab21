"""Cancels the work on a request when its client disconnects. Does not know the work."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from starlette.types import Receive

T = TypeVar("T")


class ClientLeft(Exception):
    """The client has disconnected: nothing can be answered."""


async def unless_client_leaves(work: Coroutine[None, None, T], receive: Receive) -> T:
    """The result of `work`. Raises `ClientLeft`, with `work` cancelled and finished, if the client disconnects first.

    The request's body must have been read: after that `receive` only reports the end of the connection.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientLeft
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
