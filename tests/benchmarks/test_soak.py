"""What a long run takes for a fault."""

from pathlib import Path

import pytest
from benchmarks.soak import Answer, Seen, check_ledger, check_memory, drift, tokens_of
from sqlalchemy import create_engine, text

WHOLE = '{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":3}}'


def test_the_tokens_of_a_whole_answer() -> None:
    assert tokens_of(WHOLE, {"prompt": "a"}) == (2, 3)
    assert tokens_of(f"data: {WHOLE}\n\ndata: [DONE]\n\n", {"prompt": "a", "stream": True}) == (2, 3)


@pytest.mark.parametrize(
    ("content", "body"),
    [
        pytest.param(f"data: {WHOLE}\n\n", {"prompt": "a", "stream": True}, id="a stream without its end"),
        pytest.param(WHOLE, {"prompt": "a", "n": 2}, id="a choice too few"),
        pytest.param(WHOLE, {"prompt": ["a", "b"]}, id="a prompt too few"),
    ],
)
def test_half_an_answer_is_none(content: str, body: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"without its end|did not end"):
        tokens_of(content, body)


def ledger(file: Path, *rows: tuple[str, int, int, int]) -> Path:
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE usage (request_id, status, prompt_tokens, completion_tokens)"))
        for number, status, prompt, completion in rows:
            connection.execute(text(f"INSERT INTO usage VALUES ('{number}', {status}, {prompt}, {completion})"))
    engine.dispose()
    return file


def test_answers_have_rows_of_their_tokens(tmp_path: Path) -> None:
    seen = Seen(answers={"a": Answer((2, 3)), "b": Answer(None)})
    check_ledger(ledger(tmp_path / "db", ("a", 200, 2, 3), ("b", 499, 2, 1), ("c", 503, 0, 0)), seen)
    assert seen.problems == []


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="no row"),
        pytest.param([("a", 200, 2, 4)], id="other tokens"),
        pytest.param([("a", 499, 2, 3)], id="another end"),
        pytest.param([("a", 200, 2, 3), ("a", 200, 2, 3)], id="two rows"),
        pytest.param([("a", 200, 2, 3), ("b", 500, 0, 0)], id="a failure that nobody saw"),
    ],
)
def test_a_ledger_that_differs_is_found(tmp_path: Path, rows: list[tuple[str, int, int, int]]) -> None:
    seen = Seen(answers={"a": Answer((2, 3))})
    check_ledger(ledger(tmp_path / "db", *rows), seen)
    assert len(seen.problems) == 1


def test_what_is_taken_while_it_warms_up_is_no_growth() -> None:
    assert drift([0, 50, 90, 100, 102, 100, 101, 100, 102]) == (1, 2)


@pytest.mark.parametrize(("step", "grows"), [(1 << 16, False), (1 << 20, True)])
def test_memory_that_grows_is_found(step: int, grows: bool) -> None:
    seen = Seen(memory={"server": [i * step for i in range(90)]})
    check_memory(seen, 3)
    assert (seen.problems != []) == grows
