import pytest

from afterword.engine.llama.kernels import ROW_MAX, TILE, boundary, prefill_cost


@pytest.mark.parametrize(
    ("n_prompt", "end"),
    [(1, 0), (63, 0), (64, 0), (127, 0), (128, 64), (191, 64), (192, 128), (255, 128), (256, 192), (600, 512)],
)
def test_tiled_part_ends_a_whole_tile_before_the_last_ones(n_prompt: int, end: int) -> None:
    assert boundary(n_prompt) == end


def test_between_one_and_two_tiles_are_left_to_the_row_kernel() -> None:
    left = {n_prompt - boundary(n_prompt) for n_prompt in range(TILE, 2000)}
    assert left == set(range(64, 128))


def test_endings_of_up_to_a_tile_share_the_cut_of_their_context() -> None:
    # A context of whole tiles, continued by 1 to 63 tokens: all are cut where the context is.
    assert {boundary(640 + n) for n in range(TILE)} == {576}


def test_row_pieces_stay_below_a_tile() -> None:
    assert ROW_MAX == TILE - 1 == 63


@pytest.mark.parametrize(
    ("n_reused", "tiled_end", "n_prompt", "cost"),
    [
        pytest.param(0, 0, 100, 150.0, id="rows-only"),
        pytest.param(0, 128, 200, 128 + 1.5 * 72, id="tiles-then-rows"),
        pytest.param(64, 128, 200, 64 + 1.5 * 72, id="some-tiles-reused"),
        pytest.param(128, 128, 200, 1.5 * 72, id="all-tiles-reused"),
        pytest.param(190, 128, 200, 15.0, id="rows-reused"),
        pytest.param(199, 128, 200, 1.5, id="all-but-one"),
    ],
)
def test_a_row_token_costs_half_as_much_again(n_reused: int, tiled_end: int, n_prompt: int, cost: float) -> None:
    assert prefill_cost(n_reused, tiled_end, n_prompt) == cost
