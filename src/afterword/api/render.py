"""Deltas, choices and usage as the JSON that clients read: the chunks of a stream and the plain body.

The order of keys is promised and differs between the two (docs/rules.md#body, docs/rules.md#chunks). Knows no HTTP and
no engine.
"""

import random
import secrets
import string
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from afterword.api.render_arrays import ArrayFormat
from afterword.api.render_logprobs import LogprobFormat, format_of
from afterword.api.sse import frame
from afterword.api.wire import dumps
from afterword.completions.assemble import Choice, Delta
from afterword.completions.completion import Completion
from afterword.completions.counting import Usage
from afterword.completions.deadline import TIMEOUT
from afterword.engine.events import SampledToken
from afterword.tokens import Tokenizer

ALPHANUMERIC = string.ascii_letters + string.digits

EVENT_BLOCK = 16
"""Obfuscated events are a multiple of this many bytes long."""

_GOES_ON = b'"finish_reason":null'

_AROUND = len(frame(b',"obfuscation":""}'))
"""Bytes of an obfuscated event beside its JSON and what fills it up."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The fields that all chunks, or the body, of one answer share."""

    id: str
    created: int
    """Unix seconds."""
    model: str
    system_fingerprint: str


def new_head(model: str, system_fingerprint: str, prefix: str = "cmpl-") -> AnswerHead:
    """A head with a fresh id: `prefix` and 29 letters and digits."""
    id_ = prefix + "".join(secrets.choice(ALPHANUMERIC) for _ in range(29))
    return AnswerHead(id_, int(time.time()), model, system_fingerprint)


class ChunkRenderer:
    """Renders the chunks of one streamed answer. The constant parts are built once, so a chunk costs microseconds."""

    def __init__(self, head: AnswerHead, completion: Completion, tokenizer: Tokenizer) -> None:
        shown = self._shown = completion.shown
        self._text_alone = shown.logprobs is None and shown.prompt_logprobs is None and not shown.return_token_ids
        self._format = format_of(completion, tokenizer)
        self._before = b'{"id":%b,"object":"text_completion","created":%d,"choices":[' % (dumps(head.id), head.created)
        self._after = b'],"model":%b,"system_fingerprint":%b' % (dumps(head.model), dumps(head.system_fingerprint))
        self._no_usage = b',"usage":null' if completion.include_usage else b""
        self._obfuscate = completion.include_obfuscation

    def chunk(self, delta: Delta, usage: Usage | None) -> bytes:
        """The event for one delta. `usage`: the running one, if it was asked for."""
        logprobs, more = (b"null", b"") if self._text_alone else self._beside_the_text(delta)
        choice = b'{"text":%b,"index":%d,"logprobs":%b,%b%b}' % (
            dumps(delta.text),
            delta.index,
            logprobs,
            _GOES_ON if delta.finish_reason is None else dumps(ending(delta.finish_reason))[1:-1],
            more,
        )
        return self._event(choice, self._no_usage if usage is None else _usage_field(usage))

    def usage(self, usage: Usage) -> bytes:
        """The event that ends a stream with `include_usage`: no choices."""
        return self._event(b"", _usage_field(usage))

    def _event(self, choices: bytes, usage: bytes) -> bytes:
        json = self._before + choices + self._after + usage
        if not self._obfuscate:
            return frame(json + b"}")
        n_missing = -(len(json) + _AROUND) % EVENT_BLOCK
        return frame(b'%b,"obfuscation":"%b"}' % (json, (b"%016x" % random.getrandbits(64))[:n_missing]))

    def _beside_the_text(self, delta: Delta) -> tuple[bytes, bytes]:
        """The value of `logprobs`, and the fields after the reason."""
        k = self._shown.logprobs
        logprobs = b"null" if k is None else dumps(self._format.legacy(delta.echo, delta.tokens, k))
        return logprobs, self._prompt_logprobs_of(delta) + self._ids_of(delta)

    def _prompt_logprobs_of(self, delta: Delta) -> bytes:
        k = self._shown.prompt_logprobs
        if k is None or delta.prompt_scores is None:
            return b""
        return b',"prompt_logprobs":' + dumps(self._format.prompt(delta.prompt_scores, k))

    def _ids_of(self, delta: Delta) -> bytes:
        if not self._shown.return_token_ids:
            return b""
        return b',"prompt_token_ids":%b,"token_ids":%b' % (dumps(delta.prompt_ids), dumps(ids(delta.tokens)))


@dataclass(frozen=True, slots=True)
class BodyRenderer:
    """Renders the plain answer."""

    head: AnswerHead
    completion: Completion
    tokenizer: Tokenizer

    def body(self, choices: list[Choice], usage: Usage) -> bytes:
        """The whole body. `choices` are in index order."""
        form = format_of(self.completion, self.tokenizer)
        return dumps(
            {
                "id": self.head.id,
                "object": "text_completion",
                "created": self.head.created,
                "model": self.head.model,
                "system_fingerprint": self.head.system_fingerprint,
                "choices": [self._choice(choice, form) for choice in choices],
                "usage": usage_object(usage),
            }
        )

    def _choice(self, choice: Choice, form: LogprobFormat | ArrayFormat) -> dict[str, Any]:
        k, prompt_k = self.completion.shown.logprobs, self.completion.shown.prompt_logprobs
        shown: dict[str, Any] = {
            "text": choice.text,
            "index": choice.index,
            "logprobs": None if k is None else form.legacy(choice.echo, choice.tokens, k),
            **ending(choice.finish_reason),
        }
        if prompt_k is not None and choice.prompt_scores is not None:
            shown["prompt_logprobs"] = form.prompt(choice.prompt_scores, prompt_k)
        if self.completion.shown.return_token_ids:
            shown |= {"prompt_token_ids": choice.prompt_ids, "token_ids": ids(choice.tokens)}
        return shown


def _usage_field(usage: Usage) -> bytes:
    return b',"usage":' + dumps(usage_object(usage))


def ending(reason: str) -> dict[str, str]:
    """How a choice says why it has ended."""
    # For clients a deadline is a length: they know no other word for it.
    return {"finish_reason": "length", "stop_reason": TIMEOUT} if reason == TIMEOUT else {"finish_reason": reason}


def ids(tokens: Iterable[SampledToken]) -> list[int]:
    """`token_ids` of a choice or a chunk."""
    return [token.id for token in tokens]


def usage_object(usage: Usage) -> dict[str, Any]:
    """The `usage` object of docs/rules.md#usage."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": usage.accepted_prediction_tokens,
            "rejected_prediction_tokens": usage.rejected_prediction_tokens,
        },
    }
