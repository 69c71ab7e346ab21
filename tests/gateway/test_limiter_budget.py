"""The figures of a key's budget."""

import pytest

from afterword.gateway.limiter_budget import Bounds, Budget, leaving_second

BUDGET = Budget(now=1000.25, n_running=2, n_reserved=30, leaving={1061: 5, 1001: 10, 1030: 20})


def test_a_budget_adds_up_what_has_not_left_the_window() -> None:
    assert (BUDGET.n_used, BUDGET.all_free) == (35, 60.75)
    assert Budget(1000.25, 0, 0, {}).all_free == 0.0


@pytest.mark.parametrize(
    ("n_used", "wait"),
    [(40, 0.0), (35, 0.0), (34, 0.75), (25, 0.75), (24, 29.75), (5, 29.75), (4, 60.75), (0, 60.75), (-1, None)],
)
def test_the_wait_is_until_the_second_in_which_enough_has_left(n_used: int, wait: float | None) -> None:
    assert BUDGET.seconds_until(n_used) == wait


@pytest.mark.parametrize(
    ("bounds", "n_tokens", "has_room"),
    [
        (Bounds(None, None), 10**9, True),
        (Bounds(3, None), 1, True),
        (Bounds(2, None), 1, False),
        (Bounds(None, 75), 10, True),
        (Bounds(None, 75), 11, False),
        (Bounds(2, 75), 1, False),
        (Bounds(None, None, BUDGET.n_reserved + 5), 5, True),
        (Bounds(None, None, BUDGET.n_reserved + 5), 6, False),
    ],
)
def test_there_is_room_within_all_bounds(bounds: Bounds, n_tokens: int, has_room: bool) -> None:
    assert BUDGET.fits(n_tokens, bounds) is has_room


@pytest.mark.parametrize(("now", "second"), [(1000.0, 1061), (1000.001, 1061), (1000.999, 1061), (1001.0, 1062)])
def test_tokens_stay_for_a_minute_and_up_to_a_second_more(now: float, second: int) -> None:
    assert leaving_second(now) == second
