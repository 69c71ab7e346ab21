"""LangChain, litellm, dspy and llm, which all sit on openai-python 3.x, and llama-index on 2.x."""

import json
from typing import Any

import pytest
from tests.clients.conftest import OpenClient
from tests.clients.reference import Reference
from tests.clients.running import Client

pytestmark = [pytest.mark.clients, pytest.mark.model]

PROMPT = "One, two, three, four, five,"
SIX_TOKENS = " six, seven, eight,"
STOPPED = " six, seven,"


@pytest.fixture(scope="module")
def client(open_client: OpenClient) -> Client:
    return open_client("frameworks")


@pytest.fixture(scope="module")
def seen(client: Client, server: str, reference: Reference) -> Any:
    """What each framework made of the answers."""
    [seven] = reference.tokens(" seven")
    return client.run("frameworks", server, str(seven))


@pytest.fixture(scope="module")
def langchain(seen: Any) -> Any:
    return seen["langchain"]


def test_the_reference_agrees_with_the_literal_text(reference: Reference) -> None:
    assert reference.text(PROMPT, 6) == SIX_TOKENS


def test_langchain_gets_the_same_text_on_every_way(langchain: Any) -> None:
    assert langchain["text"] == SIX_TOKENS
    assert langchain["awaited"] == SIX_TOKENS
    assert langchain["batch"][0] == SIX_TOKENS
    assert langchain["extra"] == SIX_TOKENS
    assert "".join(langchain["stream"]) == SIX_TOKENS
    assert len(langchain["stream"]) > 1
    assert langchain["stopped"] == STOPPED


def test_langchain_finds_each_prompts_choices_by_their_place(langchain: Any) -> None:
    # It slices the choices by position: had the server sorted otherwise, echoes of A and B would be mixed.
    assert [[text[0] for text in pair] for pair in langchain["pairs"]] == [["A", "A"], ["B", "B"]]
    assert langchain["pairs logprobs"] == [[7, 7], [7, 7]]
    assert langchain["pairs usage"] == {"prompt_tokens": 2, "completion_tokens": 24, "total_tokens": 26}


def test_langchain_is_billed_for_the_candidates_that_lost(langchain: Any) -> None:
    assert langchain["best usage"]["completion_tokens"] == 18


def test_langchain_joins_streamed_log_probabilities(langchain: Any, reference: Reference) -> None:
    logprobs = langchain["stream logprobs"]
    ids = reference.tokens(PROMPT)
    assert "".join(logprobs["tokens"]) == SIX_TOKENS
    assert logprobs["text_offset"] == [28, 32, 33, 39, 40, 46]
    expected = reference.logprobs([*ids, *reference.tokens(SIX_TOKENS)])[len(ids) - 1 :]
    assert logprobs["token_logprobs"] == pytest.approx(expected, abs=1e-6)
    assert langchain["stream reason"] == "length"


def test_langchain_may_bias_by_fractions(langchain: Any) -> None:
    assert langchain["biased"] == " seven" * 6


@pytest.mark.parametrize("way", ["guided_json", "response_format", "structured_outputs"])
def test_langchain_s_parser_takes_every_structured_answer(seen: Any, way: str) -> None:
    france, chad = seen["structured"][way]
    assert [set(country) for country in (france, chad)] == [{"name", "capital", "population"}] * 2


def test_langchain_streams_a_choice(seen: Any) -> None:
    assert seen["structured"]["choice"] in ("yes", "no")


def test_langchain_has_structured_answers_of_its_own_for_chats_alone(seen: Any) -> None:
    assert seen["structured"]["own option"] == "not implemented"


def test_langchain_hands_on_what_is_banned(seen: Any) -> None:
    text = seen["structured"]["banned"]
    assert text != ""
    assert not any(banned in text.lower() for banned in ("six", "eight"))
    assert " 6" not in text


def test_litellm_reaches_the_route_by_three_names(seen: Any) -> None:
    assert seen["litellm"]["texts"] == [SIX_TOKENS, SIX_TOKENS]
    assert seen["litellm"]["top_k"] == SIX_TOKENS
    assert "".join(seen["litellm"]["stream"]) == SIX_TOKENS


def test_litellm_hands_on_the_numbers_of_an_echo(seen: Any, reference: Reference) -> None:
    whole = seen["litellm"]["whole"]
    [choice] = whole["choices"]
    ids = reference.tokens(PROMPT)
    assert choice["text"] == PROMPT + SIX_TOKENS
    expected = reference.logprobs([*ids, *reference.tokens(SIX_TOKENS)])
    assert choice["logprobs"]["token_logprobs"] == [None, *map(pytest.approx, expected)]
    assert choice["logprobs"]["top_logprobs"][0] is None
    assert whole["usage"]["prompt_tokens"] == len(ids)
    assert whole["usage"]["completion_tokens"] == 6


def test_litellm_gets_a_batch_in_order(seen: Any) -> None:
    batch = seen["litellm"]["batch"]
    assert [(index, text[0]) for index, text in batch] == [(0, "A"), (1, "A"), (2, "B"), (3, "B")]


def test_dspy_completes_in_text_mode(seen: Any, reference: Reference) -> None:
    prompt = f"{PROMPT}\n\nBEGIN RESPONSE:"
    assert seen["dspy"]["texts"] == [reference.text(prompt, 6)]
    assert seen["dspy"]["usage"]["prompt_tokens"] == len(reference.tokens(prompt))
    assert seen["dspy"]["three"] == 3


@pytest.fixture(scope="module")
def llm_log(client: Client, server: str) -> Any:
    """What llm printed, and what it wrote into its log, for a prompt and its continuation."""
    home = client.home / "llm"
    home.mkdir()
    model = {"model_id": "own", "model_name": "default", "api_base": f"{server}/v1", "completion": True}
    # YAML takes JSON.
    (home / "extra-openai-models.yaml").write_text(json.dumps([model]))
    options = ["-o", "max_tokens", "6", "-o", "temperature", "0"]
    printed = client.command("llm", "-m", "own", PROMPT, *options, "-o", "logprobs", "2", "-o", "seed", "1")
    client.command("llm", "-c", " eleven,", *options)
    return printed, json.loads(client.command("llm", "logs", "-n", "2", "--json"))


def test_llm_logs_a_table_of_likely_tokens_for_every_token(llm_log: Any, reference: Reference) -> None:
    printed, [first, _] = llm_log
    assert printed.rstrip("\n") == first["response"] == SIX_TOKENS
    entries = first["response_json"]["logprobs"]
    assert [entry["text"] for entry in entries if entry["text"]] == [" six", ",", " seven", ",", " eight", ","]
    ids = reference.tokens(PROMPT)
    expected = reference.logprobs([*ids, *reference.tokens(SIX_TOKENS)])[len(ids) - 1 :]
    for entry, value in zip(entries, expected, strict=True):
        [top] = entry["top_logprobs"]
        assert len(top) == 2
        assert top[entry["text"]] == pytest.approx(value, abs=1e-6)


def test_llm_logs_the_usage_of_a_stream(llm_log: Any, reference: Reference) -> None:
    _, [first, second] = llm_log
    usage = first["response_json"]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (len(reference.tokens(PROMPT)), 6)
    conversation = f"{PROMPT}\n{SIX_TOKENS}\n eleven,"
    assert second["response"] == reference.text(conversation, 6)
    assert second["response_json"]["usage"]["prompt_tokens"] == len(reference.tokens(conversation))


@pytest.fixture(scope="module")
def llama_index(open_client: OpenClient, server: str) -> Any:
    return open_client("llama-index").run("openai_like", server)


def test_llama_index_gets_the_same_text_on_every_way(llama_index: Any) -> None:
    assert llama_index["text"] == llama_index["awaited"] == "".join(llama_index["deltas"]) == SIX_TOKENS
    assert len(llama_index["deltas"]) > 1
    assert llama_index["extra"] == STOPPED
    assert llama_index["usage"]["total_tokens"] == llama_index["usage"]["prompt_tokens"] + 6


def test_llama_index_reads_the_likely_tokens(llama_index: Any, reference: Reference) -> None:
    entries = llama_index["logprobs"]
    assert [[len(entry), entry[0][0]] for entry in entries] == [
        *[[3, " six"], [3, ","], [3, " seven"], [3, ","], [3, " eight"], [3, ","]]
    ]
    ids = reference.tokens(PROMPT)
    expected = reference.logprobs([*ids, *reference.tokens(SIX_TOKENS)])[len(ids) - 1 :]
    assert [entry[0][1] for entry in entries] == pytest.approx(expected, abs=1e-6)
