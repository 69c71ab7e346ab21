"""Bodies: what counts as one JSON object, and how large it may be."""

import gzip
import json
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message

from afterword.api.disconnect import ClientLeft
from afterword.api.error_responses import HttpRefusal
from afterword.api.intake import MOST_MEMBERS, UNCOUNTED, Intake, parse_object
from afterword.config.tree import ServerConfig
from afterword.errors import ConfigurationError, InvalidRequest, Overloaded


class Connection:
    """Hands out the pieces of a body and counts how many were taken."""

    def __init__(self, pieces: Iterable[bytes], *, ends: bool = True) -> None:
        self._pieces = list(pieces)
        self._ends = ends
        self.n_taken = 0

    def request(self, encoding: str | None = None) -> Request:
        headers = [] if encoding is None else [(b"content-encoding", encoding.encode("ascii"))]
        return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, self.receive)

    async def receive(self) -> Message:
        if self.n_taken == len(self._pieces):
            return {"type": "http.disconnect"}
        piece = self._pieces[self.n_taken]
        self.n_taken += 1
        last = self.n_taken == len(self._pieces) and self._ends
        return {"type": "http.request", "body": piece, "more_body": not last}


async def read_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """The object that a request brings, if its body is the only one."""
    async with Intake(max_bytes, 2 * max_bytes).body(request) as raw:
        return parse_object(raw, 1000)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"prompt=hello", id="form"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte order mark"),
        pytest.param('{"prompt": "é"}'.encode("utf-16"), id="utf-16"),
        pytest.param(b'{"prompt": "\xff"}', id="bad byte"),
        pytest.param(b'{"prompt": "\\ud800"}', id="half a surrogate pair"),
        pytest.param(b'{"temperature": NaN}', id="NaN"),
        pytest.param(b'{"temperature": Infinity}', id="Infinity"),
        pytest.param(b'{"temperature": 1e999}', id="overflowing float"),
        pytest.param(b'{"seed": ' + b"1" * 5000 + b"}", id="5000 digits"),
        pytest.param(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep"),
        pytest.param(b'{"s": 99999999999999999999, "a": ' + b"[" * 990 + b"]" * 990 + b"}", id="deep and long"),
        pytest.param(b"[]", id="array"),
        pytest.param(b'"text"', id="string"),
        pytest.param(b"null", id="null"),
    ],
)
def test_anything_but_one_json_object_is_refused_without_a_param(raw: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_object(raw, 1000)
    assert refused.value.param is None


@pytest.mark.parametrize("seed", [0, -1, 2**63, -(2**63) - 1, 2**64, 10**30])
def test_integers_of_any_length_stay_exact(seed: int) -> None:
    data = parse_object(b'{"seed": %d}' % seed, 1000)
    assert data == {"seed": seed}
    assert type(data["seed"]) is int


@pytest.mark.parametrize("encoding", [None, "", "identity", "gzip", "x-gzip", "GZIP"])
async def test_gzip_and_plain_bodies_read_the_same(encoding: str | None) -> None:
    raw = b'{"prompt": "hello"}'
    sent = gzip.compress(raw) if "gzip" in (encoding or "").lower() else raw
    connection = Connection([sent[:7], b"", sent[7:]])
    assert await read_object(connection.request(encoding), 1000) == {"prompt": "hello"}


async def test_a_gzip_file_of_two_members_is_one_body() -> None:
    sent = gzip.compress(b'{"prompt":') + gzip.compress(b' "hello"}')
    assert await read_object(Connection([sent]).request("gzip"), 1000) == {"prompt": "hello"}


@pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip, gzip"])
async def test_other_encodings_are_415(encoding: str) -> None:
    with pytest.raises(HttpRefusal) as refused:
        await read_object(Connection([b"{}"]).request(encoding), 1000)
    assert refused.value.status == 415


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"{}", id="not gzip"),
        pytest.param(gzip.compress(b"{}")[:-4], id="cut"),
        pytest.param(gzip.compress(b"{}") + b"more", id="something after it"),
    ],
)
async def test_broken_gzip_is_400(sent: bytes) -> None:
    with pytest.raises(InvalidRequest):
        await read_object(Connection([sent]).request("gzip"), 1000)


def body_of(n_bytes: int) -> bytes:
    return json.dumps({"p": "x" * (n_bytes - 9)}).encode("ascii")


@pytest.mark.parametrize("encoding", [None, "gzip"])
async def test_the_cap_is_the_last_size_that_passes(encoding: str | None) -> None:
    for n_bytes, fits in [(500, True), (501, False)]:
        raw = body_of(n_bytes)
        assert len(raw) == n_bytes
        connection = Connection([gzip.compress(raw) if encoding == "gzip" else raw])
        if fits:
            assert len((await read_object(connection.request(encoding), 500))["p"]) == 491
            continue
        with pytest.raises(HttpRefusal) as refused:
            await read_object(connection.request(encoding), 500)
        assert refused.value.status == 413


async def test_a_bomb_is_not_inflated_beyond_the_cap() -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(HttpRefusal) as refused:
        await read_object(Connection([bomb]).request("gzip"), 100_000)
    assert refused.value.status == 413


async def test_a_refused_body_is_read_to_its_end() -> None:
    connection = Connection([b"x" * 100] * 50)
    with pytest.raises(HttpRefusal):
        await read_object(connection.request(), 1000)
    assert connection.n_taken == 50


async def test_a_refused_body_is_not_read_for_ever() -> None:
    connection = Connection([bytes(1024 * 1024)] * 100)
    with pytest.raises(HttpRefusal):
        await read_object(connection.request(), 1000)
    assert 65 <= connection.n_taken <= 67


async def test_leaving_within_the_body_is_no_bad_request() -> None:
    with pytest.raises(ClientLeft):
        await read_object(Connection([b'{"prompt'], ends=False).request(), 1000)


MANY = 1000


@pytest.mark.parametrize(
    ("raw", "fits"),
    [
        pytest.param(b'{"a":[' + b"1," * 970 + b"1]}", True, id="numbers"),
        pytest.param(b'{"a":[' + b"1," * 1000 + b"1]}", False, id="more numbers"),
        pytest.param(b'{"a":[' + b'"xy",' * 970 + b'"xy"]}', True, id="texts"),
        pytest.param(b'{"a":[' + b'"xy",' * 1000 + b'"xy"]}', False, id="more texts"),
        pytest.param(b'{"a":[' + b"[]," * 160 + b"[]]}", True, id="arrays"),
        pytest.param(b'{"a":[' + b"[]," * 170 + b"[]]}", False, id="more arrays"),
        pytest.param(b'{"a":' + b"[" * 201 + b"]" * 201 + b"}", False, id="within each other"),
        pytest.param(b"{" + b",".join(b'"%d":1' % i for i in range(195)) + b"}", True, id="names"),
        pytest.param(b"{" + b",".join(b'"%d":1' % i for i in range(205)) + b"}", False, id="more names"),
        pytest.param(b'{"a":"' + b",[{:" * 5000 + b'"}', True, id="marks in a text"),
        pytest.param(b'{"a":"' + rb"\",[{:\\" * 5000 + b'"}', True, id="marks between escapes"),
        pytest.param(b'{"a":"\\\\",' + b'"b":["\\"",' + b"1," * 1000 + b"1]}", False, id="behind escapes"),
        pytest.param(b'{"a":[' + b'"",' * 3000 + b'""]}', False, id="countless empty texts"),
    ],
)
def test_http_22_a_body_has_a_limit_of_values_and_marks_within_texts_are_none(raw: bytes, fits: bool) -> None:
    if fits:
        assert len(parse_object(raw, MANY)) > 0
        return
    with pytest.raises(InvalidRequest, match="more than 1000 values") as refused:
        parse_object(raw, MANY)
    assert refused.value.code == "array_above_max_length"


@pytest.mark.parametrize("n_before", [2**20 - 40, 2**20 - 19, 2**20 - 10, 2**20, 2**20 + 5])
def test_a_long_number_is_found_wherever_it_stands(n_before: int) -> None:
    raw = b'{"a":"' + b"x" * n_before + b'","seed":1234567890123456789012}'
    assert parse_object(raw, MANY)["seed"] == 1234567890123456789012


KIB = 1024
LARGE = 200 * KIB


async def read(intake: Intake, body: bytes, encoding: str | None = None) -> int:
    """How long a body is that is let in and then let go."""
    async with intake.body(Connection([body]).request(encoding)) as raw:
        return len(raw)


async def test_http_28_all_bodies_together_have_a_limit() -> None:
    intake = Intake(LARGE, 2 * LARGE)
    async with intake.body(Connection([bytes(LARGE)]).request()), intake.body(Connection([bytes(LARGE)]).request()):
        assert intake.n_held == 2 * (LARGE - UNCOUNTED)
        with pytest.raises(Overloaded) as refused:
            await read(intake, bytes(LARGE))
        assert refused.value.retry_after == 1
        # Who sends little is served all the same.
        assert await read(intake, bytes(UNCOUNTED)) == UNCOUNTED
    assert intake.n_held == 0
    assert await read(intake, bytes(LARGE)) == LARGE


async def test_http_28_a_compressed_body_takes_what_it_becomes_only_when_it_is_whole() -> None:
    intake = Intake(LARGE, 2 * LARGE)
    sent = gzip.compress(bytes(LARGE))
    unfinished = [intake.body(Connection([sent[:-1]], ends=False).request("gzip")) for _ in range(20)]
    for body in unfinished:
        with pytest.raises(ClientLeft):
            await body.__aenter__()
    assert await read(intake, sent, "gzip") == LARGE
    async with intake.body(Connection([sent]).request("gzip")), intake.body(Connection([sent]).request("gzip")):
        assert intake.n_held == 2 * (LARGE - UNCOUNTED)
        with pytest.raises(Overloaded):
            await read(intake, sent, "gzip")
    assert intake.n_held == 0


@pytest.mark.parametrize("refused", [bytes(LARGE + 1), gzip.compress(bytes(LARGE + 1)), b"no gzip" + bytes(LARGE // 2)])
async def test_http_28_what_is_refused_is_let_go(refused: bytes) -> None:
    intake = Intake(LARGE, 2 * LARGE)
    with pytest.raises((HttpRefusal, InvalidRequest)):
        await read(intake, refused, None if refused[:1] == b"\0" else "gzip")
    assert intake.n_held == 0


async def test_http_28_a_file_of_countless_members_is_no_body() -> None:
    sent = gzip.compress(b"") * MOST_MEMBERS + gzip.compress(b"{}")
    with pytest.raises(InvalidRequest, match=f"more than {MOST_MEMBERS} members"):
        await read(Intake(LARGE, 2 * LARGE), sent, "gzip")


def test_http_28_the_limit_must_leave_room_for_the_largest_body() -> None:
    assert ServerConfig().bodies_bytes == 8 * ServerConfig().max_body_bytes
    with pytest.raises(ConfigurationError, match="less than twice max_body_bytes"):
        ServerConfig(max_body_bytes=1000, max_bodies_bytes=1999)
