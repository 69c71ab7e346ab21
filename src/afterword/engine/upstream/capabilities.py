"""What a model at an upstream can do, and why not the rest: so that requests are refused before anything is sent."""

from afterword.config.vendor import Supports, VendorConfig
from afterword.engine.base import Capabilities

_NO_TOKENIZER = (
    "its tokens are not known here. Configure `tokenizer` for this model with the path of a GGUF file that has its "
    "vocabulary."
)


def upstream_capabilities(vendor: VendorConfig, *, context: int, exact: bool, reproducible: bool) -> Capabilities:
    """`context`: tokens, or `UNKNOWN_CONTEXT`. `exact`: its tokenizer is at hand. `reproducible`: it says it is."""
    return Capabilities(
        context=context,
        max_logprobs=vendor.supports.max_logprobs,
        reproducible=reproducible,
        prefix_cache=False,
        n_streams=vendor.max_concurrent,
        exact_tokens=exact,
        lacks=_missing_there(vendor) | ({} if exact else _missing_here(vendor.supports)),
    )


def _missing_there(vendor: VendorConfig) -> dict[str, str]:
    supports = vendor.supports
    can = {
        "seed": supports.seed,
        "logprobs": supports.logprobs,
        "best_of": supports.logprobs,
        "prompt_logprobs": supports.logprobs and supports.prompt_logprobs,
        "logit_bias": supports.logit_bias,
        "penalties": supports.penalties,
        **{name: name in supports.extensions for name in ("top_k", "min_p", "repetition_penalty", "ignore_eos")},
        "min_tokens": "min_tokens" in supports.extensions,
    }
    why = f"the server of the vendor '{vendor.name}' has nothing like it."
    return {feature: why for feature, is_there in can.items() if not is_there}


def _missing_here(supports: Supports) -> dict[str, str]:
    """Everything that is said in token ids, or found out from them."""
    features = [
        "token_prompts",
        "prompt_logprobs",
        "logit_bias",
        "stop_token_ids",
        "truncate_prompt_tokens",
        "add_special_tokens",
    ]
    if "skip_special_tokens" not in supports.extensions:
        features.append("skip_special_tokens")
    return dict.fromkeys(features, _NO_TOKENIZER)
