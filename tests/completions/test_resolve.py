from dataclasses import replace
from typing import Any

import pytest
from tests.completions.scripted import (
    BOS,
    CAPABILITIES,
    EOS,
    MID,
    AsciiTokenizer,
    ScriptedEngine,
    completion,
    letters,
    served,
)

from afterword.completions.completion import Completion
from afterword.config.tree import ServerConfig
from afterword.engine.request import Beams, GenerationRequest, Guidance
from afterword.errors import ContextExceeded, InvalidRequest
from afterword.fields.sampling import Sampling
from afterword.fields.shown import Shown
from afterword.registry import ServedModel
from afterword.tokens import ByteTokenizer

END, CONTROL = ByteTokenizer.END, ByteTokenizer.CONTROL


def only(result: Completion) -> GenerationRequest:
    assert len(result.generations) == 1
    return result.generations[0]


def refused(*where: ServedModel | ServerConfig, **fields: Any) -> tuple[str | None, str]:
    with pytest.raises(InvalidRequest) as caught:
        completion(*where, **fields)
    return caught.value.param, str(caught.value)


def test_every_default_is_filled() -> None:
    result = completion(prompt="ab", seed=7)
    assert only(result) == GenerationRequest(
        prompt=(97, 98),
        n_candidates=1,
        max_tokens=16,
        sampling=Sampling(),
        seed=7,
        reproducible=True,
        end_ids=frozenset({END}),
        text_offset=2,
        streamed=False,
    )
    assert result.model == "small"
    assert result.prompts[0].text == "ab"
    assert (result.n, result.best_of, result.seed, result.user) == (1, 1, 7, None)
    assert (result.shown, result.stream) == (Shown(), False)
    assert (result.include_usage, result.continuous_usage, result.include_obfuscation) == (False, False, True)


def test_the_registered_name_answers() -> None:
    assert completion(model="alias").model == "small"


@pytest.mark.parametrize("seed", [0, -1, -(2**63), 2**63 - 1])
def test_a_given_seed_is_kept_and_promises(seed: int) -> None:
    result = completion(seed=seed)
    assert (result.seed, only(result).seed, only(result).reproducible) == (seed, seed, True)


def test_a_drawn_seed_is_new_each_time_and_promises_nothing() -> None:
    drawn = [completion(seed=None) for _ in range(8)]
    assert len({result.seed for result in drawn}) == 8
    assert all(0 <= result.seed < 2**63 for result in drawn)
    assert all(only(result).seed == result.seed for result in drawn)
    assert not any(only(result).reproducible for result in drawn)


@pytest.mark.parametrize("prompt", [None, "", [], [[]], [""]], ids=str)
def test_an_empty_prompt_is_the_separator_with_no_text(prompt: object) -> None:
    result = completion(prompt=prompt, echo=True, logprobs=0)
    assert only(result).prompt == (END,)
    assert (result.prompts[0].text, result.prompts[0].offsets, only(result).text_offset) == ("", (0,), 0)


def test_empty_elements_of_a_batch_are_separators_too() -> None:
    assert [g.prompt for g in completion(prompt=["a", ""]).generations] == [(97,), (END,)]
    assert [g.prompt for g in completion(prompt=[[1], []]).generations] == [(1,), (END,)]


def test_prompts_are_numbered() -> None:
    assert [g.prompt_index for g in completion(prompt=["a", "b", "c"]).generations] == [0, 1, 2]


def test_a_prompt_that_loses_every_byte_is_empty_but_echoed_as_sent() -> None:
    result = completion(served(AsciiTokenizer()), prompt="é☃", echo=True, logprobs=0)
    assert only(result).prompt == (BOS,)
    assert (result.prompts[0].text, only(result).text_offset) == ("é☃", 2)


def test_string_prompts_get_bos_where_the_model_asks_for_it() -> None:
    model = served(AsciiTokenizer())
    assert only(completion(model, prompt="a")).prompt == (BOS, *letters("a"))
    assert only(completion(model, prompt="a", add_special_tokens=False)).prompt == tuple(letters("a"))
    assert only(completion(served(), prompt="a")).prompt == (97,)


def test_token_arrays_are_used_as_given() -> None:
    assert only(completion(served(AsciiTokenizer()), prompt=[70, 71])).prompt == (70, 71)


def test_control_tokens_in_a_string_are_parsed() -> None:
    assert only(completion(prompt="a<|control|>b")).prompt == (97, CONTROL, 98)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("prompt", [0, 258], "258"),
        ("prompt", [[1], [0, -1]], "-1"),
        ("prompt", [2**70], "of 71 bits"),
        ("stop_token_ids", [0, 258], "258"),
        ("logit_bias", {"0": 1, "258": 1}, "258"),
    ],
    ids=["above", "below", "far-above", "stop", "bias"],
)
def test_ids_outside_the_vocabulary_are_refused(name: str, value: object, shown: str) -> None:
    assert refused(**{name: value}) == (
        name,
        f"'{name}' has the token id {shown}; this model's ids are 0 to 257.",
    )


def test_a_prompt_and_its_completion_fill_the_context_exactly() -> None:
    assert only(completion(prompt="a" * 48, max_tokens=16)).max_tokens == 16
    assert only(completion(prompt="a" * 64, max_tokens=0)).max_tokens == 0


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "n_prompt"),
    [("a" * 49, 16, 49), ("a", 64, 1), ("a" * 65, 0, 65), (["a", "a" * 60], 5, 60), ([7] * 65, 1, 65)],
    ids=["one-over", "completion-alone", "prompt-alone", "second-prompt", "tokens"],
)
def test_what_does_not_fit_the_context_is_refused(prompt: object, max_tokens: int, n_prompt: int) -> None:
    with pytest.raises(ContextExceeded, match="maximum context length is 64 tokens") as caught:
        completion(prompt=prompt, max_tokens=max_tokens)
    assert (caught.value.limit, caught.value.prompt_tokens, caught.value.max_tokens) == (64, n_prompt, max_tokens)
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"prompt": "a" * 70, "max_tokens": 16},
            "86 were requested, 22 too many: .* truncate_prompt_tokens, 48 at most",
        ),
        (
            {"prompt": "a" * 70, "max_tokens": 64},
            r"134 were requested, 70 too many: .* \(max_tokens\)\. Lower max_tokens\.$",
        ),
    ],
    ids=["prompt", "completion"],
)
def test_what_does_not_fit_the_context_says_how_much_and_what_would_cut_it(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ContextExceeded, match=said):
        completion(**fields)


def test_the_prompt_of_a_request_can_be_cut_as_the_refusal_says() -> None:
    assert len(only(completion(prompt="a" * 70, max_tokens=16, truncate_prompt_tokens=48)).prompt) == 48


def test_best_of_follows_n() -> None:
    result = completion(n=25)
    assert (result.best_of, only(result).n_candidates) == (25, 25)


def test_best_of_must_be_enough() -> None:
    assert refused(n=3, best_of=2)[0] == "best_of"
    assert completion(n=3, best_of=3, stream=True).best_of == 3


def test_best_of_more_than_n_cannot_be_streamed() -> None:
    assert refused(n=1, best_of=2, stream=True)[0] == "best_of"
    assert completion(n=1, best_of=2).best_of == 2


def test_ranking_needs_log_probabilities_that_the_answer_does_not_show() -> None:
    result = completion(n=1, best_of=2)
    assert (only(result).logprobs, result.shown.logprobs) == (0, None)
    assert only(completion(n=1, best_of=2, logprobs=3)).logprobs == 3
    assert only(completion(n=2, best_of=2)).logprobs is None


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({"use_beam_search": True, "best_of": 3}, 3),
        ({"use_beam_search": True, "n": 2}, 2),
        ({"num_beams": 4, "n": 2}, 4),
        ({"num_beams": 4, "best_of": 4, "use_beam_search": True}, 4),
        ({"use_beam_search": True}, 1),
    ],
)
def test_beams_have_two_spellings(fields: dict[str, Any], width: int) -> None:
    request = only(completion(**fields, length_penalty=2, early_stopping="never", temperature=1.5, top_k=4))
    assert (request.n_candidates, request.beams) == (width, Beams(2.0, "never"))
    assert request.sampling == Sampling(temperature=0.0)
    assert request.reproducible


def test_without_beams_nothing_is_searched_for() -> None:
    assert only(completion(num_beams=1, length_penalty=2, early_stopping=True)).beams is None
    assert only(completion(num_beams=3, max_tokens=0)).beams is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"num_beams": 3, "n": 4}, "num_beams"),
        ({"num_beams": 3, "best_of": 2}, "num_beams"),
        ({"num_beams": 3, "stream": True}, "num_beams"),
        ({"use_beam_search": True, "best_of": 2, "stream": True}, "best_of"),
        ({"num_beams": 0}, "num_beams"),
        ({"num_beams": 2, "early_stopping": "sometimes"}, "early_stopping"),
        ({"num_beams": 2, "length_penalty": 11}, "length_penalty"),
    ],
)
def test_beams_that_contradict_are_refused(fields: dict[str, Any], param: str) -> None:
    assert refused(**fields)[0] == param


def test_a_search_needs_a_slot_for_each_beam_and_room_for_all() -> None:
    can = replace(CAPABILITIES, n_slots=4, n_cells=100)
    model = ServedModel("small", ScriptedEngine(capabilities=can), 0)
    assert only(completion(model, prompt="a" * 20, num_beams=4, max_tokens=5)).n_candidates == 4
    with pytest.raises(InvalidRequest, match=r"needs 5 slots at once; this model has 4") as slots:
        completion(model, prompt="a", num_beams=5)
    assert slots.value.param == "num_beams"
    with pytest.raises(InvalidRequest, match=r"needs 104 tokens at once .* together hold 100\.") as cells:
        completion(model, prompt="a" * 20, use_beam_search=True, best_of=4, max_tokens=6)
    assert cells.value.param == "max_tokens"


def test_guidance_has_a_prompt_of_its_own() -> None:
    model = served(AsciiTokenizer())
    request = only(completion(model, prompt="good", guidance_scale=2.5, negative_prompt="bad", n=2))
    assert request.guidance == Guidance(2.5, "bad", (BOS, *letters("bad")))
    assert (request.n_candidates, request.n_sequences) == (2, 4)
    nothing = only(completion(model, cfg_scale=2)).guidance
    assert nothing is not None
    assert nothing.tokens == (BOS,)
    assert only(completion(model, guidance_scale=1, negative_prompt="bad")).guidance is None
    assert only(completion(model, guidance_scale=2, max_tokens=0)).guidance is None


def test_a_negative_prompt_counts_as_a_prompt() -> None:
    assert completion(prompt="good", guidance_scale=2, negative_prompt="worse").n_prompt_tokens == (9,)


def test_guidance_is_refused_where_it_would_never_run() -> None:
    assert refused(guidance_scale=2, num_beams=2)[0] == "guidance_scale"
    param, message = refused(prompt="a", guidance_scale=2, negative_prompt="b" * 60, max_tokens=5)
    assert (param, "has 60 tokens, with 'max_tokens' 65" in message) == ("negative_prompt", True)
    one = ServedModel("small", ScriptedEngine(capabilities=replace(CAPABILITIES, n_slots=1)), 0)
    assert "needs 2 slots at once; this model has 1" in refused(one, guidance_scale=2)[1]
    few = ServedModel("small", ScriptedEngine(capabilities=replace(CAPABILITIES, n_cells=50)), 0)
    param, message = refused(few, prompt="a" * 20, guidance_scale=2, negative_prompt="b" * 11, max_tokens=10)
    assert (param, "needs 51 tokens at once" in message) == ("max_tokens", True)


def test_candidates_are_capped_over_the_whole_request() -> None:
    server = ServerConfig(max_candidates=6)
    assert len(completion(server, prompt=["a", "b"], n=3).generations) == 2
    param, message = refused(server, prompt=["a", "b"], n=1, best_of=4)
    assert param == "prompt"
    assert "8 candidates" in message
    assert "at most 6" in message


def test_tokens_are_listed_with_log_probabilities_that_the_answer_does_not_show() -> None:
    result = completion(return_token_ids=True)
    assert (only(result).logprobs, result.shown.logprobs) == (0, None)
    assert only(completion(return_token_ids=True, logprobs=3)).logprobs == 3


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
def test_log_probabilities_are_capped_by_operator_and_engine(name: str) -> None:
    assert only(completion(**{name: 50})).max_tokens == 16
    assert refused(**{name: 51})[1] == f"'{name}' must be at most 50 for this model, not 51."
    assert refused(ServerConfig(max_logprobs=5), **{name: 6})[0] == name


@pytest.mark.parametrize(
    ("fields", "engine_k"),
    [
        ({}, None),
        ({"logprobs": 3}, None),
        ({"echo": True}, None),
        ({"echo": True, "logprobs": 0}, 0),
        ({"prompt_logprobs": 2}, 2),
        ({"prompt_logprobs": 2, "echo": True, "logprobs": 4}, 4),
        ({"prompt_logprobs": 4, "echo": True, "logprobs": 2}, 4),
        ({"prompt_logprobs": 1, "logprobs": 4}, 1),
    ],
    ids=str,
)
def test_the_prompt_is_scored_once_for_the_most_that_is_shown(fields: dict[str, Any], engine_k: int | None) -> None:
    result = completion(prompt="abc", **fields)
    assert only(result).prompt_logprobs == engine_k
    assert result.prompts[0].offsets == (() if engine_k is None else (0, 1, 2))


@pytest.mark.parametrize(("given", "is_greedy"), [(0, True), (9e-6, True), (1e-5, False), (0.7, False), (2, False)])
def test_temperatures_next_to_zero_are_greedy(given: float, is_greedy: bool) -> None:
    assert only(completion(temperature=given)).sampling.is_greedy == is_greedy


@pytest.mark.parametrize(("given", "meant"), [(-1, 0), (0, 0), (1, 1), (257, 257), (258, 0), (10**30, 0)])
def test_a_top_k_that_keeps_all_is_off(given: int, meant: int) -> None:
    assert only(completion(top_k=given)).sampling.top_k == meant


def test_sampling_fields_are_passed_on() -> None:
    fields: dict[str, Any] = {
        "top_p": 0.5,
        "min_p": 0.1,
        "frequency_penalty": -1.5,
        "presence_penalty": 0.5,
        "repetition_penalty": 1.2,
        "logit_bias": {"65": 5, "66": -100},
    }
    assert only(completion(**fields)).sampling == Sampling(
        top_p=0.5,
        min_p=0.1,
        frequency_penalty=-1.5,
        presence_penalty=0.5,
        repetition_penalty=1.2,
        logit_bias=((65, 5.0), (66, -100.0)),
    )


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({}, {EOS}),
        ({"ignore_eos": True}, set()),
        ({"ignore_eos": True, "stop_token_ids": [70]}, {70}),
        ({"stop_token_ids": [70, 71, 70]}, {EOS, 70, 71}),
        ({"stop": ["<MID>", "x"]}, {EOS, MID}),
        ({"stop": "<MID>", "ignore_eos": True}, {MID}),
        ({"stop": ["</s>"], "ignore_eos": True}, {EOS}),
        ({"stop": ["<MID>x", "<PRE><SUF>"]}, {EOS}),
    ],
    ids=str,
)
def test_what_ends_a_candidate(fields: dict[str, Any], ends: set[int]) -> None:
    assert only(completion(served(AsciiTokenizer()), **fields)).end_ids == ends


def test_stops_stay_texts_too() -> None:
    assert only(completion(stop=["<|control|>", "x"])).stops == ("<|control|>", "x")


def test_the_last_prompt_tokens_are_kept_and_the_echo_stays_whole() -> None:
    result = completion(prompt="abcdef", truncate_prompt_tokens=2, prompt_logprobs=0)
    assert only(result).prompt == (101, 102)
    assert result.prompts[0].text == "abcdef"
    assert (result.prompts[0].offsets, only(result).text_offset) == ((4, 5), 6)
    assert only(completion(prompt="ab", truncate_prompt_tokens=9)).prompt == (97, 98)
    assert only(completion(prompt="ab", truncate_prompt_tokens=-1)).prompt == (97, 98)
    assert only(completion(prompt="a" * 999, truncate_prompt_tokens=3)).prompt == (97, 97, 97)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"prompt": "é" * 501}, "prompt", id="bytes are counted"),
        pytest.param({"prompt": ["a" * 501, "b" * 501]}, "prompt", id="prompts together"),
        pytest.param({"prompt": "a", "suffix": "b" * 1002}, "suffix", id="suffix"),
        pytest.param({"prompt": "a", "negative_prompt": "b" * 1002}, "negative_prompt", id="negative prompt"),
    ],
)
def test_http_22_no_more_text_is_tokenized_than_the_server_allows(fields: dict[str, Any], param: str) -> None:
    named, message = refused(ServerConfig(max_text_bytes=1000), **fields)
    assert (named, message) == (
        param,
        f"'{param}' has 1002 bytes of text; this server tokenizes at most 1000 for one request.",
    )


def test_http_22_texts_of_the_greatest_length_are_taken_and_ids_are_no_text() -> None:
    server = ServerConfig(max_text_bytes=20)
    assert len(completion(server, prompt=["a" * 10, "b" * 10]).prompts) == 2
    assert only(completion(server, prompt=[97] * 21)).prompt == (97,) * 21


LISTING = ServerConfig(max_listed=1000)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"logprobs": 4, "max_tokens": 40, "n": 6}, "logprobs", id="sampled tokens"),
        pytest.param({"logprobs": 4, "max_tokens": 0, "echo": True, "n": 6, "prompt": "x" * 40}, "logprobs", id="echo"),
        pytest.param(
            {"prompt_logprobs": 4, "max_tokens": 1, "n": 6, "prompt": "x" * 40}, "prompt_logprobs", id="prompt"
        ),
        pytest.param({"return_token_ids": True, "max_tokens": 40, "n": 30}, "return_token_ids", id="ids"),
        pytest.param({"logprobs": 0, "max_tokens": 40, "prompt": ["x"] * 30}, "logprobs", id="prompts"),
    ],
)
def test_http_23_an_answer_that_nobody_could_read_is_refused_before_work_begins(
    fields: dict[str, Any], param: str
) -> None:
    named, message = refused(LISTING, **fields)
    assert named == param
    assert message.startswith("The answer could list 12")
    assert "at most 1000 in one answer" in message


@pytest.mark.parametrize(
    "fields",
    [{"max_tokens": 40, "n": 60}, {"logprobs": 4, "max_tokens": 40, "n": 5}, {"logprobs": 49, "max_tokens": 20}],
)
def test_http_23_what_fits_is_taken(fields: dict[str, Any]) -> None:
    assert completion(LISTING, **fields).n_listed <= 1000
