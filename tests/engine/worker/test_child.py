import socket
import sys
from pathlib import Path
from threading import Thread

import pytest
from tests.fakes import generation_request

from afterword.engine.worker.child import _next_command
from afterword.engine.worker.worker_messages import Add, packed

N_STEPS = 200


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's count of waits is needed")
def test_who_waits_for_commands_is_not_woken_by_what_the_server_reads() -> None:
    ours, theirs = socket.socketpair()
    command, got = Add(1, generation_request([1])), []
    waiting = Thread(target=lambda: got.append(_next_command(theirs)))
    with ours, theirs:
        waiting.start()
        while not _waits(waiting):
            pass
        before = _n_waits(waiting)
        for _ in range(N_STEPS):
            theirs.sendall(b"x")
            ours.recv(1)
        n_woken = _n_waits(waiting) - before
        ours.sendall(packed(command))
        waiting.join()
    assert got == [command]
    assert n_woken < N_STEPS / 10


def _status(thread: Thread, name: str) -> str:
    lines = Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(name)).split()[1]


def _waits(thread: Thread) -> bool:
    return _status(thread, "State") == "S"


def _n_waits(thread: Thread) -> int:
    return int(_status(thread, "voluntary_ctxt_switches"))
