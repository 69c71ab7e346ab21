"""What samplers cost: processor time to draw from a row of logits, for each alone and for all at once.

    python -m benchmarks.samplers [--vocabulary N]

In a process that keeps its memory as that of a model does. The least of several runs, so that other work on the machine
hardly matters. Microseconds.
"""

import argparse
import json
import os
import sys
import time
from typing import Any

import numpy as np

from afterword.completions.parse import parse_body
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.engine.worker.process import KEEPS_MEMORY

ALL: dict[str, dict[str, Any]] = {
    "repetition_penalty": {"repetition_penalty": 1.1},
    "dry": {"dry_multiplier": 0.8},
    "dynatemp": {"dynatemp_range": 0.3},
    "smoothing": {"smoothing_factor": 0.1},
    "top_n_sigma": {"top_n_sigma": 2.0},
    "epsilon_cutoff": {"epsilon_cutoff": 1},
    "eta_cutoff": {"eta_cutoff": 1},
    "min_p": {"min_p": 0.02},
    "top_a": {"top_a": 0.05},
    "top_k": {"top_k": 100},
    "tfs": {"tfs": 0.95},
    "typical_p": {"typical_p": 0.95},
    "top_p": {"top_p": 0.95},
    "xtc": {"xtc_probability": 0.5, "xtc_threshold": 0.1},
}
ROWS, TIMES, DRAWS = 8, 5, 200


def main() -> None:
    """Print them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=49152)
    n_vocab = parser.parse_args().vocabulary
    if not KEEPS_MEMORY.items() <= os.environ.items():
        # Read by the C library when a process starts.
        os.execve(
            sys.executable, [sys.executable, "-m", "benchmarks.samplers", *sys.argv[1:]], os.environ | KEEPS_MEMORY
        )
    found = {"plain": microseconds(n_vocab, {})}
    found |= {name: microseconds(n_vocab, fields) for name, fields in ALL.items()}
    together: dict[str, Any] = {name: value for fields in ALL.values() for name, value in fields.items()}
    found[f"all {len(ALL)}"] = microseconds(n_vocab, together)
    print(json.dumps(found, indent=1))


def microseconds(n_vocab: int, fields: dict[str, Any]) -> int:
    """Of one draw. Rows have a body like a language model's, and some tokens that are far likelier."""
    numbers = np.random.default_rng(0)
    body = numbers.standard_normal((ROWS, n_vocab)) * 2.5
    head = numbers.exponential(6.0, (ROWS, n_vocab)) * (numbers.random((ROWS, n_vocab)) < 0.01)
    rows = (body + head).astype(np.float32)
    sampling = parse_body({"prompt": "x", "temperature": 0.9, **fields}, strict=False).sampling.applied()
    prompt = numbers.integers(0, n_vocab, 2000).tolist()
    sampler = Sampler(sampling, Workspace(n_vocab), RandomStream(1, 0, 0), prompt=prompt)
    took = []
    for _ in range(TIMES):
        begun = time.thread_time()
        for draw in range(DRAWS):
            sampler.sample(rows[draw % ROWS], draw)
        took.append((time.thread_time() - begun) / DRAWS)
    return round(min(took) * 1e6)


if __name__ == "__main__":
    main()
