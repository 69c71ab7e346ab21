"""The two shapes of log-probabilities."""

import math

from tests.api.builders import echo_hi, token

from afterword.api.render_logprobs import IdSpelling, LogprobFormat
from afterword.engine.events import SampledToken
from afterword.tokens import ByteTokenizer


class Twins(ByteTokenizer):
    """A vocabulary in which `A` and `a` spell the same."""

    def spell(self, token: int) -> str:
        return super().spell(token).lower()


FORM = LogprobFormat(ByteTokenizer())


def test_the_sampled_token_joins_the_k_likeliest() -> None:
    shown = FORM.legacy(None, [token("z", -4.25, {"a": -0.5, "b": -1.5})], 2)
    assert shown == {
        "tokens": ["z"],
        "token_logprobs": [-4.25],
        "top_logprobs": [{"a": -0.5, "b": -1.5, "z": -4.25}],
        "text_offset": [2],
    }
    assert list(shown) == ["tokens", "token_logprobs", "top_logprobs", "text_offset"]


def test_a_sampled_token_among_the_likeliest_is_listed_once() -> None:
    shown = FORM.legacy(None, [token("b", -1.5, {"a": -0.5, "b": -1.5})], 2)
    assert shown["top_logprobs"] == [{"a": -0.5, "b": -1.5}]


def test_no_more_than_the_k_asked_for_are_listed() -> None:
    shown = FORM.legacy(None, [token("a", -0.5, {"a": -0.5, "b": -1.5, "c": -2.5})], 1)
    assert shown["top_logprobs"] == [{"a": -0.5}]


def test_tokens_named_by_id_are_never_alike() -> None:
    shown = LogprobFormat(Twins(), IdSpelling()).legacy(None, [token("a", -1.5, {"A": -0.5, "a": -1.5})], 2)
    assert shown["tokens"] == ["token_id:97"]
    assert shown["top_logprobs"] == [{"token_id:65": -0.5, "token_id:97": -1.5}]


def test_k_of_zero_lists_the_tokens_without_alternatives() -> None:
    assert FORM.legacy(echo_hi(), [token("a", -0.5, {})], 0) == {
        "tokens": ["h", "i", "a"],
        "token_logprobs": [None, -1.5, -0.5],
        "top_logprobs": None,
        "text_offset": [0, 1, 2],
    }


def test_the_first_token_of_an_echoed_prompt_is_null_in_both_arrays() -> None:
    assert FORM.legacy(echo_hi(), [], 1) == {
        "tokens": ["h", "i"],
        "token_logprobs": [None, -1.5],
        "top_logprobs": [None, {"a": -0.5, "i": -1.5}],
        "text_offset": [0, 1],
    }


def test_nothing_to_list_gives_empty_arrays() -> None:
    assert FORM.legacy(None, [], 3) == {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}


def test_a_token_that_is_no_whole_character_is_spelled_in_bytes() -> None:
    half = SampledToken(id=0xC3, offset=2, logprob=-1.0, top=((0xC3, -1.0),))
    shown = FORM.legacy(None, [half], 1)
    assert shown["tokens"] == ["bytes:\\xc3"]
    assert shown["top_logprobs"] == [{"bytes:\\xc3": -1.0}]


def test_of_two_tokens_that_spell_the_same_the_likelier_stays() -> None:
    form = LogprobFormat(Twins())
    shown = form.legacy(None, [token("a", -0.5, {"a": -0.5, "A": -1.5}), token("A", -3.5, {"a": -0.5})], 2)
    assert shown["token_logprobs"] == [-0.5, -3.5]
    assert shown["top_logprobs"] == [{"a": -0.5}, {"a": -0.5}]


def test_no_number_is_infinite_or_missing() -> None:
    shown = FORM.legacy(echo_hi(-math.inf, {"a": math.nan}), [token("z", -math.inf, {"a": 0.0, "b": -math.inf})], 2)
    assert shown["token_logprobs"] == [None, -9999.0, -9999.0]
    assert shown["top_logprobs"] == [None, {"a": -9999.0, "i": -9999.0}, {"a": 0.0, "b": -9999.0, "z": -9999.0}]


def test_a_value_is_the_same_bits_in_both_places() -> None:
    value = -1.2345678901234567
    shown = FORM.legacy(None, [token("a", value, {"a": value})], 1)
    assert shown["top_logprobs"] is not None
    assert shown["top_logprobs"][0] == {"a": shown["token_logprobs"][0]} == {"a": value}


def test_prompt_logprobs_put_the_actual_token_first_with_its_rank() -> None:
    shown = FORM.prompt(echo_hi(-1.5, {"a": -0.5, "i": -1.5}), 2)
    assert shown == [
        None,
        {
            "105": {"logprob": -1.5, "rank": 2, "decoded_token": "i"},
            "97": {"logprob": -0.5, "rank": 1, "decoded_token": "a"},
        },
    ]
    assert shown[1] is not None
    assert list(shown[1]) == ["105", "97"]


def test_a_prompt_token_outside_the_list_ranks_behind_it() -> None:
    assert FORM.prompt(echo_hi(-7.0, {"a": -0.5, "b": -1.5}), 1) == [
        None,
        {
            "105": {"logprob": -7.0, "rank": 2, "decoded_token": "i"},
            "97": {"logprob": -0.5, "rank": 1, "decoded_token": "a"},
        },
    ]
