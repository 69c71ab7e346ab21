"""lm-evaluation-harness: the same figures however it sends a task, and those that the model itself gives."""

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from tests.clients.conftest import CONTEXT, SOURCES, OpenClient
from tests.clients.reference import Reference
from tests.clients.running import Client

from afterword.config.model import DEFAULT_MODEL
from afterword.loading.embedded import model_file

pytestmark = [pytest.mark.clients, pytest.mark.model]

TASKS = Path(__file__).parent / "lm_eval_tasks"
FIRST = "tokens"
OTHERS = ["tokens, four at a time", "text", "text, four at a time", "concurrent", "concurrent, four at a time"]
TOLERANCE = 1e-6

COLOURS, WEATHER = ["red", "blue", "green"], ["rain", "snow", "wind", "fog"]
LONG = " ".join(
    f"Item {i}: the {COLOURS[i % 3]} box holds {i * 7 % 13} stones and a note about {WEATHER[i % 4]}."
    for i in range(130)
)


@pytest.fixture(scope="module")
def client(open_client: OpenClient) -> Client:
    made = open_client("lm-eval")
    shutil.copytree(TASKS, made.home, dirs_exist_ok=True)
    (made.home / "long.jsonl").write_text(json.dumps({"text": LONG}) + "\n")
    return made


@pytest.fixture(scope="module")
def seen(client: Client, server: str) -> Any:
    """Figures and answers by mode and task."""
    return client.run("lm_eval_modes", server, str(SOURCES))


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TASKS / name).read_text().splitlines()]


def expected_choices(reference: Reference) -> list[list[tuple[float, bool]]]:
    """For each question the score of each of its continuations."""
    return [
        [reference.continuation(row["question"], f" {choice}") for choice in row["choices"]]
        for row in lines("choices.jsonl")
    ]


def expected_texts(reference: Reference) -> list[float]:
    """The log-probability of each document after the token that begins a text."""
    rows = lines("texts.jsonl")
    return [math.fsum(reference.logprobs([reference.bos_id, *reference.tokens(row["text"])])) for row in rows]


def perplexities(texts: list[float]) -> dict[str, float]:
    documents = [row["text"] for row in lines("texts.jsonl")]
    n_words = sum(len(re.split(r"\s+", document)) for document in documents)
    n_bytes = sum(len(document.encode()) for document in documents)
    return {
        "word_perplexity,none": math.exp(-sum(texts) / n_words),
        "byte_perplexity,none": math.exp(-sum(texts) / n_bytes),
        "bits_per_byte,none": -sum(texts) / n_bytes / math.log(2),
    }


@pytest.mark.parametrize("mode", [FIRST, *OTHERS, "gguf"])
def test_continuations_score_as_in_process_in_every_mode(seen: Any, reference: Reference, mode: str) -> None:
    expected = expected_choices(reference)
    for task in ("own_choices", "own_rigged"):
        answers = seen[mode][task]["answers"]
        for got, wanted in zip(answers, expected, strict=True):
            assert [value for value, _ in got] == pytest.approx([value for value, _ in wanted], abs=TOLERANCE)
            assert [greedy for _, greedy in got] == [greedy for _, greedy in wanted]
    # Both kinds occur, so the equality above says something.
    assert {greedy for row in expected for _, greedy in row} == {True, False}


@pytest.mark.parametrize("mode", [FIRST, *OTHERS, "gguf"])
def test_accuracy_is_far_from_chance_and_turns_with_the_labels(seen: Any, mode: str) -> None:
    assert seen[mode]["own_choices"]["metrics"]["acc,none"] == 1.0
    assert seen[mode]["own_rigged"]["metrics"]["acc,none"] == 0.0


@pytest.mark.parametrize("mode", [FIRST, *OTHERS])
def test_documents_score_as_in_process_in_every_mode(seen: Any, reference: Reference, mode: str) -> None:
    expected = expected_texts(reference)
    result = seen[mode]["own_texts"]
    assert [value for [value] in result["answers"]] == pytest.approx(expected, abs=TOLERANCE)
    for name, value in perplexities(expected).items():
        assert result["metrics"][name] == pytest.approx(value, rel=TOLERANCE)


def test_a_document_longer_than_the_context_is_scored_in_windows_that_fill_it(seen: Any, reference: Reference) -> None:
    tokens = [reference.bos_id, *reference.tokens(LONG)]
    # The client keeps one place for the token it makes the server generate.
    window = CONTEXT - 1
    assert window < len(tokens) < 2 * window
    first, rest = tokens[:window], tokens[-window:]
    expected = reference.logprobs(first) + reference.logprobs(rest)[window - len(tokens) :]
    [[value]] = seen["long documents"]["own_long"]["answers"]
    assert value == pytest.approx(math.fsum(expected), abs=TOLERANCE)


@pytest.mark.parametrize("mode", OTHERS)
def test_every_mode_gives_the_same_figures_as_the_first(seen: Any, mode: str) -> None:
    assert seen[mode] == seen[FIRST]


@pytest.mark.parametrize("mode", [FIRST, *OTHERS, "gguf"])
def test_completions_end_at_the_first_of_many_stops(seen: Any, reference: Reference, mode: str) -> None:
    # The gguf client sends no max_tokens, so the server's 16 holds there, as everywhere in the task.
    stops = [",", ".", "\n", "<|im_end|>", "</s>", "###"]
    expected = [reference.text(row["question"], 16, stops) for row in lines("questions.jsonl")]
    got = [text for [text] in seen[mode]["own_questions"]["answers"]]
    assert got == ([text.strip() for text in expected] if mode == "gguf" else expected)
    assert all(expected)


def test_our_own_model_for_it_gives_the_same_figures(seen: Any) -> None:
    scores = seen["scores"]
    for task in (*seen[FIRST], "own_long"):
        others = seen["long documents" if task == "own_long" else FIRST][task]
        assert scores[task]["metrics"] == pytest.approx(others["metrics"], abs=TOLERANCE)
        # Sums of the same numbers, to the last bit but for their order.
        assert json.dumps(_rounded(scores[task]["answers"])) == json.dumps(_rounded(others["answers"]))


def _rounded(answers: Any) -> Any:
    if isinstance(answers, list):
        return [_rounded(answer) for answer in answers]
    return round(answers, 9) if isinstance(answers, float) else answers


def test_another_binding_of_llama_cpp_gives_the_same_scores(reference: Reference) -> None:
    # Attention in one operation, as our engine has it; apart, a number differs in the second digit. The kernels of
    # this process serve both.
    llama = llama_cpp.Llama(
        str(model_file(DEFAULT_MODEL.name)),
        n_ctx=CONTEXT,
        n_threads=1,
        logits_all=True,
        flash_attn=True,
        verbose=False,
    )
    for row, ours in zip(lines("texts.jsonl"), expected_texts(reference), strict=True):
        tokens = [reference.bos_id, *reference.tokens(row["text"])]
        llama.reset()
        llama.eval(tokens)
        logits = llama.scores[: len(tokens) - 1].astype(np.float64)
        sums = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)) + logits.max(axis=1)
        theirs = math.fsum(logits[np.arange(len(tokens) - 1), tokens[1:]] - sums)
        assert ours == pytest.approx(theirs, abs=1e-4)
    llama.close()


def test_its_command_line_writes_the_same_figures(client: Client, server: str, seen: Any) -> None:
    client.command(
        *["lm_eval", "--model", "local-completions", "--include_path", ".", "--tasks", "own_choices,own_texts"],
        *["--model_args", f"model=default,base_url={server}/v1/completions", "--batch_size", "4"],
        *["--output_path", "out"],
    )
    [written] = (client.home / "out").rglob("results_*.json")
    results = json.loads(written.read_text())["results"]
    for task in ("own_choices", "own_texts"):
        for name, value in seen[FIRST][task]["metrics"].items():
            assert results[task][name] == value
