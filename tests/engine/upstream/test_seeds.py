"""Seeds for upstreams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.upstream.seeds import derived_seed, seed_of_32_bits

SEEDS = st.integers(-(2**63), 2**63 - 1)


@given(SEEDS)
def test_the_first_candidate_of_the_first_prompt_has_the_seed_itself(seed: int) -> None:
    assert derived_seed(seed, 0, 0) == seed


@given(SEEDS)
def test_all_others_have_seeds_of_their_own(seed: int) -> None:
    seeds = [derived_seed(seed, prompt, candidate) for prompt in range(4) for candidate in range(4)]
    assert len(set(seeds)) == 16
    assert all(0 <= derived < 2**63 for derived in seeds[1:])


@pytest.mark.parametrize(("seed", "short"), [(0, 0), (7, 7), (2**32 - 2, 2**32 - 2), (2**32 - 1, 0), (-1, 2**32 - 2)])
def test_32_bits_never_say_that_any_seed_will_do(seed: int, short: int) -> None:
    assert seed_of_32_bits(seed) == short
