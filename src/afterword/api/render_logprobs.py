"""Log-probabilities in the shapes of the API: the legacy `logprobs` object and the `prompt_logprobs` extension.

Numbers come from the engine and are not changed by a bit; only the layout is decided here
(docs/rules.md#log-probabilities).
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypedDict

from typing_extensions import override

from afterword.api.render_arrays import ArrayFormat
from afterword.api.wire import finite
from afterword.completions.assemble import Echo
from afterword.completions.completion import Completion
from afterword.engine.events import SampledToken
from afterword.tokens import Tokenizer


class Logprobs(TypedDict):
    """The `logprobs` object of a choice or chunk: arrays of equal length, `top_logprobs` null for k = 0."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class PromptToken(TypedDict):
    """One entry of `prompt_logprobs`."""

    logprob: float
    rank: int | None
    """None: not known, of a token that was named."""
    decoded_token: str


PromptLogprobs = list[dict[str, PromptToken] | None]


class Spelling(Protocol):
    """How tokens are written: a tokenizer writes them as text."""

    def spell(self, token: int) -> str:
        """The token as it is written."""
        ...


class IdSpelling(Spelling):
    """Tokens written by number, so that no two are alike (`return_tokens_as_token_ids`)."""

    @override
    def spell(self, token: int) -> str:
        return f"token_id:{token}"


def format_of(completion: Completion, tokenizer: Tokenizer) -> "LogprobFormat | ArrayFormat":
    """Log-probabilities as a request wants them."""
    if completion.shown.logprobs_format == "base64":
        return ArrayFormat(completion.generations[0].named_ids)
    names = IdSpelling() if completion.shown.return_tokens_as_token_ids else None
    return LogprobFormat(tokenizer, names, completion.generations[0].named_ids)


class LogprobFormat:
    """Spells tokens and lays out the objects of one request; remembers spellings, so long prompts stay cheap."""

    def __init__(self, tokenizer: Tokenizer, names: Spelling | None = None, named_ids: tuple[int, ...] = ()) -> None:
        """`names`: how the legacy object writes tokens, None: as text. `named_ids`: listed instead of the likeliest."""
        self._tokenizer = tokenizer
        self._names = tokenizer if names is None else names
        self._named_ids = named_ids
        self._spelled: dict[int, str] = {}

    def legacy(self, echo: Echo | None, tokens: Sequence[SampledToken], k: int) -> Logprobs:
        """The `logprobs` object: the echoed prompt, if any, then the sampled tokens."""
        lists = k > 0 or bool(self._named_ids)
        names: list[str] = []
        logprobs: list[float | None] = []
        tops: list[dict[str, float] | None] = []
        offsets: list[int] = []
        if echo is not None:
            names += [self.spell(token) for token in echo.tokens]
            # Nothing precedes the first token, so it has no probability.
            logprobs += [None, *(finite(value) for value in echo.scores.logprobs.tolist())]
            offsets += echo.offsets
            if lists:
                tops += [None, *(self._top(top, actual) for actual, top in self._rows(echo, k))]
        for token in tokens:
            names.append(self.spell(token.id))
            logprobs.append(finite(token.logprob))
            offsets.append(token.offset)
            if lists:
                listed = zip(self._named_ids, token.named, strict=True) if self._named_ids else token.top[:k]
                tops.append(self._top(listed, (token.id, token.logprob)))
        return {
            "tokens": names,
            "token_logprobs": logprobs,
            "top_logprobs": tops if lists else None,
            "text_offset": offsets,
        }

    def prompt(self, echo: Echo, k: int) -> PromptLogprobs:
        """The `prompt_logprobs` list: null for the first token, then the actual token followed by the k likeliest.

        `rank` counts from 1. The rank of an actual token outside the list is not known; the lowest possible one is
        given, one more than the list is long. Beside named tokens no rank is known.
        """
        return [None, *(self._ranked(top, actual) for actual, top in self._rows(echo, k))]

    def spell(self, token: int) -> str:
        """The token as the legacy object shows it (docs/rules.md#token-spelling)."""
        spelled = self._spelled.get(token)
        if spelled is None:
            spelled = self._spelled[token] = self._names.spell(token)
        return spelled

    def _top(self, top: Iterable[tuple[int, float]], actual: tuple[int, float]) -> dict[str, float]:
        entries: dict[str, float] = {}
        for token, logprob in (*top, actual):
            name, value = self.spell(token), finite(logprob)
            # Two tokens may spell the same; the likelier one stays.
            if value > entries.get(name, -float("inf")):
                entries[name] = value
        return entries

    def _ranked(self, top: Sequence[tuple[int, float]], actual: tuple[int, float]) -> dict[str, PromptToken]:
        ranks = {token: rank for rank, (token, _) in enumerate(top, start=1)}
        entries: dict[str, PromptToken] = {}
        for token, logprob in (actual, *top):
            entries[str(token)] = {
                "logprob": finite(logprob),
                "rank": None if self._named_ids else ranks.get(token, len(top) + 1),
                "decoded_token": self._tokenizer.spell(token),
            }
        return entries

    def _rows(self, echo: Echo, k: int) -> Iterable[tuple[tuple[int, float], list[tuple[int, float]]]]:
        """For each prompt token after the first: the token with its log-probability, and the others to list there."""
        scores = echo.scores
        actual = zip(echo.tokens[1:], scores.logprobs.tolist(), strict=True)
        if scores.named_logprobs is None:
            ids, values = scores.top_ids[:, :k].tolist(), scores.top_logprobs[:, :k].tolist()
        else:
            ids, values = [self._named_ids] * len(scores.logprobs), scores.named_logprobs.tolist()
        others = (list(zip(*pair, strict=True)) for pair in zip(ids, values, strict=True))
        return zip(actual, others, strict=True)
