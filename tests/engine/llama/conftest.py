"""What several tests share because it takes long to make."""

from pathlib import Path

import pytest
from tests.models.short import write_short

from afterword.config.model import DEFAULT_MODEL
from afterword.engine.llama.binding import LIBRARIES_FOLDER, PACKAGE_VERSION, LlamaModel
from afterword.engine.llama.kernels import Kernels, load_kernels, use_kernels, user_cache
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.loading.embedded import model_file


@pytest.fixture(scope="session", autouse=True)
def _own_kernels() -> None:
    """Before any test loads a model by itself: llama.cpp lists the kinds of buffers once a process."""
    assert use_kernels(PACKAGE_VERSION, LIBRARIES_FOLDER) is not None


@pytest.fixture(scope="session")
def built() -> Kernels:
    """The project's kernels, to be called without a model."""
    return load_kernels(user_cache(), PACKAGE_VERSION, LIBRARIES_FOLDER)


@pytest.fixture(scope="session")
def default_vocabulary() -> Vocabulary:
    """The default model's vocabulary, without its weights."""
    return Vocabulary(LlamaModel(model_file(DEFAULT_MODEL.name), vocab_only=True))


@pytest.fixture(scope="session")
def short_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default model's file with few of its layers."""
    return write_short(tmp_path_factory.mktemp("short"))
