"""Builders for what the renderers take, with the echo vocabulary: one token a byte."""

from typing import Any

import numpy as np
from tests.fakes import generation_request

from afterword.api.render import AnswerHead
from afterword.completions.assemble import Delta, Echo
from afterword.completions.completion import Completion, Prompt
from afterword.engine.events import PromptScores, SampledToken
from afterword.fields.field import fields_of
from afterword.fields.shown import Shown

HEAD = AnswerHead(id="cmpl-x", created=1700000000, model="m", system_fingerprint="fp_0123456789")


SHOWN = frozenset(field.name for field in fields_of(Shown))


def completion(**changes: Any) -> Completion:
    """A request for one choice of the prompt `hi`, streamed without obfuscation, with `changes` to its fields."""
    shown = {name: changes.pop(name) for name in SHOWN & changes.keys()}
    fields: dict[str, Any] = {
        "model": "m",
        "prompts": (Prompt("hi", (104, 105), ()),),
        "generations": (generation_request((104, 105)),),
        "n": 1,
        "best_of": 1,
        "shown": Shown(**shown),
        "stream": True,
        "include_usage": False,
        "continuous_usage": False,
        "include_obfuscation": False,
        "seed": 0,
        "user": None,
        "priority": None,
        "exact_tokens": True,
    }
    return Completion(**(fields | changes))


def delta(text: str, **changes: Any) -> Delta:
    """A delta of choice 0 with no more than a text, with `changes` to its fields."""
    fields: dict[str, Any] = {"index": 0, "echo": None, "tokens": (), "finish_reason": None}
    return Delta(text=text, **(fields | changes))


def token(spelled: str, logprob: float, top: dict[str, float], offset: int = 2) -> SampledToken:
    """A sampled token of one byte, `top` being the likeliest, likeliest first."""
    ranked = tuple((ord(name), value) for name, value in top.items())
    return SampledToken(id=ord(spelled), offset=offset, logprob=logprob, top=ranked)


def echo_hi(logprob: float = -1.5, top: dict[str, float] | None = None) -> Echo:
    """The prompt `hi` with the score of its second token."""
    ranked = {"a": -0.5, "i": -1.5} if top is None else top
    return Echo(
        tokens=(104, 105),
        offsets=(0, 1),
        scores=PromptScores(
            logprobs=np.array([logprob], dtype=np.float64),
            top_ids=np.array([[ord(name) for name in ranked]], dtype=np.int32).reshape(1, len(ranked)),
            top_logprobs=np.array([list(ranked.values())], dtype=np.float64).reshape(1, len(ranked)),
        ),
    )
