"""Every architecture that is served, with a tiny model: what it computes, that nothing around it matters, its prefixes.

The models have the mixture of types that most people run; one engine each.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.llama.architectures.asking import (
    BRANCH,
    HALF,
    N_SHARED,
    OTHERS,
    PROMPT,
    ask,
    bits,
    fill_all_slots,
    score_bits,
    scores,
)
from tests.engine.llama.reference import logprobs_by_llama_cpp
from tests.fakes import Told
from tests.models.architectures import ARCHITECTURES, Architecture
from tests.models.engines import settings
from tests.models.requantised import requantise
from tests.models.shaped import write_model

from afterword.engine.llama.binding import LlamaModel
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine
from afterword.fields.sampling import Sampling

SURE = 0.02
"""Most that rounding may do to numbers of 32 bits, as a share of what quantising does: keys and values are of 16 bits,
and of two numbers that are nearly the same one may be rounded to the next. The most that was seen is 0.011."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with each architecture's file twice: NAME.gguf of 32-bit floats and NAME.q.gguf."""
    directory = tmp_path_factory.mktemp("architectures")
    for architecture in ARCHITECTURES:
        path = write_model(directory / f"{architecture.name}.gguf", architecture.name, architecture.values)
        requantise(path, directory / f"{architecture.name}.q.gguf", "Q4_K_M")
    return directory


@pytest.fixture(scope="module")
def reference(files: Path) -> dict[str, NDArray[np.float64]]:
    """What llama.cpp finds for the prompt."""
    return logprobs_by_llama_cpp(files, PROMPT)


@pytest.fixture(scope="module", params=ARCHITECTURES, ids=lambda architecture: architecture.name)
def architecture(request: pytest.FixtureRequest) -> Architecture:
    chosen: Architecture = request.param
    return chosen


@pytest.fixture(scope="module")
def engine(architecture: Architecture, files: Path) -> Iterator[LlamaEngine]:
    """A test must leave it idle."""
    opened = load_engine(settings(files / f"{architecture.name}.q.gguf", files, context=200))
    yield opened
    asyncio.run(opened.aclose())


async def test_computes_what_llama_cpp_computes(
    architecture: Architecture, engine: LlamaEngine, files: Path, reference: dict[str, NDArray[np.float64]]
) -> None:
    floats = load_engine(settings(files / f"{architecture.name}.gguf", files, context=200))
    exact = await scores(floats)
    await floats.aclose()
    rows = np.arange(len(PROMPT) - 1)
    expected = {name: reference[name][rows, PROMPT[1:]] for name in (architecture.name, f"{architecture.name}.q")}
    of_floats, of_quantised = expected.values()
    by_quantising = np.abs(of_quantised - of_floats).mean()
    assert by_quantising > 0
    assert np.abs(exact - of_floats).mean() < SURE * by_quantising
    assert np.abs(await scores(engine) - of_quantised).mean() < HALF * by_quantising


async def test_the_beginning_of_a_text_matters_to_its_end(architecture: Architecture, engine: LlamaEngine) -> None:
    # If not, nothing that is said here of prefixes would show anything.
    assert bits(await ask(engine, PROMPT)) != bits(await ask(engine, [7, *PROMPT[1:]]))


async def test_samples_what_it_is_told_to(architecture: Architecture, engine: LlamaEngine) -> None:
    greedy = await ask(engine, PROMPT, sampling=Sampling(temperature=0.0), n_candidates=2)
    assert [token.id for token in greedy.tokens()] == [token.top[0][0] for token in greedy.tokens()]
    assert greedy.finished().n_tokens == len(greedy.tokens()) > 0
    seeds = {tuple(token.id for token in (await ask(engine, PROMPT, seed=seed)).tokens()) for seed in (1, 2, 3, 1)}
    assert len(seeds) == 3


async def test_what_was_sampled_is_scored_alike_as_a_prompt(architecture: Architecture, engine: LlamaEngine) -> None:
    sampled = (await ask(engine, PROMPT, max_tokens=1)).tokens()[0]
    echoed = (await ask(engine, [*PROMPT, sampled.id], max_tokens=0, prompt_logprobs=2)).prompt.scores
    assert echoed is not None
    assert len(echoed.logprobs) == len(PROMPT)
    assert echoed.logprobs[-1] == pytest.approx(sampled.logprob, abs=0 if engine.capabilities.reproducible else 1e-3)


async def test_is_the_same_alone_and_beside_others(architecture: Architecture, engine: LlamaEngine) -> None:
    assert engine.capabilities.reproducible == (architecture.why_not_exact == "")
    alone = await ask(engine, PROMPT)
    await fill_all_slots(engine)
    beside, *_ = await asyncio.gather(*(ask(engine, prompt) for prompt in (PROMPT, BRANCH, *OTHERS, PROMPT[:3])))
    if engine.capabilities.reproducible:
        assert bits(beside) == bits(alone)


async def test_shares_prefixes(architecture: Architecture, engine: LlamaEngine, files: Path) -> None:
    await fill_all_slots(engine)
    fresh = await ask(engine, BRANCH)
    await fill_all_slots(engine)
    # The whole prompt, and nothing behind it: a state cannot go back.
    await ask(engine, PROMPT[:N_SHARED], max_tokens=1)
    shared = await ask(engine, BRANCH)
    assert (fresh.prompt.n_cached, shared.prompt.n_cached) == (0, N_SHARED)
    if engine.capabilities.reproducible:
        assert bits(shared) == bits(fresh)


async def test_a_prefix_that_was_gone_beyond_is_shared_where_memory_can_be_cut(
    architecture: Architecture, engine: LlamaEngine, files: Path
) -> None:
    can_be_cut = architecture.memory in ("attention", "window")
    model = LlamaModel(files / f"{architecture.name}.q.gguf", vocab_only=True)
    assert model.memory_can_be_cut == can_be_cut
    model.close()
    await fill_all_slots(engine)
    await ask(engine, PROMPT)
    assert (await ask(engine, BRANCH)).prompt.n_cached == (N_SHARED if can_be_cut else 0)
    # Else its state was kept where the two branch off, for others that do.
    assert (await ask(engine, [*BRANCH[:N_SHARED], 4, 5])).prompt.n_cached == N_SHARED


async def test_a_text_that_grows_is_read_from_where_it_ended(architecture: Architecture, engine: LlamaEngine) -> None:
    await fill_all_slots(engine)
    fresh = await ask(engine, PROMPT)
    await fill_all_slots(engine)
    for n_typed in (len(PROMPT) - 4, len(PROMPT) - 2):
        await ask(engine, PROMPT[:n_typed])
    # What is sampled is other text than what is typed.
    typed = await ask(engine, PROMPT)
    assert typed.prompt.n_cached >= len(PROMPT) - 5
    if engine.capabilities.reproducible:
        assert bits(typed) == bits(fresh)


async def test_endings_of_one_context_are_scored_without_reading_it_again(
    architecture: Architecture, engine: LlamaEngine
) -> None:
    prompts = [[*PROMPT, *reversed(PROMPT), *(100 + ending for _ in range(12))] for ending in range(4)]
    fields = {"max_tokens": 0, "prompt_logprobs": 1}
    fresh: list[Told] = []
    for prompt in prompts:
        await fill_all_slots(engine)
        fresh.append(await ask(engine, prompt, **fields))
    await fill_all_slots(engine)
    one_by_one = [await ask(engine, prompt, **fields) for prompt in prompts]
    await fill_all_slots(engine)
    together = await asyncio.gather(*(ask(engine, prompt, **fields) for prompt in prompts))
    for found in (one_by_one, together):
        assert [told.prompt.n_cached >= 2 * len(PROMPT) - 20 for told in found] == [False, True, True, True]
        if engine.capabilities.reproducible:
            assert [score_bits(told) for told in found] == [score_bits(told) for told in fresh]
