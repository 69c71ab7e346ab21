"""The first start with a model on a machine: what it finds out does not depend on what else the machine does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli import terminal
from tests.models.engines import kept_tiny
from tests.models.tiny import Tiny

BURDEN = "while True: sum(range(1000))"


@contextmanager
def busy_machine() -> Iterator[None]:
    """Two processors are taken, for as long as the block."""
    workers = [subprocess.Popen([sys.executable, "-c", BURDEN]) for _ in range(2)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def first_answer(folder: Path) -> dict[str, Any]:
    """Of a server's life, with nothing remembered of the model."""
    folder.mkdir()
    model = str(kept_tiny(Tiny()))
    environment = terminal.settings(folder, AFTERWORD_CACHE_DIR=str(folder / "cache"), AFTERWORD_MODEL=model)
    ran = terminal.run(
        *("complete", "Once upon a time", "--seed", "1", "--max-tokens", "24", "--logprobs", "3"),
        *("--context", "256", "--parallel", "2"),
        folder=folder,
        environment=environment,
    )
    assert ran.code == 0, ran.stderr
    assert list((folder / "cache").iterdir()) != [], "a start that remembers nothing is always the first"
    body: dict[str, Any] = json.loads(ran.stdout)
    return {name: body[name] for name in ("choices", "usage", "model", "system_fingerprint")}


def test_cli_02_a_first_start_on_a_busy_machine_gives_the_same_numbers(tmp_path: Path) -> None:
    alone = first_answer(tmp_path / "alone")
    with busy_machine():
        assert first_answer(tmp_path / "busy") == alone
