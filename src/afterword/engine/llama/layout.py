"""Which copy of a model's weights to load: the file as it is, or a copy in a type this processor is faster at.

Some tensor types have no kernel that works on several rows at once: the same model runs half as fast from them. For
those a Q8_0 copy is written into the cache directory, both are timed once, and the faster one is loaded from then on.
Q8_0 keeps every weight of a 4- or 5-bit type to within a 254th of its block's largest.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import structlog

from afterword.engine.llama.binding import LlamaContext, LlamaModel, quantize
from afterword.engine.llama.identity import Notebook
from afterword.engine.llama.settings import Layout

SLOW_FILE_TYPES = frozenset({3, 8, 9})
"""llama.cpp's file types Q4_1, Q5_0 and Q5_1: no repacked kernels on x86 or ARM."""

Q8_0_FILE_TYPE = 7

N_STREAMS = 16
"""Sequences of the timed batch."""

PROMPT = 128
"""Tokens of the timed prompt, and cells of each timed stream."""

CALLS = ((1, PROMPT), (1, 1), (N_STREAMS, 1))
"""(sequences, tokens of each) of the calls that are timed: a prompt, a lone step, a step of many."""

ROUNDS = 6

log = structlog.get_logger("afterword.engine")


@dataclass(frozen=True, slots=True)
class Weights:
    """An open model and the layout it was loaded in."""

    model: LlamaModel
    layout: str
    """`original` or `q8_0`; part of the fingerprint."""


def load_weights(path: Path, layout: Layout, identity: tuple[str, str, int], notebook: Notebook) -> Weights:
    """Load the file in the layout asked for; `auto` takes the faster one, timed once.

    `identity`: the file's SHA-256, the build and the number of threads, which the timing depends on. Raises
    `ConfigurationError` as `LlamaModel` does. A copy that cannot be written is logged and done without.
    """
    original = LlamaModel(path)
    if layout == "original" or (layout == "auto" and original.file_type not in SLOW_FILE_TYPES):
        return Weights(original, "original")
    sha256, _, n_threads = identity
    copy = _copy(path, notebook.directory / f"{path.stem}-{sha256[:16]}-q8_0.gguf", n_threads)
    if copy is None:
        return Weights(original, "original")
    faster = LlamaModel(copy)
    if layout == "auto":
        verdict = notebook.recall(f"layout {identity}", lambda: _faster(original, faster, n_threads))
        if verdict == "original":
            faster.close()
            return Weights(original, "original")
    original.close()
    return Weights(faster, "q8_0")


def _copy(path: Path, target: Path, n_threads: int) -> Path | None:
    """The Q8_0 copy, made if it is not there; None if it cannot be."""
    if target.exists():
        return target
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    log.info("writing a faster copy of the weights", path=str(target))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        quantize(path, temporary, file_type=Q8_0_FILE_TYPE, n_threads=n_threads)
        temporary.replace(target)
    except (OSError, RuntimeError) as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        log.warning("no faster copy of the weights", path=str(target), reason=str(error))
        return None
    return target


def _faster(original: LlamaModel, copy: LlamaModel, n_threads: int) -> str:
    """`original` or `q8_0`: the product of the times for a prompt, a lone step and a step of many decides.

    Rounds alternate, and each kind of call counts with its best, so a machine that is busy for a while misleads
    neither side alone.
    """
    contexts = {name: _context(model, n_threads) for name, model in (("original", original), ("q8_0", copy))}
    best = {name: np.full(len(CALLS), np.inf) for name in contexts}
    for _ in range(ROUNDS):
        for name, context in contexts.items():
            times = [_run(context, n_streams, n_tokens) for n_streams, n_tokens in CALLS]
            best[name] = np.minimum(best[name], times)
    for context in contexts.values():
        context.close()
    verdict = min(best, key=lambda name: float(best[name].prod()))
    log.info(
        "timed the weights' layouts",
        chosen=verdict,
        **{f"{name}_ms": [round(1e3 * float(seconds), 1) for seconds in times] for name, times in best.items()},
    )
    return verdict


def _context(model: LlamaModel, n_threads: int) -> LlamaContext:
    most = max(n_streams * n_tokens for n_streams, n_tokens in CALLS)
    return LlamaContext(model, n_streams=N_STREAMS, n_ctx_stream=2 * PROMPT, n_batch=most, n_threads=n_threads)


def _run(context: LlamaContext, n_streams: int, n_tokens: int) -> float:
    """Seconds to compute the first n tokens of n streams."""
    n = n_streams * n_tokens
    streams = np.repeat(np.arange(n_streams, dtype=np.int32), n_tokens)
    for stream in range(n_streams):
        context.truncate(stream, 0)
    start = time.perf_counter()
    outputs = np.zeros(n, dtype=np.int8)
    outputs[n_tokens - 1 :: n_tokens] = 1
    context.decode(
        np.arange(n, dtype=np.int32) + 100,
        np.tile(np.arange(n_tokens, dtype=np.int32), n_streams),
        streams,
        outputs,
    )
    return time.perf_counter() - start
