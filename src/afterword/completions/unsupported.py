"""Fields of other servers that would change the answer and that this one does not have.

Owns the list of them, with the values at which each changes nothing. Any other value is refused by name: ignoring it
would give another answer than was asked for (docs/rules.md#unsupported-fields). Knows no model and no supported field.

Fields that only modify another one of these need not be listed: they change nothing while that one is refused.
"""

from collections.abc import Mapping

from afterword.errors import InvalidRequest

_NOTHING: tuple[object, ...] = ("", [], {})
"""Neutral for every field, beside null."""

UNSUPPORTED: dict[str, tuple[object, ...]] = {
    # another endpoint's field, or a prompt in a form that is not text
    "messages": (),
    "prompt_embeds": (),
    # answers constrained by tags, and by code
    "structural_tag": (),
    "logits_processors": (),
    # searches instead of sampling
    "penalty_alpha": (0,),
    # what text the model is given, and what is shown of special tokens
    "token_healing": (False,),
    "render_special": (False,),
    # penalties
    "encoder_repetition_penalty": (1,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
}
"""Field name -> values that change nothing, beside null and empty. Numbers compare by value: 1 is 1.0."""

REPETITION_MODIFIERS: dict[str, tuple[object, ...]] = {
    "repetition_decay": (0,),
    "penalize_nl": (True,),
}
"""The same for fields that modify `repetition_penalty`, which is supported: refused only if that is not 1."""


def refuse_unsupported(fields: Mapping[str, object], *, repetition_penalty: float) -> None:
    """Raise `InvalidRequest` for the first field of the tables that has another value than its neutral ones.

    `repetition_penalty` is the one that will be used, 1.0 if the request has none.
    """
    for name, neutral in UNSUPPORTED.items():
        _refuse_unless_neutral(name, fields.get(name), neutral)
    if repetition_penalty == 1.0:
        return
    for name, neutral in REPETITION_MODIFIERS.items():
        _refuse_unless_neutral(name, fields.get(name), neutral)


def _refuse_unless_neutral(name: str, value: object, neutral: tuple[object, ...]) -> None:
    if value is None or value in _NOTHING or value in neutral:
        return
    allowed = "".join(f", {_spelled(v)}" for v in neutral)
    raise InvalidRequest(
        f"'{name}' is not supported here and would change the answer. Leave it out, or set it to null{allowed}.",
        param=name,
        code="unsupported_parameter",
    )


def _spelled(value: object) -> str:
    match value:
        case True:
            return "true"
        case False:
            return "false"
        case _:
            return str(value)
