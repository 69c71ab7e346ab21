"""Whether this build of llama.cpp gives this model's logits, and computes them as its `Arithmetic` says.

Computes some hundred tokens in several ways and compares the logits' bits. A model that fails is still served; its
card says that seeded requests are not reproducible to the bit.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.arithmetic import Arithmetic
from afterword.engine.llama.binding import LlamaContext

N = 80
"""Tokens of the longest text that is compared; with a smaller context the probe fails."""

N_LONE = 16
"""Single rows that are compared: one alone may be equal by luck where the next matrix is quantised."""


class LogitCheck(StrEnum):
    """What is found of a model's logits."""

    GOOD = "good"
    CONSTANT = "constant"
    """The same for every token: encoders and models of embeddings have no output layer."""
    NAN = "nan"
    OF_OTHER_ROWS = "of other rows"
    """Those of other rows than were asked for: some of llama.cpp's graphs put out every row."""
    MIXED = "mixed"
    """Sequences that run together disturb each other: some graphs put a state back into another slot."""


def check_logits(context: LlamaContext) -> LogitCheck:
    """Computes a few tokens in several ways, of which the numbers need only be near. Clears the slots that it uses."""
    text, other = np.arange(3, dtype=np.int32), np.arange(3, 6, dtype=np.int32)
    _clear(context)
    rows = _run(context, [(0, 0, text)], n_outputs=3).copy()
    _clear(context)
    last = _run(context, [(0, 0, text)], n_outputs=1)[0].copy()
    _clear(context)
    if np.isnan(rows).any():
        return LogitCheck.NAN
    if np.ptp(rows[2]) == 0:
        return LogitCheck.CONSTANT
    away = np.abs(rows - last).max(axis=1)
    if away[2] > away[:2].min():
        return LogitCheck.OF_OTHER_ROWS
    if context.n_slots > 1 and not _is_near(_beside(context, text, other)[0], rows[2]):
        return LogitCheck.MIXED
    return LogitCheck.GOOD


def _beside(context: LlamaContext, text: NDArray[np.int32], other: NDArray[np.int32]) -> NDArray[np.float32]:
    """Logits of the last token of each: the first is computed beside up to three others, the rest beside the other."""
    n_slots: int = min(4, context.n_slots)
    texts = {slot: text if slot == n_slots - 2 else other for slot in range(n_slots)}
    _run(context, [(slot, 0, tokens[:1]) for slot, tokens in texts.items()], n_outputs=1)
    found = _run(context, [(slot, 1, texts[slot][1:]) for slot in (n_slots - 2, n_slots - 1)], n_outputs=1).copy()
    for slot in texts:
        context.truncate(slot, 0)
    return found


def _is_near(found: NDArray[np.float32], expected: NDArray[np.float32]) -> bool:
    """Whether numbers differ by their rounding at most, that of products of 2-bit numbers too."""
    return bool(np.abs(found - expected).max() < 0.25 * np.ptp(expected))


def keeps_its_numbers(context: LlamaContext, n_vocab: int, arithmetic: Arithmetic) -> bool:
    """Whether a token's numbers depend on nothing but the tokens before it, if rows are laid out for `arithmetic`.

    Uses and clears slots 0 and 1; without a second slot there are no other rows to depend on.
    """
    if context.n_ctx_slot < N + 2:
        return False
    tokens = (np.arange(N, dtype=np.int64) * 7919 % n_vocab).astype(np.int32)
    whole = _after(context, tokens, [N])
    cuts = [[N // 2] * 2, [2, N - 5, 3]]
    if arithmetic.rows_needed == 1 or arithmetic.sampled_equals_prompt:
        cuts += [[*[1] * N_LONE, N - N_LONE], [N - 2, 1, 1]]
    same = all(np.array_equal(whole, _after(context, tokens, cut)) for cut in cuts)
    if context.n_slots > 1:
        same = same and _rows_beside_do_not_matter(context, tokens, whole, arithmetic)
    if arithmetic.lone_rows_keep_theirs:
        same = same and _lone_rows_keep_theirs(context, n_vocab)
    _clear(context)
    return same


def threads_do_not_matter(context: LlamaContext, n_vocab: int, n_threads: int) -> bool:
    """Whether fewer than the context's `n_threads` compute the same numbers, of a piece of a prompt and of single rows.

    Uses and clears slot 0; the context has all its threads again afterwards.
    """
    if context.n_ctx_slot < N:
        return False
    tokens = (np.arange(N, dtype=np.int64) * 7919 % n_vocab).astype(np.int32)
    cut = [N - N_LONE, *[1] * N_LONE]
    expected = _after(context, tokens, cut)
    same = True
    for fewer in {1, n_threads // 2, n_threads - 1} - {0, n_threads}:
        context.use_threads(fewer)
        same = same and bool(np.array_equal(expected, _after(context, tokens, cut)))
    context.use_threads(n_threads)
    context.truncate(0, 0)
    return same


def _lone_rows_keep_theirs(context: LlamaContext, n_vocab: int) -> bool:
    """Whether the only row of a micro-batch, or the only one put out, has the numbers it has among others.

    Not so where a matrix is of floats: in all of a float model, but also the router of a quantised mixture of experts,
    or an output matrix that was spared.
    """
    tokens = (np.arange(N_LONE + 2, dtype=np.int64) * 7919 % n_vocab).astype(np.int32)
    _clear(context)
    both = _run(context, [(0, 0, tokens[:2])])[1].copy()
    alone = [_run(context, [(0, place, tokens[place : place + 1])])[0].copy() for place in range(2, len(tokens))]
    _clear(context)
    same = bool(np.array_equal(both, _run(context, [(0, 0, tokens[:2])], n_outputs=1)[0]))
    if context.n_slots > 1:
        for place in range(2, len(tokens)):
            row, other = tokens[place : place + 1], tokens[place - 2 : place - 1]
            beside = _run(context, [(0, place, row), (1, place - 2, other)])[0]
            same = same and bool(np.array_equal(alone[place - 2], beside))
    return same


def _clear(context: LlamaContext) -> None:
    for slot in range(min(2, context.n_slots)):
        context.truncate(slot, 0)


def _after(context: LlamaContext, tokens: NDArray[np.int32], cut: list[int]) -> NDArray[np.float32]:
    """Logits of the last two tokens, computed in pieces of those lengths."""
    context.truncate(0, 0)
    start = 0
    found: list[NDArray[np.float32]] = []
    for n in cut:
        found += list(_run(context, [(0, start, tokens[start : start + n])]).copy())
        start += n
    return np.array(found[-2:])


def _rows_beside_do_not_matter(
    context: LlamaContext, tokens: NDArray[np.int32], whole: NDArray[np.float32], arithmetic: Arithmetic
) -> bool:
    """Two pieces side by side, either of them; two single rows side by side against the same beside another token."""
    half = len(tokens) // 2
    same = True
    for slot in (0, 1):
        # Those of the other slot begin in the middle.
        texts = [tokens if each == slot else np.roll(tokens, -half) for each in (0, 1)]
        _clear(context)
        _read(context, [(each, 0, text[:half]) for each, text in enumerate(texts)], arithmetic)
        beside = _read(context, [(each, half, text[half:]) for each, text in enumerate(texts)], arithmetic)
        same = same and bool(np.array_equal(whole, beside[2 * slot : 2 * slot + 2]))
    n = len(tokens)
    rows = []
    for other in (5, 7):
        _clear(context)
        _read(context, [(0, 0, tokens), (1, 0, tokens)], arithmetic)
        rows.append(_run(context, [(0, n, tokens[:1]), (1, n, tokens[other : other + 1])])[0].copy())
    return same and bool(np.array_equal(*rows))


def _read(
    context: LlamaContext, pieces: list[tuple[int, int, NDArray[np.int32]]], arithmetic: Arithmetic
) -> NDArray[np.float32]:
    """`_run` for pieces of prompts, in as many calls as the arithmetic wants."""
    calls = [[piece] for piece in pieces] if arithmetic.prompts_alone else [pieces]
    return np.concatenate([_run(context, call).copy() for call in calls])


def _run(
    context: LlamaContext, pieces: list[tuple[int, int, NDArray[np.int32]]], n_outputs: int = 2
) -> NDArray[np.float32]:
    """Decode (slot, start, tokens) pieces; the logits of each piece's last `n_outputs` tokens, if it has as many."""
    outputs = [np.arange(len(tokens)) >= len(tokens) - n_outputs for _, _, tokens in pieces]
    return context.decode(
        np.concatenate([tokens for _, _, tokens in pieces]),
        np.concatenate([np.arange(start, start + len(t), dtype=np.int32) for _, start, t in pieces]),
        np.concatenate([np.full(len(t), slot, dtype=np.int32) for slot, _, t in pieces]),
        np.concatenate(outputs).astype(np.int8),
    )
