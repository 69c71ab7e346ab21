"""What only llama.cpp can say, asked in a process of its own: whatever happens there, the report goes on.

The parent sends a pickled question on stdin; the answer is a JSON object on stdout, or a sentence on stderr.
"""

import asyncio
import importlib.metadata
import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from afterword.config.model import ModelConfig
from afterword.config.tree import EngineConfig
from afterword.errors import AfterwordError

FAILED = 2

MOST_SECONDS = 900
"""That an answer may take: a large model is loaded from a slow disk, and probed."""

Answer = Mapping[str, Any]


class NoAnswer(AfterwordError):
    """The process ended without an answer; the message is its last sentence, or how it ended."""


@dataclass(frozen=True, slots=True)
class AboutBuild:
    """What of llama.cpp and of the project's kernels is in use here. The kernels are compiled if need be."""

    def answer(self) -> Answer:
        """`python`, `binding`, `llama.cpp`, `devices`, `kernels` (None: llama.cpp's own, `reason` says why)."""
        from afterword.engine.llama.binding import (
            LIBRARIES_FOLDER,
            LIBRARY,
            PACKAGE_VERSION,
            build_info,
            start_backend,
        )
        from afterword.engine.llama.devices import list_devices
        from afterword.engine.llama.kernels import KernelsUnavailable, load_kernels, user_cache

        try:
            kernels, reason = load_kernels(user_cache(), PACKAGE_VERSION, LIBRARIES_FOLDER).instructions, None
        except KernelsUnavailable as error:
            kernels, reason = None, str(error)
        start_backend()
        return {
            "devices": [asdict(device) for device in list_devices(LIBRARY)],
            "python": sys.version.split()[0],
            "binding": importlib.metadata.version("llama-cpp-python"),
            "llama.cpp": build_info(),
            "kernels": kernels,
            "reason": reason,
        }


@dataclass(frozen=True, slots=True)
class AboutVocabulary:
    """Whether llama.cpp knows the architecture and the vocabulary of a file; reads no weights."""

    path: Path

    def answer(self) -> Answer:
        """`n_vocab`. Raises `ConfigurationError`."""
        from afterword.engine.llama.aborting import say_why_it_aborts
        from afterword.engine.llama.binding import LIBRARY, LlamaModel

        say_why_it_aborts(LIBRARY)
        return {"n_vocab": LlamaModel(self.path, vocab_only=True).n_vocab}


@dataclass(frozen=True, slots=True)
class AboutModel:
    """What the whole model comes to when it is loaded as the server loads it, with `budget` bytes."""

    model: ModelConfig
    engine: EngineConfig
    budget: int

    def answer(self) -> Answer:
        """`context`, `n_slots`, `reproducible`, `fingerprint`. Raises `ConfigurationError`."""
        from afterword.loading.embedded import load_llama

        engine = load_llama(self.model, self.engine, self.budget).engine
        asyncio.run(engine.aclose())
        return {
            "context": engine.capabilities.context,
            "n_slots": engine.capabilities.n_slots,
            "reproducible": engine.capabilities.reproducible,
            "fingerprint": engine.fingerprint,
        }


def ask(question: AboutBuild | AboutVocabulary | AboutModel) -> Answer:
    """The answer. Raises `NoAnswer`."""
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(
            command, input=pickle.dumps(question), capture_output=True, timeout=MOST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"llama.cpp gave no answer within {MOST_SECONDS} s.") from None
    if done.returncode == 0:
        answer: Answer = json.loads(done.stdout.splitlines()[-1])
        return answer
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    said = lines[-1].removeprefix("Error: ") if lines else "it says nothing"
    if done.returncode == FAILED:
        raise NoAnswer(said)
    raise NoAnswer(f"The process that asked llama.cpp ended with {done.returncode}: {said}.")


def main() -> None:
    """Answer one question."""
    question: AboutBuild | AboutVocabulary | AboutModel = pickle.load(sys.stdin.buffer)
    try:
        answer = question.answer()
    except AfterwordError as error:
        print(f"Error: {error}", file=sys.stderr)
        raise SystemExit(FAILED) from None
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
