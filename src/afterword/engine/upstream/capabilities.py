"""What a model at an upstream supports, and why not the rest: requests are refused before anything is sent."""

from afterword.config.vendor import VendorConfig
from afterword.engine.base import Capabilities
from afterword.fields.grammars import kinds_lacking
from afterword.fields.table import FIELDS

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
        n_slots=vendor.max_concurrent,
        exact_tokens=exact,
        lacks=_lacks(vendor, exact=exact),
    )


def _lacks(vendor: VendorConfig, *, exact: bool) -> dict[str, str]:
    lacks: dict[str, str] = {}
    for field in FIELDS:
        if field.feature is None or (exact and field.ours_with_ids):
            continue
        if not exact and (field.needs_ids or (field.ours_with_ids and not vendor.supports.supports_field(field))):
            lacks[field.feature] = _NO_TOKENIZER
        elif not vendor.supports.supports_field(field):
            lacks[field.feature] = f"the server of the vendor '{vendor.name}' has nothing like it."
    for feature, what in kinds_lacking(vendor.kind).items():
        lacks[feature] = f"the server of the vendor '{vendor.name}' takes no {what}."
    return lacks
