"""What a vendor's model lacks, with its tokenizer at hand and without."""

from typing import Any

import pytest
from tests.engine.upstream.opening import vendor

from afterword.config.vendor import PRESETS, UpstreamKind
from afterword.engine.upstream.capabilities import upstream_capabilities
from afterword.fields.repeats import REPEAT_FIELDS
from afterword.fields.shaping import SHAPING_FIELDS

IDS = {
    "token_prompts",
    "prompt_logprobs",
    "logit_bias",
    "stop_token_ids",
    "truncate_prompt_tokens",
    "add_special_tokens",
    "return_token_ids",
    "allowed_token_ids",
}
"""Given as token ids, or derived from them."""

OURS = {"top_a", "tfs", "epsilon_cutoff", "eta_cutoff", "smoothing_factor", "skew", "rep_pen_slope"} | {
    "no_repeat_ngram_size",
    "grammars_guidance",
    "beams",
    "guidance_scale",
    "bans",
}
"""What no other kind of server has."""

VLLMS = {"bad_words", "allowed_token_ids"}
"""Bans that vLLM has too."""

HERE = {"logprob_token_ids", "prediction"}
"""What engines of this server alone have."""

NO_FORMS = {"grammars", "grammars_json_schema", "grammars_regex", "grammars_choice", "grammars_gbnf", "grammars_lark"}
EXTRAS = {"top_k", "min_p", "repetition_penalty"}
SCHEMAS = {"grammars_regex", "grammars_choice", "grammars_lark"}
"""What a server lacks that has JSON schemas and GBNF."""

WRITERS = OURS | {field.feature for field in (*SHAPING_FIELDS, *REPEAT_FIELDS) if field.feature is not None}
"""Samplers of writers' programs."""


def lacks(kind: UpstreamKind, *, exact: bool, **supports: Any) -> dict[str, str]:
    there = vendor("http://there", kind=kind, supports=PRESETS[kind].model_copy(update=supports))
    return dict(upstream_capabilities(there, context=100, exact=exact, reproducible=False).lacks)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("afterword", set()),
        ("vllm", WRITERS),
        ("llama-server", OURS | VLLMS | SCHEMAS | {"prompt_logprobs", "min_tokens", "return_token_ids"}),
        (
            "openai",
            WRITERS
            | VLLMS
            | NO_FORMS
            | {"top_k", "min_p", "repetition_penalty", "ignore_eos", "min_tokens", "return_token_ids"},
        ),
    ],
)
def test_with_the_tokenizer_a_model_lacks_what_its_server_does(kind: UpstreamKind, missing: set[str]) -> None:
    found = lacks(kind, exact=True)
    assert set(found) - HERE == missing
    assert all("has nothing like it." in why or "takes no" in why for why in found.values())


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("afterword", IDS),
        ("llama-server", OURS | VLLMS | SCHEMAS | IDS | {"min_tokens", "skip_special_tokens"}),
        (
            "openai",
            WRITERS
            | VLLMS
            | NO_FORMS
            | IDS
            | {"top_k", "min_p", "repetition_penalty", "ignore_eos", "min_tokens", "skip_special_tokens"},
        ),
    ],
)
def test_without_it_everything_is_missing_that_takes_token_ids(kind: UpstreamKind, missing: set[str]) -> None:
    found = lacks(kind, exact=False)
    assert set(found) - HERE == missing
    assert {name for name, why in found.items() if "Configure `tokenizer`" in why} - HERE == IDS | (
        {"skip_special_tokens"} & missing
    )


def test_switches_that_are_off_are_said() -> None:
    off = lacks("afterword", exact=True, logprobs=False, penalties=False, seed=False, extensions=())
    assert set(off) - HERE == (WRITERS - {"grammars_guidance"}) | VLLMS | {
        "grammars",
        "logprobs",
        "best_of",
        "prompt_logprobs",
        "penalties",
        "seed",
        "top_k",
        "min_p",
        "repetition_penalty",
        "min_tokens",
        "ignore_eos",
    }
