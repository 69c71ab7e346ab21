"""From a model's directory to a running vLLM engine: start vLLM, warm it up, name what it computes."""

import asyncio
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from afterword.engine.base import Capabilities
from afterword.engine.identity import ResultCache, file_hash, fingerprint
from afterword.engine.request import GenerationRequest
from afterword.engine.vllm.core import Core
from afterword.engine.vllm.facts import ModelFacts
from afterword.engine.vllm.plan import Limits, missing_features, plan_of
from afterword.engine.vllm.vllm_engine import VllmEngine
from afterword.errors import ConfigurationError
from afterword.fields.sampling import Sampling

if TYPE_CHECKING:
    from afterword.engine.vllm.vllm_binding import VllmCore


class LoadedCore(Core, Protocol):
    """A core that knows its model."""

    facts: ModelFacts


MAX_LOGPROBS = 1000
"""Likeliest tokens an answer can list for each token, unless `max_logprobs` says otherwise."""

ENVIRONMENT = {
    # vLLM would send usage statistics to its makers.
    "VLLM_NO_USAGE_STATS": "1",
    # Forking a process that has threads, as this one does, may deadlock.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""Variables that vLLM reads, set unless they are set already."""

OWNED = {
    "model": "it is the model's path",
    "logprobs_mode": "log-probabilities are always those of the raw logits",
    "disable_log_stats": "vLLM's own statistics are never logged",
    "skip_tokenizer_init": "the tokenizer is needed",
    "runner": "only text is generated",
}
"""Arguments of vLLM's engine that `options` may not set, each with the reason."""

NOT_REPRODUCIBLE = (
    "vLLM computes a sequence together with whatever else is running, and its kernels round differently for other "
    "batches: the same seed mostly gives the same text, never for certain"
)
"""Why docs/rules.md#same-bytes is not promised; shown on the model's card."""

_TABLE_SIZE, _END_TABLE_SIZE = 1024, 128
"""Most tokens in a request's bias, and most end tokens, on vLLM's second model runner."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """One model and vLLM's settings for it."""

    model: str
    """A directory in the Hugging Face format, or a name that vLLM finds in its cache or on the hub."""
    context: int | None
    """Tokens of prompt and completion together; None: what `options` or the model says."""
    parallel: int
    """Sequences that run at once, unless `options` hold `max_num_seqs`."""
    max_waiting: int
    """Sequences beyond those that run before `Overloaded` is raised."""
    options: Mapping[str, object]
    """Further arguments of vLLM's engine by their own names, such as `tensor_parallel_size` or `dtype`."""


def load_vllm_engine(settings: VllmSettings, cache_dir: Path) -> VllmEngine:
    """Start vLLM and complete a first prompt; minutes. `cache_dir`: where hashes of files are cached.

    Raises `ConfigurationError` if vLLM is not installed, an option is wrong, or the model cannot be loaded.
    """
    core = start_core(settings)
    try:
        return engine_over(core, settings, cache_dir)
    except BaseException:
        core.close()
        raise


@contextmanager
def extra_for(model: str) -> Iterator[None]:
    """Raise `ConfigurationError` if what the block imports is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The model {model} needs the Python package {error.name}, which is not installed: install afterword[vllm]."
        ) from error


def start_core(settings: VllmSettings) -> "VllmCore":
    """vLLM itself, running and warm. Raises `ConfigurationError`."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with extra_for(settings.model):
        from afterword.engine.vllm.vllm_binding import VllmCore, known_options
    check_options(settings.options, known_options())
    core = VllmCore(engine_options(settings))
    try:
        _warm_up(core)
    except BaseException:
        core.close()
        raise
    return core


def engine_over(core: LoadedCore, settings: VllmSettings, cache_dir: Path) -> VllmEngine:
    """An engine over a running vLLM."""
    # Not above: the library behind it comes with vLLM.
    from afterword.engine.vllm.hf_vocabulary import HfVocabulary

    facts = core.facts
    return VllmEngine(
        core,
        HfVocabulary(facts.tokenizer, facts.n_vocab),
        Capabilities(
            # vLLM samples at least one token, so a prompt that is only scored leaves room for one.
            context=facts.max_model_len - 1,
            max_logprobs=facts.max_logprobs,
            reproducible=False,
            prefix_cache=facts.prefix_cache,
            n_slots=facts.n_slots,
            lacks=missing_features(),
        ),
        _fingerprint(facts, settings, cache_dir),
        limits_of(facts),
        max_waiting=settings.max_waiting,
    )


def limits_of(facts: ModelFacts) -> Limits:
    """The limits of vLLM's model runner."""
    if facts.new_runner:
        return Limits(facts.n_vocab, max_listed=_TABLE_SIZE, max_end_ids=_END_TABLE_SIZE)
    return Limits(facts.n_vocab, max_listed=None, max_end_ids=None)


def engine_options(settings: VllmSettings) -> dict[str, object]:
    """The arguments of vLLM's engine."""
    # One token more than promised: see `Capabilities.context` above.
    context = {} if settings.context is None else {"max_model_len": settings.context + 1}
    always = {
        "model": settings.model,
        "runner": "generate",
        "logprobs_mode": "raw_logprobs",
        "disable_log_stats": True,
    }
    defaults = {
        "max_logprobs": MAX_LOGPROBS,
        "max_num_seqs": settings.parallel,
        # The library that this server's own engine asks: a form means the same on both.
        "structured_outputs_config": {"backend": "guidance", "disable_any_whitespace": True},
    }
    return {**defaults, **context, **settings.options, **always}


def check_options(options: Iterable[str], known: frozenset[str]) -> None:
    """Raise `ConfigurationError` for an option that is the server's own or that vLLM does not know."""
    for name in options:
        if name in OWNED:
            raise ConfigurationError(f"options of a vLLM model may not hold {name!r}: {OWNED[name]}.")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ConfigurationError(f"vLLM's engine has no argument {name!r}, which options of a model holds{hint}")


def _warm_up(core: LoadedCore) -> None:
    """Complete a prompt that uses what vLLM compiles on first use, so that no client waits for it."""
    request = GenerationRequest(
        prompt=(0, 0),
        n_candidates=1,
        max_tokens=2,
        sampling=Sampling(top_p=0.9, top_k=50),
        seed=0,
        reproducible=False,
        logprobs=1,
        prompt_logprobs=1,
    )

    async def complete() -> None:
        async with aclosing(core.sample(plan_of(request, 0, limits_of(core.facts)))) as steps:
            async for _ in steps:
                pass

    asyncio.run_coroutine_threadsafe(complete(), core.loop).result()


def _fingerprint(facts: ModelFacts, settings: VllmSettings, cache_dir: Path) -> str:
    """docs/rules.md#fingerprint, over the model's files where they are known and the options that were given."""
    directory = Path(settings.model)
    files = sorted(file for file in directory.iterdir() if file.is_file()) if directory.is_dir() else []
    cache = ResultCache(cache_dir)
    hashes = [f"{file.name} {file_hash(file, cache)}" for file in files]
    options = sorted((name, repr(value)) for name, value in settings.options.items())
    return fingerprint("vllm", settings.model if not files else hashes, facts.identity, facts.max_model_len, options)
