"""What the machine offers, read from files as the kernel writes them."""

import os
import resource
from pathlib import Path

import pytest

from afterword.machine import free_descriptors, free_memory, idle_seconds, resident_memory, usable_cores

MEMINFO = "MemTotal:       8000 kB\nMemFree:         100 kB\nMemAvailable:   4000 kB\n"


def write(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, 4096000, id="no container"),
        pytest.param({"memory_max": "max\n", "memory_current": "5\n"}, 4096000, id="container without a limit"),
        pytest.param({"memory_max": "1000000\n", "memory_current": "400000\n"}, 600000, id="container with less"),
        pytest.param({"memory_max": "9000000\n", "memory_current": "1\n"}, 4096000, id="container with more"),
        pytest.param({"memory_max": "5\n", "memory_current": "6\n"}, 0, id="container that is full"),
    ],
)
def test_free_memory_is_the_least_of_machine_and_container(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    write(tmp_path, meminfo=MEMINFO, **files)
    assert free_memory(tmp_path / "meminfo", tmp_path) == expected


def test_hyper_threads_of_one_core_count_once(tmp_path: Path) -> None:
    for cpu in os.sched_getaffinity(0):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text("0-999\n")
    assert usable_cores(tmp_path, tmp_path) == 1


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        pytest.param("100000 100000", 1, id="one"),
        pytest.param("1000 100000", 1, id="a hundredth is one"),
        pytest.param("max 100000", len(os.sched_getaffinity(0)), id="no quota"),
        pytest.param("99900000 100000", len(os.sched_getaffinity(0)), id="more than there are"),
    ],
)
def test_a_quota_limits_the_cores(tmp_path: Path, quota: str, expected: int) -> None:
    write(tmp_path, cpu_max=quota)
    assert usable_cores(tmp_path, tmp_path) == expected


def test_a_process_occupies_memory_if_the_system_says() -> None:
    assert resident_memory() > 2**20
    assert resident_memory(Path("/no/such/folder")) == 0


def test_the_memory_of_processes_that_were_started_is_added(tmp_path: Path) -> None:
    for process, pages in (("self", 100), ("7", 20), ("8", 3)):
        (tmp_path / process).mkdir()
        (tmp_path / process / "statm").write_text(f"1000 {pages} 5\n")
    for thread, children in (("1", "7 "), ("2", "8 9 ")):
        (tmp_path / "self" / "task" / thread).mkdir(parents=True)
        (tmp_path / "self" / "task" / thread / "children").write_text(children)
    # 9 has ended meanwhile.
    assert resident_memory(tmp_path) == 123 * os.sysconf("SC_PAGE_SIZE")


def test_what_is_idle_is_summed_over_the_cpus_that_may_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 12})
    monkeypatch.setattr(os, "sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    (tmp_path / "stat").write_text(
        "cpu  9 9 9 9000 9 0 0 0 0 0\ncpu0 1 2 3 4000 50 0 0 0 0 0\ncpu1 1 2 3 900 0 0 0 0 0 0\n"
        "cpu12 1 2 3 100 50 0 0 0 0 0\nintr 5\n"
    )
    assert idle_seconds(tmp_path / "stat") == 42.0
    assert idle_seconds(tmp_path / "none") is None


def test_descriptors_that_are_open_are_not_free(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        n_free = free_descriptors(tmp_path)
        for name in ("0", "1", "2"):
            (tmp_path / name).touch()
        assert free_descriptors(tmp_path) == n_free - 3
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised >= soft
        assert free_descriptors(tmp_path / "none") < n_free
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
