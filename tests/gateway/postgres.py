"""A PostgreSQL server of the tests' own, on a free port of 127.0.0.1, without durability."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SETTINGS = (
    "fsync=off",
    "shared_buffers=16MB",
    "max_connections=60",
    # Far from UTC, so that whoever mixes up zones is found out.
    "timezone=Pacific/Auckland",
)

USERS = ("postgres", "nobody")
"""Who runs the server if the tests run as root, which PostgreSQL refuses to."""


def programs() -> Path | None:
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    folders = [] if found is None else [Path(found).resolve().parent]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").is_file()), None)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that can be stopped and started again."""

    programs: Path
    home: Path
    port: int
    user: pwd.struct_passwd | None

    @property
    def url(self) -> str:
        """Of its database `postgres`."""
        return f"postgresql://tests@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        """Make its files."""
        self._run("initdb", "-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        options = " ".join(["-h 127.0.0.1", f"-p {self.port}", f"-k {self.home}", *settings])
        self._run("pg_ctl", "-l", str(self.home / "log"), "-o", options, "-w", "start")

    def stop(self) -> None:
        """Stop it, whoever is connected."""
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        demoted: Sequence[str] = ()
        if self.user is not None:
            demoted = ("setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups")
        command = [*demoted, str(self.programs / program), "-D", str(self.home / "data"), *arguments]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """A started server; `folder` holds the programs. Stopped if need be and removed at the end."""
    home = Path(tempfile.mkdtemp(prefix="afterword-postgres-"))
    server = Server(folder, home, _free_port(), _user())
    try:
        if server.user is not None:
            os.chown(home, server.user.pw_uid, server.user.pw_gid)
        server.create()
        server.start()
        yield server
    finally:
        if (home / "data" / "postmaster.pid").exists():
            server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in USERS if name in known)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
