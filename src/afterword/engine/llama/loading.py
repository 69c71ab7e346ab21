"""From a GGUF file to a running engine: load, size, probe, name. Says no in one sentence when it cannot."""

import os
from collections.abc import Callable

from afterword.engine.base import Capabilities
from afterword.engine.llama.binding import LlamaContext, LlamaModel, build_info, check_file
from afterword.engine.llama.engine import LlamaEngine
from afterword.engine.llama.identity import Notebook, file_hash, fingerprint
from afterword.engine.llama.kernels import TILE
from afterword.engine.llama.kv import KVStreams
from afterword.engine.llama.layout import load_weights
from afterword.engine.llama.memory import Need, Share, cells, share_out
from afterword.engine.llama.probe import keeps_its_numbers
from afterword.engine.llama.runner import SPLIT_KV, LlamaRunner
from afterword.engine.llama.scheduler import PROMPT_BUDGET, Scheduler
from afterword.engine.llama.settings import LlamaSettings
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.errors import ConfigurationError

MAX_LOGPROBS = 1000
"""Likeliest tokens an answer can list for each token."""

FLOAT_BYTES = 4


def load_engine(settings: LlamaSettings) -> LlamaEngine:
    """Load the model, allot its streams and start its thread; seconds to minutes.

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
        n_streams=share.n_streams,
        n_ctx_stream=cells(share.context),
        n_batch=PROMPT_BUDGET,
        n_threads=n_threads,
    )
    identity = (*identity, TILE, SPLIT_KV)
    exact = notebook.recall(f"probe {identity}", lambda: str(keeps_its_numbers(context, model.n_vocab))) == "True"
    capabilities = Capabilities(
        context=share.context,
        max_logprobs=min(MAX_LOGPROBS, model.n_vocab),
        reproducible=exact and model.memory_can_be_cut,
        prefix_cache=True,
        n_streams=share.n_streams,
    )
    return LlamaEngine(
        # A model of its own: requests are tokenized and answers spelled also while the engine closes.
        Vocabulary(LlamaModel(settings.path, vocab_only=True)),
        capabilities,
        fingerprint(*identity, share.context, exact),
        _scheduler_maker(model, context, share),
        max_waiting=settings.max_waiting,
    )


def _share(model: LlamaModel, settings: LlamaSettings) -> Share:
    need = Need(
        weights=model.size,
        kv_per_token=model.kv_bytes_per_token,
        compute=2 * PROMPT_BUDGET * model.n_vocab * FLOAT_BYTES,
        n_ctx_train=model.n_ctx_train,
    )
    return share_out(need, context=settings.context, parallel=settings.parallel, budget=settings.memory_bytes)


def _scheduler_maker(
    model: LlamaModel, context: LlamaContext, share: Share
) -> Callable[[], tuple[Scheduler, KVStreams, Callable[[], None]]]:
    def make() -> tuple[Scheduler, KVStreams, Callable[[], None]]:
        kv = KVStreams(share.n_streams, context.n_ctx_stream, can_cut=model.memory_can_be_cut)
        runner = LlamaRunner(context, float_weights=model.float_weights)
        return Scheduler(kv, runner, LogSoftmax(model.n_vocab)), kv, free

    def free() -> None:
        context.close()
        model.close()

    return make
