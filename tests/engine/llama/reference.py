"""The log-probabilities of llama-cpp-python's high-level class, in a process of its own: without the project's kernels.

    python -m tests.engine.llama.reference DIRECTORY      (reads a prompt's ids from stdin, as JSON)

Writes NAME.npy for every NAME.gguf in the directory: (tokens, n_vocab) log-probabilities after each token.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp import Llama
from numpy.typing import NDArray


def logprobs_by_llama_cpp(directory: Path, prompt: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """The files' names without their ending, and what llama.cpp finds for the prompt with each."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-m", "tests.engine.llama.reference", str(directory)]
    done = subprocess.run(
        program, env=environment, input=json.dumps(list(prompt)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {path.stem: np.load(path) for path in directory.glob("*.npy")}


def _logprobs(path: Path, prompt: list[int]) -> NDArray[np.float64]:
    llama: Any = Llama(str(path), n_ctx=256, n_threads=1, logits_all=True, flash_attn=False, verbose=False)
    llama.eval(prompt)
    logits = llama.scores[: len(prompt)].astype(np.float64)
    llama.close()
    logits -= logits.max(axis=1, keepdims=True)
    result: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return result


def main() -> None:
    prompt = json.load(sys.stdin)
    for path in Path(sys.argv[1]).glob("*.gguf"):
        np.save(path.with_suffix(".npy"), _logprobs(path, prompt))


if __name__ == "__main__":
    main()
