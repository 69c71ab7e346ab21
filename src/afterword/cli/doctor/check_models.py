"""Each configured model: its file, its header, whether llama.cpp knows it, and what its memory allows."""

import importlib.util
from collections.abc import Iterator

from afterword.cli.doctor.ask_llama import AboutModel, AboutVocabulary, ask
from afterword.cli.doctor.finding import Finding
from afterword.config.model import ModelConfig
from afterword.config.tree import DEFAULT_CONTEXT, Config
from afterword.engine.llama.admission import SLOTS_TO_PARKED
from afterword.engine.llama.arithmetic import MICRO_BATCH
from afterword.engine.llama.memory import BOOKS_BYTES, MIB, MemoryNeed, compute_bytes, kv_bytes, plan_memory
from afterword.errors import ConfigurationError
from afterword.gguf_header import read_header
from afterword.gguf_parts import parts_of
from afterword.loading.embedded import model_file
from afterword.loading.load_registry import budget_of_each, runs_here


def model(configured: ModelConfig, config: Config, *, load: bool) -> Iterator[Finding]:
    """One model. `load`: also load it as the server does, weights and all, and say what that comes to."""
    about = f"model {configured.name}"
    if not runs_here(configured):
        yield Finding(about, "runs at", ", ".join(configured.vendors))
        if configured.tokenizer is not None:
            yield Finding(about, "tokenizer", configured.tokenizer)
        return
    yield Finding(about, "engine", configured.engine)
    if configured.engine == "vllm":
        missing = importlib.util.find_spec("vllm") is None
        wrong = "The package vllm is not installed: pip install afterword[vllm]." if missing else None
        yield Finding(about, "vllm", "not installed" if missing else "installed", wrong=wrong)
    if configured.engine != "llama":
        return
    try:
        yield from _file(about, configured, config)
        if load:
            yield _loaded(about, configured, config)
    except ConfigurationError as error:
        if configured.keep_alive is None:
            raise
        # The server starts, and says so to whoever asks for the model.
        yield Finding(about, "file", None, advice=str(error))


def _file(about: str, configured: ModelConfig, config: Config) -> Iterator[Finding]:
    file = model_file(configured.path)
    parts = parts_of(file)
    headers = [read_header(part) for part in parts]
    yield Finding(about, "file", f"{file}, {sum(part.stat().st_size for part in parts) / MIB:,.0f} MiB")
    trained = headers[0].trained_context
    yield Finding(about, "trained context", None if trained is None else f"{trained} tokens")
    n_vocab = ask(AboutVocabulary(file))["n_vocab"]
    yield Finding(about, "architecture", f"{headers[0].architecture}, {n_vocab} tokens in its vocabulary")
    context = configured.context
    if trained is not None and context is not None and context > trained:
        advice = f"Its context is {context}, more than it was trained with."
        yield Finding(about, "context", str(context), advice=advice)
    if headers[0].cell_bytes == 0:
        yield Finding(about, "memory", None, advice="Its header does not say what its context takes: --load finds out.")
        return
    cell = kv_bytes(headers[0].cell_bytes, configured.kv_type)
    need = MemoryNeed(
        weights=sum(header.tensor_bytes for header in headers),
        kv_per_token=cell + cell // SLOTS_TO_PARKED,
        # What a hybrid model has beside its cells is found out when it is loaded.
        state=0,
        per_context_token=compute_bytes(MICRO_BATCH, 0, 1) + configured.parallel * BOOKS_BYTES,
        compute=compute_bytes(MICRO_BATCH, n_vocab, 0),
        n_ctx_train=trained or DEFAULT_CONTEXT,
        shared=config.engine.kernels == "own",
    )
    budget = budget_of_each(config)
    plan = plan_memory(need, context=context, parallel=configured.parallel, budget=budget)
    few = plan.n_slots < configured.parallel
    yield Finding(
        about,
        "memory",
        f"{plan.total / MIB:,.0f} MiB of {budget / MIB:,.0f}, with {plan.n_slots} slots of {plan.context} tokens, "
        f"{plan.n_cells} in all",
        advice=f"{configured.parallel} slots do not fit: raise `memory` or lower `context`." if few else None,
    )


def _loaded(about: str, configured: ModelConfig, config: Config) -> Finding:
    answer = ask(AboutModel(configured, config.engine, budget_of_each(config)))
    exact = "" if answer["reproducible"] else ", not reproducible"
    slots = f"{answer['n_slots']} slots of {answer['context']} tokens"
    return Finding(about, "loaded", f"{slots}, {answer['fingerprint']}{exact}")
