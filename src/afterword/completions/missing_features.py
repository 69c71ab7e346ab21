"""What a request asks for that its model cannot do: refused by name, before anything is started.

Which field makes use of which feature stands in the table of fields. What a model lacks, and why, it says itself.
"""

from dataclasses import replace

from afterword.errors import InvalidRequest
from afterword.fields.body import CompletionBody
from afterword.fields.table import FIELDS, values_of
from afterword.models import ServedModel


def refuse_missing_features(body: CompletionBody, best_of: int, served: ServedModel) -> None:
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
    # What a greedy request cuts off beside the likeliest token changes nothing, so no model need be able to.
    values = values_of(replace(body, sampling=body.sampling.plain()))
    asking = {field.name: field for field in FIELDS if field.asks(values[field.name])}
    if all(isinstance(item, str) for item in body.prompt):
        asking.pop("prompt", None)
    if best_of == body.n:
        asking.pop("best_of", None)
    used: dict[str, tuple[str, str]] = {}
    for name, field in asking.items():
        if field.feature is not None:
            used.setdefault(field.feature, (name, f"'{name}'" if name != "prompt" else "token arrays as 'prompt'"))
    if body.shown.echo and body.shown.logprobs is not None:
        used["prompt_logprobs"] = ("logprobs", "'logprobs' together with 'echo'")
    return used
