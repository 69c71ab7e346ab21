"""From a computed span to score rows, sampled tokens and events. Numbers only, no model. Engine thread only."""

import numpy as np
from numpy.typing import NDArray

from afterword.engine.events import Event, PromptDone, PromptScores
from afterword.engine.grammars.grammar_compiler import GrammarFailed
from afterword.engine.llama.arithmetic import Arithmetic
from afterword.engine.llama.demand import Demand, ScoreRow
from afterword.engine.llama.draw import draw
from afterword.engine.llama.kv import KVSlots, Slot
from afterword.engine.llama.runner import Computed, Uncomputed
from afterword.engine.llama.sequence import Group, Message, Sequence
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.engine.sampling.logprobs import LogSoftmax, NoDistribution
from afterword.engine.tracker import Counters, public_error

REFUSED = "llama.cpp could not compute this request; the server's log has the cause."

UNFINISHED = "The engine could not finish this request; the server's log has the cause."

NO_NUMBERS = "The model gave no numbers for this request; the server's log has the cause."


class Committer:
    """Turns computed spans into the next state of their sequences and into messages."""

    def __init__(self, kv: KVSlots, log_softmax: LogSoftmax, arithmetic: Arithmetic) -> None:
        self._kv = kv
        self._arithmetic = arithmetic
        self._log_softmax = log_softmax
        self.counters = Counters()

    def commit(self, result: Computed | Uncomputed) -> list[Message]:
        """Take one span's result. Once its candidate has finished, the caller frees the sequence's slot.

        Whatever is wrong with the result, the span's request alone fails.
        """
        group = result.span.sequence.group
        if isinstance(result, Uncomputed):
            return _failed(group, result.error, REFUSED)
        try:
            return self._commit(result)
        except NoDistribution as error:
            return _failed(group, error, NO_NUMBERS)
        except Exception as error:
            return _failed(group, error, UNFINISHED)

    def _commit(self, computed: Computed) -> list[Message]:
        sequence, span = computed.span.sequence, computed.span
        slot = sequence.slot
        assert slot is not None
        n_prompt_rows = max(0, min(span.n, sequence.n_prompt - span.start))
        n_own = span.n - len(sequence.guess.tokens)
        exact = sequence.prefilling or self._arithmetic.sampled_equals_prompt
        self._kv.append(slot, sequence.pending_tokens(n_own), exact=exact)
        sequence.n_computed += n_own
        self.counters.prefill_tokens += n_prompt_rows
        if sequence.scored and n_prompt_rows:
            self._score(sequence, computed, slot)
        messages: list[Message] = []
        if n_prompt_rows and not (sequence.prefilling or sequence.is_negative or sequence.group.prompt_done):
            messages.append((sequence.group.address, self._prompt_done(sequence, slot)))
        if sequence.n_pending == 0:
            messages += self._advance(sequence, slot, computed.logits[-1 - len(sequence.guess.tokens) :])
        return messages

    def _score(self, sequence: Sequence, computed: Computed, slot: Slot) -> None:
        """Store each row's log-probabilities of the prompt token after it."""
        demand, start = sequence.demand, computed.span.start
        assert demand.score_top is not None
        places = range(max(start, demand.score_from), min(start + computed.span.n, demand.n_rows))
        # The logits after these come first; those to sample from would be the last.
        for place, row in zip(places, computed.logits, strict=False):
            lse = self._log_softmax.lse(row)
            follower = demand.follower(place)
            ids, logprobs = self._log_softmax.likeliest(row, lse, demand.score_top)
            slot.rows[place] = ScoreRow(
                follower,
                self._log_softmax.logprob(row, lse, follower),
                ids,
                logprobs,
                demand.named_ids,
                self._log_softmax.named(row, lse, demand.named_ids),
            )

    def _prompt_done(self, sequence: Sequence, slot: Slot) -> PromptDone:
        group = sequence.group
        group.prompt_done = True
        self.counters.prompt_tokens += sequence.n_prompt
        self.counters.cached_tokens += sequence.n_reused
        # The leader's: of all candidates, it alone has the rows.
        scores = None
        if sequence.scored:
            scores = _prompt_scores(slot.rows, sequence.demand)
            slot.rows = [None if row is None else row.kept() for row in slot.rows]
        assert group.admitted_at is not None
        return PromptDone(sequence.n_reused, scores, max(0.0, group.admitted_at - group.queued_at))

    def _advance(self, sequence: Sequence, slot: Slot, rows: NDArray[np.float32]) -> list[Message]:
        """Sample the next token, or end a sequence that may not have one.

        `rows`: (1 + g, n_vocab) the logits after its last token, and after each of g that were guessed: as long as
        those are what is sampled, it goes on.
        """
        group, guessed = sequence.group, sequence.guess.tokens
        if group.request.max_tokens == 0:
            return [(group.address, s.candidate.finish_empty()) for s in group.sequences if not s.candidate.finished]
        messages: list[Message] = []
        n_taken = 0
        for row in rows:
            try:
                events, n_sampled = self._sample(sequence, row)
            except (EveryTokenBanned, GrammarFailed) as refusal:
                return [*messages, (group.address, refusal)]
            self.counters.completion_tokens += n_sampled
            messages += [(group.address, event) for event in events]
            if sequence.candidate.finished or sequence.sampled[-1:] != guessed[n_taken : n_taken + 1]:
                break
            self._kv.append(slot, guessed[n_taken : n_taken + 1], exact=True)
            sequence.n_computed += 1
            n_taken += 1
        self.counters.draft_tokens += len(guessed)
        self.counters.accepted_draft_tokens += n_taken
        return messages

    def _sample(self, sequence: Sequence, row: NDArray[np.float32]) -> tuple[list[Event], int]:
        """What is to be told, and how many tokens were sampled: of a team nothing before all of it was computed."""
        team = sequence.team
        if team is None:
            return draw(sequence, row, row, self._log_softmax)
        team.take(sequence, row)
        return team.go_on() if all(member.rests for member in team.members) else ([], 0)


def _failed(group: Group, error: Exception, message: str) -> list[Message]:
    """The group's request fails; the caller frees its slots, of which nothing is reused."""
    for sequence in group.sequences:
        if sequence.slot is not None:
            # One token without numbers may spoil those before it in the same piece.
            sequence.slot.cut(0)
    return [(group.address, public_error(error, message))]


def _prompt_scores(rows: list[ScoreRow | None], demand: Demand) -> PromptScores:
    """The score rows of a prompt as arrays; k of each row's likeliest tokens, fewer in a smaller vocabulary."""
    wanted = rows[demand.score_from : demand.n_rows]
    known = [row for row in wanted if row is not None]
    assert len(known) == len(wanted), "every wanted position is scored"
    assert demand.score_top is not None
    width = min(demand.score_top, len(known[0].ids)) if known else demand.score_top
    n, n_named = len(known), len(demand.named_ids)
    return PromptScores(
        np.array([row.logprob for row in known], dtype=np.float64),
        np.array([row.ids[:width] for row in known], dtype=np.int32).reshape(n, width),
        np.array([row.logprobs[:width] for row in known], dtype=np.float64).reshape(n, width),
        demand.score_from,
        np.array([row.named[:n_named] for row in known], dtype=np.float64).reshape(n, n_named) if n_named else None,
    )
