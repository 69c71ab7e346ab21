"""Sequences that take tokens back: slots are cut, or states put back, and bytes are the same whatever runs beside."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.llama.harness import Harness, ask, words
from tests.fakes import complete, generation_request
from tests.models.engines import settings as engine_settings
from tests.models.recurrent import write_recurrent
from tests.models.tiny import Tiny, write_tiny

from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED, Arithmetic
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine
from afterword.engine.request import GenerationRequest, Guidance
from afterword.fields.bans import TextBans
from afterword.fields.sampling import Sampling

PATTERN = "[0-?][ -/]|[\\x00-\\x0f][\\x10-\\x1f]|[ -/].[0-?]"
BANS = TextBans(("0", "12", "7!"), (), PATTERN)
BANNED = re.compile(f"0|12|7!|{PATTERN}")


def banning(n_prompt: int, seed: int, **changes: Any) -> GenerationRequest:
    return ask(words(n_prompt), **({"bans": BANS, "seed": seed, "max_tokens": 24, "n_candidates": 2} | changes))


def text_of(harness: Harness, request: GenerationRequest) -> list[list[tuple[object, ...]]]:
    reading = harness.complete(request)
    for index in range(request.n_candidates):
        end = reading.finished(index)
        assert end is not None
        assert (end.n_tokens, end.n_scored) == (24, 24)
        assert BANNED.search("".join(chr(token.id) for token in reading.listed(index))) is None
    return [reading.tokens(index) for index in range(request.n_candidates)]


@pytest.mark.parametrize(
    ("arithmetic", "can_cut"),
    [(QUANTISED, True), (FLOATS, True), (INDEPENDENT, True), (INDEPENDENT, False)],
    ids=["quantised", "floats", "independent", "states"],
)
@pytest.mark.parametrize("n_prompt", [1, 2, 40, 300])
def test_no_text_has_what_is_banned_and_all_that_is_computed_is_recorded(
    arithmetic: Arithmetic, can_cut: bool, n_prompt: int
) -> None:
    harness = Harness(4, can_cut=can_cut, arithmetic=arithmetic)
    text_of(harness, banning(n_prompt, 1))
    counters = harness.scheduler.counters
    assert counters.completion_tokens > 48, "tokens were taken back"


@settings(max_examples=25)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from([1, 30, 64, 290]), st.integers(0, 5), st.integers(0, 60)), min_size=1, max_size=6
    ),
    st.sampled_from([0, 3, 1000]),
)
def test_answers_are_the_same_alone_and_in_a_crowd(
    can_cut: bool, others: list[tuple[int, int, int]], n_checkpoints: int
) -> None:
    request = banning(100, 3)
    alone = text_of(Harness(1, can_cut=can_cut), request)
    crowd = Harness(3, can_cut=can_cut, n_checkpoints=n_checkpoints)
    for n_prompt, seed, n_steps in others:
        crowd.add(banning(n_prompt, seed, max_tokens=40) if seed % 2 else ask(words(n_prompt, seed), max_tokens=30))
        for _ in range(n_steps):
            crowd.step()
    assert text_of(crowd, request) == alone
    crowd.finish()
    assert text_of(crowd, request) == alone


def test_a_state_is_kept_near_where_a_sequence_may_go_back_to() -> None:
    harness = Harness(1, can_cut=False)
    _, reading = harness.add(banning(300, 1, n_candidates=1))
    while not harness.scheduler.idle:
        before = harness.scheduler.counters.prefill_tokens
        harness.step()
        [slot] = harness.kv
        if slot.n > 310:
            assert harness.kv.n_behind(slot) <= 8 + 3
            assert harness.scheduler.counters.prefill_tokens == before, "the prompt is not read again"
            assert len([state for state in slot.checkpoints if state.n > 300]) <= 3
    assert harness.scheduler.counters.completion_tokens > 24, "tokens were taken back"
    assert reading.finished(0) is not None


@pytest.fixture(params=["tiny", "recurrent"])
async def engine(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LlamaEngine]:
    path = write_recurrent(tmp_path) if request.param == "recurrent" else write_tiny(tmp_path, Tiny("Q8_0"))
    opened = load_engine(engine_settings(path, tmp_path))
    yield opened
    await opened.aclose()


async def test_models_of_llama_cpp_go_back_to_the_same_bytes(engine: LlamaEngine) -> None:
    bans = TextBans(("a", "e", "o"), ("th", "QX"), "[0-9]+[a-z]|[^a-z ]{3}")
    requests = [
        generation_request(
            range(40, 140),
            sampling=Sampling(temperature=1.0),
            seed=seed,
            max_tokens=40,
            logprobs=1,
            n_candidates=2,
            bans=bans,
            guidance=Guidance(1.5, "", tuple(range(90, 50, -1))) if seed == 3 else None,
        )
        for seed in range(4)
    ]
    alone = [await complete(engine, request) for request in requests]
    together = await asyncio.gather(*(complete(engine, request) for request in requests))
    for index in range(2):
        assert [told.tokens(index) for told in together] == [told.tokens(index) for told in alone]
        for told in alone:
            assert re.search("[aeo]|(?i:th|qx)|[0-9]+[a-z]|[^a-z ]{3}", told.text(index)) is None
            assert told.finished(index).n_tokens == 40
