"""Where a sequence's state is kept, so that other prompts can begin there, for memory that cannot lose its end.

Recurrent and hybrid models have a state after the latest token, which cannot go back. So it is kept at some places:

    a prompt                0 ------------- c --------------- c -------------- c - P ~~~~~~~ c ~~
                                        now and then      where another     before the     now and
                                                          one branches off  last token     then

A place in the middle of a piece makes a call more, and a state takes memory (`KVSlots.keep` has the limit). Pure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

State = NDArray[np.uint8]
"""llama.cpp's bytes of one state."""

WORTH_A_CALL = 16
"""Tokens. Fewer are computed again, which is faster than a call that ends in front of them and a copy of the state."""

WORTH_BRANCHING = 32
"""Tokens beyond what is reused, up to a branch, that make it worth a call of its own: others may branch off there."""

BEFORE_THE_END = 1
"""Where prompts begin again that are repeated or go on: a prompt's last token is always computed."""

BEFORE_ENDINGS = 31
"""The same of a prompt that is scored, whose last token is not computed: others will follow that have another ending,
mostly a short one. Of longer ones the second shows where they begin, so that no prompt is read in many small pieces,
which take longer."""

MOST_IN_A_SLOT = 16
"""States that are kept of a slot which is full, apart from those of prompts' ends and branches."""


@dataclass(slots=True, eq=False)
class Checkpoint:
    """The state after the first n tokens of a slot, or of several that were copied from it."""

    n: int
    state: State
    used_at: int
    """When it was made or last reused, on the clock of `KVSlots`."""


def places(n_prompt: int, n_reused: int, n_shared: int, *, scored: bool, n_candidates: int) -> set[int]:
    """Places of a prompt at which its state shall be kept, of which `n_reused` tokens are computed already.

    `n_shared`: tokens that it has in common with some other one, reused or not.
    """
    found = {n_prompt - (BEFORE_ENDINGS if scored else BEFORE_THE_END)}
    if n_shared - n_reused >= WORTH_BRANCHING:
        # Others will rather branch off there as well than anywhere near the end.
        found = {n_shared} if scored else {n_shared, *found}
    found = {place for place in found if place - n_reused >= WORTH_A_CALL}
    # The others begin there.
    return found | {n_prompt - BEFORE_THE_END} if n_candidates > 1 else found
