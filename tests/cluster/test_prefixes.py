"""What a router remembers of who has computed which beginnings."""

from hypothesis import given
from hypothesis import strategies as st

from afterword.cluster.prefixes import BLOCK, PrefixIndex, block_chain


def prompt(*blocks: int, rest: int = 0) -> list[int]:
    """Tokens of whole blocks, each of one repeated id, and some more."""
    return [block for block in blocks for _ in range(BLOCK)] + [999] * rest


def test_a_chain_has_a_link_for_each_whole_block() -> None:
    assert len(block_chain(prompt(1, 2, 3, rest=BLOCK - 1))) == 3
    assert block_chain(prompt(rest=BLOCK - 1)) == ()


def test_chains_share_the_links_of_their_common_blocks_only() -> None:
    one, other = block_chain(prompt(1, 2, 3)), block_chain(prompt(1, 2, 4, 3))
    assert one[:2] == other[:2]
    assert not set(one[2:]) & set(other[2:])


def test_the_same_block_after_another_beginning_is_another_link() -> None:
    assert block_chain(prompt(1, 2))[1] != block_chain(prompt(3, 2))[1]


def test_a_replica_matches_as_far_as_it_holds_every_block() -> None:
    index = PrefixIndex()
    index.add(block_chain(prompt(1, 2, 3)), "a")
    index.add(block_chain(prompt(1, 2)), "b")
    assert index.matches(block_chain(prompt(1, 2, 3, 4))) == {"a": 3, "b": 2}
    assert index.matches(block_chain(prompt(1, 5))) == {"a": 1, "b": 1}
    assert index.matches(block_chain(prompt(2, 3))) == {}


def test_the_ends_of_old_prompts_are_forgotten_first() -> None:
    index = PrefixIndex(max_entries=3)
    index.add(block_chain(prompt(1, 2)), "a")
    index.add(block_chain(prompt(3, 4)), "b")
    assert index.matches(block_chain(prompt(1, 2))) == {"a": 1}
    assert index.matches(block_chain(prompt(3, 4))) == {"b": 2}


def test_what_gone_replicas_held_is_forgotten() -> None:
    index = PrefixIndex()
    index.add(block_chain(prompt(1, 2)), "a")
    index.add(block_chain(prompt(1)), "b")
    index.keep_only({"b", "c"})
    assert index.matches(block_chain(prompt(1, 2))) == {"b": 1}


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=4), st.sampled_from("abc")), max_size=12),
    st.lists(st.integers(0, 2), min_size=1, max_size=4),
)
def test_matches_are_the_longest_common_beginnings(sent: list[tuple[list[int], str]], asked: list[int]) -> None:
    index = PrefixIndex()
    expected: dict[str, int] = {}
    for blocks, replica in sent:
        index.add(block_chain(prompt(*blocks)), replica)
        common = next((i for i, (x, y) in enumerate(zip(blocks, asked, strict=False)) if x != y), None)
        length = min(len(blocks), len(asked)) if common is None else common
        expected[replica] = max(expected.get(replica, 0), length)
    assert index.matches(block_chain(prompt(*asked))) == {r: n for r, n in expected.items() if n > 0}
