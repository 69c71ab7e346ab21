"""Pages of a list: their rules, and that together they are the list."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.api.pages import read_page_query
from afterword.errors import InvalidRequest

ITEMS: list[dict[str, Any]] = [
    {"id": "c", "kind": "x", "size": 2},
    {"id": "a", "kind": "y", "size": 1},
    {"id": "b", "kind": "x", "size": 1},
    {"id": "d", "kind": "x", "size": 3},
]


def page(query: dict[str, str], items: list[dict[str, Any]] = ITEMS) -> tuple[str, bool]:
    """The ids of a page in one word, and whether there is more."""
    found, has_more = read_page_query(query, filters=("kind",), sortable=("id", "size")).page(items)
    return "".join(item["id"] for item in found), has_more


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ("cabd", False)),
        ({"sort_order": "asc"}, ("cabd", False)),
        ({"sort_order": "desc"}, ("dbac", False)),
        ({"sort_by": "id"}, ("abcd", False)),
        ({"sort_by": "size"}, ("abcd", False)),
        ({"sort_by": "size", "sort_order": "desc"}, ("dcab", False)),
        ({"kind": "x"}, ("cbd", False)),
        ({"kind": ""}, ("", False)),
        ({"limit": "3"}, ("cab", True)),
        ({"limit": "4"}, ("cabd", False)),
        ({"limit": "007"}, ("cabd", False)),
        ({"starting_after": "a"}, ("bd", False)),
        ({"starting_after": "a", "limit": "1"}, ("b", True)),
        ({"starting_after": "d", "limit": "1"}, ("", False)),
        ({"ending_before": "b"}, ("ca", False)),
        ({"ending_before": "b", "limit": "1"}, ("a", True)),
        ({"ending_before": "c", "limit": "1"}, ("", False)),
        ({"sort_by": "id", "starting_after": "b"}, ("cd", False)),
        ({"kind": "x", "sort_by": "id", "ending_before": "d", "limit": "1"}, ("c", True)),
        ({"unheard_of": "1"}, ("cabd", False)),
    ],
    ids=str,
)
def test_which_items_are_on_a_page(query: dict[str, str], expected: tuple[str, bool]) -> None:
    assert page(query) == expected


@pytest.mark.parametrize(
    ("query", "param", "part"),
    [
        ({"limit": "0"}, "limit", "from 1 to 999999999, not '0'"),
        ({"limit": "-1"}, "limit", "not '-1'"),
        ({"limit": ""}, "limit", "not ''"),
        ({"limit": "1.0"}, "limit", "not '1.0'"),
        ({"limit": "\u0663"}, "limit", "not '\u0663'"),
        ({"limit": "1" * 10}, "limit", "not '1111111111'"),
        ({"sort_by": "kind"}, "sort_by", "one of id, size, not 'kind'"),
        ({"sort_order": "ASC"}, "sort_order", "one of asc, desc, not 'ASC'"),
        ({"starting_after": "z"}, "starting_after", "not 'z'"),
        ({"ending_before": ""}, "ending_before", "not ''"),
        ({"starting_after": "a", "kind": "x"}, "starting_after", "not 'a'"),
        ({"starting_after": "a", "ending_before": "b"}, "ending_before", "exclude each other"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(query: dict[str, str], param: str, part: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        page(query)
    assert refused.value.param == param
    assert part in str(refused.value)


LISTS = st.lists(
    st.fixed_dictionaries(
        {"id": st.text("abcdef", min_size=1), "kind": st.sampled_from("xy"), "size": st.integers(0, 2)}
    ),
    min_size=1,
    unique_by=lambda item: item["id"],
)
QUERIES = st.fixed_dictionaries(
    {"limit": st.integers(1, 4).map(str)},
    optional={
        "kind": st.just("x"),
        "sort_by": st.sampled_from(["id", "size"]),
        "sort_order": st.sampled_from(["asc", "desc"]),
    },
)


@given(LISTS, QUERIES)
def test_pages_from_either_end_make_up_the_list(items: list[dict[str, Any]], query: dict[str, str]) -> None:
    whole = read_page_query(
        {k: v for k, v in query.items() if k != "limit"}, filters=("kind",), sortable=("id", "size")
    )
    ids = [item["id"] for item in whole.page(items)[0]]

    def walk(query: dict[str, str]) -> tuple[list[str], bool]:
        found, has_more = read_page_query(query, filters=("kind",), sortable=("id", "size")).page(items)
        assert len(found) <= int(query["limit"])
        return [item["id"] for item in found], has_more

    forwards, has_more = walk(query)
    while has_more:
        more, has_more = walk(query | {"starting_after": forwards[-1]})
        assert more
        forwards += more
    assert forwards == ids
    if ids:
        backwards = [ids[-1]]
        has_more = True
        while has_more:
            more, has_more = walk(query | {"ending_before": backwards[0]})
            backwards = more + backwards
        assert backwards == ids
