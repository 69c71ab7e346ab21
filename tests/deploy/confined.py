"""Runs a program as deploy/ has it: no privileges, a root that cannot be written to, memory that is not both.

What systemd and a container's runtime do by themselves is done here by `unshare`, `mount` and `setpriv`, where this
machine lets its users.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = ("unshare", "mount", "setpriv", "chroot")

BEGIN = """
set -e
root=$1; given=$2; shift 2
mount --make-rprivate /
mount --rbind "$ROOT" "$root"
mount --options remount,bind,ro "$root"
mount --types tmpfs tmpfs "$root/var/lib"
mount --types tmpfs tmpfs "$root/var/cache"
mkdir "$root/var/lib/afterword" "$root/var/cache/afterword"
mount --bind "$given" "$root/mnt"
mount --options remount,bind,ro "$root/mnt"
for own in proc dev; do mountpoint -q "$root/$own" || mount --rbind "/$own" "$root/$own"; done
mount --types tmpfs tmpfs "$root/tmp"
exec chroot "$root" setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""

# PR_SET_MDWE: memory that could be written to is never executed. It holds for what is executed next too.
REFUSE_CODE_IN_DATA = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
)

IN_ROOT = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", BEGIN, "sh"]


def why_not() -> str | None:
    """Why nothing can be confined on this machine; None: it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]}"
    tried = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"there are no namespaces for users: {tried.stderr.strip()}"


@contextmanager
def confined(
    command: Sequence[str], folder: Path, given: Path, environment: Mapping[str, str], root: Path = Path("/")
) -> Iterator["subprocess.Popen[str]"]:
    """`command` as a process whose root is `root`, read-only; /mnt is the folder `given`, read-only too.

    It may write to /var/lib/afterword, /var/cache/afterword and /tmp, which are empty. `folder`: an empty one. Skips
    the test where nothing can be confined.
    """
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    python = shutil.which("python3", path=os.defpath) or "/usr/bin/python3"
    with subprocess.Popen(
        [*IN_ROOT, str(folder), str(given), python, "-c", REFUSE_CODE_IN_DATA, *command],
        env={**environment, "ROOT": str(root), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
