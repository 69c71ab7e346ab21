"""From the scores of a plan's prompts to the answer's numbers. Knows no JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afterword.completions.scoring.score_plan import Place, ScorePlan
from afterword.engine.events import PromptScores
from afterword.engine.sampling.logprobs import FLOOR


@dataclass(frozen=True, slots=True)
class Score:
    """How likely one continuation is. Log-probabilities are natural logarithms of the model's own probabilities."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    is_greedy: bool | None
    """Every token is the likeliest one where it stands; None: the engine does not say."""

    @property
    def total(self) -> float:
        """The log-probability of the whole continuation."""
        return math.fsum(self.logprobs)


def scores_of(plan: ScorePlan, found: Sequence[PromptScores]) -> list[Score]:
    """The score of each continuation; `found`: of the plan's prompts."""
    return [_score(place, found[place.prompt_index]) for place in plan.places]


def label_probabilities(plan: ScorePlan, found: Sequence[PromptScores]) -> list[list[float]]:
    """For each item the probability of each label, in the order of the request."""
    labels = plan.labels
    assert labels is not None
    values = np.concatenate([_lasts(place, found[place.prompt_index]) for place in plan.places])
    table = values.reshape(len(labels.items), len(labels.label_token_ids))
    if labels.apply_softmax:
        table = np.exp(table - table.max(axis=1, keepdims=True))
        table /= table.sum(axis=1, keepdims=True)
    else:
        table = np.exp(table)
    rows: list[list[float]] = table.tolist()
    return rows


def _score(place: Place, scores: PromptScores) -> Score:
    text = place.text
    assert len(text.lasts) == 1, "a continuation has one last token"
    ids = (*text.head[text.n_context :], *text.lasts)
    skipped = text.n_context - 1 - scores.start
    before = scores.logprobs[skipped:-1].tolist()
    is_greedy = None
    if scores.top_ids.shape[1] > 0:
        is_greedy = scores.top_ids[skipped:, 0].tolist() == list(ids)
    values = (*before, *_lasts(place, scores).tolist())
    return Score(ids, tuple(max(value, FLOOR) for value in values), is_greedy)


def _lasts(place: Place, scores: PromptScores) -> NDArray[np.float64]:
    """The log-probabilities of a place's last tokens."""
    if scores.named_logprobs is None:
        # The prompt's own last token is the only one, which may be asked for more than once.
        return scores.logprobs[-1:][list(place.columns)]
    return scores.named_logprobs[-1, list(place.columns)]
