"""Characters that tokens cut in two, and texts that the vocabulary cannot spell."""

from tests.cases.case import (
    HELLO,
    REPLACEMENT,
    SMILE_HEAD,
    SMILE_TAIL,
    TURN_START,
    Alike,
    Answer,
    Case,
    forced,
)

SMILE = "\U0001f642"
SMILES = {"prompt": SMILE * 20, "seed": 1, **forced(SMILE_HEAD, SMILE_TAIL)}
"""After a row of them the model takes the two halves of the emoji in turns."""

LINE_ENDS = "ab\u2028cd\u2029ef\u0085gh\r\nij\x0b\x0c\x1c\x1dk"
"""Everything that somebody's splitter takes for the end of a line."""

MARKS = "\ufeffe\u0301 \u200d\u200b\u202e \u1100\u1161 \ufb01 \u00e9"
"""A byte order mark, a combining accent, characters without width, jamo, a ligature: nothing may be normalised."""

NO_TOKEN = "\x04"
"""No token of this vocabulary is this byte; the same goes for 06, 13, 14, 16, 1D, F1 and F2."""

SIGN_WRITING = "\U000d8131"
"""A character that starts with the byte F3; those from F1 and F2 have no token for their first byte."""

CASES = [
    Case(
        "utf8-01 a prompt that stops inside a character is completed",
        {"prompt": [HELLO, SMILE_HEAD], "echo": True, "max_tokens": 1, **forced(SMILE_TAIL)},
        Answer(["Hello" + SMILE], "length", 2, 1),
    ),
    Case(
        "utf8-02 the same without echo shows nothing else of the prompt",
        {"prompt": [HELLO, SMILE_HEAD], "max_tokens": 1, "logprobs": 0, **forced(SMILE_TAIL)},
        Answer([SMILE], "length", 2, 1, tokens=[r"bytes:\x99\x82"], offsets=[5], pieces=[SMILE]),
    ),
    Case(
        "utf8-02 a prompt's half character that is not completed becomes one replacement",
        {"prompt": [HELLO, SMILE_HEAD], "max_tokens": 1, "echo": True, **forced(260)},
        Answer(["Hello\ufffd the"], "length", 2, 1),
    ),
    Case(
        "utf8-02 a prompt's half character that nothing follows is left out",
        {"prompt": [HELLO, SMILE_HEAD], "max_tokens": 0, "echo": True, "logprobs": 0},
        Answer(["Hello"], "length", 2, 0, tokens=["Hello", r"bytes:\xf0\x9f"], offsets=[0, 5]),
    ),
    Case(
        "utf8-02 the end of text after half a character",
        {"prompt": [HELLO, SMILE_HEAD], "max_tokens": 3, "echo": True, **forced(2)},
        Answer(["Hello"], "stop", 2, 0),
    ),
    Case(
        "utf8-03 a split character is sent once and whole",
        {**SMILES, "max_tokens": 4, "logprobs": 0},
        Answer(
            [SMILE * 2],
            "length",
            40,
            4,
            tokens=[r"bytes:\xf0\x9f", r"bytes:\x99\x82"] * 2,
            offsets=[20, 20, 21, 21],
            pieces=[SMILE, SMILE],
        ),
    ),
    *(
        Case(
            f"utf8-04 an answer of {n} tokens cut within or after a character",
            {**SMILES, "max_tokens": n},
            Answer([SMILE * (n // 2)], "length", 40, n),
        )
        for n in range(1, 9)
    ),
    Case(
        "utf8-05 a real replacement character waits for nothing",
        {"prompt": "A", "max_tokens": 4, "logprobs": 0, **forced(REPLACEMENT)},
        Answer(["\ufffd" * 4], "length", 1, 4, tokens=["\ufffd"] * 4, offsets=[1, 2, 3, 4], pieces=["\ufffd"] * 4),
    ),
    Case(
        "utf8-06 an endless run of first halves is not kept back",
        {"prompt": "A", "max_tokens": 24, "logprobs": 0, **forced(SMILE_HEAD)},
        Answer(["\ufffd" * 23], "length", 1, 24, tokens=[r"bytes:\xf0\x9f"] * 24, pieces=["\ufffd"] * 23),
    ),
    Case(
        "utf8-06 a run of second halves: each byte is one replacement",
        {"prompt": "A", "max_tokens": 3, **forced(SMILE_TAIL)},
        Answer(["\ufffd" * 6], "length", 1, 3),
    ),
    Case(
        "utf8-07 a byte without a token stays in the echo",
        {"prompt": f"a{NO_TOKEN}b", "echo": True, "max_tokens": 1, **forced(260)},
        Answer([f"a{NO_TOKEN}b the"], "length", 2, 1),
    ),
    Case(
        "utf8-07 scores of the tokens that are left",
        {"prompt": f"a{NO_TOKEN}b", "echo": True, "max_tokens": 0, "logprobs": 1},
        Answer([f"a{NO_TOKEN}b"], "length", 2, 0, tokens=["a", "b"]),
    ),
    Case(
        "utf8-07 a prompt without any token is the empty prompt",
        {"prompt": NO_TOKEN, "echo": True, "max_tokens": 1, "logprobs": 1, **forced(260)},
        Answer([NO_TOKEN + " the"], "length", 1, 1, tokens=["<|endoftext|>", " the"], offsets=[0, 1]),
    ),
    Case(
        "utf8-07 a character whose first byte has no token",
        {"prompt": "x\U00046131", "echo": True, "max_tokens": 1, **forced(260)},
        Answer(["x\U00046131 the"], "length", None, 1),
    ),
    Case(
        "utf8-07 a rare character that has all its bytes",
        {"prompt": SIGN_WRITING, "echo": True, "max_tokens": 1, **forced(260)},
        Answer([SIGN_WRITING + " the"], "length", 4, 1),
    ),
    Case(
        "utf8-07 a stop without any token",
        {"prompt": "A", "stop": NO_TOKEN, "max_tokens": 1, **forced(260)},
        Answer([" the"], "length", 1, 1),
    ),
    Case(
        "utf8-08 line ends of every kind come through a stream",
        {"prompt": LINE_ENDS, "echo": True, "max_tokens": 1, **forced(260)},
        Answer([LINE_ENDS + " the"], "length", None, 1, pieces=[LINE_ENDS, " the"]),
    ),
    Case(
        "utf8-09 marks without width and byte order marks are echoed as they are",
        {"prompt": MARKS, "echo": True, "max_tokens": 1, **forced(260)},
        Answer([MARKS + " the"], "length", None, 1),
    ),
    Case(
        "utf8-09 spaces at both ends are part of the prompt",
        {"prompt": " \n Hello \n ", "echo": True, "max_tokens": 0},
        Answer([" \n Hello \n "], "length", None, 0),
    ),
    Case(
        "utf8-09 a zero character is a character",
        {"prompt": "a\x00b", "echo": True, "max_tokens": 0, "logprobs": 0},
        Answer(["a\x00b"], "length", 3, 0, tokens=["a", "\x00", "b"], offsets=[0, 1, 2]),
    ),
    Case(
        "a control token between two halves of a character does not part them",
        {"prompt": [HELLO, SMILE_HEAD, TURN_START], "max_tokens": 1, "echo": True, **forced(SMILE_TAIL)},
        Answer(["Hello" + SMILE], "length", 3, 1),
    ),
    Case(
        "a control token that is shown does part them",
        {
            "prompt": [HELLO, SMILE_HEAD, TURN_START],
            "max_tokens": 1,
            "echo": True,
            "skip_special_tokens": False,
            **forced(SMILE_TAIL),
        },
        Answer(["Hello\ufffd<|im_start|>\ufffd\ufffd"], "length", 3, 1),
    ),
    Case(
        "offsets count characters and not bytes or half characters",
        {"prompt": SMILE + "x", "echo": True, "max_tokens": 0, "logprobs": 0},
        Answer([SMILE + "x"], "length", 3, 0, offsets=[0, 0, 1]),
    ),
]

ALIKE: list[Alike] = [
    Alike(
        "utf8-07 bytes without a token change nothing of the answer",
        ({"prompt": "The sky"}, {"prompt": f"The{NO_TOKEN} sky"}, {"prompt": f"The sky{NO_TOKEN}"}),
        2,
    ),
]
