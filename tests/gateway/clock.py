"""A clock that tests set."""


class Clock:
    """Unix seconds, or any others: the same until it is moved."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.now += seconds
