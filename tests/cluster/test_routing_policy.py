"""Which replica a prompt goes to."""

import pytest

from afterword.cluster.routing_policy import EQUALLY_BUSY, SLACK, rank

CHAIN = (b"first block", b"second block")


@pytest.mark.parametrize(
    ("held", "ongoing", "best"),
    [
        pytest.param({"a": 2}, {"a": 0, "b": 0}, "a", id="who holds the beginning"),
        pytest.param({"a": 1, "b": 2}, {"a": 0, "b": 5}, "b", id="who holds most of it"),
        pytest.param({"a": 2, "b": 2}, {"a": EQUALLY_BUSY + 2, "b": 1}, "b", id="of equals the least busy"),
        pytest.param({"a": 2}, {"a": SLACK - 1, "b": 0}, "a", id="also when it is busier"),
        pytest.param({"a": 2}, {"a": SLACK, "b": 0}, "b", id="not when it is much busier"),
        pytest.param({"a": 2, "b": 1}, {"a": SLACK + 3, "b": 1, "c": 3}, "b", id="then the next best"),
        pytest.param({}, {"a": 9, "b": 3, "c": 9}, "b", id="without any, the least busy"),
    ],
)
def test_the_best_replica(held: dict[str, int], ongoing: dict[str, int], best: str) -> None:
    assert rank(CHAIN, held, ongoing)[0] == best


def test_every_replica_is_ranked() -> None:
    assert sorted(rank(CHAIN, {"b": 1}, {"a": 0, "b": 50, "c": 7})) == ["a", "b", "c"]


def test_an_unknown_beginning_goes_to_the_same_place_from_everywhere() -> None:
    beginnings = [(str(i).encode(),) for i in range(200)]
    idle = {"a": 0, "b": 0, "c": 0}
    uneven = {"c": EQUALLY_BUSY, "b": 1, "a": 0}
    chosen = [rank(beginning, {}, idle)[0] for beginning in beginnings]
    assert chosen == [rank(beginning, {}, uneven)[0] for beginning in beginnings]
    assert {replica: chosen.count(replica) > 40 for replica in "abc"} == {"a": True, "b": True, "c": True}


def test_a_replica_more_moves_only_what_it_takes() -> None:
    beginnings = [(str(i).encode(),) for i in range(200)]
    before = [rank(beginning, {}, {"a": 0, "b": 0})[0] for beginning in beginnings]
    after = [rank(beginning, {}, {"a": 0, "b": 0, "c": 0})[0] for beginning in beginnings]
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"c"}


def test_a_prompt_without_a_whole_block_goes_to_the_least_busy() -> None:
    assert rank((), {}, {"a": 1, "b": 0}) == ["b", "a"]
