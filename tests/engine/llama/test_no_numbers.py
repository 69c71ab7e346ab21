"""Weights that are no numbers: the request that needs them fails, and no other."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs
from tests.fakes import Told, complete, generation_request
from tests.models.engines import settings
from tests.models.gguf_tensors import read_gguf, write_gguf
from tests.models.tiny import N_EMBD, Tiny, write_tiny

from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine
from afterword.errors import EngineFailed
from afterword.fields.sampling import Sampling

BROKEN = ord("z")
"""The token whose embedding is no number."""


NEVER = Sampling(temperature=1.0, logit_bias=((BROKEN, -100.0),))
"""Samples any other token."""


@pytest.fixture
def broken_file(tmp_path: Path) -> Path:
    """A tiny model in which that token has no numbers."""
    whole = read_gguf(write_tiny(tmp_path, Tiny()))
    embeddings = next(tensor for tensor in whole.tensors if tensor.name == "token_embd.weight")
    values = embeddings.content().view(np.float32).reshape(-1, N_EMBD).copy()
    values[BROKEN] = np.nan
    broken = replace(embeddings, content=lambda: values.reshape(-1).view(np.uint8))
    path = tmp_path / "broken.gguf"
    write_gguf(path, whole.n_entries, whole.entries, [broken if t is embeddings else t for t in whole.tensors])
    return path


@pytest.fixture
async def engine(broken_file: Path) -> AsyncIterator[LlamaEngine]:
    """Has one slot, so that every request follows the one that failed."""
    opened = load_engine(settings(broken_file, broken_file.parent, parallel=1))
    yield opened
    await opened.aclose()


@pytest.mark.parametrize("changes", [{}, {"logprobs": 1}, {"prompt_logprobs": 1}, {"n_candidates": 2}])
async def test_native_08_a_request_without_numbers_fails_alone(engine: LlamaEngine, changes: dict[str, Any]) -> None:
    prompt = list(b"the cat sat on the mat, and ")
    expected = (await complete(engine, generation_request(prompt, logprobs=0))).events[1:]
    with capture_logs() as logs, pytest.raises(EngineFailed, match="gave no numbers for this request"):
        await complete(engine, generation_request([*prompt[:5], BROKEN, *prompt], **changes))
    assert [line["log_level"] for line in logs] == ["error"]
    assert "largest value" in str(logs[0]["exc_info"])
    for other in (prompt, [*b"another one"], list(b"x" * 300), prompt):
        found = await complete(engine, generation_request(other, logprobs=0))
        assert found.finished().n_tokens == 16
    assert found.events[1:] == expected
    assert engine.stats().state == "ready"


async def test_those_that_run_beside_it_go_on_to_the_same_bytes(broken_file: Path) -> None:
    texts = (b"the cat sat on the mat", b"another one", b"x" * 300)
    requests = [
        generation_request(list(text), sampling=NEVER, seed=seed, logprobs=1, max_tokens=60)
        for seed, text in enumerate(texts)
    ]
    engine = load_engine(settings(broken_file, broken_file.parent, parallel=4))
    try:
        expected = [(await complete(engine, request)).tokens() for request in requests]
        failing = [generation_request([*b"the cat ", BROKEN, *b"and"], n_candidates=n) for n in (1, 2)]
        with capture_logs() as logs:
            found = await asyncio.gather(
                *(complete(engine, request) for request in [*requests, *failing]), return_exceptions=True
            )
        assert [told.tokens() for told in found if isinstance(told, Told)] == expected
        assert [type(error) for error in found[3:]] == [EngineFailed] * 2
        assert len(logs) == 2
    finally:
        await engine.aclose()
