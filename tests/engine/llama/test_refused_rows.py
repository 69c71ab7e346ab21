"""Calls that llama.cpp refuses: who asked for what it cannot compute fails, and nobody else."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.engine.llama.harness import Harness, Reading, ask, words
from tests.fakes import complete, generation_request
from tests.models.engines import open_tiny
from tests.models.tiny import Tiny

from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED, Arithmetic
from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.runner import NotComputed
from afterword.engine.llama.scheduler import MOST_REFUSED
from afterword.engine.request import GenerationRequest
from afterword.errors import EngineFailed
from afterword.fields.sampling import Sampling

REFUSED = 63
WITHOUT = Sampling(temperature=1.0, logit_bias=((REFUSED, -100.0),))
"""Never samples the token."""


def good(n: int, book: int, **changes: Any) -> GenerationRequest:
    prompt = tuple(0 if token == REFUSED else token for token in words(n, book))
    return ask(prompt, **({"sampling": WITHOUT, "max_tokens": 6} | changes))


def bad(n: int, book: int, at: int) -> GenerationRequest:
    prompt = good(n, book).prompt
    return ask((*prompt[:at], REFUSED, *prompt[at:]), sampling=WITHOUT, n_candidates=1 + book % 2)


def refusing(n_slots: int, arithmetic: Arithmetic = QUANTISED, *, can_cut: bool = True) -> Harness:
    harness = Harness(n_slots, arithmetic=arithmetic, can_cut=can_cut)
    harness.runner.context.refused = REFUSED
    return harness


def said(reading: Reading) -> list[object]:
    return [reading.tokens(index) for index in range(reading.request.n_candidates)] + [reading.scores()]


def failed(reading: Reading) -> bool:
    return isinstance(reading.told[-1], EngineFailed)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 7), st.none() | st.integers(0, 299)), max_size=8),
    st.integers(1, 5),
    st.sampled_from([QUANTISED, FLOATS, INDEPENDENT]),
)
def test_the_others_go_on_to_the_same_bytes(
    asked: list[tuple[int, int, int | None]], n_slots: int, arithmetic: Arithmetic
) -> None:
    harness = refusing(n_slots, arithmetic)
    readings = []
    with capture_logs() as logs:
        for number, (n, book, at) in enumerate(asked):
            changes = {
                "seed": number,
                "n_candidates": 1 + number % 3,
                "prompt_logprobs": 1 if number % 4 == 0 else None,
            }
            request = good(n, book, **changes) if at is None else bad(n, book, min(at, n))
            readings.append(harness.add(request)[1])
            harness.step()
            # What is refused in a row counts, and what is asked for here is not about that.
            harness.scheduler._n_refused = 0
        while not harness.scheduler.idle:
            harness.step()
            harness.scheduler._n_refused = 0
    assert [failed(reading) for reading in readings] == [at is not None for _, _, at in asked]
    assert len(logs) == sum(failed(reading) for reading in readings)
    for reading in readings:
        if not failed(reading):
            assert said(reading) == said(Harness(1, arithmetic=arithmetic).complete(reading.request))


def test_what_a_failed_request_has_left_is_not_reused() -> None:
    harness = refusing(1)
    with capture_logs():
        assert failed(harness.complete(bad(600, 0, at=580)))
    reading = harness.complete(good(600, 0))
    assert reading.prompt is not None
    assert reading.prompt.n_cached == 0


def test_memory_that_cannot_be_cut_is_lost_for_who_was_in_the_call() -> None:
    harness = refusing(3, can_cut=False)
    _, beside = harness.add(good(40, 0, max_tokens=50))
    harness.step()
    _, failing = harness.add(bad(40, 1, at=3))
    _, later = harness.add(good(40, 2, max_tokens=9))
    with capture_logs():
        harness.finish()
    assert failed(failing)
    alone = [Harness(1, can_cut=False).complete(reading.request) for reading in (beside, later)]
    for reading, expected in zip((beside, later), alone, strict=True):
        assert failed(reading) or said(reading) == said(expected)


def test_a_llama_cpp_that_computes_nothing_any_more_is_given_up() -> None:
    harness = refusing(8)
    for book in range(MOST_REFUSED + 1):
        harness.add(bad(20, book, at=5))
    with capture_logs(), pytest.raises(NotComputed):
        harness.finish()


def test_refusals_between_answers_are_never_too_many() -> None:
    harness = refusing(2)
    with capture_logs():
        for book in range(2 * MOST_REFUSED):
            assert failed(harness.complete(bad(20, book % 8, at=5)))
            assert not failed(harness.complete(good(20, book % 8)))


async def test_rows_that_were_computed_before_the_refusal_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """With llama.cpp itself, and kernels of our own."""
    decode = LlamaContext.decode

    def refuse(self: LlamaContext, tokens: Sequence[int], *rest: Any) -> Any:
        logits = decode(self, tokens, *rest)
        if ord("z") in list(tokens):
            raise RuntimeError("llama_decode failed with code -3")
        return logits

    never = Sampling(temperature=1.0, logit_bias=((ord("z"), -100.0),))
    requests = [
        generation_request(list(text), sampling=never, logprobs=1, seed=seed, max_tokens=40)
        for seed, text in enumerate((b"one thing", b"another", b"a third one, which is longer"))
    ]
    async with open_tiny(Tiny("Q8_0")) as engine:
        expected = [(await complete(engine, request)).tokens() for request in requests]
    monkeypatch.setattr(LlamaContext, "decode", refuse)
    async with open_tiny(Tiny("Q8_0")) as engine:
        with capture_logs():
            *told, failure = await asyncio.gather(
                *(complete(engine, request) for request in requests),
                complete(engine, generation_request(list(b"it is crazy"))),
                return_exceptions=True,
            )
        assert isinstance(failure, EngineFailed)
        assert "could not compute this request" in str(failure)
        assert [each.tokens() for each in told if not isinstance(each, BaseException)] == expected
        assert engine.stats().state == "ready"
