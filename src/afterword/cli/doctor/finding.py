"""What a check has found, and a guard that makes a check which itself fails a finding."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from afterword.errors import AfterwordError
from afterword.text.brief import plain


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    about: str
    """`machine`, `build`, `configuration`, `model NAME`, `database` and so on."""
    what: str
    found: str | None
    """None: it could not be found out."""
    wrong: str | None = None
    """A sentence about what keeps the server from serving; None: nothing."""
    advice: str | None = None
    """A sentence about what works and could be better."""


Check = Callable[[], Iterable[Finding]]


def findings(about: str, check: Check) -> list[Finding]:
    """What `check` finds up to where it fails, and that it failed."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except AfterwordError as error:
        found.append(Finding(about, "check", None, wrong=str(error)))
    except Exception as error:
        # A report with a hole says more than a traceback, whatever the reason.
        said = plain(f"{type(error).__name__}: {error}")
        found.append(Finding(about, "check", None, wrong=f"The check failed: {said}."))
    return found
