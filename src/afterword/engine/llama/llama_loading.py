"""From a GGUF file to a model that can compute: load it, size its cache, probe it."""

import json
import os
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

import structlog

from afterword.config.model import KVType
from afterword.config.tree import DEFAULT_CONTEXT, KernelChoice
from afterword.engine.base import Capabilities
from afterword.engine.identity import ResultCache, fingerprint, model_hash
from afterword.engine.llama.aborting import say_why_it_aborts
from afterword.engine.llama.admission import SLOTS_TO_PARKED, most_states_parked
from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, MICRO_BATCH, QUANTISED, UNFUSED, Arithmetic
from afterword.engine.llama.binding import (
    LIBRARIES_FOLDER,
    LIBRARY,
    PACKAGE_VERSION,
    LlamaContext,
    LlamaModel,
    build_info,
    check_file,
    start_backend,
)
from afterword.engine.llama.caches import Attention, Caches
from afterword.engine.llama.devices import list_devices
from afterword.engine.llama.engine_thread import Loaded
from afterword.engine.llama.kernels import LLAMA_CPP, Kernels, use_kernels
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.memory import (
    BOOKS_BYTES,
    MemoryNeed,
    MemoryPlan,
    cells,
    compute_bytes,
    plan_memory,
)
from afterword.engine.llama.offload import NOTHING_ASKED, ModelShape, OffloadSettings, Placement, place
from afterword.engine.llama.openmp import release_workers
from afterword.engine.llama.probe import LogitCheck, check_logits, keeps_its_numbers, threads_do_not_matter
from afterword.engine.llama.runner import LlamaRunner
from afterword.engine.llama.scheduler import Scheduler
from afterword.engine.llama.slot_sizes import SlotSizes, measure_slot
from afterword.engine.llama.thread_count import ThreadCount
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.errors import ConfigurationError
from afterword.machine import idle_seconds

log = structlog.get_logger("afterword.engine")

NEVER_FUSED = frozenset({"plm"})
"""Architectures at which llama.cpp aborts if attention is one operation."""

PROMPTS_ALONE = frozenset({"arwkv7"})
"""Architectures of which llama.cpp takes for one sequence's latest token what is another's, if several are read in one
call."""

REASONS = {
    LogitCheck.OF_OTHER_ROWS: "llama.cpp gives the logits of other tokens than it is asked for",
    LogitCheck.NAN: "its logits are no numbers",
    LogitCheck.MIXED: "llama.cpp lets sequences that run together disturb each other",
}
"""Why a model is refused for what comes out of it."""


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """One GGUF file, and how much of the machine it may use."""

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
    """Where hashes of files and results of probes are kept."""
    kernels: KernelChoice
    """`own`: those of kernels.py where they can be built; `llama.cpp`: its own. One choice for a process."""
    kv_type: KVType = "f16"
    """Of keys and values in the cache."""
    load_seconds: float = 1800.0
    """How long a process of its own may take to load it, its probe and hash included."""
    offload: OffloadSettings = NOTHING_ASKED
    drafts: bool = True
    """Compute guesses of what is sampled next, where numbers are the same with them."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A model, how its rows are computed, and the context that its memory allows."""

    model: LlamaModel
    placement: Placement
    arithmetic: Arithmetic
    memory: MemoryPlan
    context: LlamaContext


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A model that can compute, and what is to be known of it."""

    tokenizer: Vocabulary
    capabilities: Capabilities
    fingerprint: str
    loaded: Loaded


def load_engine(settings: LlamaSettings) -> LlamaEngine:
    """Load the model and start its thread in this process, which ends where `load_model` ends it."""
    model = load_model(settings)
    return LlamaEngine(
        model.tokenizer, model.capabilities, model.fingerprint, model.loaded, max_waiting=settings.max_waiting
    )


def load_model(settings: LlamaSettings) -> EmbeddedModel:
    """Load the model and allocate its slots; seconds to minutes.

    Raises `ConfigurationError` if the file is missing, no GGUF or no text model, or if memory is too small. Where
    llama.cpp aborts, the process ends.
    """
    say_why_it_aborts(LIBRARY)
    cache = ResultCache(settings.cache_dir)
    kernels = None if settings.kernels == LLAMA_CPP else use_kernels(PACKAGE_VERSION, LIBRARIES_FOLDER)
    computes = LLAMA_CPP if kernels is None else kernels.name
    placement = _place(settings)
    model = LlamaModel(settings.path, placement=placement)
    try:
        _warn_of_guesses(model, settings.path)
        computes = f"{computes}, {placement}"
        identity = (model_hash(settings.path, cache), build_info(), computes, _n_threads(settings), settings.kv_type)
        return _start(model, placement, settings, kernels, identity, cache)
    except BaseException:
        model.close()
        raise


def _warn_of_guesses(model: LlamaModel, path: Path) -> None:
    """Log what the file leaves open and llama.cpp guesses without a word."""
    if model.metadata("tokenizer.ggml.model") == "gpt2" and model.metadata("tokenizer.ggml.pre") is None:
        log.warning(
            "the file does not say how texts are split into words (tokenizer.ggml.pre): a guess, and other tokens than "
            "the model was trained with if it is wrong",
            path=str(path),
        )


def _place(settings: LlamaSettings) -> Placement:
    """Which layers accelerators are to hold. Raises `ConfigurationError`."""
    headers = check_file(settings.path)
    shape = ModelShape(
        n_layers=headers[0].n_layers,
        weights=sum(header.tensor_bytes for header in headers),
        kv=headers[0].cell_bytes * (DEFAULT_CONTEXT if settings.context is None else settings.context),
    )
    start_backend()
    return place(settings.offload, list_devices(LIBRARY), shape)


def _start(
    model: LlamaModel,
    placement: Placement,
    settings: LlamaSettings,
    kernels: Kernels | None,
    identity: tuple[object, ...],
    cache: ResultCache,
) -> EmbeddedModel:
    if not model.decoder_only:
        raise _no_text(model, settings)
    arithmetic = _arithmetic_of(model, kernels, placement)
    if settings.kv_type == "q8_0" and not arithmetic.fused_attention:
        raise ConfigurationError(
            f"The keys and values of {settings.path} cannot be kept as q8_0, which needs attention as one operation of "
            "this project's kernels: set `kv_type` to f16."
        )
    attention = Attention(arithmetic.fused_attention, settings.kv_type)
    memory = _plan_memory(model, placement, settings, arithmetic, _slot_sizes(model, attention, identity, cache))
    caches = None
    if _grows(arithmetic, placement) and kernels is not None:
        caches = Caches(kernels)
    context = LlamaContext(
        model,
        n_slots=memory.n_slots + arithmetic.n_spare_slots,
        n_ctx_slot=cells(memory.context),
        n_batch=MICRO_BATCH,
        n_threads=_n_threads(settings),
        attention=replace(attention, caches=caches),
    )
    try:
        _check_logits(model, context, settings, identity, cache)
        probed = (*identity, astuple(arithmetic), min(context.n_slots, 2))
        return _embedded(_Opened(model, placement, arithmetic, memory, context), settings, probed, cache)
    except BaseException:
        # Before the model, which the caller frees and the context points to.
        context.close()
        raise


def _embedded(
    opened: _Opened, settings: LlamaSettings, identity: tuple[object, ...], cache: ResultCache
) -> EmbeddedModel:
    model, memory, context = opened.model, opened.memory, opened.context
    exact = _is_exact(opened, identity, cache)
    threads = _thread_count(opened, _n_threads(settings), exact, identity, cache)
    # The probe computed in this thread and leaves OpenMP workers behind; from here on the engine's thread computes.
    release_workers()
    capabilities = Capabilities(
        context=memory.context,
        max_logprobs=model.n_vocab,
        reproducible=exact,
        prefix_cache=True,
        n_slots=memory.n_slots,
        n_cells=memory.n_cells,
        trained_context=model.n_ctx_train,
        runs_on=str(opened.placement),
    )
    kv = KVSlots(
        memory.n_slots,
        context.n_ctx_slot,
        n_cells=memory.n_cells,
        can_cut=model.memory_can_be_cut,
        checkpoint_bytes=memory.checkpoints,
    )
    runner = LlamaRunner(context, opened.arithmetic, threads)

    def free() -> None:
        context.close()
        model.close()

    return EmbeddedModel(
        # Separate from the weights: requests are tokenized and answers spelled also while the engine closes.
        Vocabulary(LlamaModel(settings.path, vocab_only=True)),
        capabilities,
        fingerprint(*identity, memory.context, exact),
        Loaded(
            Scheduler(kv, runner, LogSoftmax(model.n_vocab), opened.arithmetic, drafts=exact and settings.drafts),
            kv,
            free,
        ),
    )


def _check_logits(
    model: LlamaModel, context: LlamaContext, settings: LlamaSettings, identity: tuple[object, ...], cache: ResultCache
) -> None:
    """Refuse what llama.cpp computes without giving what continues a text; found out once."""
    found = LogitCheck(cache.get(f"logits {identity} {min(context.n_slots, 4)}", lambda: check_logits(context)))
    if found is LogitCheck.CONSTANT:
        raise _no_text(model, settings)
    if found in REASONS:
        raise ConfigurationError(f"The model {settings.path} ({model.description}) cannot be served: {REASONS[found]}.")


def _no_text(model: LlamaModel, settings: LlamaSettings) -> ConfigurationError:
    return ConfigurationError(f"The model {settings.path} ({model.description}) does not continue text.")


def _is_exact(opened: _Opened, identity: tuple[object, ...], cache: ResultCache) -> bool:
    """The probe's result, computed once for each identity."""

    def probe() -> str:
        return str(keeps_its_numbers(opened.context, opened.model.n_vocab, opened.arithmetic))

    return cache.get(f"probe {identity}", probe) == "True"


def _thread_count(
    opened: _Opened, n_threads: int, exact: bool, identity: tuple[object, ...], cache: ResultCache
) -> ThreadCount:
    """Fewer threads at times, unless that would break the promise that numbers are always the same."""

    def probe() -> str:
        return str(threads_do_not_matter(opened.context, opened.model.n_vocab, n_threads))

    # While an accelerator computes, that the processors rest says nothing.
    if opened.placement.devices or (exact and cache.get(f"threads {identity}", probe) != "True"):
        return ThreadCount(n_threads, least=n_threads)
    return ThreadCount(n_threads, idle=idle_seconds)


def _n_threads(settings: LlamaSettings) -> int:
    return (os.cpu_count() or 1) if settings.threads is None else settings.threads


def _arithmetic_of(model: LlamaModel, kernels: Kernels | None, placement: Placement) -> Arithmetic:
    """How the kernels in use should compute the model; the probe checks it."""
    architecture = model.metadata("general.architecture")
    offloaded = bool(placement.devices)
    if kernels is None and model.memory_can_be_cut and not offloaded:
        return FLOATS if model.float_weights else QUANTISED
    # No rows are added for an accelerator, whose kernels choose by the number of rows in more ways.
    chosen = UNFUSED if (kernels is None and not offloaded) or architecture in NEVER_FUSED else INDEPENDENT
    return replace(chosen, prompts_alone=architecture in PROMPTS_ALONE)


def _grows(arithmetic: Arithmetic, placement: Placement) -> bool:
    """Whether cells take memory only as they are used: not an accelerator's."""
    return arithmetic.fused_attention and not placement.devices


def _slot_sizes(model: LlamaModel, attention: Attention, identity: tuple[object, ...], cache: ResultCache) -> SlotSizes:
    """What a slot takes, measured once for each identity."""

    def measure() -> str:
        return json.dumps(asdict(measure_slot(model, attention)))

    return SlotSizes(**json.loads(cache.get(f"slot {identity} {attention.fused}", measure)))


def _plan_memory(
    model: LlamaModel, placement: Placement, settings: LlamaSettings, arithmetic: Arithmetic, slot: SlotSizes
) -> MemoryPlan:
    # Where attention is several operations, scores of every head are kept.
    seen = compute_bytes(MICRO_BATCH, 0, 1 if arithmetic.fused_attention else model.n_head)
    more_states = arithmetic.n_spare_slots + most_states_parked(0)
    need = MemoryNeed(
        weights=model.size,
        kv_per_token=slot.per_token + slot.per_token // SLOTS_TO_PARKED,
        state=slot.state,
        per_context_token=seen + arithmetic.n_spare_slots * slot.per_token + settings.parallel * BOOKS_BYTES,
        compute=compute_bytes(MICRO_BATCH, model.n_vocab, 0) + more_states * slot.state,
        n_ctx_train=model.n_ctx_train,
        shared=_grows(arithmetic, placement),
    )
    budget = placement.budget(settings.memory_bytes)
    return plan_memory(need, context=settings.context, parallel=settings.parallel, budget=budget)
