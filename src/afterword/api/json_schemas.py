"""The JSON of requests and answers as JSON Schema, written out in wire order. Knows no route.

Only the schema of a completion request is elsewhere: it is made from what validates it, in `completions/parse.py`.
"""

from typing import Any, get_args

from afterword.gateway.interfaces import DatabaseState

REF = "#/components/schemas/{model}"

STRING: dict[str, Any] = {"type": "string"}
TEXT_BY_NAME: dict[str, Any] = {"type": "object", "additionalProperties": STRING}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_FLAG: dict[str, Any] = {"type": "boolean"}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> dict[str, Any]:
    """A reference to the schema of that name."""
    return {"$ref": REF.format(model=name)}


_MODEL_FACTS: dict[str, Any] = {
    "max_model_len": _or_null(_COUNT),
    "aliases": _array(STRING),
    "state": STRING,
    "system_fingerprint": STRING,
    "capabilities": _object(
        {
            "suffix": _FLAG,
            "max_logprobs": _COUNT,
            "reproducible": _FLAG,
            "prefix_cache": _FLAG,
            "n_slots": _COUNT,
            "n_cells": _or_null(_COUNT),
            "exact_tokens": _FLAG,
            "lacks": _array(STRING),
        }
    ),
    "infill_tokens": _or_null(_object({"prefix": _COUNT, "suffix": _COUNT, "middle": _COUNT})),
    "card": {"type": "object"},
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "Logprobs": _object(
        {
            "tokens": _array(STRING),
            "token_logprobs": _array(_or_null({"type": "number"})),
            "top_logprobs": _or_null(_array(_or_null({"type": "object", "additionalProperties": {"type": "number"}}))),
            "text_offset": _array(_COUNT),
        }
    ),
    "Choice": _object(
        {
            "text": STRING,
            "index": _COUNT,
            "logprobs": _or_null({"anyOf": [ref("Logprobs"), ref("LogprobArrays")]}),
            "finish_reason": _or_null({"enum": ["stop", "length", "content_filter"]}),
            "stop_reason": {"enum": ["timeout"]},
            "prompt_logprobs": {"anyOf": [ref("PromptLogprobs"), ref("LogprobArrays")]},
            "prompt_token_ids": _or_null(_array(_COUNT)),
            "token_ids": _array(_COUNT),
        },
        "stop_reason",
        "prompt_logprobs",
        "prompt_token_ids",
        "token_ids",
    ),
    "NumberArray": _object(
        {
            "dtype": {"enum": ["int32", "float32"]},
            "shape": _array(_COUNT),
            "data": {**STRING, "contentEncoding": "base64"},
        }
    ),
    "LogprobArrays": _object(
        dict.fromkeys(("token_ids", "token_logprobs", "top_ids", "top_logprobs", "text_offset"), ref("NumberArray")),
        "text_offset",
    ),
    "PromptLogprobs": _array(_or_null({"type": "object", "additionalProperties": ref("PromptToken")})),
    "PromptToken": _object({"logprob": {"type": "number"}, "rank": _or_null(_COUNT), "decoded_token": STRING}),
    "Usage": _object(
        {
            "prompt_tokens": _COUNT,
            "completion_tokens": _COUNT,
            "total_tokens": _COUNT,
            "prompt_tokens_details": _object({"cached_tokens": _COUNT, "audio_tokens": _COUNT}),
            "completion_tokens_details": _object(
                {
                    "reasoning_tokens": _COUNT,
                    "audio_tokens": _COUNT,
                    "accepted_prediction_tokens": _COUNT,
                    "rejected_prediction_tokens": _COUNT,
                }
            ),
        }
    ),
    "Score": _object(
        {
            "object": {"const": "score"},
            "index": _COUNT,
            "tokens": _array(STRING),
            "token_ids": _array(_COUNT),
            "token_logprobs": _array({"type": "number"}),
            "sum_logprob": {"type": "number"},
            "mean_logprob": {"type": "number"},
            "logprob_per_byte": _or_null({"type": "number"}),
            "is_greedy": _or_null(_FLAG),
        }
    ),
    "Scores": _object(
        {
            "id": STRING,
            "object": {"const": "scoring"},
            "created": _COUNT,
            "model": STRING,
            "system_fingerprint": STRING,
            "data": _array(ref("Score")),
            "scores": _array(_array({"type": "number"})),
            "usage": ref("Usage"),
        },
        "data",
        "scores",
    ),
    "Completion": _object(
        {
            "id": STRING,
            "object": {"const": "text_completion"},
            "created": _COUNT,
            "model": STRING,
            "system_fingerprint": STRING,
            "choices": _array(ref("Choice")),
            "usage": ref("Usage"),
        }
    ),
    "CompletionChunk": _object(
        {
            "id": STRING,
            "object": {"const": "text_completion"},
            "created": _COUNT,
            "choices": _array(ref("Choice")),
            "model": STRING,
            "system_fingerprint": STRING,
            "usage": _or_null(ref("Usage")),
            "obfuscation": STRING,
        },
        "usage",
        "obfuscation",
    ),
    # Of events, not of their data: a stream as a whole has no schema, and its last event has no JSON.
    "CompletionEvent": _object(
        {
            "data": {
                **STRING,
                "contentMediaType": "application/json",
                "contentSchema": {"anyOf": [ref("CompletionChunk"), ref("Error")]},
            }
        }
    ),
    "End": _object({"data": {"const": "[DONE]"}}),
    "NamedEnd": _object({"event": {"const": "done"}, "data": {"const": "[DONE]"}}),
    "Model": _object(
        {"id": STRING, "object": {"const": "model"}, "created": _COUNT, "owned_by": STRING, **_MODEL_FACTS}
    ),
    "ModelList": _object({"object": {"const": "list"}, "data": _array(ref("Model"))}),
    "InferenceModel": _object(
        {
            "id": STRING,
            "object": {"const": "model"},
            "name": STRING,
            "model_vendor": STRING,
            "model_type": {"const": "completion"},
            "model_availability": {"enum": ["available", "unavailable"]},
            "status": {"enum": ["ready", "deploying", "failed"]},
            "status_reason": _or_null(STRING),
            "created_at": {**STRING, "format": "date-time"},
            "created_by_identity_type": {"const": "service_account"},
            "created_by_user_id": STRING,
            "vendor_configuration": {"type": "null"},
            "model_metadata": _object(_MODEL_FACTS),
        }
    ),
    "InferenceModelPage": _object({"items": _array(ref("InferenceModel")), "has_more": _FLAG}),
    "TokenizeBody": _object(
        {
            "prompt": STRING,
            "model": _or_null(STRING),
            "add_special_tokens": _or_null(_FLAG),
            "return_token_strs": _or_null(_FLAG),
        },
        "model",
        "add_special_tokens",
        "return_token_strs",
    ),
    "Tokens": _object(
        {
            "count": _COUNT,
            "max_model_len": _or_null(_COUNT),
            "tokens": _array(_COUNT),
            "token_strs": _or_null(_array(STRING)),
        }
    ),
    "DetokenizeBody": _object({"tokens": _array(_COUNT), "model": _or_null(STRING)}, "model"),
    "Detokenized": _object({"prompt": STRING}),
    "TokenizerInfo": _object(
        {
            "tokenizer_class": STRING,
            "bos_token": _or_null(STRING),
            "eos_token": _or_null(STRING),
            "pad_token": _or_null(STRING),
            "add_bos_token": _FLAG,
            "vocab_size": _COUNT,
            "model_max_length": _or_null(_COUNT),
            "chat_template": _or_null(STRING),
        }
    ),
    "Welcome": _object(
        {
            "name": STRING,
            "version": STRING,
            "completions": STRING,
            "models": STRING,
            "documentation": STRING,
            "default_model": STRING,
        }
    ),
    "Status": _object({"status": STRING, "models": TEXT_BY_NAME}),
    "Readiness": _object(
        {
            "status": STRING,
            "models": TEXT_BY_NAME,
            "problems": TEXT_BY_NAME,
            "database": {"type": "string", "enum": list(get_args(DatabaseState))},
        }
    ),
    "Error": _object(
        {"error": _object({"message": STRING, "type": STRING, "param": _or_null(STRING), "code": _or_null(STRING)})}
    ),
}
