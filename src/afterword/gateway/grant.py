"""What a request may do, and on which account. Knows no storage and no HTTP."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of one key. None: no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Prompt and completion tokens together."""
    concurrent_requests: int | None = None
    concurrent_tokens: int | None = None
    """That the requests which run or wait may use, prompt and completion tokens together."""


UNLIMITED = KeyLimits()


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions of one request, as they were when it arrived."""

    key_id: str | None
    """Public id of the key; None: it is the configuration's, or there was none."""
    account_id: str | None
    """The account that is charged (docs/rules.md#charged-account); None: there are no accounts."""
    models: frozenset[str] | None = None
    """Full names (`vendor/name`) of the models the key may use; None: all."""
    limits: KeyLimits = UNLIMITED
    keyless: bool = False
    """The server is open: nobody was asked for a key."""
    priority: int = 0
    """Of its requests, lower is earlier; they may ask for a later one (docs/rules.md#priority)."""

    def allows(self, model: str) -> bool:
        """Whether the model of that full name may be used."""
        return self.models is None or model in self.models
