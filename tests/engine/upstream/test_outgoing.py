"""What an upstream is asked, field by field."""

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.upstream.opening import vendor
from tests.fakes import generation_request

from afterword.config.vendor import PRESETS, UpstreamKind
from afterword.engine.grammars.grammar_compiler import compiled
from afterword.engine.request import Beams, GenerationRequest, Guidance
from afterword.engine.upstream.learned_tokenizer import LearnedTokenizer
from afterword.engine.upstream.outgoing import OutgoingRequest, Target, outgoing_requests
from afterword.fields.bans import TextBans
from afterword.fields.grammars import Grammar
from afterword.fields.repeats import Repeats
from afterword.fields.sampling import Sampling
from afterword.fields.shaping import Shaping
from afterword.tokens import ByteTokenizer

END = ByteTokenizer.END
OWN = frozenset({END})
WARM = Sampling(temperature=0.5)


def target(kind: UpstreamKind = "afterword", **supports: Any) -> Target:
    settings = vendor("http://there", kind=kind, supports=PRESETS[kind].model_copy(update=supports))
    return Target(settings, "model-there", OWN, exact=True)


def text_target(kind: UpstreamKind = "openai", **supports: Any) -> Target:
    return replace(target(kind, **supports), own_end_ids=LearnedTokenizer().end_ids, exact=False)


def request(**changes: Any) -> GenerationRequest:
    return generation_request(b"hi", **({"end_ids": OWN, "sampling": WARM, "seed": 7} | changes))


def only(outgoing: list[OutgoingRequest]) -> dict[str, Any]:
    (sent,) = outgoing
    return sent.body


def test_every_default_of_ours_is_said() -> None:
    assert only(outgoing_requests(request(), target())) == {
        "model": "model-there",
        "prompt": [104, 105],
        "max_tokens": 16,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "top_p": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "seed": 7,
        "logprobs": 0,
        "return_tokens_as_token_ids": True,
    }


def test_a_search_is_one_request_of_as_many_choices_as_beams() -> None:
    search = request(n_candidates=3, beams=Beams(0.5, "never"), sampling=Sampling(temperature=0.0), stops=("x",))
    body = only(outgoing_requests(search, target(max_stops=0)))
    expected = {"use_beam_search": True, "n": 3, "length_penalty": 0.5, "early_stopping": "never"}
    assert {name: body[name] for name in expected} == expected


def test_guidance_is_sent_as_it_was_written() -> None:
    body = only(outgoing_requests(request(guidance=Guidance(1.5, "bad", (98, 97, 100))), target()))
    assert (body["guidance_scale"], body["negative_prompt"]) == (1.5, "bad")


def test_a_server_that_knows_only_the_documented_fields_sees_no_other() -> None:
    assert only(outgoing_requests(request(end_ids=LearnedTokenizer().end_ids), text_target())) == {
        "model": "model-there",
        "prompt": "hi",
        "max_tokens": 16,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "top_p": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "seed": 7,
    }


def test_llama_server_gets_its_own_names_and_none_of_its_defaults() -> None:
    body = only(outgoing_requests(request(), target("llama-server")))
    assert {name: body[name] for name in ("top_k", "min_p", "repeat_penalty", "repeat_last_n", "logprobs")} == {
        "top_k": 0,
        "min_p": 0.0,
        "repeat_penalty": 1.0,
        "repeat_last_n": 2 + 16,
        "logprobs": 1,
    }
    assert "repetition_penalty" not in body
    assert body["samplers"][:3] == ["penalties", "dry", "temperature"], "its own order ends with the temperature"
    assert (body["mirostat"], body["dry_multiplier"], body["typical_p"]) == (0, 0.0, 1.0)
    assert not {"sampler_priority", "temperature_last", "repetition_penalty_range", "dry_base"} & body.keys()


def test_llama_server_gets_the_order_and_the_range_that_were_asked_for() -> None:
    asked = Sampling(
        repetition_penalty=1.2,
        shaping=Shaping(typical_p=0.9, temperature_last=True),
        repeats=Repeats(repetition_penalty_range=64, dry_multiplier=0.8),
    )
    body = only(outgoing_requests(request(sampling=asked), target("llama-server")))
    assert body["samplers"] == [
        *("penalties", "dry", "top_n_sigma", "min_p", "top_k", "typ_p", "top_p", "xtc", "adaptive_p"),
        "temperature",
    ]
    assert (body["repeat_last_n"], body["dry_base"], body["typical_p"]) == (64, 1.75, 0.9)


def test_bans_are_said_where_there_are_any() -> None:
    bans = TextBans(("a", "b"), ("c",), "(?:d+)")
    sampling = replace(WARM, allowed_token_ids=(5, 7))
    sent = only(outgoing_requests(request(bans=bans, sampling=sampling), target()))
    fields = {
        "bad_words": ["a", "b"],
        "banned_strings": ["c"],
        "banned_regex": ["(?:d+)"],
        "allowed_token_ids": [5, 7],
    }
    assert sent == only(outgoing_requests(request(), target())) | fields


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.0),
        Sampling(top_p=0.0),
        Sampling(top_k=1),
        Sampling(min_p=1.0),
    ],
    ids=["temperature", "top_p", "top_k", "min_p"],
)
def test_one_token_left_to_draw_is_asked_for_as_greedy(sampling: Sampling) -> None:
    body = only(outgoing_requests(request(sampling=sampling), target()))
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"]) == (0, 1.0, 0, 0.0)


def test_biases_are_integers_where_they_can_be() -> None:
    body = only(outgoing_requests(request(sampling=Sampling(logit_bias=((5, -100.0), (6, 0.5)))), target()))
    assert body["logit_bias"] == {"5": -100, "6": 0.5}
    assert isinstance(body["logit_bias"]["5"], int)


@pytest.mark.parametrize(
    ("end_ids", "fields"),
    [
        pytest.param(OWN, {}, id="its own"),
        pytest.param(frozenset(), {"ignore_eos": True}, id="none"),
        pytest.param(OWN | {9, 5}, {"stop_token_ids": [5, 9]}, id="further ones"),
        pytest.param(frozenset({9}), {"ignore_eos": True, "stop_token_ids": [9]}, id="others"),
    ],
)
def test_ends_are_said_where_they_differ_from_the_model_s(end_ids: frozenset[int], fields: dict[str, Any]) -> None:
    body = only(outgoing_requests(request(end_ids=end_ids), target()))
    assert {name: body[name] for name in ("ignore_eos", "stop_token_ids") if name in body} == fields


@pytest.mark.parametrize(
    ("where", "changes", "fields"),
    [
        pytest.param(target(), {}, {"stop": ["x"], "include_stop_str_in_output": True}, id="tokens need the stop"),
        pytest.param(target("openai"), {}, {}, id="a server that leaves it out is not told"),
        pytest.param(target(max_stops=0), {}, {}, id="too many"),
        pytest.param(text_target(), {}, {"stop": ["x"]}, id="text"),
        pytest.param(text_target(), {"include_stop": True}, {}, id="text with the stop, where it is left out"),
        pytest.param(
            text_target("vllm"),
            {"include_stop": True},
            {"stop": ["x"], "include_stop_str_in_output": True},
            id="text with the stop",
        ),
    ],
)
def test_stops_are_said_where_the_answer_can_still_be_read(
    where: Target, changes: dict[str, Any], fields: dict[str, Any]
) -> None:
    body = only(outgoing_requests(request(stops=("x",), **changes), where))
    assert {name: body[name] for name in ("stop", "include_stop_str_in_output") if name in body} == fields


@pytest.mark.parametrize(
    ("where", "changes", "groups"),
    [
        pytest.param(target(), {}, [(0, 1, 2)], id="together"),
        pytest.param(target(n=False), {}, [(0,), (1,), (2,)], id="no n"),
        pytest.param(target("vllm"), {"sampling": Sampling(temperature=0.0)}, [(0,), (1,), (2,)], id="greedy"),
        pytest.param(target("vllm"), {}, [(0, 1, 2)], id="not greedy"),
        pytest.param(target("openai"), {"stops": ("x",)}, [(0,), (1,), (2,)], id="each is stopped here"),
        pytest.param(target(), {"stops": ("x",)}, [(0, 1, 2)], id="stopped there"),
        pytest.param(target(n=False), {"max_tokens": 0, "prompt_logprobs": 0}, [(0,)], id="nothing to sample"),
    ],
)
def test_candidates_are_asked_for_together_where_that_works(
    where: Target, changes: dict[str, Any], groups: list[tuple[int, ...]]
) -> None:
    outgoing = outgoing_requests(request(n_candidates=3, **changes), where)
    assert [sent.candidates for sent in outgoing] == groups
    assert [sent.body.get("n", 1) for sent in outgoing] == [len(group) for group in groups]


def test_candidates_asked_for_apart_have_seeds_of_their_own() -> None:
    seeds = [sent.body["seed"] for sent in outgoing_requests(request(n_candidates=3), target(n=False))]
    assert seeds[0] == 7
    assert len(set(seeds)) == 3


def test_prompts_of_a_batch_have_seeds_of_their_own() -> None:
    first, second = (only(outgoing_requests(request(prompt_index=index), target()))["seed"] for index in (0, 1))
    assert first == 7 != second


def test_only_the_first_request_scores_the_prompt() -> None:
    outgoing = outgoing_requests(request(n_candidates=2, logprobs=1, prompt_logprobs=3), target(n=False))
    assert [sent.body.get("echo") for sent in outgoing] == [True, None]
    assert [sent.body["logprobs"] for sent in outgoing] == [3, 1]
    assert [sent.n_echoed for sent in outgoing] == [2, 0]


@pytest.mark.parametrize(("zero_tokens", "asked"), [(True, 0), (False, 1)])
def test_nothing_is_asked_for_as_one_token_where_nothing_cannot(zero_tokens: bool, asked: int) -> None:
    outgoing = outgoing_requests(request(max_tokens=0, prompt_logprobs=0), target(zero_tokens=zero_tokens))
    assert only(outgoing)["max_tokens"] == asked


def test_the_empty_prompt_is_sent_as_an_empty_text() -> None:
    empty = replace(request(), prompt=(LearnedTokenizer.SEPARATOR,))
    assert only(outgoing_requests(empty, text_target()))["prompt"] == ""


SCHEMA = '{"type": "integer"}'


@pytest.mark.parametrize(
    ("kind", "grammar", "sent"),
    [
        ("vllm", Grammar("json_schema", SCHEMA), {"structured_outputs": {"json": {"type": "integer"}}}),
        ("vllm", Grammar("regex", "a+"), {"structured_outputs": {"regex": "a+"}}),
        ("vllm", Grammar("choice", '["a", "b"]'), {"structured_outputs": {"choice": ["a", "b"]}}),
        ("vllm", Grammar("gbnf", 'root ::= "a"'), {"structured_outputs": {"grammar": 'root ::= "a"'}}),
        ("llama-server", Grammar("json_schema", SCHEMA), {"json_schema": {"type": "integer"}}),
        ("llama-server", Grammar("gbnf", 'root ::= "a"'), {"grammar": 'root ::= "a"'}),
        ("afterword", Grammar("regex", "a+"), {"grammar": compiled(Grammar("regex", "a+")).text}),
    ],
)
def test_a_form_is_passed_on_in_the_field_that_the_server_has(
    kind: UpstreamKind, grammar: Grammar, sent: dict[str, Any]
) -> None:
    body = only(outgoing_requests(request(grammar=compiled(grammar)), target(kind)))
    assert sent.items() <= body.items()
    assert not {"structured_outputs", "json_schema", "grammar"} & (body.keys() - sent.keys())
