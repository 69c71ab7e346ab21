"""A suffix for a model that cannot fill in the middle, and prompts that clients build for models that can."""

from typing import Any

from tests.cases.case import THE, Alike, Answer, Case, Refusal, forced

NO_TEXT: tuple[Any, ...] = (5, ["a"], True, {})

FUNCTION = "def f(x):\n"
BY_HAND = "<fim_prefix>def f():<fim_suffix>    return 1<fim_middle>"

CASES = [
    *(
        Case(
            f"suffix-01 {suffix!r}", {"prompt": FUNCTION, "suffix": suffix}, Refusal(param="suffix", words=("infill",))
        )
        for suffix in ("    return x\n", " ")
    ),
    *(
        Case(
            f"suffix-01 {suffix!r}",
            {"prompt": FUNCTION, "suffix": suffix},
            Refusal(param="suffix", code="invalid_type"),
        )
        for suffix in NO_TEXT
    ),
    Case(
        "suffix-02 marks this model does not know are ordinary text",
        {"prompt": BY_HAND, "max_tokens": 2, "echo": True, **forced(THE)},
        Answer([BY_HAND + " the the"], "length", 25, 2),
    ),
]

ALIKE: list[Alike] = [
    Alike(
        "suffix-01 an empty suffix is none",
        tuple(
            {"prompt": FUNCTION, "max_tokens": 4, "temperature": 0} | more
            for more in ({}, {"suffix": ""}, {"suffix": None})
        ),
    )
]
