"""One file by HTTP: continued where an earlier try has ended, and checked before it gets its name."""

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path

import httpx

from afterword.errors import AfterwordError, PullFailed

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
"""How long a server may send nothing."""

PAUSES = (0.0, 1.0, 4.0, 10.0)
"""Seconds before each further try; they begin anew whenever a try has brought something."""

Report = Callable[[int, int | None], None]
"""Gets how many bytes are there, and how many there will be, if that is known."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One file elsewhere, and where it goes."""

    url: str
    target: Path
    headers: Mapping[str, str]
    """Sent to the host of `url` alone where it is about who asks: not to one that it redirects to."""
    tag: str | None = None
    """Text without slashes that only this content has; None: what the server says of it when asked."""
    sha256: str | None = None
    """In lower-case hex; None: not known."""


def fetch(wanted: Wanted, report: Report, check: Callable[[Path], object] = lambda _: None) -> None:
    """Bring the file to `wanted.target`. What a try leaves behind, also one that was killed, the next one goes on with.

    `check`: called with the whole file before it gets its name; raises what is wrong with it. Raises `PullFailed`.
    """
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    with httpx.Client(headers=wanted.headers, timeout=timeout, follow_redirects=True) as client:
        try:
            tag = _tag(client, wanted.url) if wanted.tag is None else wanted.tag
            with _part(wanted.target, tag) as file:
                _download(client, wanted.url, file, report)
                _check(file, wanted, check)
                Path(file.name).replace(wanted.target)
        except httpx.HTTPError as error:
            raise PullFailed(f"{wanted.url} cannot be fetched: {_why(error)}.") from error
        except httpx.InvalidURL as error:
            raise PullFailed(f"{wanted.url} is no address: {error}.") from error
        except OSError as error:
            raise PullFailed(f"{wanted.target} cannot be written: {error.strerror}.") from error


def _tag(client: httpx.Client, url: str) -> str:
    """What tells this content from a later one at the same address."""
    with client.stream("GET", url) as response:
        _raise_for_status(response)
        said = [response.headers.get(name, "") for name in ("etag", "last-modified", "content-length")]
        return hashlib.sha256("\n".join([url, *said]).encode()).hexdigest()[:16]


@contextmanager
def _part(target: Path, tag: str) -> Iterator[BufferedRandom]:
    """The file that is not whole yet, which no other process writes to."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.with_name(f"{target.name}.{tag[:16]}.part")
    with path.open("a+b") as file:
        try:
            # Freed by the system however the process ends.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PullFailed(f"{target.name} is being fetched by another process.") from None
        try:
            yield file
        finally:
            if file.seek(0, os.SEEK_END) == 0:
                path.unlink(missing_ok=True)


def _download(client: httpx.Client, url: str, file: BufferedRandom, report: Report) -> None:
    """All bytes, in as many tries as bring something, and a few more."""
    tries = iter(PAUSES)
    while True:
        before = file.seek(0, os.SEEK_END)
        try:
            _append(client, url, file, report)
            return
        except httpx.TransportError:
            if file.seek(0, os.SEEK_END) > before:
                tries = iter(PAUSES)
            pause = next(tries, None)
            if pause is None:
                raise
            time.sleep(pause)


def _append(client: httpx.Client, url: str, file: BufferedRandom, report: Report) -> None:
    """Ask for what is missing; a server that sends everything gets its way."""
    at = file.seek(0, os.SEEK_END)
    # Numbers of bytes are of the file as it is, not packed.
    headers = {"accept-encoding": "identity"} | ({} if at == 0 else {"range": f"bytes={at}-"})
    with client.stream("GET", url, headers=headers) as response:
        whole = _whole_size(response)
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            if whole == at:
                return
            file.truncate(0)
            raise httpx.RemoteProtocolError("there are more bytes here than there")
        _raise_for_status(response)
        if response.status_code != httpx.codes.PARTIAL_CONTENT:
            file.truncate(0)
            at = 0
        _check_room(file, 0 if whole is None else whole - at)
        report(at, whole)
        for chunk in response.iter_bytes():
            file.write(chunk)
            at += len(chunk)
            report(at, whole)
        file.flush()


def _whole_size(response: httpx.Response) -> int | None:
    """Bytes of the whole file, as far as an answer says."""
    of = re.fullmatch(r"bytes .*/(\d+)", response.headers.get("content-range", ""))
    if of is not None:
        return int(of[1])
    length = response.headers.get("content-length", "")
    return int(length) if response.status_code == httpx.codes.OK and length.isdecimal() else None


def _check_room(file: BufferedRandom, n_missing: int) -> None:
    free = shutil.disk_usage(Path(file.name).parent).free
    if n_missing > free:
        raise PullFailed(
            f"{Path(file.name).parent} has {free / 2**20:,.0f} MiB left, and {n_missing / 2**20:,.0f} MiB are to come."
        )


def _check(file: BufferedRandom, wanted: Wanted, check: Callable[[Path], object]) -> None:
    """Remove the whole file if something is wrong with it, so that the next try begins anew."""
    path = Path(file.name)
    try:
        file.seek(0)
        if wanted.sha256 is not None:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != wanted.sha256:
                raise PullFailed(f"{wanted.url} has the SHA-256 {found}, not {wanted.sha256}: it is not kept.")
        check(path)
    except AfterwordError:
        path.unlink()
        raise


def _raise_for_status(response: httpx.Response) -> None:
    if response.is_error:
        raise PullFailed(f"{response.request.url} cannot be fetched: the server answers {response.status_code}.")


def _why(error: httpx.HTTPError) -> str:
    return str(error).rstrip(".") or type(error).__name__
