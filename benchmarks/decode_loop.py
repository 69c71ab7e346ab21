"""How fast llama.cpp decodes with this project's kernels, with nothing around it.

Runs in the project's environment:

    .venv/bin/python benchmarks/decode_loop.py PROMPT OUT SEQUENCES[,SEQUENCES...] MODEL.gguf

The loop of llama-batched-bench. Prints the same
fields for each number of sequences, one JSON object a line. No sampling: the next tokens are given.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from afterword.engine.llama.arithmetic import MICRO_BATCH
from afterword.engine.llama.binding import LIBRARIES_FOLDER, PACKAGE_VERSION, LlamaContext, LlamaModel
from afterword.engine.llama.caches import Attention
from afterword.engine.llama.kernels import use_kernels
from afterword.engine.llama.memory import cells
from afterword.launch import begin_anew_with_large_pages

FIRST = 100
"""The ids used are ordinary words from here on."""


def measure(context: LlamaContext, n: int, prompt: int, out: int) -> dict[str, float]:
    """Read `prompt` tokens in each of n slots, then decode `out` steps of all of them."""
    for slot in range(n):
        context.truncate(slot, 0)
    outputs = np.zeros(prompt, dtype=np.int8)
    outputs[-1] = 1
    positions = np.arange(prompt, dtype=np.int32)
    started = time.perf_counter()
    for slot in range(n):
        context.decode(positions + FIRST, positions, np.full(prompt, slot, dtype=np.int32), outputs)
    read = time.perf_counter()
    slots, all_of_them = np.arange(n, dtype=np.int32), np.ones(n, dtype=np.int8)
    for step in range(out):
        context.decode(slots + FIRST + step, np.full(n, prompt + step, dtype=np.int32), slots, all_of_them)
    ended = time.perf_counter()
    speeds = {"speed_pp": n * prompt / (read - started), "speed_tg": n * out / (ended - read)}
    return {"pl": n, "tg": out, "t": ended - started, **speeds}


def main(prompt: int, out: int, counts: list[int], file: Path) -> None:
    """Every number of sequences, after a short one to warm up."""
    use_kernels(PACKAGE_VERSION, LIBRARIES_FOLDER)
    model = LlamaModel(file)
    n_threads = len(os.sched_getaffinity(0))
    room = cells(prompt + out)
    context = LlamaContext(
        model, n_slots=max(counts), n_ctx_slot=room, n_batch=MICRO_BATCH, n_threads=n_threads, attention=Attention(True)
    )
    measure(context, 1, prompt, 8)
    for n in counts:
        print(json.dumps(measure(context, n, prompt, out)), flush=True)
    context.close()
    model.close()


if __name__ == "__main__":
    begin_anew_with_large_pages()
    main(int(sys.argv[1]), int(sys.argv[2]), [int(n) for n in sys.argv[3].split(",")], Path(sys.argv[4]))
