"""A server that says what it did, for the standard clients of languages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.languages.served import Served, serving


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What programs keep for themselves, such as compiled ones."""
    return tmp_path_factory.mktemp("home")
