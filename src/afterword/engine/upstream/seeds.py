"""The seed of each request to an upstream: prompts and candidates are separate requests and must draw differently."""

import hashlib

LARGEST_32 = 2**32 - 2
"""llama-server takes 32 bits, and the largest value for "draw one"."""


def derived_seed(seed: int, prompt_index: int, candidate: int) -> int:
    """`seed` itself for the first candidate of the first prompt, so that the upstream answers as if asked directly.

    For all others 63 bits that follow from the three numbers.
    """
    if prompt_index == 0 and candidate == 0:
        return seed
    text = f"{seed} {prompt_index} {candidate}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def seed_of_32_bits(seed: int) -> int:
    """A seed that llama-server takes; small ones stay as they are."""
    return seed % (LARGEST_32 + 1)
