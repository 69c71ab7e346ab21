"""This machine: cores, memory, instructions, limits, large pages, and room where files are kept."""

import os
import platform
import resource
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from afterword.cli.doctor.finding import Finding
from afterword.config.tree import Config
from afterword.machine import free_memory, usable_cores

MACHINE = "machine"

INSTRUCTIONS = ("avx2", "f16c", "fma", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimd", "asimddp", "sve")
"""Those of which kernels are made, as /proc/cpuinfo calls them."""

FEW_DESCRIPTORS = 1024
LITTLE_DISK = 1 << 30
"""Bytes."""

CPU_INFO = Path("/proc/cpuinfo")
LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def machine(
    environment: Mapping[str, str], cpu_info: Path = CPU_INFO, large_pages: Path = LARGE_PAGES
) -> Iterator[Finding]:
    """All but disks."""
    yield Finding(MACHINE, "system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    yield Finding(MACHINE, "processor", _processor(cpu_info))
    yield Finding(MACHINE, "cores", f"{usable_cores()} physical that it may use, {os.cpu_count() or 1} logical in all")
    yield _instructions(cpu_info)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield Finding(MACHINE, "memory", f"{_mib(free_memory())} free of {_mib(total)}")
    yield _descriptors()
    yield _large_pages(large_pages, environment)


def disks(config: Config) -> Iterator[Finding]:
    """Whether the cache can be written, and how much room there is for it."""
    folder = config.engine.cache_dir
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    writable = os.access(there, os.W_OK | os.X_OK)
    yield Finding(
        MACHINE,
        "cache",
        f"{folder}, {_mib(free)} free",
        advice=None
        if writable and free >= LITTLE_DISK
        else f"{there} cannot be written: what is found out about a model is found out at each start."
        if not writable
        else f"{there} has little room.",
    )


def _processor(cpu_info: Path) -> str | None:
    return next((value for name, value in _cpu_lines(cpu_info) if name in ("model name", "Model")), None)


def _instructions(cpu_info: Path) -> Finding:
    flags = next((value.split() for name, value in _cpu_lines(cpu_info) if name in ("flags", "Features")), None)
    if flags is None:
        return Finding(MACHINE, "instructions", None)
    known = [name for name in INSTRUCTIONS if name in flags]
    slow = not {"avx2", "asimd"} & set(known)
    advice = "Without AVX2 or NEON models are several times as slow." if slow else None
    return Finding(MACHINE, "instructions", ", ".join(known) or "none of use here", advice=advice)


def _cpu_lines(cpu_info: Path) -> Iterator[tuple[str, str]]:
    try:
        lines = cpu_info.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def _descriptors() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = hard != resource.RLIM_INFINITY and hard <= FEW_DESCRIPTORS
    advice = f"At most {hard} files and connections: raise the limit (LimitNOFILE, ulimit -n)." if few else None
    return Finding(MACHINE, "files", f"{_limit(soft)} at once, may be raised to {_limit(hard)}", advice=advice)


def _limit(number: int) -> str:
    return "any number" if number == resource.RLIM_INFINITY else str(number)


def _large_pages(setting: Path, environment: Mapping[str, str]) -> Finding:
    try:
        choices = setting.read_text("ascii", "replace").split()
    except OSError:
        return Finding(MACHINE, "large pages", None, advice="The kernel does not say whether it has pages of 2 MiB.")
    chosen = next((choice.strip("[]") for choice in choices if choice.startswith("[")), "?")
    asked = "glibc.malloc.hugetlb" in environment.get("GLIBC_TUNABLES", "")
    found = f"{chosen}{', which this program asks for' if chosen == 'madvise' and asked else ''}"
    off = chosen == "never" or (chosen == "madvise" and not asked)
    advice = "Without pages of 2 MiB a token takes about a tenth longer." if off else None
    return Finding(MACHINE, "large pages", found, advice=advice)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
