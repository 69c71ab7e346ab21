"""Models that vendors run: an engine for each vendor, and fallback from one to the next."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from afterword.config.model import ECHO, ModelConfig
from afterword.config.tree import EngineConfig
from afterword.config.vendor import LOCAL, VendorConfig
from afterword.engine.base import UNKNOWN_CONTEXT, Engine
from afterword.engine.capacity import Capacity
from afterword.engine.fallback import FallbackEngine, Member
from afterword.engine.upstream.capabilities import upstream_capabilities
from afterword.engine.upstream.discovery import About, ask_about
from afterword.engine.upstream.learned_tokenizer import LearnedTokenizer
from afterword.engine.upstream.outgoing import Target
from afterword.engine.upstream.upstream_engine import UpstreamEngine, UpstreamModel
from afterword.errors import ConfigurationError
from afterword.gguf_header import read_header
from afterword.loading.embedded import model_file
from afterword.loading.tokenizers import load_tokenizer
from afterword.registry import ServedModel
from afterword.tokens import Tokenizer

_log = structlog.get_logger("afterword.upstream")


@dataclass(frozen=True, slots=True)
class Vendor:
    """A configured vendor, and how many sequences it gets at once from all models together."""

    config: VendorConfig
    capacity: Capacity


def open_vendors(vendors: tuple[VendorConfig, ...], engine: EngineConfig) -> dict[str, Vendor]:
    """The vendors by name."""
    return {vendor.name: Vendor(vendor, Capacity(vendor.max_concurrent, engine.max_waiting)) for vendor in vendors}


def load_upstream(model: ModelConfig, vendors: Mapping[str, Vendor], local: ServedModel | None) -> ServedModel:
    """The model at its vendors. `local`: the same model in this process, if that is one of them. Raises
    `ConfigurationError`."""
    tokenizer = _tokenizer(model, local)
    members = [
        Member(name, local.engine if local is not None and name == LOCAL else _open(model, vendors[name], tokenizer))
        for name in model.vendors
    ]
    engine = members[0].engine if len(members) == 1 else FallbackEngine(members)
    first = model.vendors[0]
    return ServedModel(
        model.name,
        engine,
        int(time.time()),
        model.aliases,
        owned_by=first,
        card={"vendors": list(model.vendors), "upstream_model": _name_there(model)},
        vendor=first,
        infill_template=model.infill_template,
    )


def _name_there(model: ModelConfig) -> str:
    return model.name if model.upstream_model is None else model.upstream_model


def _open(model: ModelConfig, vendor: Vendor, tokenizer: Tokenizer) -> Engine:
    config = vendor.config
    exact = not isinstance(tokenizer, LearnedTokenizer)
    if exact and not (config.supports.token_prompts and config.supports.logprobs):
        raise ConfigurationError(
            f"The model {model.name!r} has a tokenizer, but its vendor {config.name!r} takes no token ids or gives "
            "no log-probabilities (supports.token_prompts, supports.logprobs): leave the tokenizer out."
        )
    about = ask_about(config, _name_there(model))
    if about.problem is not None:
        _log.warning("upstream does not describe a model", vendor=config.name, model=model.name, detail=about.problem)
    end_ids = tokenizer.end_ids
    target = Target(config, _name_there(model), end_ids, exact)
    capabilities = upstream_capabilities(
        config, context=_context(model, about), exact=exact, reproducible=about.reproducible and exact
    )
    upstream = UpstreamModel(target, tokenizer, capabilities, about.fingerprint or "")
    return UpstreamEngine(upstream, vendor.capacity, time.monotonic)


def _context(model: ModelConfig, about: About) -> int:
    if model.context is not None:
        return model.context
    if about.context is not None:
        return about.context
    if model.tokenizer is None or model.tokenizer == ECHO:
        return UNKNOWN_CONTEXT
    trained = read_header(model_file(model.tokenizer)).trained_context
    return UNKNOWN_CONTEXT if trained is None else trained


def _tokenizer(model: ModelConfig, local: ServedModel | None) -> Tokenizer:
    if model.tokenizer is not None:
        return load_tokenizer(model)
    return LearnedTokenizer() if local is None else local.engine.tokenizer
