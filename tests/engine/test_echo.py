import asyncio
from contextlib import AsyncExitStack

import numpy as np
import pytest
from tests.fakes import complete, eventually, generation_request, tell

from afterword.engine.echo import EchoEngine
from afterword.engine.events import Finished, PromptDone, Started
from afterword.errors import InvalidRequest, Overloaded
from afterword.fields.sampling import Sampling


async def test_completion_repeats_the_prompt(echo: EchoEngine) -> None:
    told = await complete(echo, generation_request(b"abc ", max_tokens=10))
    assert told.text() == "abc abc ab"


@pytest.mark.parametrize("logprobs", [None, 0, 5])
async def test_numbers_do_not_change_the_text(echo: EchoEngine, logprobs: int | None) -> None:
    told = await complete(echo, generation_request("aé€".encode(), max_tokens=9, logprobs=logprobs))
    assert told.text() == "aé€aé"


async def test_separator_alone_ends_at_once(echo: EchoEngine) -> None:
    told = await complete(echo, generation_request([256], end_ids=frozenset({256})))
    assert told.events == [Started(), PromptDone(0, None), Finished(0, "stop", 0, 0.0, 0)]


async def test_warm_sampling_strays_from_the_prompt_but_not_far(echo: EchoEngine) -> None:
    told = await complete(echo, generation_request(b"a", max_tokens=200, sampling=Sampling(), logprobs=0))
    n_expected = sum(token.id == 97 for token in told.tokens())
    assert 150 < n_expected < 200


async def test_frequency_penalty_pushes_repeated_tokens_away(echo: EchoEngine) -> None:
    sampling = Sampling(temperature=0.0, frequency_penalty=2.0)
    told = await complete(echo, generation_request(b"a", max_tokens=8, sampling=sampling, logprobs=0))
    ids = [token.id for token in told.tokens()]
    assert ids[:4] == [97] * 4
    assert 97 not in ids[6:]


async def test_prompt_scores_are_a_whole_distribution(echo: EchoEngine) -> None:
    told = await complete(echo, generation_request(b"hello", max_tokens=0, prompt_logprobs=258))
    assert told.prompt.scores is not None
    assert np.exp(told.prompt.scores.top_logprobs).sum(axis=1) == pytest.approx(np.ones(4), abs=1e-12)
    assert told.prompt.scores.top_ids[:, 0].tolist() == [ord("h")] * 4


async def test_long_prompts_are_scored_like_short_ones(echo: EchoEngine) -> None:
    prompt = b"some words " * 60
    long = (await complete(echo, generation_request(prompt, max_tokens=0, prompt_logprobs=2))).prompt.scores
    short = (await complete(echo, generation_request(prompt[:100], max_tokens=0, prompt_logprobs=2))).prompt.scores
    assert long is not None
    assert short is not None
    assert long.logprobs.shape == (659,)
    assert long.logprobs[:99].tolist() == short.logprobs.tolist()
    assert long.top_ids[:99].tolist() == short.top_ids.tolist()


def figures(engine: EchoEngine) -> tuple[int, int, int]:
    stats = engine.stats()
    return stats.running, stats.waiting, stats.slots_free


async def test_prompts_beyond_the_streams_wait_their_turn() -> None:
    engine = EchoEngine(n_slots=2, max_waiting=3)
    first = engine.generate(generation_request(b"a", n_candidates=2))
    second = engine.generate(generation_request(b"b", n_candidates=2))
    third = engine.generate(generation_request(b"c"))
    await eventually(lambda: figures(engine) == (2, 3, 0))
    with pytest.raises(Overloaded, match="holds 5 sequences and has room for 5"):
        engine.generate(generation_request(b"d"))
    with pytest.raises(Overloaded):
        engine.check_capacity(1)
    told = await asyncio.gather(tell(first), tell(second), tell(third))
    assert [each.text()[:1] for each in told] == ["a", "b", "c"]
    await eventually(lambda: figures(engine) == (0, 0, 2))


async def test_prompt_with_more_candidates_than_slots_runs_alone() -> None:
    engine = EchoEngine(n_slots=2, max_waiting=3)
    small = engine.generate(generation_request(b"a"))
    large = engine.generate(generation_request(b"b", n_candidates=4))
    await eventually(lambda: figures(engine) == (1, 4, 1))
    await tell(small)
    await eventually(lambda: figures(engine) == (4, 0, 0))
    assert (await tell(large)).finished(3).n_tokens == 16


async def test_leaving_while_waiting_lets_the_next_one_start() -> None:
    engine = EchoEngine(n_slots=1, max_waiting=3)
    async with AsyncExitStack() as stack:
        for prompt in (b"a", b"b", b"c"):
            await stack.enter_async_context(engine.generate(generation_request(prompt, max_tokens=10_000)))
    await eventually(lambda: figures(engine) == (0, 0, 1))
    assert engine.stats().cancelled == 3
    assert (await complete(engine, generation_request(b"d", max_tokens=2))).text() == "dd"


async def test_refusal_of_one_prompt_is_its_own(echo: EchoEngine) -> None:
    nothing_left = Sampling(logit_bias=tuple((token, -100.0) for token in range(258)))
    failing = echo.generate(generation_request(b"a", sampling=nothing_left))
    other = echo.generate(generation_request(b"b", max_tokens=2))
    with pytest.raises(InvalidRequest, match="bans every token"):
        await tell(failing)
    assert (await tell(other)).text() == "bb"
    assert echo.stats().running == 0


async def test_end_tokens_are_not_counted_as_completion(echo: EchoEngine) -> None:
    await complete(echo, generation_request(b"ab", max_tokens=5, end_ids=frozenset({98})))
    assert echo.stats().completion_tokens == 1
    assert echo.stats().steps == 2


async def test_tokens_come_one_by_one_to_a_reader_that_keeps_up(echo: EchoEngine) -> None:
    told = await complete(echo, generation_request(b"ab", max_tokens=50))
    assert [chunk.text for chunk in told.chunks()] == ["a", "b"] * 25


async def test_delay_between_tokens_changes_no_token() -> None:
    engine = EchoEngine(token_delay=1e-6)
    assert (await complete(engine, generation_request(b"ab", max_tokens=3))).text() == "aba"


def test_fingerprint_follows_the_settings_that_decide_answers() -> None:
    assert EchoEngine().fingerprint == EchoEngine(n_slots=1).fingerprint
    assert EchoEngine().fingerprint != EchoEngine(context=16).fingerprint
    assert EchoEngine(context=16).capabilities.context == 16
