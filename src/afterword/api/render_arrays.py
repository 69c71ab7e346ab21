"""Log-probabilities as arrays of numbers in base64 (docs/rules.md#arrays): for many of the likeliest tokens, or all."""

import base64
from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afterword.completions.assemble import Echo
from afterword.engine.events import SampledToken

_TYPES = {"int32": "<i4", "float32": "<f4"}

NO_TOKEN = -1
"""In place of an id that there is none of."""


class Array(TypedDict):
    """Numbers, row by row, in little-endian order."""

    dtype: str
    shape: list[int]
    data: str


class ArrayFormat:
    """Lays out the objects of one request."""

    def __init__(self, named_ids: tuple[int, ...] = ()) -> None:
        """`named_ids`: listed in place of the likeliest."""
        self._named_ids = named_ids

    def legacy(self, echo: Echo | None, tokens: Sequence[SampledToken], k: int) -> dict[str, Array]:
        """In place of the `logprobs` object: arrays of n tokens, those of the echoed prompt first."""
        ids = [] if echo is None else list(echo.tokens)
        offsets = [] if echo is None else list(echo.offsets)
        # Nothing precedes the first token, so it has no probability.
        logprobs = [] if echo is None else [np.nan, *echo.scores.logprobs.tolist()]
        others = [] if echo is None else [self._prompts_others(echo, k)]
        if tokens or echo is None:
            others.append(self._others(tokens, k))
        width = min(values.shape[1] for _, values in others)
        return {
            "token_ids": _array("int32", [*ids, *(token.id for token in tokens)]),
            "token_logprobs": _array("float32", [*logprobs, *(token.logprob for token in tokens)]),
            "top_ids": _array("int32", np.concatenate([found[:, :width] for found, _ in others])),
            "top_logprobs": _array("float32", np.concatenate([values[:, :width] for _, values in others])),
            "text_offset": _array("int32", [*offsets, *(token.offset for token in tokens)]),
        }

    def prompt(self, echo: Echo, k: int) -> dict[str, Array]:
        """In place of the `prompt_logprobs` list."""
        shown = self.legacy(echo, (), k)
        del shown["text_offset"]
        return shown

    def _others(self, tokens: Sequence[SampledToken], k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        if self._named_ids:
            ids = np.tile(np.asarray(self._named_ids, dtype=np.int32), (len(tokens), 1))
            return ids, np.asarray([token.named for token in tokens], dtype=np.float64).reshape(ids.shape)
        width = min((len(token.top) for token in tokens), default=k)
        tops = [token.top[: min(k, width)] for token in tokens]
        shape = (len(tokens), min(k, width))
        return (
            np.asarray([[token for token, _ in top] for top in tops], dtype=np.int32).reshape(shape),
            np.asarray([[value for _, value in top] for top in tops], dtype=np.float64).reshape(shape),
        )

    def _prompts_others(self, echo: Echo, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Those at the places of an echoed prompt; at the first there are none."""
        scores = echo.scores
        if scores.named_logprobs is None:
            ids, values = scores.top_ids[:, :k], scores.top_logprobs[:, :k]
        else:
            values = scores.named_logprobs
            ids = np.tile(np.asarray(self._named_ids, dtype=np.int32), (len(values), 1))
        width = values.shape[1]
        none = np.full((1, width), NO_TOKEN, dtype=np.int32)
        return np.concatenate([none, ids]), np.concatenate([np.full((1, width), np.nan), values])


def _array(dtype: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=_TYPES[dtype])
    return {"dtype": dtype, "shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode("ascii")}
