import numpy as np
import pytest

from afterword.engine.sampling.random_stream import RandomStream


@pytest.mark.parametrize(
    ("stream", "position", "expected"),
    [
        pytest.param(RandomStream(0, 0, 0), 0, 0.6000272063979247, id="zero_seed"),
        pytest.param(RandomStream(0, 0, 0), 1, 0.20514863320400867, id="next_position"),
        pytest.param(RandomStream(42, 0, 0), 0, 0.3461010408170142, id="seed"),
        pytest.param(RandomStream(42, 1, 0), 0, 0.8418396843911087, id="prompt"),
        pytest.param(RandomStream(42, 0, 1), 0, 0.7825764398703684, id="candidate"),
        pytest.param(RandomStream(-1, 0, 0), 0, 0.8246901430151651, id="negative_seed"),
        pytest.param(RandomStream(2**63 - 1, 2047, 127), 131_071, 0.38606898316528004, id="largest"),
        pytest.param(RandomStream(-(2**63), 0, 0), 0, 0.30137091907010605, id="least_seed"),
    ],
)
def test_known_values_never_change(stream: RandomStream, position: int, expected: float) -> None:
    assert stream.uniform(position) == expected


def test_every_part_of_the_key_matters() -> None:
    streams = [RandomStream(s, p, c) for s in (-1, 0, 1) for p in (0, 1) for c in (0, 1)]
    assert len({stream.uniform(position) for stream in streams for position in range(50)}) == len(streams) * 50


def test_draws_do_not_depend_on_their_order() -> None:
    stream = RandomStream(7, 0, 0)
    forwards = [stream.uniform(position) for position in range(20)]
    backwards = [stream.uniform(position) for position in reversed(range(20))]
    assert forwards == backwards[::-1]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([RandomStream(11, 0, 0).uniform(i) for i in range(20_000)], id="positions_of_one_stream"),
        pytest.param([RandomStream(11, 0, c).uniform(0) for c in range(20_000)], id="candidates_at_one_position"),
    ],
)
def test_numbers_are_spread_evenly(values: list[float]) -> None:
    assert min(values) >= 0.0
    assert max(values) < 1.0
    counts = np.histogram(values, bins=20, range=(0.0, 1.0))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-square with 19 degrees of freedom, 0.1 %


def test_neighbouring_draws_are_unrelated() -> None:
    values = np.array([RandomStream(3, 0, 0).uniform(i) for i in range(20_000)])
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.025
