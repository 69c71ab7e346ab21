"""A beam search by its definition over llama-cpp-python's high-level class: without the project's engine and kernels.

    python -m tests.engine.llama.beams_by_llama_cpp      (reads a `Question` from stdin, as JSON)

Writes the answers to stdout: each one's tokens and score.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from llama_cpp import Llama
from tests.engine.beam_reference import Answer, Tokens, beam_search


@dataclass(frozen=True)
class Question:
    path: str
    prompt: list[int]
    ends: list[int]
    width: int
    max_tokens: int
    length_penalty: float
    early_stopping: bool | str


def answers_by_llama_cpp(question: Question) -> list[Answer]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-m", "tests.engine.llama.beams_by_llama_cpp"]
    done = subprocess.run(
        program, env=environment, input=json.dumps(asdict(question)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [Answer(tuple(tokens), score) for tokens, score in json.loads(done.stdout)]


def _answers(question: Question) -> list[Answer]:
    llama: Any = Llama(question.path, n_ctx=256, n_threads=1, logits_all=True, flash_attn=False, verbose=False)

    def scores(tokens: Tokens) -> list[float]:
        llama.reset()
        llama.eval([*question.prompt, *tokens])
        logits = llama.scores[len(question.prompt) + len(tokens) - 1].astype(np.float64)
        logits -= logits.max()
        found: list[float] = (logits - np.log(np.exp(logits).sum())).tolist()
        return found

    found = beam_search(
        scores,
        width=question.width,
        max_tokens=question.max_tokens,
        ends=set(question.ends),
        length_penalty=question.length_penalty,
        early_stopping=question.early_stopping,
    )
    llama.close()
    return found


def main() -> None:
    found = _answers(Question(**json.load(sys.stdin)))
    json.dump([(answer.tokens, answer.score) for answer in found], sys.stdout)


if __name__ == "__main__":
    main()
