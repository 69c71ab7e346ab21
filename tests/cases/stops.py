"""Stops across tokens, inside tokens, over each other, and stops that are no text."""

from tests.cases.case import (
    END_OF_TEXT,
    SMILE_HEAD,
    SMILE_TAIL,
    THE,
    TURN_END,
    TURN_START,
    A,
    Alike,
    Answer,
    Body,
    Case,
    Refusal,
    forced,
)
from tests.cases.utf8 import SMILE, SMILES


def onward(max_tokens: int, **changes: object) -> Body:
    """At most `max_tokens` times ` the`."""
    return {"prompt": "Once upon a time", "max_tokens": max_tokens, **forced(THE), **changes}


CASES = [
    Case(
        "stop-01 a stop over two tokens",
        onward(16, stop=["e th"]),
        Answer([" th"], "stop", 4, 2, pieces=[" th"]),
    ),
    Case("stop-02 a stop at the end of a token", onward(16, stop=["he"]), Answer([" t"], "stop", 4, 1)),
    Case("stop-02 a stop within a token", onward(16, stop="h"), Answer([" t"], "stop", 4, 1)),
    Case(
        "stop-02 tokens from the stop on are not listed",
        onward(16, stop=["e th"], logprobs=0),
        Answer([" th"], "stop", 4, 2, tokens=[" the"], offsets=[16]),
    ),
    Case("stop-03 a stop in the prompt is none", onward(2, stop=["upon"], echo=True), Answer(None, "length", 4, 2)),
    Case(
        "stop-03 a stop that the prompt begins and the answer ends is none",
        onward(2, stop=["time the"], echo=True),
        Answer(["Once upon a time the the"], "length", 4, 2),
    ),
    *(
        Case(f"stop-04 of overlapping stops the first to end counts: {stops}", onward(8, stop=stops), Answer([text]))
        for stops, text in (
            (["he the", "e t"], " th"),
            (["e t", "he the"], " th"),
            (["he t", "the"], " "),
            (["the", "he t"], " "),
            (["the", "e"], " "),
            (["e", "the"], " "),
        )
    ),
    Case(
        "stop-04 a stop that starts again within itself",
        onward(8, stop=["the the the t"]),
        Answer([" "], "stop", 4, 4),
    ),
    Case(
        "stop-05 a long stop that cannot be starting holds nothing back",
        onward(8, stop=["Z" * 200], logprobs=0),
        Answer([" the" * 8], "length", 4, 8, pieces=[" the"] * 8),
    ),
    Case(
        "stop-05 text is held back only as far as the stop reaches into it",
        onward(3, stop=["e Z"], logprobs=0),
        Answer([" the" * 3], "length", 4, 3, pieces=[" th", "e th", "e", " the"]),
    ),
    Case(
        "stop-06 what was held back comes out at the end",
        onward(2, stop=["the the the"]),
        Answer([" the the"], "length", 4, 2),
    ),
    Case(
        "stop-06 a stop by the last allowed token is a stop", onward(2, stop=["e the"]), Answer([" th"], "stop", 4, 2)
    ),
    Case(
        "stop-06 what was held back comes out before the end of text",
        {"prompt": "A", "max_tokens": 4, "stop": ["<|im_end|>x", "he"], **forced(TURN_END)},
        Answer([""], "stop", 1, 0),
    ),
    Case("stop-07 a stop at the very start leaves a choice", onward(8, stop=" "), Answer([""], "stop", 4, 1)),
    Case(
        "stop-07 and empty log-probabilities",
        onward(8, stop=" ", logprobs=2),
        Answer([""], "stop", 4, 1, tokens=[], offsets=[]),
    ),
    *(
        Case(f"stop-08 an empty stop is no stop: {stop!r}", onward(4, stop=stop), Answer([text], finish, 4, n))
        for stop, text, finish, n in (
            ("", " the" * 4, "length", 4),
            ([""], " the" * 4, "length", 4),
            (["", "he"], " t", "stop", 1),
            ([], " the" * 4, "length", 4),
            (None, " the" * 4, "length", 4),
        )
    ),
    *(
        Case(f"stop-09 not a stop: {str(stop)[:40]}", onward(4, stop=stop), Refusal(param="stop"))
        for stop in (5, True, [5], [None], {"a": "b"}, [["a"]], ["x"] * 65)
    ),
    Case("stop-09 more than four are honoured", onward(4, stop=[*"abcd", "e"]), Answer([" th"], "stop", 4, 1)),
    Case(
        "stop-10 the row of split characters that the next case stops",
        {**SMILES, "max_tokens": 8},
        Answer([SMILE * 4], "length", 40, 8),
    ),
    Case(
        "stop-10 a stop of characters that are split over tokens",
        {**SMILES, "max_tokens": 8, "stop": [SMILE * 2]},
        Answer([""], "stop", 40, 4, pieces=[]),
    ),
    Case(
        "stop-10 a stop that the prompt's half character begins",
        {"prompt": [SMILE_HEAD], "max_tokens": 3, "stop": [SMILE], **forced(SMILE_TAIL)},
        Answer([""], "stop", 1, 1),
    ),
    Case(
        "stop-11 a stop that spells the token that ends",
        {"prompt": "A", "max_tokens": 4, "stop": ["<|im_end|>"], **forced(TURN_END)},
        Answer([""], "stop", 1, 0),
    ),
    Case(
        "stop-11 a stop that spells a control token that ends nothing by itself",
        {"prompt": "A", "max_tokens": 4, "stop": ["<|im_start|>"], **forced(TURN_START)},
        Answer([""], "stop", 1, 0),
    ),
    Case(
        "stop-11 a control token that ends nothing has no text",
        {"prompt": "A", "max_tokens": 4, "logprobs": 0, **forced(TURN_START)},
        Answer([""], "length", 1, 4, tokens=["<|im_start|>"] * 4, offsets=[1] * 4),
    ),
    Case(
        "stop-11 a stop that spells a control token that is shown",
        {"prompt": "A", "max_tokens": 4, "stop": "im_start", "skip_special_tokens": False, **forced(TURN_START)},
        Answer(["<|"], "stop", 1, 1),
    ),
    Case(
        "stop-11 past the end of text where that was asked for",
        {"prompt": "A", "max_tokens": 3, "ignore_eos": True, **forced(END_OF_TEXT)},
        Answer([""], "length", 1, 3),
    ),
    Case(
        "stop-12 a stop id ends where its text would not",
        {"prompt": "A", "max_tokens": 3, "stop_token_ids": [A], **forced(A)},
        Answer([""], "stop", 1, 0),
    ),
    Case(
        "stop-12 the stop stays where that was asked for",
        onward(8, stop=["e th"], include_stop_str_in_output=True),
        Answer([" the th"], "stop", 4, 2),
    ),
    Case(
        "http-22 a stop of a megabyte is refused",
        onward(1, stop="a" * 1_000_000),
        Refusal(400, "stop", "string_above_max_length", ("at most 8000 characters", "not 1000000")),
    ),
    Case(
        "http-22 so are many that are as long together",
        onward(1, stop=["a" * 125] * 63 + ["a" * 126]),
        Refusal(400, "stop", "string_above_max_length", ("in all its strings together", "not 8001")),
    ),
    Case(
        "http-22 as many as there may be are taken", onward(1, stop=["Z" * 125] * 64), Answer([" the"], "length", 4, 1)
    ),
    Case(
        "stop-12 each choice has its own stop",
        onward(8, stop=["e th"], n=3),
        Answer([" th"] * 3, "stop", 4, 6),
    ),
]

ALIKE: list[Alike] = [
    Alike("a stop that never comes", (onward(8), onward(8, stop="Z"), onward(8, stop=["the Z", " the Z"])), 4)
]
