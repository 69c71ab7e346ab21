"""Beam search by its definition, in plain lists: what `engine/beam_search.py` is compared with.

Written after the description of `num_beams`, `length_penalty` and `early_stopping` in Hugging Face transformers.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from itertools import product

Tokens = tuple[int, ...]
Scores = Callable[[Tokens], list[float]]
"""Log-probability of each token after some."""


@dataclass(frozen=True)
class Answer:
    tokens: Tokens
    score: float


def beam_search(
    scores: Scores, *, width: int, max_tokens: int, ends: Set[int], length_penalty: float, early_stopping: bool | str
) -> list[Answer]:
    """At most `width` answers, best first; an end is among their tokens."""
    beams: list[tuple[float, Tokens]] = [(0.0, ())]
    answers: list[Answer] = []
    for length in range(1, max_tokens + 1):
        longer = [(total + score, tokens, t) for total, tokens in beams for t, score in enumerate(scores(tokens))]
        order = {tokens: number for number, (_, tokens) in enumerate(beams)}
        longer.sort(key=lambda one: (-one[0], order[one[1]], one[2]))
        n_considered = width * max(2, len(ends) + 1)
        beams = []
        for rank, (total, tokens, t) in enumerate(longer[:n_considered]):
            if t in ends or length == max_tokens:
                if rank < width:
                    answers.append(Answer((*tokens, t), total / length**length_penalty))
            elif len(beams) < width:
                beams.append((total, (*tokens, t)))
        answers = sorted(answers, key=lambda answer: -answer.score)[:width]
        if not beams or (len(answers) == width and early_stopping is True):
            break
        at = max_tokens if early_stopping == "never" and length_penalty > 0 else length
        if len(answers) == width and beams[0][0] / at**length_penalty <= answers[-1].score:
            break
    return answers


def every_answer(scores: Scores, n_vocab: int, length: int) -> list[Answer]:
    """All texts of so many tokens, likeliest first."""
    answers = []
    for tokens in product(range(n_vocab), repeat=length):
        total = sum(scores(tokens[:i])[tokens[i]] for i in range(length))
        answers.append(Answer(tokens, total))
    return sorted(answers, key=lambda answer: -answer.score)
