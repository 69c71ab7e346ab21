"""Prompt and completion at the end of the context, and everything beyond it."""

from tests.cases.case import THE, Alike, Answer, Body, Case, Refusal, forced
from tests.cases.conftest import CONTEXT


def room(n_prompt: int, **changes: object) -> Body:
    """A prompt of so many tokens."""
    return {"prompt": [THE] * n_prompt, **forced(THE), **changes}


def _too_long(n_prompt: int, max_tokens: int, param: str) -> Refusal:
    numbers = (str(n_prompt), str(max_tokens), str(n_prompt + max_tokens))
    return Refusal(400, param, "context_length_exceeded", (f"maximum context length is {CONTEXT} tokens", *numbers))


CASES = [
    Case("ctx-01 exactly full", room(CONTEXT - 8, max_tokens=8), Answer([" the" * 8], "length", CONTEXT - 8, 8)),
    Case("ctx-01 one too many", room(CONTEXT - 8, max_tokens=9), _too_long(CONTEXT - 8, 9, "max_tokens")),
    Case("ctx-01 the default does not fit", room(CONTEXT - 8), _too_long(CONTEXT - 8, 16, "max_tokens")),
    Case(
        "ctx-01 a full prompt can be scored",
        room(CONTEXT, max_tokens=0, echo=True),
        Answer([" the" * CONTEXT], "length", CONTEXT, 0),
    ),
    Case("ctx-01 the last place", room(CONTEXT - 1, max_tokens=1), Answer([" the"], "length", CONTEXT - 1, 1)),
    Case("ctx-01 a full prompt and one more", room(CONTEXT, max_tokens=1), _too_long(CONTEXT, 1, "prompt")),
    Case(
        "ctx-02 a prompt that is too long by one", room(CONTEXT + 1, max_tokens=0), _too_long(CONTEXT + 1, 0, "prompt")
    ),
    Case("ctx-02 a prompt that is far too long", room(50_000, max_tokens=1), _too_long(50_000, 1, "prompt")),
    Case(
        "ctx-02 one of two prompts is too long",
        {"prompt": ["Hello", "word " * 5000], "max_tokens": 1},
        Refusal(400, "prompt", "context_length_exceeded", (f"maximum context length is {CONTEXT} tokens",)),
    ),
    Case(
        "ctx-03 a prompt may be cut where that was asked for",
        room(3000, max_tokens=2, truncate_prompt_tokens=10),
        Answer([" the the"], "length", 10, 2),
    ),
    *(
        Case(f"ctx-04 max_tokens {more}", {"prompt": "Once upon a time", **forced(THE)} | more, expect)
        for more, expect in (
            ({}, Answer([" the" * 16], "length", 4, 16)),
            ({"max_tokens": None}, Answer([" the" * 16], "length", 4, 16)),
            ({"max_tokens": 0}, Answer([""], "length", 4, 0)),
            ({"max_tokens": -1}, Refusal(param="max_tokens", code="integer_below_min_value")),
            ({"max_tokens": 1.5}, Refusal(param="max_tokens", code="invalid_type")),
            ({"max_tokens": "16"}, Refusal(param="max_tokens", code="invalid_type")),
            ({"max_tokens": True}, Refusal(param="max_tokens", code="invalid_type")),
            ({"max_tokens": 16.0}, Refusal(param="max_tokens", code="invalid_type")),
            ({"max_tokens": 2**62}, Refusal(param="max_tokens", code="context_length_exceeded")),
            ({"max_tokens": 10**40}, Refusal(param="max_tokens")),
        )
    ),
]

ALIKE: list[Alike] = [
    Alike("ctx-04 sixteen is what nothing means", ({"prompt": "The"}, {"prompt": "The", "max_tokens": 16})),
]
