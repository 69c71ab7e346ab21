"""Temperatures, nuclei and penalties at the ends of their ranges."""

from tests.cases.case import FRANCE, Alike, Answer, Body, Case, Refusal

START: Body = {"prompt": FRANCE, "max_tokens": 4}

CASES = [
    *(
        Case(f"samp-02 {name} of {value!r}", START | {name: value}, Refusal(param=name, code=code))
        for name, value, code in (
            ("top_p", -0.1, "decimal_below_min_value"),
            ("top_p", 1.0001, "decimal_above_max_value"),
            ("top_p", 2, "decimal_above_max_value"),
            ("top_p", True, "invalid_type"),
            ("top_p", "1", "invalid_type"),
            ("temperature", -0.1, "decimal_below_min_value"),
            ("temperature", 2.0001, "decimal_above_max_value"),
            ("temperature", False, "invalid_type"),
            ("temperature", [1], "invalid_type"),
            ("frequency_penalty", 2.5, "decimal_above_max_value"),
            ("presence_penalty", -2.5, "decimal_below_min_value"),
            ("top_k", -2, "integer_below_min_value"),
            ("top_k", 1.5, "invalid_type"),
            ("min_p", 1.5, "decimal_above_max_value"),
            ("repetition_penalty", 0, "decimal_below_min_value"),
            ("min_tokens", -1, "integer_below_min_value"),
            ("typical_p", 0, "decimal_below_min_value"),
            ("tfs", 1.5, "decimal_above_max_value"),
            ("mirostat", 3, "integer_above_max_value"),
            ("xtc_probability", 2, "decimal_above_max_value"),
            ("dry_base", 0.5, "decimal_below_min_value"),
            ("dry_sequence_breakers", ["x" * 1001], "array_above_max_length"),
            ("dry_sequence_breakers", [1], "invalid_type"),
            ("samplers", ["temperature", "penalties"], "invalid_value"),
            ("samplers", ["magic"], "invalid_value"),
        )
    ),
    *(
        Case(f"samp-03 {name} of {value!r} is served", START | {name: value}, Answer(prompt_tokens=5))
        for name, value in (
            ("temperature", 2),
            ("top_p", 1),
            ("frequency_penalty", -2),
            ("frequency_penalty", 2),
            ("presence_penalty", -2),
            ("top_k", 10**9),
            ("repetition_penalty", 1e-300),
            ("repetition_penalty", 1e300),
        )
    ),
    Case(
        "samp-09 the ends of a temperature's range the wrong way round",
        START | {"dynamic_temperature": True, "dynatemp_low": 2, "dynatemp_high": 1},
        Refusal(param="dynatemp_low"),
    ),
    *(
        Case(
            f"samp-03 a prompt of every kind with a penalty of {value!r}",
            START | {"repetition_penalty": value, "logprobs": 2, "max_tokens": 8, "temperature": 0},
            Answer(prompt_tokens=5),
        )
        for value in (1e-300, 0.5, 1e300)
    ),
]

_WORD: Body = {"prompt": [7042] * 60, "max_tokens": 1, "temperature": 0, "logprobs": 5}

ALIKE: list[Alike] = [
    Alike(
        "samp-01 tiny temperatures are greedy",
        tuple(START | {"logprobs": 1, "temperature": t} for t in (0, 0.0, -0.0, 1e-4, 1e-5, 1e-12, 1e-45, 5e-324)),
        5,
    ),
    Alike(
        "samp-02 a nucleus of nothing is the likeliest token",
        tuple(
            START | more
            for more in (
                {"temperature": 0},
                {"top_p": 0},
                {"top_p": 1e-9},
                {"top_p": 5e-324},
                {"top_k": 1},
                {"min_p": 1},
            )
        ),
        5,
    ),
    Alike(
        "samp-06 samplers at neutral, off or not applied change nothing",
        tuple(
            START | {"temperature": 0.9} | more
            for more in (
                {},
                {"typical_p": 1, "tfs": 1, "top_a": 0, "epsilon_cutoff": 0, "eta_cutoff": 0, "min_keep": 9},
                {"mirostat": 0, "mirostat_tau": 1, "xtc_probability": 0, "xtc_threshold": 0.1, "dry_base": 3},
                {"nsigma": -1, "adaptive_target": -0.5, "repeat_last_n": 3, "no_repeat_ngram_size": 0, "skew": 0},
                {"typical_p": 0.1, "mirostat": 2, "samplers": ["temperature"]},
                {"dry_multiplier": 0.8, "samplers": ["temperature"]},
            )
        ),
        5,
    ),
    Alike(
        "samp-07 the same said in other servers' words",
        tuple(
            START | {"temperature": 1.5} | more
            for more in (
                {
                    "typical_p": 0.7,
                    "top_n_sigma": 2,
                    "samplers": ["penalties", "typical_p", "top_n_sigma", "temperature"],
                },
                {"typical": 0.7, "nsigma": 2, "sampler_priority": "typ_p\nnsigma\ntemp"},
                {"typ_p": 0.7, "top_nsigma": 2, "samplers": ["typ_p", "nsigma", "temp"]},
            )
        ),
        5,
    ),
    Alike(
        "samp-08 what takes the likeliest token",
        tuple(
            START | more
            for more in (
                {"temperature": 0},
                {"do_sample": False},
                {"do_sample": False, "temperature": 1.7, "xtc_probability": 1, "mirostat": 2},
                {"temperature": 0, "typical_p": 0.1, "skew": 5, "min_keep": 7},
            )
        ),
        5,
    ),
    Alike(
        "samp-02 everything is no nucleus",
        tuple(START | more for more in ({}, {"top_p": 1}, {"top_p": 1.0}, {"top_k": 0}, {"top_k": -1}, {"min_p": 0})),
        5,
    ),
    Alike(
        "samp-05 a prompt's own words are not penalised",
        tuple(_WORD | more for more in ({}, {"frequency_penalty": 2}, {"presence_penalty": 2})),
        60,
    ),
]
