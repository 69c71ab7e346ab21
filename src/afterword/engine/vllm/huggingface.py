"""Reads a Hugging Face tokenizer and what its model's configuration says of tokens; also without starting vLLM.

The only file that imports transformers, which takes a second.
"""

from collections.abc import Mapping
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from afterword.engine.vllm.facts import TokenizerFacts
from afterword.engine.vllm.hf_vocabulary import HfVocabulary
from afterword.errors import ConfigurationError


def load_vocabulary(model: str, options: Mapping[str, object]) -> HfVocabulary:
    """The vocabulary of a model that runs in another process: the same as its engine has.

    `options`: arguments of vLLM's engine, of which those about the tokenizer are used. Raises `ConfigurationError`.
    """
    trust = {"trust_remote_code": options.get("trust_remote_code", False), "revision": options.get("revision")}
    try:
        config = AutoConfig.from_pretrained(model, **trust)
        tokenizer = AutoTokenizer.from_pretrained(options.get("tokenizer") or model, **trust)
        ends = _generation_ends(model, trust)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"The tokenizer of {model} cannot be read: {' '.join(str(error).split())}") from error
    config = config.get_text_config()
    facts = tokenizer_facts(tokenizer, ends | token_ids(getattr(config, "eos_token_id", None)), model)
    return HfVocabulary(facts, int(config.vocab_size))


def tokenizer_facts(tokenizer: Any, end_ids: frozenset[int], model: str) -> TokenizerFacts:
    """What `HfVocabulary` needs of a tokenizer. Raises `ConfigurationError` for one of another kind."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ConfigurationError(
            f"The tokenizer of {model} is a {type(tokenizer).__name__}, the bytes of whose tokens are not known: "
            "models with a tokenizer.json are served."
        )
    template = getattr(tokenizer, "chat_template", None)
    return TokenizerFacts(
        serialized=backend.to_str(),
        name=type(tokenizer).__name__.removeprefix("Cached"),
        bos_id=tokenizer.bos_token_id,
        eos_id=tokenizer.eos_token_id,
        pad_id=tokenizer.pad_token_id,
        end_ids=end_ids,
        chat_template=template if isinstance(template, str) else None,
    )


def token_ids(written: object) -> frozenset[int]:
    """Token ids that a configuration gives as one number, a list or not at all."""
    values = written if isinstance(written, list) else [written]
    return frozenset(value for value in values if isinstance(value, int))


def _generation_ends(model: str, trust: Mapping[str, Any]) -> frozenset[int]:
    """End tokens in generation_config.json, if the model has that file."""
    try:
        return token_ids(GenerationConfig.from_pretrained(model, **trust).eos_token_id)
    except OSError:
        return frozenset()
