"""The console script, which first asks the C library for large pages, where it has a setting for that.

Reading a model's weights for every token misses the processor's table of pages (TLB) all the time if they are of 4 KiB.
Where the kernel gives pages of 2 MiB only to who asks (`madvise`), glibc asks for every large allocation if a
variable says so. It is read before a program's first line, so the program begins anew once, under the same process id.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

VARIABLE = "GLIBC_TUNABLES"
TUNABLE = "glibc.malloc.hugetlb"
"""Left alone if the user has set it, to any value."""

FIRST_GLIBC = (2, 35)
"""The version that brought the tunable."""

KERNEL_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def tunables(environment: Mapping[str, str], libc: str | None, kernel: str) -> str | None:
    """The value of GLIBC_TUNABLES to start again with; None if that would change nothing.

    `libc`: as `confstr` names it, e.g. `glibc 2.36`; `kernel`: its choices, the one in force in brackets.
    """
    name, _, version = (libc or "").partition(" ")
    set_so_far = environment.get(VARIABLE, "")
    if name != "glibc" or _numbers(version) < FIRST_GLIBC or "[madvise]" not in kernel or TUNABLE in set_so_far:
        return None
    return ":".join(filter(None, (set_so_far, f"{TUNABLE}=1")))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        # Another C library, or another system.
        return None


def _kernel() -> str:
    try:
        return KERNEL_SETTING.read_text()
    except OSError:
        return ""


def begin_anew_with_large_pages() -> None:
    """Start this program again, with the same arguments, if that gets it large pages; else, or if it cannot, return."""
    value = tunables(os.environ, _libc(), _kernel())
    if value is not None:
        # Small pages are slower, no reason not to serve.
        with suppress(OSError):
            os.execve(sys.executable, sys.orig_argv, {**os.environ, VARIABLE: value})


def main() -> None:
    """The console script: the commands of `cli.main`."""
    begin_anew_with_large_pages()
    # Imported after the possible restart: it takes a second.
    from afterword.cli.main import app

    app()
