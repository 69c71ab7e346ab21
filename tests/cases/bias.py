"""`logit_bias`: keys, bans that hold, forces that hold, ends that are banned or forced."""

from tests.cases.case import (
    END_OF_TEXT,
    FRANCE,
    NEVER_ENDS,
    THE,
    TURN_END,
    TURN_START,
    Alike,
    Answer,
    Body,
    Case,
    Refusal,
    forced,
)

N_VOCAB = 49152
NO_BIAS: tuple[Body, ...] = ({}, {"logit_bias": {}}, {"logit_bias": None}, {"logit_bias": {"260": 0}})
ALL_BUT_THE = {str(token): -100 for token in range(N_VOCAB) if token != THE}

CASES = [
    Case(
        "bias-02 a decimal key", {"prompt": "A", "max_tokens": 2, **forced(THE)}, Answer([" the the"], "length", 1, 2)
    ),
    *(
        Case(f"bias-02 not a bias: {bias!r}"[:60], {"prompt": "A", "logit_bias": bias}, Refusal(param="logit_bias"))
        for bias in (
            {" 260": 100},
            {"260 ": 100},
            {"260.0": 100},
            {"2_60": 100},
            {"+260": 100},
            {"-260": 100},
            {"0260": 100},
            {"0x104": 100},
            {"2e2": 100},
            {"\uff12\uff16\uff10": 100},
            {" the": 100},
            {"": 100},
            {"49152": 1},
            {"9" * 18: 1},
            {"9" * 400: 1},
            {"260": 100.5},
            {"260": -101},
            {"260": 10**300},
            {"260": "100"},
            {"260": True},
            {"260": None},
            {"260": [1]},
            [[260, 100]],
            "260",
            260,
            True,
        )
    ),
    Case(
        "bias-02 fractions are biases",
        {"prompt": "A", "max_tokens": 1, "logit_bias": {"260": 99.5}, "temperature": 0},
        Answer([" the"]),
    ),
    Case(
        "bias-03 all tokens but one are banned",
        {"prompt": "A", "max_tokens": 3, "logit_bias": ALL_BUT_THE, "logprobs": 2},
        Answer([" the the the"], "length", 1, 3),
    ),
    Case(
        "bias-03 all tokens are banned",
        {"prompt": "A", "max_tokens": 3, "logit_bias": ALL_BUT_THE | {str(THE): -100}},
        Refusal(param="logit_bias"),
    ),
    Case(
        "bias-03 a force among bans at any temperature",
        {"prompt": "A", "max_tokens": 3, "logit_bias": {"260": 100}, "temperature": 2},
        Answer([" the the the"], "length", 1, 3),
    ),
    Case(
        "bias-04 no end where both ends are banned",
        {"prompt": "The end.", "max_tokens": 64, "temperature": 1, **NEVER_ENDS},
        Answer(None, "length", None, 64),
    ),
    *(
        Case(
            f"bias-04 a forced end {token} shows no control text",
            {"prompt": "The end.", "max_tokens": 8, **forced(token)},
            Answer([""], "stop", None, 0, pieces=[]),
        )
        for token in (END_OF_TEXT, TURN_END)
    ),
    Case(
        "bias-04 an end that is forced and not allowed yet leaves no token",
        {"prompt": "The end.", "max_tokens": 8, "min_tokens": 3, **forced(END_OF_TEXT)},
        Refusal(param="logit_bias", words=("min_tokens",)),
    ),
    Case(
        "bias-06 a penalty does not free what is banned nor stop what is forced",
        {"prompt": "A", "max_tokens": 6, "frequency_penalty": 2, "presence_penalty": 2, **forced(THE)},
        Answer([" the" * 6], "length", 1, 6),
    ),
    Case(
        "bias-06 nor does the nucleus",
        {"prompt": "A", "max_tokens": 2, "top_p": 0, "top_k": 1, "min_p": 1, "logit_bias": {str(TURN_START): 100}},
        Answer([""], "length", 1, 2),
    ),
]

ALIKE: list[Alike] = [
    Alike(
        "bias-01 no bias",
        tuple({"prompt": FRANCE, "max_tokens": 4, "temperature": 0} | more for more in NO_BIAS),
        5,
    )
]
