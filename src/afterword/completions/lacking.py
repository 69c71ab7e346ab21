"""What a request asks for that its model cannot do: refused by name, before anything is started.

Owns which fields make use of which feature of `engine.base.FEATURES`. What a model lacks, and why, it says itself.
"""

from afterword.completions.body import CompletionBody
from afterword.errors import InvalidRequest
from afterword.models import ServedModel


def refuse_lacking(body: CompletionBody, best_of: int, served: ServedModel) -> None:
    """Raise `InvalidRequest` for the first feature that `body` uses and the model lacks."""
    lacks = served.engine.capabilities.lacks
    if not lacks:
        return
    for feature, (param, what) in used_features(body, best_of).items():
        if feature in lacks:
            raise InvalidRequest(
                f"The model '{served.name}' does not support {what}: {lacks[feature]}",
                param=param,
                code="unsupported_parameter",
            )


def used_features(body: CompletionBody, best_of: int) -> dict[str, tuple[str, str]]:
    """Each feature that the request makes use of -> the field that asks for it and how to say so."""
    echoes_scores = body.echo and body.logprobs is not None
    used = {
        "token_prompts": any(not isinstance(item, str) for item in body.prompt),
        "prompt_logprobs": body.prompt_logprobs is not None or echoes_scores,
        "logprobs": body.logprobs is not None,
        "best_of": best_of > body.n,
        "logit_bias": bool(body.logit_bias),
        "penalties": body.frequency_penalty != 0 or body.presence_penalty != 0,
        "seed": body.seed is not None,
        "top_k": body.top_k > 1,
        "min_p": 0 < body.min_p < 1,
        "repetition_penalty": body.repetition_penalty != 1,
        "ignore_eos": body.ignore_eos,
        "min_tokens": body.min_tokens > 0,
        "stop_token_ids": bool(body.stop_token_ids),
        "add_special_tokens": not body.add_special_tokens,
        "skip_special_tokens": not body.skip_special_tokens,
        "truncate_prompt_tokens": body.truncate_prompt_tokens != -1,
    }
    said = {
        "token_prompts": ("prompt", "token arrays as 'prompt'"),
        "prompt_logprobs": ("logprobs", "'logprobs' together with 'echo'")
        if echoes_scores
        else ("prompt_logprobs", "'prompt_logprobs'"),
        "penalties": ("frequency_penalty", "'frequency_penalty'")
        if body.frequency_penalty != 0
        else ("presence_penalty", "'presence_penalty'"),
    }
    return {feature: said.get(feature, (feature, f"'{feature}'")) for feature, is_used in used.items() if is_used}
