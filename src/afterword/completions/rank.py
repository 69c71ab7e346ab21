"""The order of a prompt's candidates for `best_of`. Pure."""

from collections.abc import Sequence

from afterword.engine.events import Finished


def best_first(candidates: Sequence[Finished]) -> list[Finished]:
    """The candidates by mean raw log-probability per sampled token, highest first (docs/rules.md#best-of).

    Ties keep the order of candidates. One without any sampled token comes after all that have some, and one that the
    content filter ended after all others: its text is cut off.
    """
    return sorted(candidates, key=lambda one: (one.reason == "content_filter", -_mean(one), one.index))


def _mean(candidate: Finished) -> float:
    if candidate.n_scored == 0:
        return float("-inf")
    return candidate.sum_logprob / candidate.n_scored
