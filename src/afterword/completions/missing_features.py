"""Refuses a request that uses a feature which its model does not have, before anything is started.

The table of fields has the feature of each field; `Capabilities.lacks` has what a model lacks, and why.
"""

from dataclasses import replace

from afterword.errors import InvalidRequest
from afterword.fields.body import CompletionBody
from afterword.fields.grammars import feature_of
from afterword.fields.sampling import modifies_something
from afterword.fields.table import FIELDS, values_of
from afterword.registry import ServedModel


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
    """Each feature that the request uses -> the field that uses it, and that field as messages name it."""
    # A greedy request takes the likeliest token whatever `top_p` and the like are, so it needs no support for them.
    values = values_of(replace(body, sampling=body.sampling.plain()))
    using = {
        field.name: field for field in FIELDS if field.is_used(values[field.name]) and modifies_something(field, values)
    }
    if all(isinstance(item, str) for item in body.prompt):
        using.pop("prompt", None)
    if best_of == body.n:
        using.pop("best_of", None)
    used: dict[str, tuple[str, str]] = {}
    for name, field in using.items():
        if field.feature is not None:
            used.setdefault(field.feature, (name, f"'{name}'" if name != "prompt" else "token arrays as 'prompt'"))
    for name, grammar in body.constraints.given.items():
        used.setdefault(feature_of(grammar.kind), (name, f"'{name}'"))
    if body.shown.echo and body.shown.logprobs is not None:
        used["prompt_logprobs"] = ("logprobs", "'logprobs' together with 'echo'")
    return used
