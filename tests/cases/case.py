"""A case: requests whose answers are known in advance, as data. Knows no HTTP.

Every number in the modules beside this one follows from the default model's vocabulary or from a rule of docs/rules.md.
A token is forced with a bias of 100 at temperature 0, so that most answers do not depend on what the model thinks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Body = dict[str, Any]

THE, A, SMILE_HEAD, SMILE_TAIL, REPLACEMENT = 260, 253, 10813, 38887, 24211
"""Tokens: ` the`, ` a`, the bytes F0 9F, the bytes 99 82 (both together are the emoji U+1F642), a real U+FFFD."""

END_OF_TEXT, TURN_START, TURN_END = 0, 1, 2
"""Control tokens: the first and the last end an answer, the one between does not."""

HELLO = 19556
"""The token `Hello`."""

FRANCE = "The capital of France is"
FRANCE_IDS = [504, 3575, 282, 4649, 314]


def forced(*tokens: int) -> Json:
    """Greedy sampling that can only take `tokens`."""
    return {"temperature": 0, "logit_bias": {str(token): 100 for token in tokens}}


NEVER_ENDS = {"logit_bias": {str(END_OF_TEXT): -100, str(TURN_END): -100}}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a good answer says. None: not part of the case. Lists go by choice, in the order of their indices."""

    texts: list[str] | None = None
    finish: str | None = None
    """The reason of every choice."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens: list[str] | None = None
    """`logprobs.tokens` of the first choice."""
    offsets: list[int] | None = None
    """`logprobs.text_offset` of the first choice."""
    pieces: list[str] | None = None
    """Texts of the chunks of a stream, empty ones left out."""
    check: Callable[[Json], None] | None = None
    """Whatever else must hold of the body."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an error says."""

    status: int = 400
    param: str | None = None
    code: str | None = None
    words: tuple[str, ...] = ()
    """Parts of the message."""


@dataclass(frozen=True, slots=True)
class Case:
    """One request, to be sent plain and as a stream, and what comes back either way.

    The runner adds `seed: 1`, which makes both answers the same to the bit; `"seed": None` in the body takes it away.
    """

    id: str
    """The fault's name, then what is special about this request."""
    body: Body
    expect: Answer | Refusal


@dataclass(frozen=True, slots=True)
class Alike:
    """Requests that are different ways of asking the same: their choices' texts must be equal."""

    id: str
    bodies: tuple[Body, ...]
    prompt_tokens: int | None = None
    """What each of them counts."""
