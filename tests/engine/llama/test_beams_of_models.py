"""Beam search with models, beside one that shares nothing with the engine but the file."""

from typing import Any

import pytest
from tests.engine.llama.beams_by_llama_cpp import Question, answers_by_llama_cpp
from tests.fakes import complete, generation_request
from tests.models.engines import kept_tiny, open_tiny
from tests.models.prose import PROSE
from tests.models.tiny import Tiny

from afterword.engine.request import Beams

RULES = [(4, 1.0, False), (3, 0.0, True), (5, 2.0, "never")]


@pytest.mark.parametrize(("width", "length_penalty", "early_stopping"), RULES)
async def test_what_is_found_is_what_llama_cpp_s_numbers_lead_to(
    width: int, length_penalty: float, early_stopping: Any
) -> None:
    tiny = Tiny("F32")
    async with open_tiny(tiny, parallel=6) as engine:
        prompt = engine.tokenizer.encode(PROSE, add_bos=False, parse_special=False)[:40]
        ends = [*engine.tokenizer.end_ids, 40, 60, 80]
        request = generation_request(
            prompt,
            n_candidates=width,
            max_tokens=8,
            end_ids=frozenset(ends),
            beams=Beams(length_penalty, early_stopping),
            logprobs=0,
        )
        told = await complete(engine, request)
    expected = answers_by_llama_cpp(
        Question(str(kept_tiny(tiny)), prompt, ends, width, 8, length_penalty, early_stopping)
    )
    assert [tuple(token.id for token in told.tokens(index)) for index in range(width)] == [
        answer.tokens for answer in expected
    ]
    for index, answer in enumerate(expected):
        end = told.finished(index)
        assert end.sum_logprob / end.n_scored**length_penalty == pytest.approx(answer.score, abs=1e-2)
