"""Which sequences have guesses computed in a step, and how many tokens of them. Engine thread only; no model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from afterword.engine.llama.arithmetic import MICRO_BATCH
from afterword.engine.llama.drafts import (
    MOST_GUESSED,
    NO_GUESS,
    PREDICTED,
    GrowingText,
    Guess,
    Odds,
    PastTexts,
    worth_guessing,
)
from afterword.engine.llama.policy import Piece
from afterword.engine.llama.sequence import Group
from afterword.engine.llama.sequence import Sequence as Running
from afterword.fields.bans import NO_BANS


class Drafting:
    """The guesses of one engine."""

    def __init__(self) -> None:
        self._odds = Odds()

    def begin(self, group: Group) -> None:
        """Guess for the sequences of a group, if each goes on by itself and takes nothing back."""
        request = group.request
        if request.beams is None and request.guidance is None and request.bans == NO_BANS and request.grammar is None:
            past = PastTexts(np.array(request.prompt, dtype=np.int32))
            for sequence in group.sequences:
                sequence.text = GrowingText(past)

    def lengthened(self, pieces: Sequence[Piece], by_slot: Mapping[int, Running]) -> tuple[Piece, ...]:
        """The pieces, each with as many tokens of a guess as are worth it for all; none where one has no guess.

        Pieces of unlike lengths would be computed apart (arithmetic.py), and each part reads all weights.
        """
        sequences = [by_slot[piece.slot] for piece in pieces]
        most = min(MOST_GUESSED, MICRO_BATCH // len(pieces) - 1)
        guesses: list[Guess] = []
        for sequence in sequences:
            guesses.append(_guess(sequence, most))
            most = len(guesses[-1].tokens)
            if most == 0:
                return tuple(pieces)
        n = worth_guessing([self._odds.of(guess.n_alike) for guess in guesses], most)
        if n == 0:
            return tuple(pieces)
        for sequence, guess in zip(sequences, guesses, strict=True):
            sequence.guess = replace(guess, tokens=guess.tokens[:n])
        return tuple(Piece(piece.slot, piece.n + n) for piece in pieces)

    def note(self, guess: Guess, n_taken: int) -> None:
        """The first `n_taken` tokens of a guess were sampled."""
        self._odds.note(guess.n_alike, n_taken, len(guess.tokens))


def _guess(sequence: Running, most: int) -> Guess:
    """What the request predicts, or else what the text says; nothing while a prompt is read."""
    if sequence.text is None or sequence.n_computed < sequence.n_prompt:
        return NO_GUESS
    # The last token that it may sample need not be computed.
    most = min(most, sequence.n_to_sample - 1, sequence.n_room - 1)
    sequence.text.grow_to(sequence.sampled)
    predicted = sequence.candidate.prediction
    expected = [] if predicted is None or most < 1 else list(predicted.expected(most))
    return Guess(expected, PREDICTED) if expected else sequence.text.guess(most)
