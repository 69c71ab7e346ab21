"""How much of this machine the process may use: memory, cores, file descriptors. Knows no setting and no model."""

import os
import resource
from contextlib import suppress
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")

MOST_DESCRIPTORS = 65536
"""More are not asked for: some libraries take time or memory for each that there could be."""

SOME_DESCRIPTORS = 64
"""What a process is taken to have open where the system does not say."""


def free_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUP) -> int:
    """Bytes that can be taken now without swapping, under the container's limit if there is one."""
    limits = [_available(meminfo)]
    maximum, used = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    if maximum is not None and used is not None:
        limits.append(max(maximum - used, 0))
    return min(limits)


def usable_cores(topology: Path = Path("/sys/devices/system/cpu"), cgroup: Path = CGROUP) -> int:
    """Physical cores this process may run on, at least 1: hyper-threads count once, a CPU quota is rounded up."""
    cpus = _allowed_cpus()
    cores = {_siblings(topology / f"cpu{cpu}" / "topology" / "thread_siblings_list", cpu) for cpu in cpus}
    return max(1, min(len(cores), _quota(cgroup / "cpu.max", len(cores))))


def resident_memory(processes: Path = Path("/proc")) -> int:
    """Bytes of this process and of those it has started that are in memory now; 0 where the system does not say."""
    own = processes / "self"
    started = [pid for listed in own.glob("task/*/children") for pid in _text(listed).split()]
    pages = [_text(process / "statm").split() for process in (own, *(processes / pid for pid in started))]
    return sum(int(of_process[1]) for of_process in pages if of_process) * os.sysconf("SC_PAGE_SIZE")


def idle_seconds(stat: Path = Path("/proc/stat")) -> float | None:
    """Seconds that the CPUs this process may use have been idle, all together; None if the system does not say.

    Source: proc_stat(5), the times of each CPU in ticks.
    """
    allowed = {f"cpu{cpu}" for cpu in _allowed_cpus()}
    lines = [line.split() for line in _text(stat).splitlines() if line.startswith("cpu")]
    idle = [int(times[4]) + int(times[5]) for times in lines if times[0] in allowed]
    return sum(idle) / os.sysconf("SC_CLK_TCK") if idle else None


def free_descriptors(listed: Path = Path("/proc/self/fd")) -> int:
    """Files and connections that this process may still open, once its limit is as high as this user may have it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    try:
        n_open = len(list(listed.iterdir()))
    except OSError:
        n_open = SOME_DESCRIPTORS
    limit = MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(0, limit - n_open)


def _available(meminfo: Path) -> int:
    try:
        for line in meminfo.read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemAvailable":
                return int(rest.split()[0]) * 1024
    except OSError:
        pass
    # Without /proc the installed memory is the best figure there is.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _text(file: Path) -> str:
    """What a file of the system says; nothing if there is none, or none any more."""
    try:
        return file.read_text()
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    """The number a control file holds; None if there is no file or no limit."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _allowed_cpus() -> list[int]:
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:
        return list(range(os.cpu_count() or 1))


def _siblings(file: Path, cpu: int) -> str:
    """A name for the core that `cpu` is a hyper-thread of."""
    try:
        return file.read_text().strip()
    except OSError:
        return str(cpu)


def _quota(file: Path, unlimited: int) -> int:
    try:
        quota, period = file.read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):
        return unlimited
