"""Completions by a server that speaks the API, over HTTP. Works with any such server, not only this one."""

import json
from collections.abc import Callable
from typing import Any

import httpx
from typing_extensions import override

from afterword.cli.backend import Backend, Ending
from afterword.engine.upstream.reply import Counts, MalformedReply, Reply, ReplyError, parse_event
from afterword.errors import AfterwordError

CONNECT_SECONDS = 10.0
"""A server that is there accepts within this time; how long it then thinks is its own business."""

NO_COMPLETION = "The server answered with something that is no completion: is the URL that of a Completions API?"

PRINTED = frozenset({"index", "text", "finish_reason"})
"""What is shown of each choice."""

SCORED = frozenset({"token_ids", "sum_logprob", "mean_logprob", "logprob_per_byte", "is_greedy"})
"""The same of each score."""


class RemoteError(AfterwordError):
    """The server refused, broke off, or cannot be reached; the message is the server's own where it gave one."""


class RemoteBackend(Backend):
    """A server. `url` is its base, with or without `/v1`; `model` None is its default model."""

    def __init__(self, url: str, model: str | None, api_key: str | None) -> None:
        base = url.rstrip("/")
        base = base if base.endswith("/v1") else base + "/v1"
        self._url, self._score_url = base + "/completions", base + "/score"
        self._model: dict[str, Any] = {} if model is None else {"model": model}
        # As bytes: httpx takes text for ASCII, which a key need not be.
        headers = {} if api_key is None else {b"Authorization": f"Bearer {api_key}".encode()}
        self._client = httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(None, connect=CONNECT_SECONDS))

    @override
    async def stream(self, request: dict[str, Any], write: Callable[[str], object]) -> Ending:
        options = {"include_usage": True, "include_obfuscation": False}
        body = {**self._model, **request, "stream": True, "stream_options": options}
        reading = _Reading(write)
        try:
            async with self._client.stream("POST", self._url, json=body) as response:
                if response.status_code != httpx.codes.OK:
                    raise _refused(response.status_code, await response.aread())
                async for each in response.aiter_lines():
                    line = each.removeprefix("\ufeff")
                    if line.startswith("data:"):
                        reading.take(line.removeprefix("data:").strip())
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreachable(self._url, error) from error
        return reading.ending()

    @override
    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        content = await self._posted(self._url, request)
        reply = _understood(content)
        body: dict[str, Any] = json.loads(content)
        if not reply.choices or not all(choice.keys() >= PRINTED for choice in body["choices"]):
            raise RemoteError(NO_COMPLETION)
        return body

    @override
    async def score(self, request: dict[str, Any]) -> dict[str, Any]:
        content = await self._posted(self._score_url, request)
        try:
            body = json.loads(content)
            if not all(one.keys() >= SCORED for one in body["data"]):
                raise KeyError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RemoteError("The server answered with something that is no score.") from None
        answer: dict[str, Any] = body
        return answer

    async def _posted(self, url: str, request: dict[str, Any]) -> bytes:
        """The content of a good answer."""
        try:
            response = await self._client.post(url, json={**self._model, **request})
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreachable(url, error) from error
        if response.status_code != httpx.codes.OK:
            raise _refused(response.status_code, response.content)
        return response.content

    @override
    async def aclose(self) -> None:
        await self._client.aclose()


class _Reading:
    """What the events of a stream have said so far."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._reason: str | None = None
        self._counts = Counts(None, None, None)

    def take(self, data: str) -> None:
        if data == "[DONE]":
            return
        reply = _understood(data.encode())
        for choice in reply.choices:
            if choice.text != "":
                self._write(choice.text)
            if choice.finish_reason is not None:
                self._reason = choice.finish_reason
        if reply.counts is not None:
            self._counts = reply.counts

    def ending(self) -> Ending:
        if self._reason is None:
            raise RemoteError("The server broke the stream off.")
        return Ending(self._reason, self._counts.n_prompt or 0, self._counts.n_completion or 0)


def _understood(content: bytes) -> Reply:
    """What an answer or an event of one says. Raises `RemoteError` for an error, and for what is no completion."""
    try:
        reply = parse_event(content)
    except MalformedReply:
        raise RemoteError(NO_COMPLETION) from None
    if isinstance(reply, ReplyError):
        raise RemoteError(reply.message or "The server failed.")
    return reply


def _refused(status: int, content: bytes) -> RemoteError:
    try:
        message = str(json.loads(content)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = content[:200].decode("utf-8", "replace")
    return RemoteError(f"The server answered {status}: {message}")


def _unreachable(url: str, error: Exception) -> RemoteError:
    return RemoteError(f"{url} cannot be reached: {str(error) or type(error).__name__}.")
