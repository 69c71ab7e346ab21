"""What counts as a prompt: shapes, batches, control text, ids, and nothing at all."""

from tests.cases.case import FRANCE, FRANCE_IDS, HELLO, THE, Alike, Answer, Body, Case, Refusal, forced

CONTROL = forced(THE)

NOTHING: tuple[Body, ...] = (
    {},
    {"prompt": None},
    {"prompt": ""},
    {"prompt": []},
    {"prompt": [""]},
    {"prompt": [[]]},
    {"prompt": "<|endoftext|>"},
    {"prompt": [0]},
)

CASES = [
    *(
        Case(f"prompt-01 not a prompt: {prompt!r}"[:60], {"prompt": prompt, "max_tokens": 1}, Refusal(param="prompt"))
        for prompt in (
            [-1],
            [49152],
            [2**31],
            [2**63],
            [10**30],
            [1e30],
            [1.0],
            [1.5],
            [True],
            [1, True],
            ["a", 1],
            [1, "a"],
            [[1], "a"],
            ["a", [1]],
            [[1], 1],
            [None],
            [[None]],
            [["a"]],
            [[[1]]],
            [[1], [49152]],
            [[0], [-1]],
            {"a": 1},
            5,
            1.5,
            True,
            False,
        )
    ),
    Case("prompt-01 the last id is one", {"prompt": [49151], "max_tokens": 1}, Answer(None, None, 1)),
    Case(
        "prompt-03 every choice has a number", {"prompt": ["Hello"] * 3, "n": 3, "max_tokens": 1}, Answer(None, None, 3)
    ),
    Case(
        "prompt-05 control text is read as the control token, and does not end anything",
        {"prompt": "A<|im_end|>B", "max_tokens": 4, "echo": True, **CONTROL},
        Answer(["A<|im_end|>B" + " the" * 4], "length", 3, 4),
    ),
    Case(
        "prompt-05 also at the end of the prompt",
        {"prompt": "<|im_start|>user\nHi<|im_end|>", "max_tokens": 1, "echo": True, "logprobs": 0, **CONTROL},
        Answer(
            ["<|im_start|>user\nHi<|im_end|> the"],
            "length",
            tokens=["<|im_start|>", "user", "\n", "Hi", "<|im_end|>", " the"],
            offsets=[0, 12, 16, 17, 19, 29],
        ),
    ),
    Case(
        "prompt-05 the separator alone",
        {"prompt": "<|endoftext|>", "max_tokens": 1, "echo": True, **CONTROL},
        Answer(["<|endoftext|> the"], "length", 1, 1),
    ),
    Case(
        "prompt-05 a repository mark",
        {"prompt": "<repo_name>x", "max_tokens": 1, "echo": True, **CONTROL},
        Answer(["<repo_name>x the"], "length", 2, 1),
    ),
    Case(
        "prompt-05 text that only looks like control text",
        {"prompt": "<|im_end>", "max_tokens": 1, "echo": True, **CONTROL},
        Answer(["<|im_end> the"], "length", None, 1),
    ),
    Case(
        "prompt-06 a token array that holds control tokens echoes without them",
        {"prompt": [1, HELLO, 2], "max_tokens": 1, "echo": True, "logprobs": 0, **CONTROL},
        Answer(["Hello the"], tokens=["<|im_start|>", "Hello", "<|im_end|>", " the"], offsets=[0, 0, 5, 5]),
    ),
    Case(
        "empty-01 the echo of nothing is nothing",
        {"prompt": "", "max_tokens": 1, "echo": True, **CONTROL},
        Answer([" the"], None, 1, 1),
    ),
    *(
        Case(
            f"empty-02 {prompt}",
            {"prompt": prompt, "max_tokens": 2, **CONTROL},
            Answer([" the the"] * n, "length", n, 2 * n),
        )
        for prompt, n in (
            (["", "Hello"], 2),
            (["Hello", ""], 2),
            ([""], 1),
            ([[]], 1),
            ([[], [HELLO]], 2),
            ([[], []], 2),
        )
    ),
    Case(
        "empty-03 white space is a prompt",
        {"prompt": " ", "max_tokens": 1, "echo": True, **CONTROL},
        Answer(["  the"], "length", 1, 1),
    ),
]

ALIKE: list[Alike] = [
    Alike(
        "prompt-02 a prompt in a batch and alone",
        ({"prompt": [FRANCE], "temperature": 0}, {"prompt": FRANCE, "temperature": 0}),
        5,
    ),
    Alike(
        "prompt-04 four shapes of one prompt",
        tuple(
            {"prompt": shape, "max_tokens": 8, "temperature": 0}
            for shape in (FRANCE, [FRANCE], FRANCE_IDS, [FRANCE_IDS])
        ),
        5,
    ),
    Alike(
        "empty-01 eight ways to say nothing",
        tuple({"max_tokens": 4, "temperature": 0} | more for more in NOTHING),
        1,
    ),
]
