"""Stand-ins for the tests of this folder: an engine that says what it is told to, a vocabulary small enough to read."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np

from afterword.completions.completion import Completion
from afterword.completions.parse import parse_body
from afterword.completions.resolve import resolve
from afterword.config.tree import ServerConfig
from afterword.engine.base import Capabilities, EngineStats
from afterword.engine.events import Event, PromptScores
from afterword.engine.request import GenerationRequest
from afterword.errors import AfterwordError, Overloaded
from afterword.fields.body import CompletionBody
from afterword.registry import ServedModel
from afterword.text.infill_template import parse_template
from afterword.tokens import ByteTokenizer, InfillTokens, Tokenizer, spell_bytes

Script = Callable[[GenerationRequest], Sequence[Event | AfterwordError]]

NAMES = ("<s>", "</s>", "<PRE>", "<SUF>", "<MID>")
BOS, EOS, PRE, SUF, MID = range(5)


CAPABILITIES = Capabilities(context=64, max_logprobs=50, reproducible=True, prefix_cache=False, n_slots=4)


class AsciiTokenizer:
    """Five control tokens, then one token for each printable ASCII character; everything else is lost.

    `lead` is put in front of every run of text, as vocabularies with a space prefix do.
    """

    def __init__(self, *, lead: str = "", infill: InfillTokens | None = None) -> None:
        self.n_vocab = 100
        self.bos_id: int | None = BOS
        self.eos_id: int | None = EOS
        self.pad_id: int | None = None
        self.add_bos = True
        self.infill = infill
        self.end_ids = frozenset({EOS})
        self.separator_id = BOS
        self.chat_template: str | None = None
        self.name = "ascii"
        self._lead = lead

    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        ids = [BOS] if add_bos else []
        for part in re.split("(" + "|".join(NAMES) + ")", self._lead + text) if parse_special else [self._lead + text]:
            ids += [NAMES.index(part)] if parse_special and part in NAMES else letters(part)
        return ids

    def piece(self, token: int) -> bytes:
        return NAMES[token].encode() if token < 5 else bytes([token + 27])

    def is_control(self, token: int) -> bool:
        return token < 5

    def spell(self, token: int) -> str:
        return spell_bytes(self.piece(token))


def letters(text: str) -> list[int]:
    """Ids of the printable ASCII characters of `text`."""
    return [ord(c) - 27 for c in text if 32 <= ord(c) < 127]


@dataclass
class ScriptedGeneration:
    request: GenerationRequest
    script: Sequence[Event | AfterwordError]
    entered: bool = False
    left: bool = False
    ended: list[int] = field(default_factory=list)
    """Candidates that the reader wants no more of; the script goes on all the same."""
    on_enter: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        self.on_enter()
        self.entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.left = True

    def end(self, index: int) -> None:
        self.ended.append(index)

    def unread(self) -> Iterator[Event]:
        return iter(())

    async def __aiter__(self) -> AsyncIterator[Event]:
        for item in self.script:
            if isinstance(item, AfterwordError):
                raise item
            yield item
        if not self.script:
            await asyncio.Event().wait()


@dataclass
class ScriptedEngine:
    """Says `script(request)` for each request; an empty script never says anything."""

    script: Script = lambda request: ()
    tokenizer: Tokenizer = field(default_factory=ByteTokenizer)
    capabilities: Capabilities = CAPABILITIES
    fingerprint: str = "fp_0123456789"
    room: int = 1000
    """Sequences that `check_capacity` lets through."""
    full_after: int = 1000
    """Generations after which `generate` refuses."""
    generations: list[ScriptedGeneration] = field(default_factory=list)
    submitted_when_entering: list[int] = field(default_factory=list)
    """For each entered generation, how many there were at that moment."""
    on_enter: Callable[[], None] = lambda: None

    def start(self) -> None:
        pass

    def generate(self, request: GenerationRequest) -> ScriptedGeneration:
        if len(self.generations) == self.full_after:
            raise Overloaded("full", retry_after=1)
        self.generations.append(ScriptedGeneration(request, self.script(request), on_enter=self._entered))
        return self.generations[-1]

    def _entered(self) -> None:
        self.submitted_when_entering.append(len(self.generations))
        self.on_enter()

    def check_capacity(self, n_sequences: int) -> None:
        if n_sequences > self.room:
            raise Overloaded("full", retry_after=1)

    def stats(self) -> EngineStats:
        return EngineStats(state="ready")

    async def aclose(self) -> None:
        return


def served(tokenizer: Tokenizer | None = None, *, infill_template: str | None = None) -> ServedModel:
    """A model with the name `small` and a context of 64 tokens."""
    engine = ScriptedEngine(tokenizer=tokenizer or ByteTokenizer())
    template = None if infill_template is None else parse_template(infill_template)
    return ServedModel("small", engine, created=0, infill_template=template)


def body(**fields: Any) -> CompletionBody:
    return parse_body(fields, strict=False)


def completion(*where: ServedModel | ServerConfig, **fields: Any) -> Completion:
    """The request of these fields, resolved; with a seed unless they have one. `where` replaces model and server."""
    model = next((part for part in where if isinstance(part, ServedModel)), served())
    server = next((part for part in where if isinstance(part, ServerConfig)), ServerConfig())
    return resolve(body(**({"seed": 0} | fields)), model, server)


def scores(n_prompt: int, k: int) -> PromptScores:
    """Scores for a prompt of `n_prompt` tokens, different in every place."""
    values = -np.arange(1, (n_prompt - 1) * (k + 1) + 1, dtype=np.float64).reshape(n_prompt - 1, k + 1)
    return PromptScores(values[:, 0], np.tile(np.arange(k, dtype=np.int32), (n_prompt - 1, 1)), values[:, 1:])
