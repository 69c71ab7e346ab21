"""From a `ScoreRequest` to the prompts that an engine scores, and where in their scores each answer is.

A context is computed once: engines share what prompts have in common, and of continuations that differ in their last
token alone one prompt is scored, which has the others' last tokens as named ones. Plain synchronous code; tokenizing
takes a while, so the caller runs it in a thread then. Knows no HTTP.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from afterword.completions.completion import Completion, Prompt
from afterword.completions.prompts import check_ids, check_texts
from afterword.completions.scoring.score_body import Labels, Pair, ScoreRequest
from afterword.completions.scoring.seam import Joiner
from afterword.config.tree import ServerConfig
from afterword.engine.base import UNKNOWN_CONTEXT
from afterword.engine.line import Claim
from afterword.engine.request import GenerationRequest
from afterword.engine.trace import Trace
from afterword.errors import ContextExceeded, InvalidRequest
from afterword.fields.sampling import Sampling
from afterword.fields.shown import Shown
from afterword.registry import ServedModel

NAMED = "logprob_token_ids"
"""The feature of engines that score named tokens."""


@dataclass(frozen=True, slots=True)
class Text:
    """What is scored, in tokens: the end of `head` behind its context, and each of `lasts` after all of it."""

    head: tuple[int, ...]
    n_context: int
    """Tokens of the head that are not scored, at least one."""
    lasts: tuple[int, ...]
    """At least one."""
    n_counted: int
    """Tokens that count as used for it (docs/rules.md#what-a-score-costs)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the scores of a text are: in those of a prompt, whose named tokens `columns` are its last ones."""

    prompt_index: int
    text: Text
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScorePlan:
    """What runs, and what its answer is made of."""

    completion: Completion
    places: tuple[Place, ...]
    """Of each pair in their order; of labels for each item, together or one by one."""
    labels: Labels | None

    def sent(self, trace: Trace, claim: Claim) -> "ScorePlan":
        """The same with what its prompts are called by others, and on whose behalf they run."""
        return replace(self, completion=self.completion.sent(trace, claim))


def plan_score(request: ScoreRequest, served: ServedModel, server: ServerConfig) -> ScorePlan:
    """Raises `InvalidRequest` or `ContextExceeded`."""
    _check_model(served)
    _check_size(request, server)
    can = served.engine.capabilities
    tokenizer = served.engine.tokenizer
    joiner = Joiner(tokenizer, add_special_tokens=request.add_special_tokens)
    if isinstance(request.wanted, Labels):
        check_ids(request.wanted.label_token_ids, tokenizer, "label_token_ids")
        texts = _texts_of_items(request.wanted, joiner)
    else:
        texts = _texts(request.wanted, joiner, request.param)
    prompts = _Prompts(server.max_candidates, can.context, can_name=NAMED not in can.lacks)
    places = tuple(place for text in texts for place in prompts.places(text))
    _check_answer(sum(len(place.text.head) - place.text.n_context + len(place.text.lasts) for place in places), server)
    generations = prompts.generations(k=min(1, can.max_logprobs), reproducible=can.reproducible)
    completion = Completion(
        model=served.name,
        prompts=tuple(Prompt("", one.prompt, ()) for one in generations),
        generations=generations,
        n=1,
        best_of=1,
        shown=Shown(),
        stream=False,
        include_usage=False,
        continuous_usage=False,
        include_obfuscation=False,
        seed=0,
        user=request.user,
        priority=request.priority,
        exact_tokens=True,
        counted=prompts.counted(),
    )
    return ScorePlan(completion, places, request.wanted if isinstance(request.wanted, Labels) else None)


def _check_model(served: ServedModel) -> None:
    lacks = served.engine.capabilities.lacks
    if "prompt_logprobs" in lacks:
        raise InvalidRequest(
            f"The model '{served.name}' does not support scores: {lacks['prompt_logprobs']}",
            param="model",
            code="unsupported_parameter",
        )


def _check_size(request: ScoreRequest, server: ServerConfig) -> None:
    """Before anything is tokenized."""
    wanted = request.wanted
    n = len(wanted.items) if isinstance(wanted, Labels) else len(wanted)
    if n > server.max_candidates:
        raise InvalidRequest(
            f"'{request.param}' has {n} texts; this server takes at most {server.max_candidates} in one request.",
            param=request.param,
            code="array_above_max_length",
        )
    check_texts(request.texts(), server, request.param)
    if isinstance(wanted, Labels):
        _check_answer(n * len(wanted.label_token_ids), server)


def _check_answer(n_listed: int, server: ServerConfig) -> None:
    if n_listed > server.max_listed:
        raise InvalidRequest(
            f"The answer would list {n_listed} log-probabilities; this server lists at most {server.max_listed} in one "
            "answer. Send fewer continuations or labels.",
            code="integer_above_max_value",
        )


def _texts(pairs: Sequence[Pair], joiner: Joiner, param: str) -> Iterator[Text]:
    seen: set[tuple[int, ...]] = set()
    for context, continuation in pairs:
        tokens, n_context = joiner.joined(context, continuation, param)
        known = tokens[:n_context] in seen
        seen.add(tokens[:n_context])
        yield Text(tokens[:-1], n_context, tokens[-1:], len(tokens) - (n_context if known else 0))


def _texts_of_items(labels: Labels, joiner: Joiner) -> Iterator[Text]:
    n_common = 0
    for item in labels.items:
        parts = (item, labels.query) if labels.item_first else (labels.query, item)
        tokens = joiner.whole(*parts, "items")
        yield Text(tokens, len(tokens), labels.label_token_ids, max(0, len(tokens) - n_common))
        n_common = 0 if labels.item_first else len(joiner.head(labels.query, "query"))


@dataclass(slots=True)
class _Prompt:
    """A prompt in the making."""

    head: tuple[int, ...]
    n_context: int
    columns: dict[int, int] = field(default_factory=dict)
    """Last tokens, each with its number."""
    n_counted: int = 0


class _Prompts:
    """The prompts of one request, fewer than its texts where those share all but a last token."""

    def __init__(self, most: int, context: int, *, can_name: bool) -> None:
        """At most so many, each of at most `context` tokens."""
        self._most = most
        self._context = context
        self._can_name = can_name
        self._prompts: list[_Prompt] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def places(self, text: Text) -> Iterator[Place]:
        """Where the text's scores will be: in one place, unless the engine scores no named tokens."""
        n_tokens = len(text.head) + 1
        if self._context != UNKNOWN_CONTEXT and n_tokens > self._context:
            raise ContextExceeded(limit=self._context, prompt_tokens=n_tokens, max_tokens=0)
        if self._can_name:
            yield self._place(text, text.lasts, text.n_counted, (text.n_context, text.head))
            return
        for number, last in enumerate(text.lasts):
            n_counted = text.n_counted if number == 0 else 0
            yield self._place(text, (last,), n_counted, (text.n_context, text.head, last))

    def _place(self, text: Text, lasts: tuple[int, ...], n_counted: int, key: tuple[object, ...]) -> Place:
        number = self._numbers.setdefault(key, len(self._prompts))
        if number == len(self._prompts):
            self._prompts.append(_Prompt(text.head, text.n_context))
            if number == self._most:
                raise InvalidRequest(
                    f"The request takes more than {self._most} prompts, which are the most in one request.",
                    code="array_above_max_length",
                )
        prompt = self._prompts[number]
        prompt.n_counted += n_counted
        columns = tuple(prompt.columns.setdefault(last, len(prompt.columns)) for last in lasts)
        return Place(number, replace(text, lasts=lasts), columns)

    def generations(self, *, k: int, reproducible: bool) -> tuple[GenerationRequest, ...]:
        """The requests to the engine, with the k likeliest tokens at each place."""
        return tuple(
            GenerationRequest(
                prompt=(*prompt.head, next(iter(prompt.columns))),
                n_candidates=1,
                max_tokens=0,
                sampling=Sampling(temperature=0.0),
                seed=0,
                reproducible=reproducible,
                prompt_index=number,
                prompt_logprobs=k,
                score_from=prompt.n_context - 1,
                named_ids=tuple(prompt.columns) if len(prompt.columns) > 1 else (),
            )
            for number, prompt in enumerate(self._prompts)
        )

    def counted(self) -> tuple[int, ...]:
        """Tokens that count for each."""
        return tuple(prompt.n_counted for prompt in self._prompts)
