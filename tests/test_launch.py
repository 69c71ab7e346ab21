"""Large pages: asked for where they help, once, and left to who has set them."""

import subprocess
import sys

import pytest

from afterword import launch
from afterword.launch import tunables

KERNEL = "always [madvise] never\n"


def test_they_are_asked_for() -> None:
    assert tunables({"PATH": "/bin"}, "glibc 2.36", KERNEL) == "glibc.malloc.hugetlb=1"


def test_other_tunables_stay() -> None:
    environment = {"GLIBC_TUNABLES": "glibc.malloc.check=3"}
    assert tunables(environment, "glibc 2.36", KERNEL) == "glibc.malloc.check=3:glibc.malloc.hugetlb=1"


@pytest.mark.parametrize("value", ["0", "1", "2"])
def test_who_has_set_them_decides(value: str) -> None:
    assert tunables({"GLIBC_TUNABLES": f"glibc.malloc.hugetlb={value}"}, "glibc 2.36", KERNEL) is None


@pytest.mark.parametrize("libc", [None, "", "musl 1.2", "glibc", "glibc 2.34"])
def test_another_library_is_not_asked(libc: str | None) -> None:
    assert tunables({}, libc, KERNEL) is None


@pytest.mark.parametrize("kernel", ["", "[always] madvise never\n", "always madvise [never]\n"])
def test_a_kernel_that_decides_itself_is_left_alone(kernel: str) -> None:
    assert tunables({}, "glibc 2.36", kernel) is None


def test_the_program_begins_anew_with_its_arguments() -> None:
    program = (
        "import os; from afterword import launch; print(os.getpid(), os.environ.get('GLIBC_TUNABLES'), flush=True);"
        f"launch._libc = lambda: 'glibc 2.40'; launch._kernel = lambda: {KERNEL!r}; launch.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=True, env={}, timeout=60
    )
    before, after, version = done.stdout.splitlines()
    assert (before.split()[1], after.split()[1]) == ("None", "glibc.malloc.hugetlb=1")
    assert before.split()[0] == after.split()[0]
    assert version.startswith("afterword ")


@pytest.mark.parametrize("interpreter", ["", "/nowhere/python"])
def test_a_program_that_cannot_begin_anew_goes_on(monkeypatch: pytest.MonkeyPatch, interpreter: str) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(launch, "_libc", lambda: "glibc 2.40")
    monkeypatch.setattr(launch, "_kernel", lambda: KERNEL)
    monkeypatch.setattr(sys, "executable", interpreter)
    launch.begin_anew_with_large_pages()
