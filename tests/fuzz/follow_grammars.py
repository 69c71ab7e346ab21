"""Reads and follows grammars as the server and the process of a model do, and prints what each took.

Started by `test_grammars.py`: `python -m tests.fuzz.follow_grammars COUNT SEED`. A line of JSON before each grammar and
one after it, so that whoever reads them knows which one never ended.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from tests.fuzz.grammars import grammars

from afterword.engine.grammars.grammar_compiler import GrammarFailed, compiled
from afterword.engine.llama.binding import LlamaModel
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.engine.sampling.masks import Masks, ends_of
from afterword.fields.grammars import Grammar
from afterword.loading.embedded import model_file
from afterword.machine import resident_memory

STEPS = 12


@dataclass
class Took:
    """Processor time in seconds: of this process, which has nothing else to do."""

    refused: str = ""
    read: float = 0.0
    """Elapsed; in the other process."""
    opened: float = 0.0
    step: float = 0.0
    """The longest."""


def main() -> None:
    """Try all grammars of the command line's numbers."""
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    tokenizer = Vocabulary(LlamaModel(model_file("smollm2-135m-instruct"), vocab_only=True))
    masks = Masks(tokenizer)
    masks.open(compiled(Grammar("regex", "a")), 1).result()
    for number, grammar in enumerate(grammars(seed, count)):
        print(json.dumps({"begins": number, "kind": grammar.kind, "text": grammar.text[:200]}), flush=True)
        took = _follow(grammar, masks, tokenizer, random.Random(number))
        # Not its peak, which begins with that of the process that started it.
        memory = resident_memory() // 2**20
        print(json.dumps(vars(took) | {"memory": memory}), flush=True)
    masks.close()


def _follow(grammar: Grammar, masks: Masks, tokenizer: Vocabulary, chance: random.Random) -> Took:
    took = Took()
    begun = time.monotonic()
    try:
        text = compiled(grammar)
    except GrammarFailed as error:
        took.refused = f"read: {error}"
        return took
    finally:
        took.read = time.monotonic() - begun
    try:
        with _timed(took, "opened"):
            [mask] = masks.open(text, 1).result()
        for _ in range(STEPS):
            row = np.zeros(tokenizer.n_vocab, dtype=np.float32)
            with _timed(took, "step"):
                mask.apply(row)
            token = int(chance.choice(np.flatnonzero(row == 0)))
            if token in ends_of(tokenizer):
                break
            with _timed(took, "step"):
                mask.accept(token)
                # Waits for it.
                assert isinstance(mask.ended, bool)
    except GrammarFailed as error:
        took.refused = f"followed: {error}"
    return took


@contextmanager
def _timed(took: Took, what: str) -> Iterator[None]:
    begun = time.process_time()
    try:
        yield
    finally:
        setattr(took, what, max(getattr(took, what), time.process_time() - begun))


if __name__ == "__main__":
    main()
