"""Bodies and byte streams that are nearly right: valid requests of every route, changed at random. Knows no server."""

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from afterword.completions.unsupported import UNSUPPORTED
from afterword.fields.table import FIELDS

Json = dict[str, Any]

COMPLETION_PATHS = (
    "/v1/completions",
    "/v5/completions",
    "/openai/v1/completions",
    "/v1/engines/%s/completions",
    "/openai/deployments/%s/completions",
)

COMPLETIONS: tuple[Json, ...] = (
    {"prompt": "hello world", "max_tokens": 4},
    {"prompt": ["one two", "three"], "n": 2, "best_of": 3, "max_tokens": 3, "seed": 7},
    {"prompt": [97, 98, 99], "echo": True, "logprobs": 3, "max_tokens": 0},
    {"prompt": [[97], [98, 99]], "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 5},
    {"prompt": "a b", "logit_bias": {"97": 5, "98": -100}, "stop": ["b", "zz"], "user": "u", "max_tokens": 6},
    {"prompt": "def f(x):\n", "suffix": "\n    return x", "temperature": 0, "max_tokens": 5},
    {"prompt": "x", "temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.2},
    {"prompt": "x", "frequency_penalty": 1, "presence_penalty": -1, "min_tokens": 2, "ignore_eos": True},
    {"prompt": "x y z", "prompt_logprobs": 2, "return_token_ids": True, "truncate_prompt_tokens": 2, "max_tokens": 2},
    {"prompt": "x", "regex": "[a-z]{2,5}", "max_tokens": 6},
    {"prompt": "x", "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}, "max_tokens": 9},
    {"prompt": "x", "guided_choice": ["yes", "no"], "max_tokens": 3},
    {"prompt": "x", "structured_outputs": {"grammar": 'root ::= "a" | "b"'}, "max_tokens": 3},
    {"prompt": "x", "response_format": {"type": "json_object"}, "max_tokens": 5},
    {"prompt": "x", "dry_multiplier": 0.8, "dry_sequence_breakers": ["\n"], "xtc_probability": 0.5, "mirostat": 2},
    {"prompt": "x", "samplers": ["top_k", "temperature"], "typical_p": 0.9, "top_n_sigma": 2, "tfs": 0.9, "top_a": 0.1},
)  # fmt: skip
OTHERS: tuple[tuple[str, Json], ...] = (
    ("/tokenize", {"prompt": "hello <|endoftext|>", "add_special_tokens": True, "return_token_strs": True}),
    ("/detokenize", {"tokens": [97, 98, 256]}),
    ("/v1/score", {"prompt": "a b", "continuations": [" c", " d e"]}),
    ("/v1/score", {"pairs": [["a", "b"], [[97], [98, 99]]], "user": "u"}),
    ("/score", {"query": "a", "items": ["b", "c"], "label_token_ids": [97, 98], "apply_softmax": True}),
)

NAMES = (
    *(name for field in FIELDS for name in (field.name, *field.aliases)),
    *UNSUPPORTED,
    *(
        "include_usage",
        "type",
        "json",
        "choice",
        "properties",
        "tokens",
        "return_token_strs",
        "pairs",
        "items",
        "continuations",
        "label_token_ids",
        "item_first",
        "",
        "é",
        "\x00",
        "a" * 300,
    ),
)

VALUES: tuple[Callable[[random.Random], Any], ...] = (
    lambda _: None,
    lambda draw: draw.random() < 0.5,
    lambda draw: draw.choice((-1, 0, 1, 2, 3, 20, 21, 100, 128, 129, 256, 257, 258, 4096, 49_152, 10**6)),
    lambda draw: draw.choice((2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, -(10**400))),
    lambda draw: draw.choice((-2.5, -0.0, 1e-320, 0.5, 1.0, 1e15, 1e38, 1e39, 1e308, -1e308)),
    lambda draw: draw.choice(("", " ", "a", "echo", "default", "local/echo", "97", "é\u0301", "\ufffd", "𒀀")),
    lambda draw: draw.choice(("a" * 5000, "\x00\x1b[31m", "<|endoftext|>" * 3, "((((", "[", "root ::= root")),
    lambda _: [],
    lambda _: {},
    lambda draw: [draw.choice((0, 97, -1, 2**40, "a", None, [], 0.5))] * draw.choice((1, 2, 70)),
    lambda draw: {draw.choice(("97", "-1", "x", "1e3", "007", "")): draw.choice((0, 101, -100, "a", None))},
    lambda draw: _nested(draw.choice((2, 20, 100, 300)), draw),
    lambda draw: {"$ref": "#"} if draw.random() < 0.5 else {"type": "object", "additionalProperties": {"$ref": "#"}},
    lambda draw: draw.choice(("(a{1,900}){1,900}", "(?=a)b", "\\p{L}+", "[^", "a" * 99 + "*", "\\d{999999999}")),
)  # fmt: skip
"""What a field may be given instead."""


def _nested(depth: int, draw: random.Random) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value] if draw.random() < 0.5 else {"a": value}
    return value


@dataclass(frozen=True, slots=True)
class Request:
    """A request with a body."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    def as_bytes(self, more: str = "") -> bytes:
        """As HTTP/1.1; `more`: header lines."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}{more}Content-Length: {len(self.body)}\r\n\r\n"
        return head.encode("latin-1", "replace") + self.body


def request(draw: random.Random) -> Request:
    """A valid request with a few changes, in its JSON, its text or its bytes."""
    if draw.random() < 0.85:
        path, fields = draw.choice(COMPLETION_PATHS), dict(draw.choice(COMPLETIONS))
        if "%s" in path:
            path %= draw.choice(("echo", "local/echo", "none", "%00", "..", "a%20b", "a" * 300))
    else:
        path, fields = draw.choice(OTHERS)
        fields = dict(fields)
    for _ in range(draw.randint(1, 2)):
        _change_fields(fields, draw)
    body = json.dumps(fields, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
    if draw.random() < 0.2:
        body = changed(body, draw)
    headers = tuple(draw.choice(HEADERS) for _ in range(draw.choice((0, 0, 0, 0, 1))))
    if draw.random() < 0.03:
        return Request(path, _zipped(body, draw), (*headers, ("Content-Encoding", "gzip")))
    return Request(path, body, headers)


HEADERS = (
    *(("x-request-timeout", value) for value in ("1", "0", "-1", "0.001", "1e9", "nan", "x")),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("traceparent", "00-zz"),
    ("Authorization", "Bearer x"),
    ("api-key", "\xff"),
    ("x-request-id", "a" * 500),
    ("Content-Type", "text/plain; charset=utf-16"),
    ("Content-Encoding", "br"),
    ("Expect", "100-continue"),
    ("Accept", "text/event-stream"),
)


def _change_fields(fields: Json, draw: random.Random) -> None:
    """One change of an object: a field more, less, renamed or with another value, also one inside of its value."""
    name = draw.choice((*fields, draw.choice(NAMES)))
    value = draw.choice(VALUES)(draw)
    match draw.randrange(8):
        case 0:
            fields.pop(name, None)
        case 1 if name in fields:
            fields[draw.choice(NAMES)] = fields.pop(name)
        case 2 if name in fields:
            fields[name] = [fields[name]] * draw.choice((0, 1, 2, 65))
        case 3 if isinstance(fields.get(name), list) and fields[name]:
            fields[name] = [*fields[name], value]
        case 4 if isinstance(fields.get(name), dict):
            fields[name] = {**fields[name], draw.choice(NAMES): value}
        case 5 if isinstance(fields.get(name), str):
            fields[name] = fields[name] + draw.choice(("\ud800", "\x00", "𒀀", "<|endoftext|>", "a" * 3000))
        case _:
            fields[draw.choice(NAMES) if draw.random() < 0.5 else name] = value


def _zipped(body: bytes, draw: random.Random) -> bytes:
    zipped = gzip.compress(body * draw.choice((1, 1, 1000)))
    return draw.choice((zipped, zipped[: draw.randrange(len(zipped))], changed(zipped, draw), zipped * 3, body))


def changed(data: bytes, draw: random.Random) -> bytes:
    """Bytes with some of them changed, left out, repeated or put in."""
    for _ in range(draw.randint(1, 2)):
        at, until = sorted((draw.randint(0, len(data)), draw.randint(0, len(data))))
        until = min(until, at + draw.choice((1, 8, 4000)))
        match draw.randrange(6):
            case 0:
                data = data[:at] + data[until:]
            case 1:
                data = data[:until] + data[at:until] * draw.choice((1, 2, 50)) + data[until:]
            case 2:
                data = data[:at] + draw.randbytes(draw.choice((1, 2, 40))) + data[at:]
            case 3:
                data = data[:at] + draw.choice(MARKS) + data[until:]
            case 4 if data:
                at = min(at, len(data) - 1)
                data = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
            case _:
                data = data[:at]
    return data


MARKS = (
    *(b"\r\n", b"\n", b"\r", b"\0", b"\r\n\r\n", b" ", b":", b",", b"{", b"}", b"[", b"]", b'"', b"\\ud800"),
    *(b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Upgrade: h2c\r\n"),
    *(b"Host: a\r\nHost: b\r\n", b"Host:\r\n", b" folded\r\n", b"HTTP/1.0", b"HTTP/9.9", b"Connection: close\r\n"),
    *(b"Expect: 100-continue\r\n", b"X: " + b"a" * 70_000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"f" * 16 + b"\r\n"),
    *(b"GET /health HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"%00", b"../", b"0\r\n\r\n", b"5;x=y\r\nhello\r\n"),
)  # fmt: skip


def stream(draw: random.Random) -> bytes:
    """What a connection brings: one to three requests behind each other, plain or in chunks, with changes."""
    data = b"".join(_whole_request(draw) for _ in range(draw.choice((1, 1, 2, 3))))
    return data if draw.random() < 0.05 else changed(data, draw)


def _whole_request(draw: random.Random) -> bytes:
    body = json.dumps(draw.choice(COMPLETIONS)).encode()
    path = draw.choice(
        ("/v1/completions", "/v5/completions", "/tokenize", "/", "/health", "/v1/models/echo", "/metrics")
    )
    head = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
    match draw.randrange(4):
        case 0:
            method = draw.choice((b"GET", b"HEAD", b"OPTIONS", b"PUT", b"TRACE", b"CONNECT"))
            return method + f" {path} HTTP/1.1\r\n".encode() + head + b"\r\n"
        case 1:
            cut = draw.randint(1, len(body))
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part)
            start = f"POST {path} HTTP/1.1\r\n".encode() + head
            return start + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        case _:
            return Request(path, body).as_bytes()
