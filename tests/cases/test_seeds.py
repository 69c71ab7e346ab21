"""Seeds: the same answer whatever else runs, different choices within one answer, nothing repeated without one."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.cases.case import NEVER_ENDS, Body
from tests.cases.conftest import Running
from tests.cases.wellformed import body_of

pytestmark = pytest.mark.model

START: Body = {"prompt": "Once upon a time", "max_tokens": 16, "temperature": 1.2, "seed": 42}


def texts(server: Running, body: Body) -> list[str]:
    return [choice["text"] for choice in body_of(server.post(body))["choices"]]


def test_seed_01_other_requests_do_not_change_a_seeded_answer(server: Running) -> None:
    seeded: Body = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 1, "seed": 42, "logprobs": 2}
    bodies = [
        seeded,
        {**seeded, "seed": None},
        {"prompt": "Hello", "max_tokens": 40, "temperature": 1.3, "seed": 43},
    ]
    alone = body_of(server.post(seeded))["choices"]
    with ThreadPoolExecutor(len(bodies)) as pool:
        rounds = [[body_of(response)["choices"] for response in pool.map(server.post, bodies)] for _ in range(4)]
    assert [answers[0] for answers in rounds] == [alone] * 4
    assert len({answers[1][0]["text"] for answers in rounds}) > 1, "without a seed every round is another"
    assert len({answers[2][0]["text"] for answers in rounds}) == 1


@pytest.mark.parametrize(
    ("changes", "n_different"),
    [
        pytest.param({"n": 4}, 4, id="choices"),
        pytest.param({"prompt": ["Once upon a time"] * 4}, 4, id="the same prompt four times"),
        pytest.param({"n": 2, "best_of": 4}, 2, id="the best of four"),
    ],
)
def test_seed_02_choices_differ_and_repeat(server: Running, changes: Body, n_different: int) -> None:
    first = texts(server, START | changes | NEVER_ENDS)
    assert len(set(first)) == n_different
    assert texts(server, START | changes | NEVER_ENDS) == first


def test_seed_02_the_first_of_several_choices_is_the_only_one_of_one(server: Running) -> None:
    assert texts(server, START | {"n": 4})[:1] == texts(server, START)


def test_seed_02_the_best_are_among_the_same_candidates(server: Running) -> None:
    everyone = texts(server, START | {"n": 4})
    assert set(texts(server, START | {"n": 2, "best_of": 4})) < set(everyone)


def test_seed_03_other_seeds_give_other_answers(server: Running) -> None:
    seeds = [0, 1, -1, 2**63 - 1, -(2**63), 2**32, 2**32 + 1]
    answers = [texts(server, START | NEVER_ENDS | {"seed": seed})[0] for seed in seeds]
    assert len(set(answers)) == len(seeds)
