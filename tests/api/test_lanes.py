"""Where work that grows with a body is done."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message
from tests.api.served import app_of, client_of

from afterword.api import completions, tokenize
from afterword.api.disconnect import ClientLeft
from afterword.api.intake import UNCOUNTED
from afterword.api.lanes import LARGE, SMALL, Lanes
from afterword.api.render_logprobs import LogprobFormat
from afterword.errors import InvalidRequest


async def stays() -> Message:
    """The connection of a client that waits."""
    await asyncio.Event().wait()
    raise AssertionError


async def leaves() -> Message:
    """The connection of one that has gone."""
    return {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("n_bytes", "on_the_loop"), [(0, True), (SMALL, True), (SMALL + 1, False), (LARGE, False), (LARGE + 1, False)]
)
async def test_http_22_only_small_bodies_are_worked_on_where_they_come_in(n_bytes: int, on_the_loop: bool) -> None:
    thread = await Lanes().run(n_bytes, threading.get_ident, stays)
    assert (thread == threading.get_ident()) is on_the_loop


async def test_http_22_large_ones_wait_for_each_other_and_others_for_none_of_them() -> None:
    lanes, has_begun, may_end = Lanes(), threading.Event(), threading.Event()
    begun: list[str] = []

    def work(name: str) -> Callable[[], None]:
        def wait() -> None:
            begun.append(name)
            has_begun.set()
            may_end.wait(60)

        return wait

    large = [asyncio.create_task(lanes.run(LARGE + 1, work(name), stays)) for name in ("first", "second")]
    try:
        await asyncio.to_thread(has_begun.wait, 60)
        assert await lanes.run(LARGE, lambda: "served", stays) == "served"
        assert begun == ["first"]
    finally:
        may_end.set()
    await asyncio.gather(*large)
    assert begun == ["first", "second"]


async def test_http_22_what_waits_is_dropped_with_its_client_and_what_has_begun_keeps_its_turn() -> None:
    lanes, has_begun, may_end = Lanes(), threading.Event(), threading.Event()
    done: list[str] = []

    def begin() -> None:
        has_begun.set()
        may_end.wait(60)
        done.append("begun")

    async def left() -> Message:
        await asyncio.to_thread(has_begun.wait, 60)
        return await leaves()

    try:
        with pytest.raises(ClientLeft):
            await lanes.run(LARGE + 1, begin, left)
        with pytest.raises(ClientLeft):
            await lanes.run(LARGE + 1, lambda: done.append("dropped"), leaves)
        last = asyncio.create_task(lanes.run(LARGE + 1, lambda: done.append("last"), stays))
        assert await lanes.run(LARGE, lambda: list(done), stays) == []
    finally:
        may_end.set()
    await last
    assert done == ["begun", "last"]


async def test_what_fails_in_a_thread_fails_for_who_asked() -> None:
    def fail() -> None:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        await Lanes().run(LARGE, fail, stays)


TEXT = "a" * (SMALL + 1)


@pytest.mark.parametrize(
    ("path", "body", "module", "names"),
    [
        ("/v1/completions", {"prompt": TEXT}, completions, ("parse_object", "parse_body", "resolve")),
        ("/v1/completions", {"prompt": [97] * SMALL}, completions, ("parse_object", "parse_body", "resolve")),
        ("/v1/completions", {"prompt": "a", "suffix": TEXT}, completions, ("parse_object", "parse_body", "resolve")),
        ("/tokenize", {"prompt": TEXT}, tokenize, ("parse_object", "_tokenized")),
        ("/detokenize", {"tokens": [97] * SMALL}, tokenize, ("parse_object", "_detokenized")),
    ],
    ids=["text", "ids", "suffix", "tokenize", "detokenize"],
)
async def test_http_22_a_large_body_is_read_and_understood_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, object], module: object, names: tuple[str, ...]
) -> None:
    threads: dict[str, int] = {}

    def noting(name: str, called: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            threads[name] = threading.get_ident()
            return called(*args, **kwargs)

        return call

    for name in names:
        monkeypatch.setattr(module, name, noting(name, getattr(module, name)))
    async with client_of(app_of()) as client:
        await client.post(path, json=body)
    assert set(threads) == set(names)
    assert threading.get_ident() not in threads.values()


@pytest.mark.parametrize(
    ("path", "module", "last"), [("/v1/completions", completions, "resolve"), ("/tokenize", tokenize, "_tokenized")]
)
async def test_http_22_a_body_counts_until_it_is_understood(
    monkeypatch: pytest.MonkeyPatch, path: str, module: object, last: str
) -> None:
    app, called, held = app_of(), getattr(module, last), []

    def noting(*args: object) -> object:
        held.append(app.state.serving.intake.n_held)
        return called(*args)

    monkeypatch.setattr(module, last, noting)
    body = json.dumps({"prompt": "a", "user": "u" * 100_000}).encode()
    async with client_of(app) as client:
        assert (await client.post(path, content=body)).status_code == 200
    assert [*held, app.state.serving.intake.n_held] == [len(body) - UNCOUNTED, 0]


@pytest.mark.parametrize("stream", [False, True])
async def test_http_23_long_lists_are_rendered_in_a_thread(monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    threads: list[int] = []
    legacy = LogprobFormat.legacy

    def noting(self: LogprobFormat, *args: Any) -> Any:
        threads.append(threading.get_ident())
        return legacy(self, *args)

    monkeypatch.setattr(LogprobFormat, "legacy", noting)
    body = {"prompt": "a" * 200, "echo": True, "logprobs": 50, "max_tokens": 0, "n": 2, "stream": stream}
    async with client_of(app_of()) as client:
        assert (await client.post("/v1/completions", json=body)).status_code == 200
    # The last chunks of a stream list nothing.
    assert threads != []
    assert threading.get_ident() not in threads[:2]
