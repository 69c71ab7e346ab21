"""Engines that several tests share, because the default model takes seconds to load."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models.engines import load_default

from afterword.config.model import DEFAULT_MODEL
from afterword.engine.llama.binding import LlamaModel
from afterword.engine.llama.engine import LlamaEngine
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.loading.embedded import model_file


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the default model's hash and probe between the engines of a run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def default_vocabulary() -> Vocabulary:
    """The default model's vocabulary, without its weights."""
    return Vocabulary(LlamaModel(model_file(DEFAULT_MODEL.name), vocab_only=True))


@pytest.fixture(scope="session")
def default_engine(cache_dir: Path) -> Iterator[LlamaEngine]:
    """The default model with 16 slots of 1024 tokens; a test must leave it idle."""
    engine = load_default(cache_dir, context=1024, parallel=16)
    yield engine
    asyncio.run(engine.aclose())
