"""How much of the time this server's engine spends outside llama.cpp. Runs in the project's environment.

    .venv/bin/python benchmarks/steps.py MODEL.gguf CACHE_DIRECTORY

Sequences decode in process, without HTTP; what is not inside `llama_decode` is scheduling, sampling, text and events,
and the event loop that takes them. Prints one JSON object: figures by `metric@sequences`.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from afterword import logs
from afterword.engine.llama.binding import LlamaContext
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import LlamaSettings, load_engine
from afterword.engine.request import GenerationRequest
from afterword.fields.sampling import Sampling
from afterword.launch import begin_anew_with_large_pages

SEQUENCES = (1, 16, 32)
PROMPT, OUT = 128, 64
REPEATS = 3


class Clock:
    """Seconds inside `llama_decode`, whoever calls it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def attach(self) -> None:
        """Replace the method of all contexts by one that takes its time."""
        decode = LlamaContext.decode

        def timed(context: LlamaContext, *rows: Any) -> Any:
            started = time.perf_counter()
            try:
                return decode(context, *rows)
            finally:
                self.seconds += time.perf_counter() - started

        LlamaContext.decode = timed  # type: ignore[method-assign, assignment]


async def generate(engine: LlamaEngine, index: int) -> None:
    """One sequence, sampled as in the workload `concurrent`; its prompt is no other's."""
    request = GenerationRequest(
        prompt=tuple(1000 + (7919 * (index * PROMPT + i)) % 40_000 for i in range(PROMPT)),
        n_candidates=1,
        max_tokens=OUT,
        sampling=Sampling(temperature=0.8, top_p=0.95),
        seed=index,
        reproducible=True,
        end_ids=frozenset(),
    )
    async with engine.generate(request) as generation:
        async for _ in generation:
            pass


async def measure(model: Path, cache: Path) -> dict[str, float]:
    """All numbers of sequences, each the median of some runs."""
    clock = Clock()
    clock.attach()
    settings = LlamaSettings(
        path=model,
        context=PROMPT + OUT + 64,
        parallel=max(SEQUENCES),
        threads=len(os.sched_getaffinity(0)),
        max_waiting=512,
        memory_bytes=None,
        cache_dir=cache,
        kernels="own",
    )
    engine = load_engine(settings)
    await generate(engine, 0)
    found: dict[str, float] = {}
    used = 1
    for n in SEQUENCES:
        shares = []
        for _ in range(REPEATS):
            clock.seconds, started = 0.0, time.perf_counter()
            await asyncio.gather(*(generate(engine, used + i) for i in range(n)))
            wall = time.perf_counter() - started
            shares.append(1 - clock.seconds / wall)
            used += n
        found[f"outside_decode_share@{n}"] = median(shares)
    await engine.aclose()
    return found


if __name__ == "__main__":
    begin_anew_with_large_pages()
    logs.configure("console", "warning")
    # The loop that the server runs on.
    print(json.dumps(uvloop.run(measure(Path(sys.argv[1]), Path(sys.argv[2])))))
