"""What a request may do and on whose account: the answer to "whose key is this?". Knows no storage and no HTTP."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """How much one key may do. None: as much as it likes."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Prompt and completion tokens together."""
    concurrent_requests: int | None = None


UNLIMITED = KeyLimits()


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission for one request, as it was when the request came."""

    key_id: str | None
    """Public id of the key; None: the server is open or has one static key."""
    account_id: str | None
    """The account that is charged (docs/rules.md#charged-account); None: there are no accounts."""
    models: frozenset[str] | None = None
    """Full names (`vendor/name`) of the models the key may use; None: all."""
    limits: KeyLimits = UNLIMITED

    def allows(self, model: str) -> bool:
        """Whether the model of that full name may be used."""
        return self.models is None or model in self.models
