"""What `kernels.py` and `runner.py` build on, checked on real weights: which cuts, moves and neighbours keep bits."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.fakes import complete, generation_request
from tests.models.prose import PROSE
from tests.models.tiny import Tiny, write_tiny

from afterword.defaults import DEFAULT_MODEL
from afterword.engine.llama.binding import LlamaContext, LlamaModel
from afterword.engine.llama.engine import LlamaEngine
from afterword.engine.llama.runner import LlamaRunner
from afterword.models import model_file

N_CELLS = 512


@pytest.fixture(scope="module", params=["Q8_0", "Q4_0", pytest.param("default", marks=pytest.mark.model)])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaContext]:
    """Four streams on quantised weights, where one row is computed like several."""
    if request.param == "default":
        path = model_file(DEFAULT_MODEL.name)
    else:
        path = write_tiny(tmp_path_factory.mktemp("tiny"), Tiny(request.param))
    model = LlamaModel(path)
    opened = LlamaContext(model, n_streams=4, n_ctx_stream=N_CELLS, n_batch=N_CELLS, n_threads=1)
    yield opened
    opened.close()
    model.close()


@pytest.fixture
def context(opened: LlamaContext) -> LlamaContext:
    """The module's context with empty streams."""
    for stream in range(opened.n_streams):
        opened.truncate(stream, 0)
    return opened


TOKENS = [3 + 17 * place % 251 for place in range(N_CELLS)]
OTHERS = [5 + 29 * place % 241 for place in range(N_CELLS)]


def run(context: LlamaContext, *pieces: tuple[int, int, list[int]]) -> NDArray[np.float32]:
    """Decode (stream, start, tokens) pieces in one call; the logits after each piece's last token."""
    ends = [np.arange(len(tokens)) == len(tokens) - 1 for _, _, tokens in pieces]
    return context.decode(
        np.concatenate([np.array(tokens, dtype=np.int32) for _, _, tokens in pieces]),
        np.concatenate([np.arange(start, start + len(t), dtype=np.int32) for _, start, t in pieces]),
        np.concatenate([np.full(len(t), stream, dtype=np.int32) for stream, _, t in pieces]),
        np.concatenate(ends).astype(np.int8),
    ).copy()


def fill(context: LlamaContext, stream: int, cut: list[int], tokens: list[int]) -> bytes:
    """Compute the beginning of `tokens` in pieces of the lengths `cut`; the bits of the last token's logits."""
    start = 0
    for n in cut:
        last = run(context, (stream, start, tokens[start : start + n]))
        start += n
    return last.tobytes()


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        pytest.param([64, 64, 17], [128, 17], id="tiles"),
        pytest.param([64, 128, 64, 9], [256, 9], id="uneven-tiles"),
        pytest.param([20, 20], [40], id="rows"),
        pytest.param([1] * 40, [40], id="single-rows"),
        pytest.param([63, 1, 30, 33], [60, 60, 7], id="rows-beyond-a-tile"),
        pytest.param([128, 63], [64, 64, 1, 20, 41, 1], id="rows-after-tiles"),
    ],
)
def test_cuts_within_one_kernel_change_nothing(context: LlamaContext, cut: list[int], whole: list[int]) -> None:
    assert fill(context, 0, cut, TOKENS) == fill(context, 1, whole, TOKENS)


@pytest.mark.parametrize("others", [[1], [2], [1, 2, 3]], ids=["next", "apart", "all"])
def test_neighbours_change_nothing(context: LlamaContext, others: list[int]) -> None:
    fill(context, 0, [64, 20], TOKENS)
    alone = run(context, (0, 84, TOKENS[84:86]))[0].tobytes()
    context.truncate(0, 84)
    for stream in others:
        fill(context, stream, [50, 10 * stream], OTHERS)
    beside = run(context, (0, 84, TOKENS[84:86]), *((s, 50 + 10 * s, OTHERS[300 : 300 + 2]) for s in others))[0]
    assert beside.tobytes() == alone


def test_tiles_beside_tiles_change_nothing(context: LlamaContext) -> None:
    alone = run(context, (0, 0, TOKENS[:64]))[0].tobytes()
    context.truncate(0, 0)
    beside = run(context, (0, 0, TOKENS[:64]), (1, 0, OTHERS[:64]), (3, 0, OTHERS[64:128]))[0].tobytes()
    assert beside == alone


def goes_on(context: LlamaContext, stream: int, n: int) -> bytes:
    """The bits of the logits after two more tokens behind the n of a stream, which is left as it was."""
    bits = run(context, (stream, n, TOKENS[n : n + 2])).tobytes()
    context.truncate(stream, n)
    return bits


@pytest.mark.parametrize("n", [100, 400], ids=["short", "long"])
def test_copies_keep_bits(context: LlamaContext, n: int) -> None:
    runner = LlamaRunner(context, float_weights=False)
    fill(context, 1, [64, n - 64], TOKENS)
    expected = goes_on(context, 1, n)
    run(context, (1, n, OTHERS[:50]))
    for target in (0, 2, 3):
        runner.copy(1, target, n)
    assert [goes_on(context, stream, n) for stream in (0, 2, 3)] == [expected] * 3


def test_exchanged_streams_keep_bits(context: LlamaContext) -> None:
    runner = LlamaRunner(context, float_weights=False)
    fill(context, 0, [64, 36], TOKENS)
    fill(context, 2, [64, 64, 22], TOKENS)
    expected = goes_on(context, 0, 100), goes_on(context, 2, 150)
    runner.exchange(0, 2, 100, 150)
    assert (goes_on(context, 2, 100), goes_on(context, 0, 150)) == expected


def test_exchange_right_after_a_copy_moves_the_copy(context: LlamaContext) -> None:
    runner = LlamaRunner(context, float_weights=False)
    fill(context, 0, [64, 336], TOKENS)
    fill(context, 2, [30], OTHERS)
    expected = goes_on(context, 0, 400)
    runner.copy(0, 2, 400)
    runner.exchange(2, 1, 400, 0)
    assert goes_on(context, 1, 400) == expected


def test_copy_from_a_stream_that_was_just_copied_to_takes_its_new_content(context: LlamaContext) -> None:
    runner = LlamaRunner(context, float_weights=False)
    fill(context, 0, [64, 36], OTHERS)
    fill(context, 2, [64, 336], TOKENS)
    context.truncate(2, 100)
    expected = goes_on(context, 2, 100)
    context.truncate(2, 0)
    fill(context, 2, [64, 336], TOKENS)
    runner.copy(0, 1, 50)
    runner.copy(2, 0, 300)
    runner.copy(0, 3, 100)
    assert goes_on(context, 3, 100) == expected


@pytest.mark.model
async def test_request_without_a_seed_reuses_more_and_stays_close(default_engine: LlamaEngine) -> None:
    prompt = default_engine.tokenizer.encode("Unseeded. " + PROSE, add_bos=False, parse_special=False)[:280]
    scoring = {"max_tokens": 0, "prompt_logprobs": 0}
    await complete(default_engine, generation_request(prompt[:150], **scoring))
    free = await complete(default_engine, generation_request(prompt, reproducible=False, **scoring))
    seeded = await complete(default_engine, generation_request(prompt, **scoring))
    assert (free.prompt.n_cached, seeded.prompt.n_cached) == (149, 64)
    assert free.prompt.scores is not None
    assert seeded.prompt.scores is not None
    assert abs(free.prompt.scores.logprobs - seeded.prompt.scores.logprobs).max() < 1.0
