"""The exported model on vLLM is the model of its GGUF file on the embedded engine: same tokens, numbers, answers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import complete, generation_request
from tests.models.engines import load_default
from tests.models.vllm import model_directory

from afterword.engine.base import Engine
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.vllm.vllm_engine import VllmEngine

pytestmark = pytest.mark.vllm

CLOSE = 0.15
"""How far log-probabilities may lie apart in the mean: the embedded engine rounds activations to 8 bits, vLLM does not.
In the mean it comes to 0.03 to 0.08, with llama.cpp's kernels too; unlikely tokens differ by up to 0.7."""

NEARLY = 0.5
"""How much less likely a token may be that the other engine takes for the likeliest."""

TEXTS = [
    "The capital of France is Paris, which lies on the Seine.",
    "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n",
    "1, 2, 3, 10, 100, 1234567890",
    "Zażółć gęślą jaźń 🙂 日本語 ½ ٣٤ e\u0301\u00a0\u2028  \r\n\t x",
    "<|im_start|>user\nHello<|im_end|>\n<|endoftext|><repo_name>'s IT'S",
    "",
    "   leading and trailing   ",
]


@pytest.fixture(scope="module")
def embedded(cache_dir: Path) -> Iterator[LlamaEngine]:
    engine = load_default(cache_dir, context=512, parallel=2, threads=2)
    yield engine
    asyncio.run(engine.aclose())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("parse_special", [True, False])
def test_texts_have_the_same_tokens(engine: VllmEngine, embedded: LlamaEngine, text: str, parse_special: bool) -> None:
    ours = engine.tokenizer.encode(text, add_bos=False, parse_special=parse_special)
    assert ours == embedded.tokenizer.encode(text, add_bos=False, parse_special=parse_special)


def test_every_token_has_the_same_bytes_and_meaning(engine: VllmEngine, embedded: LlamaEngine) -> None:
    ours, theirs = engine.tokenizer, embedded.tokenizer
    assert ours.n_vocab == theirs.n_vocab == 49152
    for token in range(ours.n_vocab):
        assert ours.piece(token) == theirs.piece(token)
        assert ours.spell(token) == theirs.spell(token)
        assert ours.is_control(token) == theirs.is_control(token)


def test_special_tokens_are_the_same(engine: VllmEngine, embedded: LlamaEngine) -> None:
    def named(each: Engine) -> list[object]:
        known = each.tokenizer
        ids = [known.bos_id, known.eos_id, known.pad_id, known.separator_id]
        return [*ids, known.add_bos, known.end_ids, known.infill, known.chat_template]

    assert named(engine) == named(embedded)


def test_the_vocabulary_can_be_read_without_vllm(engine: VllmEngine) -> None:
    from afterword.engine.vllm.huggingface import load_vocabulary

    alone = load_vocabulary(str(model_directory()), {})
    assert (alone.n_vocab, alone.end_ids) == (engine.tokenizer.n_vocab, engine.tokenizer.end_ids)
    assert [alone.piece(token) for token in range(1000)] == [engine.tokenizer.piece(token) for token in range(1000)]


@pytest.mark.parametrize("text", TEXTS[:2])
async def test_log_probabilities_are_close_to_the_embedded_engines(
    engine: VllmEngine, embedded: LlamaEngine, text: str
) -> None:
    prompt = engine.tokenizer.encode(text, add_bos=False, parse_special=False)
    request = generation_request(prompt, max_tokens=0, prompt_logprobs=3)
    ours, theirs = [(await complete(each, request)).prompt.scores for each in (engine, embedded)]
    assert ours is not None
    assert theirs is not None
    assert np.abs(ours.logprobs - theirs.logprobs).mean() < CLOSE
    assert (ours.top_ids[:, 0] == theirs.top_ids[:, 0]).mean() > 0.9


@pytest.mark.parametrize("text", ["The capital of France is", "1, 2, 3,", "def add(a, b):\n    return"])
async def test_greedy_answers_are_the_likeliest_of_the_embedded_engine(
    engine: VllmEngine, embedded: LlamaEngine, text: str
) -> None:
    prompt = engine.tokenizer.encode(text, add_bos=False, parse_special=False)
    said = [
        token.id for token in (await complete(engine, generation_request(prompt, max_tokens=12, logprobs=0))).tokens()
    ]
    request = generation_request([*prompt, *said], max_tokens=0, prompt_logprobs=1)
    scores = (await complete(embedded, request)).prompt.scores
    assert scores is not None
    behind = (scores.top_logprobs[:, 0] - scores.logprobs)[-len(said) :]
    # Where two tokens are nearly as likely, rounding may choose the other one.
    assert behind.max() < NEARLY
    assert (behind == 0).mean() > 0.7
