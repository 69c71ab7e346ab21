"""Fill in the middle: how a prompt and a `suffix` become one sequence of tokens (docs/rules.md#suffix).

Either by a template from the model's configuration (`infill_template`), such as `<PRE> {prefix} <SUF>{suffix} <MID>`,
or else by the infill tokens of its vocabulary, in the order prefix, suffix, middle. Knows no requests.
"""

from afterword.errors import InvalidRequest
from afterword.registry import ServedModel
from afterword.text.infill_template import InfillTemplate
from afterword.tokens import InfillTokens, Tokenizer, encode_within

Prefix = str | tuple[int, ...]


def infill(served: ServedModel, prefix: Prefix, suffix: str) -> tuple[int, ...]:
    """The tokens to complete for the text between `prefix` and `suffix`, without BOS.

    Raises `InvalidRequest` for a model that has neither template nor infill tokens.
    """
    tokenizer = served.engine.tokenizer
    if served.infill_template is not None:
        return tuple(_filled(served.infill_template, prefix, suffix, tokenizer))
    if tokenizer.infill is None:
        raise InvalidRequest(
            f"The model '{served.name}' cannot fill in the middle: its vocabulary has no infill tokens and its "
            "configuration no infill_template. Send the request without 'suffix'.",
            param="suffix",
            code="unsupported_parameter",
        )
    return tuple(_marked(tokenizer.infill, prefix, suffix, tokenizer))


def _filled(template: InfillTemplate, prefix: Prefix, suffix: str, tokenizer: Tokenizer) -> list[int]:
    """The filled-in template as tokens.

    Adjacent texts are encoded as one, so that the template's spaces merge with them as in training. Around a token
    array the template's own pieces are encoded by themselves.
    """
    places = {"prefix": prefix, "suffix": suffix}
    pieces = [template.before, places[template.first], template.between, places[template.second], template.after]
    ids: list[int] = []
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        ids += [*_encode(tokenizer, text), *piece]
        text = ""
    return ids + _encode(tokenizer, text)


def _marked(marks: InfillTokens, prefix: Prefix, suffix: str, tokenizer: Tokenizer) -> list[int]:
    before = _encode(tokenizer, prefix) if isinstance(prefix, str) else list(prefix)
    # Models are trained with files that were cut: the first half begins as a text does, the second within it.
    return [marks.prefix, *before, marks.suffix, *encode_within(tokenizer, suffix), marks.middle]


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_bos=False, parse_special=True) if text else []
