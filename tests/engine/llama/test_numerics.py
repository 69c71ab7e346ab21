"""The numbers of real weights against llama-cpp-python's own high-level class and a float64 softmax."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_cpp import Llama
from numpy.typing import NDArray
from tests.fakes import complete, generation_request
from tests.models.engines import open_tiny, settings
from tests.models.prose import PROSE, excerpt
from tests.models.tiny import Tiny

from afterword.engine.events import PromptScores
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine

N_SCORED = 300
ROUNDING = 2e-6
"""Most that a log-probability differs from the float64 softmax of the same logits."""


class Reference:
    """llama-cpp-python's high-level model, fed in calls of chosen lengths."""

    def __init__(self, path: Path) -> None:
        self._llama: Any = Llama(
            str(path), n_ctx=512, n_batch=512, n_threads=1, logits_all=True, flash_attn=True, verbose=False
        )

    def logprobs(self, *calls: list[int]) -> NDArray[np.float64]:
        """(total length, n_vocab) log-probabilities in float64 after each token of one text, cut into `calls`."""
        self._llama.reset()
        for tokens in calls:
            self._llama.eval(tokens)
        logits = self._llama.scores[: sum(map(len, calls))].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        result: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return result

    def go_on(self, n: int, *, at: int) -> list[tuple[int, float]]:
        """The likeliest n tokens after the first `at`, one after the other, with their log-probabilities."""
        self._llama.n_tokens = at
        self._llama._ctx.kv_cache_seq_rm(-1, at, -1)
        found = []
        for _ in range(n):
            row = self._llama.scores[self._llama.n_tokens - 1].astype(np.float64)
            token = int(row.argmax())
            found.append((token, float(-np.log(np.exp(row - row[token]).sum()))))
            self._llama.eval([token])
        return found


@pytest.fixture(scope="module")
def reference(short_model: Path) -> Reference:
    return Reference(short_model)


@pytest.fixture(scope="module")
def short_engine(short_model: Path) -> Iterator[LlamaEngine]:
    """Beside nobody else's requests."""
    engine = load_engine(settings(short_model, short_model.parent, context=1024, parallel=2))
    yield engine
    asyncio.run(engine.aclose())


@pytest.fixture(scope="module")
def prompt(short_engine: LlamaEngine) -> list[int]:
    return short_engine.tokenizer.encode(PROSE, add_bos=False, parse_special=False)[:N_SCORED]


async def score(engine: LlamaEngine, prompt: list[int], k: int) -> tuple[int, PromptScores]:
    """(tokens found in the cache, scores) of a prompt."""
    told = await complete(engine, generation_request(prompt, max_tokens=0, prompt_logprobs=k))
    assert told.prompt.scores is not None
    return told.prompt.n_cached, told.prompt.scores


def bits(scores: PromptScores) -> tuple[bytes, bytes, bytes]:
    return scores.logprobs.tobytes(), scores.top_ids.tobytes(), scores.top_logprobs.tobytes()


def columns(scores: PromptScores, k: int) -> PromptScores:
    return PromptScores(scores.logprobs, scores.top_ids[:, :k], scores.top_logprobs[:, :k])


@pytest.mark.model
@pytest.mark.parametrize("cut", [(300,), (2, 150, 148)], ids=["whole", "cut"])
async def test_prompt_scores_are_llama_cpps_own(
    short_engine: LlamaEngine, reference: Reference, prompt: list[int], cut: tuple[int, ...]
) -> None:
    _, scores = await score(short_engine, prompt, 5)
    ends = np.cumsum(cut).tolist()
    expected = reference.logprobs(*(prompt[end - n : end] for n, end in zip(cut, ends, strict=True)))[:-1]
    rows = np.arange(N_SCORED - 1)
    np.testing.assert_allclose(scores.logprobs, expected[rows, prompt[1:]], rtol=0, atol=ROUNDING)
    likeliest = np.sort(np.partition(expected, -5, axis=1)[:, -5:])[:, ::-1]
    np.testing.assert_allclose(scores.top_logprobs, likeliest, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(scores.top_logprobs, expected[rows[:, None], scores.top_ids], rtol=0, atol=ROUNDING)


@pytest.mark.model
async def test_prompt_scores_stay_close_to_llama_cpp_called_token_by_token(
    short_engine: LlamaEngine, reference: Reference, prompt: list[int]
) -> None:
    start = prompt[:100]
    _, scores = await score(short_engine, start, 0)
    expected = reference.logprobs(*([token] for token in start))[np.arange(99), start[1:]]
    assert scores.logprobs.sum() == pytest.approx(expected.sum(), rel=5e-3)
    np.testing.assert_allclose(scores.logprobs, expected, rtol=0, atol=1.0)


@pytest.mark.model
@pytest.mark.parametrize("n_prompt", [100, 1], ids=["prompt", "one-token"])
async def test_greedy_continuation_is_llama_cpps_own(
    short_engine: LlamaEngine, reference: Reference, prompt: list[int], n_prompt: int
) -> None:
    start = prompt[:n_prompt]
    told = await complete(short_engine, generation_request(start, max_tokens=20, logprobs=0))
    # A second token, cut off again: a prompt of one token has two rows too.
    reference.logprobs([*start, start[-1]])
    expected = reference.go_on(20, at=n_prompt)
    assert [token.id for token in told.tokens()] == [token for token, _ in expected]
    logprobs = [token.logprob for token in told.tokens()]
    np.testing.assert_allclose(logprobs, [logprob for _, logprob in expected], rtol=0, atol=ROUNDING)


@pytest.mark.model
async def test_scoring_again_answers_from_the_cache_with_the_same_bits(
    short_engine: LlamaEngine, prompt: list[int]
) -> None:
    _, first = await score(short_engine, prompt, 5)
    n_cached, again = await score(short_engine, prompt, 5)
    # The last token is only scored, by the one before it, which is always computed.
    assert n_cached == N_SCORED - 2
    assert bits(again) == bits(first)


@pytest.fixture(params=["Q8_0", "F32"])
async def tiny_pair(request: pytest.FixtureRequest) -> AsyncIterator[tuple[LlamaEngine, LlamaEngine]]:
    """Two engines on the same tiny model: one to try things on, and one that has never seen anything."""
    async with open_tiny(Tiny(request.param)) as tried, open_tiny(Tiny(request.param)) as fresh:
        yield tried, fresh


def tiny_prompt(engine: LlamaEngine, n: int) -> list[int]:
    return engine.tokenizer.encode(excerpt(0, 2 * n), add_bos=False, parse_special=False)[:n]


@pytest.mark.parametrize(
    ("n_first", "n_longer", "n_cached"),
    [
        pytest.param(100, 120, 99, id="a-little-longer"),
        pytest.param(100, 400, 99, id="much-longer"),
        pytest.param(300, 301, 299, id="by-one-token"),
        pytest.param(2, 300, 1, id="after-two-tokens"),
    ],
)
async def test_longer_prompt_reuses_all_rows_of_a_shorter_one(
    tiny_pair: tuple[LlamaEngine, LlamaEngine], n_first: int, n_longer: int, n_cached: int
) -> None:
    tried, fresh = tiny_pair
    longer = tiny_prompt(tried, n_longer)
    await score(tried, longer[:n_first], 3)
    found, after = await score(tried, longer, 3)
    never_seen, alone = await score(fresh, longer, 3)
    assert (found, never_seen) == (n_cached, 0)
    assert bits(after) == bits(alone)


@pytest.mark.parametrize("other", [0, 1, 200, 298], ids=lambda place: f"at-{place}")
async def test_prompt_that_branches_off_is_scored_as_if_alone(
    tiny_pair: tuple[LlamaEngine, LlamaEngine], other: int
) -> None:
    tried, fresh = tiny_pair
    prompt = tiny_prompt(tried, 300)
    branch = [*prompt[:other], (prompt[other] + 1) % 256, *prompt[other + 1 :]]
    await score(tried, prompt, 3)
    _, after = await score(tried, branch, 3)
    _, alone = await score(fresh, branch, 3)
    assert bits(after) == bits(alone)


async def test_more_likeliest_tokens_than_before_are_computed_again(
    tiny_pair: tuple[LlamaEngine, LlamaEngine],
) -> None:
    tried, fresh = tiny_pair
    prompt = tiny_prompt(tried, 200)
    await score(tried, prompt, 2)
    n_cached, wider = await score(tried, prompt, 7)
    _, alone = await score(fresh, prompt, 7)
    assert n_cached == 0
    assert bits(wider) == bits(alone)


async def test_fewer_likeliest_tokens_than_before_come_from_the_cache(
    tiny_pair: tuple[LlamaEngine, LlamaEngine],
) -> None:
    tried, _ = tiny_pair
    prompt = tiny_prompt(tried, 200)
    _, wide = await score(tried, prompt, 7)
    n_cached, narrow = await score(tried, prompt, 2)
    assert n_cached == 198
    assert bits(narrow) == bits(columns(wide, 2))


async def test_prompt_first_completed_and_then_scored_is_scored_as_if_alone(
    tiny_pair: tuple[LlamaEngine, LlamaEngine],
) -> None:
    tried, fresh = tiny_pair
    prompt = tiny_prompt(tried, 200)
    await complete(tried, generation_request(prompt, max_tokens=8))
    _, after = await score(tried, prompt, 2)
    _, alone = await score(fresh, prompt, 2)
    assert bits(after) == bits(alone)
