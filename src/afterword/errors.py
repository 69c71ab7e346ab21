"""Every way a request can fail, as one tree.

    AfterwordError
    ├── InvalidRequest        the client's mistake: names the field, the limit and the value     400
    │   └── ContextExceeded   prompt + max_tokens do not fit the model's context                 400
    ├── NotAuthenticated      no key or a wrong one                                              401
    ├── NotPermitted          a good key that may not do this                                    403
    ├── ModelNotFound         no model of that name is registered                                404
    ├── LimitExceeded         the key's limit is used up; carries a retry time                   429
    ├── Overloaded            the engine's queue is full; carries a retry time                   503
    │   └── NeverFits         more sequences at once than the engine's slots and queue together  400
    ├── EngineFailed          the engine broke; the cause stays in the log                       500
    │   └── UpstreamFailed    another server that should have answered did not                   502
    │       └── UpstreamTimedOut   it took too long                                              504
    ├── FilterFailed          the operator's content filter broke; the cause stays in the log    500
    └── ConfigurationError    a setting or a model file is wrong; ends the program at start

Nothing here knows HTTP: `api/error_responses.py` maps the tree to status codes and bodies, once.
"""

from collections.abc import Sequence

from afterword.text.brief import brief

MODELS_NAMED = 20
"""Models that the answer to an unknown name lists."""


class AfterwordError(Exception):
    """Base of all errors raised on purpose. `str(error)` is one sentence fit for the client."""


class InvalidRequest(AfterwordError):
    """The request breaks a rule of the API.

    `param` is the field as the API spells it (None when no single field is to blame), `code` the
    machine-readable reason (docs/rules.md#statuses), None where the API has none.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ContextExceeded(InvalidRequest):
    """Prompt and completion together are longer than the model's context (docs/rules.md#context-length)."""

    def __init__(self, *, limit: int, prompt_tokens: int, max_tokens: int) -> None:
        super().__init__(
            f"This model's maximum context length is {limit} tokens, but {prompt_tokens + max_tokens} "
            f"were requested: {prompt_tokens} in the prompt and {max_tokens} for the completion "
            "(max_tokens). Shorten the prompt or lower max_tokens.",
            param="prompt" if prompt_tokens >= limit else "max_tokens",
            code="context_length_exceeded",
        )
        self.limit = limit
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens


class NotAuthenticated(AfterwordError):
    """No API key was sent, or none that this server knows."""


class NotPermitted(AfterwordError):
    """The key is known but may not do what was asked."""


class ModelNotFound(AfterwordError):
    """No registered model answers to `name`. `full_name` is the one that it would be with its vendor; `names` are those
    that there are, for who may know them.
    """

    def __init__(self, name: str, *, full_name: str | None = None, names: Sequence[str] = ()) -> None:
        hint = ""
        if full_name is not None:
            hint = f" Models are named 'vendor/name' here: send '{full_name}'."
        elif names:
            more = len(names) - MODELS_NAMED
            listed = ", ".join(f"'{one}'" for one in names[:MODELS_NAMED]) + (f" and {more} more" if more > 0 else "")
            hint = f' It has {listed}. With aliases = ["{brief(name)}"] a table [[models]] answers to that name too.'
        super().__init__(f"The model '{brief(name)}' does not exist on this server.{hint}")
        self.name = name
        self.full_name = full_name


class LimitExceeded(AfterwordError):
    """The key's limit is used up, or lower than the request needs.

    `kind` is `requests` or `tokens`, `retry_after` in whole seconds, at least 1, or None if waiting does not help.
    """

    def __init__(self, message: str, *, kind: str, retry_after: int | None) -> None:
        super().__init__(message)
        assert kind in ("requests", "tokens")
        assert retry_after is None or retry_after >= 1
        self.kind = kind
        self.retry_after = retry_after


class Overloaded(AfterwordError):
    """The engine's queue is full. `retry_after` is in whole seconds, at least 1."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        assert retry_after >= 1
        self.retry_after = retry_after


class NeverFits(Overloaded):
    """More sequences at once than the engine ever holds: waiting does not help, unless another engine holds more."""

    def __init__(self, n: int, *, n_slots: int, max_waiting: int) -> None:
        super().__init__(
            f"The request asks for {n} sequences (prompts x best_of, or x n); this model takes at most "
            f"{n_slots + max_waiting} at once: {n_slots} that run and {max_waiting} that wait (max_waiting). Send "
            "fewer prompts in a request.",
            retry_after=1,
        )


class EngineFailed(AfterwordError):
    """The engine could not finish. The message does not contain the cause; `__cause__` does."""


class UpstreamFailed(EngineFailed):
    """The server behind a model gave no answer or an invalid one. `detail` is for the log only."""

    def __init__(self, detail: str, message: str = "The server that runs this model failed.") -> None:
        super().__init__(message)
        self.detail = detail


class UpstreamTimedOut(UpstreamFailed):
    """The server behind a model took too long."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, "The server that runs this model took too long.")


class FilterFailed(AfterwordError):
    """The operator's content filter failed on a completion, which is therefore not sent. `__cause__` says why."""


class ConfigurationError(AfterwordError):
    """A setting, a model file or the machine does not allow the server to start."""
