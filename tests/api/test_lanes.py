"""Where work that grows with a body is done."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.api.served import app_of, client_of

from afterword.api import completions, tokenize
from afterword.api.lanes import LARGE, SMALL, Lanes
from afterword.api.render_logprobs import LogprobFormat
from afterword.errors import InvalidRequest


@pytest.mark.parametrize(
    ("n_bytes", "on_the_loop"), [(0, True), (SMALL, True), (SMALL + 1, False), (LARGE, False), (LARGE + 1, False)]
)
async def test_http_22_only_small_bodies_are_worked_on_where_they_come_in(n_bytes: int, on_the_loop: bool) -> None:
    thread = await Lanes().run(n_bytes, threading.get_ident)
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

    large = [asyncio.create_task(lanes.run(LARGE + 1, work(name))) for name in ("first", "second")]
    try:
        await asyncio.to_thread(has_begun.wait, 60)
        assert await lanes.run(LARGE, lambda: "served") == "served"
        assert begun == ["first"]
    finally:
        may_end.set()
    await asyncio.gather(*large)
    assert begun == ["first", "second"]


async def test_what_fails_in_a_thread_fails_for_who_asked() -> None:
    def fail() -> None:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        await Lanes().run(LARGE, fail)


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
