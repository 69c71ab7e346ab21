"""Weights that are no numbers: the request that needs them fails, and no other."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs
from tests.fakes import complete, generation_request
from tests.models.engines import settings
from tests.models.gguf_tensors import read_gguf, write_gguf
from tests.models.tiny import N_EMBD, Tiny, write_tiny

from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine
from afterword.errors import EngineFailed

BROKEN = ord("z")
"""The token whose embedding is no number."""


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LlamaEngine]:
    """Has one slot, so that every request follows the one that failed."""
    whole = read_gguf(write_tiny(tmp_path, Tiny()))
    embeddings = next(tensor for tensor in whole.tensors if tensor.name == "token_embd.weight")
    values = embeddings.content().view(np.float32).reshape(-1, N_EMBD).copy()
    values[BROKEN] = np.nan
    broken = replace(embeddings, content=lambda: values.reshape(-1).view(np.uint8))
    path = tmp_path / "broken.gguf"
    write_gguf(path, whole.n_entries, whole.entries, [broken if t is embeddings else t for t in whole.tensors])
    opened = load_engine(settings(path, tmp_path, parallel=1))
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
