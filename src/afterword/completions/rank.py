"""The order of a prompt's candidates where they are more than its choices. Pure."""

from collections.abc import Sequence

from afterword.engine.events import Finished


def best_first(candidates: Sequence[Finished]) -> list[Finished]:
    """The candidates by mean raw log-probability per sampled token, highest first (docs/rules.md#best-of).

    Ties keep the order of candidates. One without any sampled token comes after all that have some, and one that the
    content filter ended after all others: its text is cut off.
    """
    return sorted(candidates, key=lambda one: (one.reason == "content_filter", -_mean(one), one.index))


def as_found(candidates: Sequence[Finished]) -> list[Finished]:
    """The candidates of a search, which has ranked them; those that the content filter ended come last likewise."""
    return sorted(candidates, key=lambda one: (one.reason == "content_filter", one.index))


def _mean(candidate: Finished) -> float:
    if candidate.n_scored == 0:
        return float("-inf")
    return candidate.sum_logprob / candidate.n_scored
