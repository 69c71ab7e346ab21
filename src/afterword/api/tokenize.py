"""The tokenizer routes, in the shapes that evaluation harnesses read from vLLM servers.

They take text and ids as they are: no default prompt, no limit but those on every body and its texts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from afterword.api.auth import find_model
from afterword.api.dialect import OPENAI
from afterword.api.holding import hold
from afterword.api.intake import parse_object
from afterword.api.openapi import DETOKENIZE_DOCS, TOKENIZE_DOCS, TOKENIZER_INFO_DOCS
from afterword.api.serving import serving
from afterword.api.wire import json_response
from afterword.completions.prompts import check_texts
from afterword.config.tree import ServerConfig
from afterword.engine.base import UNKNOWN_CONTEXT
from afterword.errors import InvalidRequest
from afterword.registry import ServedModel
from afterword.tokens import Tokenizer, visible_bytes

router = APIRouter(tags=["tokenizer"])


@router.post("/tokenize", **TOKENIZE_DOCS)
async def tokenize(request: Request) -> Response:
    """`{"prompt", "add_special_tokens"?, "return_token_strs"?, "model"?}` to ids.

    `add_special_tokens` (true unless given) puts BOS in front where the model's metadata asks for it.
    """
    return await _answer(request, _tokenized)


@router.post("/detokenize", **DETOKENIZE_DOCS)
async def detokenize(request: Request) -> Response:
    """`{"tokens", "model"?}` to their text, control tokens spelled out."""
    return await _answer(request, _detokenized)


@router.get("/tokenizer_info", **TOKENIZER_INFO_DOCS)
async def tokenizer_info(request: Request) -> Response:
    """Names of the special tokens and the chat template; `?model=` chooses the model."""
    served = _find(request, request.query_params.get("model"))
    await hold(request, served)
    tokenizer = served.engine.tokenizer
    return json_response(
        {
            "tokenizer_class": tokenizer.name,
            "bos_token": _name(tokenizer, tokenizer.bos_id),
            "eos_token": _name(tokenizer, tokenizer.eos_id),
            "pad_token": _name(tokenizer, tokenizer.pad_id),
            "add_bos_token": tokenizer.add_bos,
            "vocab_size": tokenizer.n_vocab,
            "model_max_length": _context(served),
            "chat_template": tokenizer.chat_template,
        }
    )


async def _answer(request: Request, work: Callable[[dict[str, Any], ServedModel, ServerConfig], Response]) -> Response:
    """Read the body, find the model and do the work; where it is large, in a thread."""
    serve, receive = serving(request), request.receive
    async with serve.intake.body(request) as raw:
        data = await serve.lanes.run(len(raw), partial(parse_object, raw, serve.server.max_body_values), receive)
        model = data.get("model")
        if model is not None and not isinstance(model, str):
            raise InvalidRequest("'model' must be a string.", param="model", code="invalid_type")
        served = _find(request, model)
        await hold(request, served)
        return await serve.lanes.run(len(raw), partial(work, data, served, serve.server), receive)


def _tokenized(data: dict[str, Any], served: ServedModel, server: ServerConfig) -> Response:
    tokenizer = served.engine.tokenizer
    prompt = data.get("prompt")
    if not isinstance(prompt, str):
        raise InvalidRequest("'prompt' must be a string.", param="prompt", code="invalid_type")
    check_texts((prompt,), server, "prompt")
    special = _flag(data, "add_special_tokens", default=True)
    spelled = _flag(data, "return_token_strs", default=False)
    tokens = tokenizer.encode(prompt, add_bos=special and tokenizer.add_bos, parse_special=True)
    if len(tokens) > server.max_body_values:
        raise InvalidRequest(
            f"'prompt' has {len(tokens)} tokens; this server lists at most {server.max_body_values}, as many as it "
            "would take as a prompt.",
            param="prompt",
            code="string_above_max_length",
        )
    return json_response(
        {
            "count": len(tokens),
            "max_model_len": _context(served),
            "tokens": tokens,
            "token_strs": [tokenizer.spell(token) for token in tokens] if spelled else None,
        }
    )


def _detokenized(data: dict[str, Any], served: ServedModel, _server: ServerConfig) -> Response:
    tokenizer = served.engine.tokenizer
    tokens = _ids(data.get("tokens"), tokenizer)
    text = visible_bytes(tokenizer, tokens, skip_special_tokens=False).decode("utf-8", "replace")
    return json_response({"prompt": text})


def _find(request: Request, name: str | None) -> ServedModel:
    served = find_model(OPENAI, serving(request).registry, name, request.scope)
    if not served.engine.capabilities.exact_tokens:
        raise InvalidRequest(
            f"The tokens of the model '{served.name}' are not known here: it runs at the vendor '{served.vendor}', and "
            "no `tokenizer` is configured for it.",
            param="model",
        )
    return served


def _context(served: ServedModel) -> int | None:
    context = served.engine.capabilities.context
    return None if context == UNKNOWN_CONTEXT else context


def _flag(data: dict[str, Any], name: str, *, default: bool) -> bool:
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidRequest(f"'{name}' must be true or false.", param=name, code="invalid_type")
    return value


def _ids(value: object, tokenizer: Tokenizer) -> list[int]:
    if not isinstance(value, list):
        raise InvalidRequest("'tokens' must be an array of token ids.", param="tokens", code="invalid_type")
    for token in value:
        if type(token) is not int or not 0 <= token < tokenizer.n_vocab:
            raise InvalidRequest(
                f"{token!r:.40} in 'tokens' is not a token id; ids are integers from 0 to {tokenizer.n_vocab - 1}.",
                param="tokens",
            )
    return value


def _name(tokenizer: Tokenizer, token: int | None) -> str | None:
    return None if token is None else tokenizer.spell(token)
