"""From a GGUF file to a running engine: load, size, probe, name. Says no in one sentence when it cannot."""

import os
from dataclasses import dataclass
from pathlib import Path

from afterword.config.tree import DEFAULT_CONTEXT, Layout
from afterword.engine.base import Capabilities
from afterword.engine.identity import Notebook, file_hash, fingerprint
from afterword.engine.llama.binding import LlamaContext, LlamaModel, build_info, check_file
from afterword.engine.llama.company import SEVERAL
from afterword.engine.llama.engine import LlamaEngine, Loaded
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.layout import load_weights
from afterword.engine.llama.memory import Need, Share, cells, share_out
from afterword.engine.llama.openmp import release_workers
from afterword.engine.llama.probe import keeps_its_numbers, lone_rows_keep_theirs
from afterword.engine.llama.runner import LlamaRunner
from afterword.engine.llama.scheduler import PROMPT_BUDGET, Scheduler
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.errors import ConfigurationError

MAX_LOGPROBS = 1000
"""Likeliest tokens an answer can list for each token."""

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """One GGUF file and the share of the machine it may use."""

    path: Path
    """The GGUF file."""
    context: int | None
    """Tokens of each slot; None: what the model was trained with, as far as `memory_bytes` allows."""
    parallel: int
    """Slots: sequences that run at once."""
    threads: int | None
    """Threads of a forward pass; None: one for each physical core this process may use."""
    max_waiting: int
    """Sequences that may wait for a slot before `Overloaded` is raised."""
    memory_bytes: int | None
    """Budget for weights and KV cells together; None: no limit but the machine's."""
    cache_dir: Path
    """Where optimised copies of model files are kept."""
    layout: Layout
    """`original`: the file as it is; `split`, `q8_0`: a copy (layout.py); `auto`: the faster, if the type is slow."""


def load_engine(settings: LlamaSettings) -> LlamaEngine:
    """Load the model, allot its slots and start its thread; seconds to minutes.

    Raises `ConfigurationError` if the file is missing, no GGUF or no text model, or if memory is too small.
    """
    notebook = Notebook(settings.cache_dir)
    check_file(settings.path)
    n_threads = settings.threads or os.cpu_count() or 1
    identity = (file_hash(settings.path, notebook), build_info(), n_threads)
    weights = load_weights(settings.path, settings.layout, identity, notebook)
    try:
        return _start(weights.model, settings, n_threads, (*identity, weights.layout), notebook)
    except BaseException:
        weights.model.close()
        raise


def _start(
    model: LlamaModel, settings: LlamaSettings, n_threads: int, identity: tuple[object, ...], notebook: Notebook
) -> LlamaEngine:
    if not model.decoder_only:
        raise ConfigurationError(f"The model {settings.path} ({model.description}) does not continue text.")
    share = _share(model, settings)
    context = LlamaContext(
        model,
        n_slots=share.n_slots + _takes_visitors(model),
        n_ctx_slot=cells(share.context),
        n_batch=PROMPT_BUDGET,
        n_threads=n_threads,
    )
    try:
        return _engine(model, context, share, settings, (*identity, SEVERAL, min(context.n_slots, 2)), notebook)
    except BaseException:
        # Before the model, which the caller frees.
        context.close()
        raise


def _engine(
    model: LlamaModel,
    context: LlamaContext,
    share: Share,
    settings: LlamaSettings,
    identity: tuple[object, ...],
    notebook: Notebook,
) -> LlamaEngine:
    exact = notebook.recall(f"probe {identity}", lambda: str(_keeps_the_promise(context, model))) == "True"
    # What was tried out so far was computed in this thread; from here on the engine's own computes.
    release_workers()
    capabilities = Capabilities(
        context=share.context,
        max_logprobs=min(MAX_LOGPROBS, model.n_vocab),
        reproducible=exact and model.memory_can_be_cut,
        prefix_cache=True,
        n_streams=share.n_slots,
    )
    kv = KVSlots(share.n_slots, context.n_ctx_slot, can_cut=model.memory_can_be_cut)
    runner = LlamaRunner(context, float_weights=_takes_visitors(model))

    def free() -> None:
        context.close()
        model.close()

    return LlamaEngine(
        # A model of its own: requests are tokenized and answers spelled also while the engine closes.
        Vocabulary(LlamaModel(settings.path, vocab_only=True)),
        capabilities,
        fingerprint(*identity, share.context, exact),
        Loaded(Scheduler(kv, runner, LogSoftmax(model.n_vocab)), kv, free),
        max_waiting=settings.max_waiting,
    )


def _keeps_the_promise(context: LlamaContext, model: LlamaModel) -> bool:
    """See `probe.py`. With float weights the runner leaves no row alone, so what it would be alone does not matter."""
    if not keeps_its_numbers(context, model.n_vocab):
        return False
    return model.float_weights or lone_rows_keep_theirs(context, model.n_vocab)


def _share(model: LlamaModel, settings: LlamaSettings) -> Share:
    context = min(DEFAULT_CONTEXT, model.n_ctx_train) if settings.context is None else settings.context
    # Logits and the scores of every head, each with a copy in work.
    row = 2 * (model.n_vocab + model.n_head * cells(context))
    spare_slot = _takes_visitors(model) * cells(context) * model.kv_bytes_per_token
    need = Need(
        weights=model.size,
        kv_per_token=model.kv_bytes_per_token,
        compute=FLOAT_BYTES * PROMPT_BUDGET * row + spare_slot,
        n_ctx_train=model.n_ctx_train,
    )
    return share_out(need, context=settings.context, parallel=settings.parallel, budget=settings.memory_bytes)


def _takes_visitors(model: LlamaModel) -> bool:
    """Whether lone rows get one next door (runner.py), which takes a slot more, so that every slot has a neighbour.

    Not where memory cannot be cut: the visitor could not be taken away again.
    """
    return model.float_weights and model.memory_can_be_cut
