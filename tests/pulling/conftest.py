"""A hub, and a cache of this test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fake_hub import FakeHub, hub_of_this_process


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FakeHub]:
    """The hub; what is fetched from it goes to the folder `hf`."""
    with hub_of_this_process(tmp_path / "hf") as hub:
        yield hub
