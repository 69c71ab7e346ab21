"""Which copy of a model's weights to load.

llama.cpp has fast, repacked kernels for some types of tensors only. Files of the others run half as fast as they could.
Of those a copy is written into the cache directory at the first start: for Q4_1 the same weights in another arrangement
(split.py), else Q8_0, which keeps every weight of a 5-bit type to within a 254th of its block's largest. The copy is
checked against the original and timed beside it, once, and the faster of the two is loaded from then on.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray

from afterword.config.tree import Copied, Layout
from afterword.engine.identity import Notebook
from afterword.engine.llama.binding import LlamaContext, LlamaModel, quantize
from afterword.engine.llama.split import write_split
from afterword.errors import ConfigurationError

SLOW_FILE_TYPES: Mapping[int, Copied] = {3: "split", 8: "q8_0", 9: "q8_0"}
"""llama.cpp's file types Q4_1, Q5_0 and Q5_1, which have no repacked kernels on x86 or ARM, and what helps."""

NAMES: Mapping[Copied, str] = {"split": "split-2", "q8_0": "q8_0"}
"""Of the copies in the cache: to be changed when other bytes are written, so that older ones are not loaded."""

Q8_0_FILE_TYPE = 7

N_SLOTS = 16
"""Sequences of the timed batch."""

PROMPT = 128
"""Tokens of the timed prompt, and cells of each timed slot."""

CALLS = ((1, PROMPT), (1, 1), (N_SLOTS, 1))
"""(sequences, tokens of each) of the calls that are timed: a prompt, a lone step, a step of many."""

ROUNDS = 6

TIMING_SECONDS = 3.0
"""Seconds after which no further round is begun: on a machine that is busy every call takes long."""

CHECKED = 32
"""Tokens whose distributions are compared."""

WORTH_IT = 0.9
"""The times of a copy, as a share of the original's, from which on it is used."""

MOST_KL = 0.05
"""Nats that a copy's distributions may be from the original's; 0.005 is usual, and 0.004 the original's own error."""

log = structlog.get_logger("afterword.engine")


@dataclass(frozen=True, slots=True)
class Weights:
    """An open model and the layout it was loaded in."""

    model: LlamaModel
    layout: str
    """`original`, `split` or `q8_0`; part of the fingerprint."""


def load_weights(path: Path, layout: Layout, identity: tuple[str, str, int], notebook: Notebook) -> Weights:
    """Load the file in the layout asked for; `auto` takes the faster one, timed once.

    `identity`: the file's SHA-256, the build and the number of threads, which the timing depends on. Raises
    `ConfigurationError` as `LlamaModel` does. A copy that cannot be made is logged and done without.
    """
    original = LlamaModel(path)
    wanted = _wanted(layout, original.file_type)
    if wanted is None:
        return Weights(original, "original")
    sha256, _, n_threads = identity
    place = _Place(path, notebook.directory / f"{path.stem}-{sha256[:16]}-{NAMES[wanted]}", wanted)
    try:
        if layout == "auto":
            question = f"faster of original and {NAMES[wanted]} {identity}"
            if notebook.recall(question, lambda: _choose(original, place, n_threads)) == "original":
                return Weights(original, "original")
        copy = _open_copy(original, place, n_threads)
    except (ConfigurationError, OSError, RuntimeError, ValueError) as error:
        _do_without(place, error)
        return Weights(original, "original")
    original.close()
    return Weights(copy, wanted)


def _wanted(layout: Layout, file_type: int) -> Copied | None:
    """The copy to look at, if any."""
    match layout:
        case "auto":
            return SLOW_FILE_TYPES.get(file_type)
        case "original":
            return None
        case _:
            return layout


@dataclass(frozen=True, slots=True)
class _Place:
    """A file and where its copy is."""

    source: Path
    stem: Path
    layout: Copied

    @property
    def weights(self) -> Path:
        return self.stem.with_name(f"{self.stem.name}.gguf")

    @property
    def offsets(self) -> Path | None:
        return self.stem.with_name(f"{self.stem.name}-offsets.gguf") if self.layout == "split" else None


def _do_without(place: _Place, error: Exception) -> None:
    log.warning("no faster copy of the weights", path=str(place.weights), reason=str(error))


def _choose(original: LlamaModel, place: _Place, n_threads: int) -> str:
    """The layout to load. A copy that is no good is not tried again; what the disk refused may be."""
    try:
        copy = _open_copy(original, place, n_threads)
    except (ConfigurationError, ValueError) as error:
        _do_without(place, error)
        return "original"
    verdict = _faster(original, copy, place.layout, n_threads)
    copy.close()
    return verdict


def _open_copy(original: LlamaModel, place: _Place, n_threads: int) -> LlamaModel:
    """The copy, made if it is not there.

    Raises `ConfigurationError` or `ValueError` if it is no good, `OSError` or `RuntimeError` if it cannot be written.
    """
    weights, offsets = place.weights, place.offsets
    if weights.exists():
        return LlamaModel(weights, offsets=offsets)
    log.info("writing a faster copy of the weights", path=str(weights))
    weights.parent.mkdir(parents=True, exist_ok=True)
    unfinished = {target: target.with_name(f"{target.name}.{os.getpid()}") for target in (offsets, weights) if target}
    try:
        if offsets is None:
            quantize(place.source, unfinished[weights], file_type=Q8_0_FILE_TYPE, n_threads=n_threads)
        elif not write_split(place.source, unfinished[weights], unfinished[offsets]):
            raise ValueError("it has no matrices that can be split")
        copy = LlamaModel(unfinished[weights], offsets=None if offsets is None else unfinished[offsets])
        _check(original, copy, n_threads)
        # The weights last: where they are, everything is.
        for target, temporary in unfinished.items():
            temporary.replace(target)
    finally:
        for temporary in unfinished.values():
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    return copy


def _check(original: LlamaModel, copy: LlamaModel, n_threads: int) -> None:
    """Raises `ValueError` if the copy's distributions are not the original's: some architectures add no adapters."""
    p, q = (_log_probabilities(model, n_threads) for model in (original, copy))
    kl = float((np.exp(p) * (p - q)).sum(axis=1).mean())
    if not kl <= MOST_KL:
        copy.close()
        raise ValueError(f"its distributions are {kl:.3f} nats from the original's")


def _log_probabilities(model: LlamaModel, n_threads: int) -> NDArray[np.float64]:
    """(CHECKED, n_vocab) after each of some tokens."""
    context = LlamaContext(model, n_slots=1, n_ctx_slot=2 * PROMPT, n_batch=CHECKED, n_threads=n_threads)
    tokens = (np.arange(CHECKED, dtype=np.int64) * 7919 % model.n_vocab).astype(np.int32)
    positions = np.arange(CHECKED, dtype=np.int32)
    logits = context.decode(tokens, positions, np.zeros_like(tokens), np.ones_like(tokens, dtype=np.int8))
    exact = logits.astype(np.float64)
    context.close()
    exact -= exact.max(axis=1, keepdims=True)
    normalised: NDArray[np.float64] = exact - np.log(np.exp(exact).sum(axis=1, keepdims=True))
    return normalised


def _faster(original: LlamaModel, copy: LlamaModel, layout: Copied, n_threads: int) -> str:
    """`original` or `layout`: the product of the times for a prompt, a lone step and a step of many decides.

    Rounds alternate, and each kind of call counts with its best, so a machine that is busy for a while misleads
    neither side alone.
    """
    contexts = {name: _context(model, n_threads) for name, model in (("original", original), (layout, copy))}
    best = {name: np.full(len(CALLS), np.inf) for name in contexts}
    started = time.monotonic()
    for _ in range(ROUNDS):
        for name, context in contexts.items():
            times = [_run(context, n_slots, n_tokens) for n_slots, n_tokens in CALLS]
            best[name] = np.minimum(best[name], times)
        if time.monotonic() - started > TIMING_SECONDS:
            break
    for context in contexts.values():
        context.close()
    share = float((best[layout] / best["original"]).prod()) ** (1 / len(CALLS))
    verdict = layout if share <= WORTH_IT else "original"
    log.info(
        "timed the weights' layouts",
        chosen=verdict,
        **{f"{name}_ms": [round(1e3 * float(seconds), 1) for seconds in times] for name, times in best.items()},
    )
    return verdict


def _context(model: LlamaModel, n_threads: int) -> LlamaContext:
    most = max(n_slots * n_tokens for n_slots, n_tokens in CALLS)
    return LlamaContext(model, n_slots=N_SLOTS, n_ctx_slot=2 * PROMPT, n_batch=most, n_threads=n_threads)


def _run(context: LlamaContext, n_slots: int, n_tokens: int) -> float:
    """Seconds to compute the first n tokens of n slots."""
    n = n_slots * n_tokens
    slots = np.repeat(np.arange(n_slots, dtype=np.int32), n_tokens)
    for slot in range(n_slots):
        context.truncate(slot, 0)
    start = time.perf_counter()
    outputs = np.zeros(n, dtype=np.int8)
    outputs[n_tokens - 1 :: n_tokens] = 1
    context.decode(
        np.arange(n, dtype=np.int32) + 100,
        np.tile(np.arange(n_tokens, dtype=np.int32), n_slots),
        slots,
        outputs,
    )
    return time.perf_counter() - start
