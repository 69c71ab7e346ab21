"""HTTP to one upstream: sends a request, yields the events of its answer, closes the connection when reading ends.

Owns time-outs, retries, and which error each failure becomes. Knows nothing of candidates or tokens.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import httpx
import orjson

from afterword.config.vendor import VendorConfig
from afterword.engine.trace import Trace, attempt
from afterword.engine.upstream.event_stream import BYTE_ORDER_MARK, EventTooLong, bounded, events
from afterword.engine.upstream.failures import MAY_PASS, Sizes, failure_of_event, failure_of_status, retry_after
from afterword.engine.upstream.redaction import redaction
from afterword.engine.upstream.reply import MalformedReply, Reply, ReplyError, parse_event
from afterword.errors import AfterwordError, UpstreamFailed, UpstreamTimedOut

DONE = b"[DONE]"
MAX_ERROR_BYTES = 64 * 2**10
KEEPALIVE_SECONDS = 4.0
"""Shorter than the five seconds after which common servers close an idle connection: a request sent at that moment
would fail."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
"""Seconds between attempts: doubled each time, up to this. If the server asks for more, there is no other attempt."""


class _AttemptFailed(Exception):
    """An attempt failed before anything came."""

    def __init__(self, error: AfterwordError, *, again: bool, after: float = 0.0) -> None:
        """`again`: another attempt may help and does no harm. `after`: seconds that the server asks for before it."""
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.after = after


@dataclass(frozen=True, slots=True)
class _Sent:
    """One request, the same in every attempt."""

    content: bytes
    trace: Trace


class UpstreamConnection:
    """The connection pool of one model at a vendor. Made anywhere, used on one event loop."""

    def __init__(self, vendor: VendorConfig) -> None:
        self._vendor = vendor
        self._redact = redaction(vendor)
        self._named = frozenset(name.lower() for name in vendor.headers)
        self.n_retries = 0
        """Attempts beyond the first of each request."""
        self._client = httpx.AsyncClient(
            headers=request_headers(vendor),
            timeout=httpx.Timeout(None, connect=vendor.connect_timeout),
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=vendor.max_concurrent,
                keepalive_expiry=KEEPALIVE_SECONDS,
            ),
        )

    async def replies(self, body: Mapping[str, Any], trace: Trace, sizes: Sizes) -> AsyncGenerator[Reply, None]:
        """The events of the answer to `body`. Closing the generator closes the connection, which stops the upstream.

        Raises the error that our client gets: `InvalidRequest`, `Overloaded` or `UpstreamFailed`.
        """
        sent = _Sent(orjson.dumps(body), trace)
        async with AsyncExitStack() as stack:
            data, later = await self._begin(sent, sizes, stack)
            while data is not None and data != DONE:
                yield self._parsed(data, sizes)
                data = await self._next(later)

    async def is_healthy(self) -> bool:
        """Whether the server answers its health check."""
        try:
            # Its body is not read: it may be of any size.
            async with self._client.stream(
                "GET", health_url(self._vendor), timeout=self._vendor.connect_timeout
            ) as response:
                return response.is_success
        except httpx.HTTPError:
            return False

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _begin(
        self, sent: _Sent, sizes: Sizes, stack: AsyncExitStack
    ) -> tuple[bytes | None, AsyncIterator[bytes]]:
        """The first event and an iterator over the others, after as many attempts as it takes; `stack` closes it."""
        pause = FIRST_PAUSE
        for number in range(self._vendor.retries + 1):
            try:
                return await self._attempt(sent, number, sizes, stack)
            except _AttemptFailed as failure:
                if number == self._vendor.retries or not failure.again or failure.after > LONGEST_PAUSE:
                    raise failure.error from None
                wait = max(failure.after, pause * random.uniform(0.5, 1.5))
            self.n_retries += 1
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(
        self, sent: _Sent, number: int, sizes: Sizes, stack: AsyncExitStack
    ) -> tuple[bytes | None, AsyncIterator[bytes]]:
        async with AsyncExitStack() as own:
            named = own.enter_context(attempt(sent.trace, self._vendor.name, number))
            # Headers of the configuration override these too.
            headers = {name: value for name, value in named.items() if name not in self._named}
            try:
                async with asyncio.timeout(self._vendor.first_event_timeout):
                    url = f"{self._vendor.url}/completions"
                    response = await own.enter_async_context(
                        self._client.stream("POST", url, content=sent.content, headers=headers)
                    )
                    if response.status_code != httpx.codes.OK:
                        raise await _attempt_failed(response, sizes, self._redact)
                    later = _events(response, sizes.most_bytes)
                    first = await anext(later, None)
            except TimeoutError:
                raise _AttemptFailed(
                    UpstreamTimedOut(f"no event in {self._vendor.first_event_timeout} s"), again=False
                ) from None
            except httpx.ConnectTimeout as error:
                raise _AttemptFailed(UpstreamTimedOut(f"no connection: {error!r}"), again=True) from None
            except httpx.ConnectError as error:
                raise _AttemptFailed(UpstreamFailed(f"no connection: {error!r}"), again=True) from None
            except (httpx.HTTPError, httpx.InvalidURL, EventTooLong) as error:
                raise _AttemptFailed(UpstreamFailed(f"broken before the first event: {error!r}"), again=False) from None
            # Only a response that has begun well outlives its attempt.
            stack.push_async_exit(own.pop_all())
            return first, later

    async def _next(self, later: AsyncIterator[bytes]) -> bytes | None:
        try:
            async with asyncio.timeout(self._vendor.idle_timeout):
                return await anext(later, None)
        except TimeoutError:
            raise UpstreamTimedOut(f"no further event in {self._vendor.idle_timeout} s") from None
        except (httpx.HTTPError, EventTooLong) as error:
            raise UpstreamFailed(f"broken in the middle: {error!r}") from None

    def _parsed(self, data: bytes, sizes: Sizes) -> Reply:
        try:
            event = parse_event(data)
        except MalformedReply as error:
            raise UpstreamFailed(str(error)) from None
        if isinstance(event, ReplyError):
            raise failure_of_event(replace(event, message=self._redact(event.message)), sizes)
        return event


def request_headers(vendor: VendorConfig) -> dict[str, str]:
    """Headers of every request to a vendor; those from its configuration override ours."""
    # Compressed, a few bytes of an answer could be any number.
    headers = {"content-type": "application/json", "user-agent": "afterword", "accept-encoding": "identity"}
    if vendor.api_key is not None:
        headers["authorization"] = f"Bearer {vendor.api_key}"
    return headers | {name.lower(): value for name, value in vendor.headers.items()}


def check_plain(response: httpx.Response) -> None:
    """Raises `httpx.DecodingError` if an answer is compressed, which was not asked for: it could be of any size."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise httpx.DecodingError(f"it is compressed ({encoding!r}), which was not asked for", request=response.request)


def health_url(vendor: VendorConfig) -> str:
    """The URL of a vendor's health check. Hosted APIs have none; their list of models is the cheapest request."""
    if vendor.kind == "openai":
        return f"{vendor.url}/models"
    return vendor.url.removesuffix("/v1") + "/health"


async def _attempt_failed(response: httpx.Response, sizes: Sizes, redact: Callable[[str], str]) -> _AttemptFailed:
    check_plain(response)
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ERROR_BYTES:
            break
    status = response.status_code
    plain = redact(body.decode("utf-8", "replace")).encode()
    error = failure_of_status(status, response.headers, plain, sizes)
    wait = retry_after(response.headers) if "retry-after" in response.headers else 0
    return _AttemptFailed(error, again=status in MAY_PASS, after=wait)


async def _events(response: httpx.Response, most_bytes: int) -> AsyncIterator[bytes]:
    """The events of a stream; a plain JSON answer counts as one event. Raises `EventTooLong` and `httpx.HTTPError`."""
    check_plain(response)
    chunks = bounded(response.aiter_raw(), most_bytes)
    if response.headers.get("content-type", "").startswith("application/json"):
        yield b"".join([chunk async for chunk in chunks]).removeprefix(BYTE_ORDER_MARK)
        return
    async for data in events(chunks):
        yield data
