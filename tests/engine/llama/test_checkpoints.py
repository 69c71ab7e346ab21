import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.llama.checkpoints import places


@pytest.mark.parametrize(
    ("n_prompt", "n_reused", "n_shared", "n_candidates", "found"),
    [
        pytest.param(300, 0, 0, 1, {299}, id="before-its-last-token"),
        pytest.param(300, 283, 283, 1, {299}, id="worth-a-call"),
        pytest.param(300, 284, 284, 1, set(), id="not-worth-a-call"),
        pytest.param(300, 284, 284, 2, {299}, id="for-other-candidates"),
        pytest.param(300, 100, 132, 1, {132, 299}, id="where-another-branches-off"),
        pytest.param(300, 100, 131, 1, {299}, id="hardly-before-another-branches-off"),
        pytest.param(17, 0, 0, 1, {16}, id="short"),
        pytest.param(16, 0, 0, 1, set(), id="too-short"),
        pytest.param(1, 0, 0, 1, set(), id="nothing-but-the-last-token"),
    ],
)
def test_places_of_a_prompt_that_is_continued(
    n_prompt: int, n_reused: int, n_shared: int, n_candidates: int, found: set[int]
) -> None:
    assert places(n_prompt, n_reused, n_shared, scored=False, n_candidates=n_candidates) == found


@pytest.mark.parametrize(
    ("n_prompt", "n_reused", "n_shared", "n_candidates", "found"),
    [
        pytest.param(300, 0, 0, 1, {269}, id="before-a-short-ending"),
        pytest.param(300, 253, 253, 1, {269}, id="worth-a-call"),
        pytest.param(300, 254, 254, 1, set(), id="not-worth-a-call"),
        pytest.param(300, 172, 210, 1, {210}, id="where-another-branches-off"),
        pytest.param(300, 0, 0, 2, {269, 299}, id="for-other-candidates"),
        pytest.param(46, 0, 0, 1, set(), id="too-short"),
    ],
)
def test_places_of_a_prompt_that_is_scored(
    n_prompt: int, n_reused: int, n_shared: int, n_candidates: int, found: set[int]
) -> None:
    assert places(n_prompt, n_reused, n_shared, scored=True, n_candidates=n_candidates) == found


@given(st.integers(1, 3000), st.data(), st.booleans(), st.integers(1, 3))
def test_places_lie_in_what_is_still_to_be_computed(
    n_prompt: int, data: st.DataObject, scored: bool, n_candidates: int
) -> None:
    n_shared = data.draw(st.integers(0, n_prompt - 1))
    n_reused = data.draw(st.integers(0, n_shared))
    found = places(n_prompt, n_reused, n_shared, scored=scored, n_candidates=n_candidates)
    assert all(n_reused <= place < n_prompt for place in found)
