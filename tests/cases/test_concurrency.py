"""Many clients at once, clients that leave, clients that read slowly: over real sockets."""

import json
import random
import socket
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from tests.api.served import is_idle, wait_until
from tests.cases.case import NEVER_ENDS, THE, A, Body, Json, forced
from tests.cases.conftest import Running
from tests.cases.wellformed import body_of, folded

pytestmark = pytest.mark.model

LONG: Body = {"prompt": "Once upon a time", "max_tokens": 1000, **NEVER_ENDS}


def text(server: Running, body: Body) -> str:
    answer: str = body_of(server.post(body))["choices"][0]["text"]
    return answer


@contextmanager
def sent(server: Running, body: Body) -> Iterator[socket.socket]:
    """A connection on which a request has been sent and nothing read."""
    address = urllib.parse.urlsplit(server.url)
    content = json.dumps(body).encode("ascii")
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(content)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head + content)
        yield connection


def read_chunks(connection: socket.socket, n: int) -> None:
    """Read until so many events have come."""
    seen = b""
    while seen.count(b"\ndata: ") < n:
        piece = connection.recv(65536)
        assert piece, "the server closed the connection"
        seen += piece


def test_bias_05_biases_stay_with_their_request(server: Running) -> None:
    free: Body = {"prompt": "A", "max_tokens": 24, "temperature": 0}
    bodies: list[Body] = [
        {"prompt": "A", "max_tokens": 32, **forced(THE)},
        {"prompt": "A", "max_tokens": 16, **forced(A)},
        free,
        {"prompt": "A", "max_tokens": 8, "temperature": 1, "logit_bias": {"0": -100}},
    ]
    expected = [" the" * 32, " a" * 16, text(server, free)]
    with ThreadPoolExecutor(len(bodies)) as pool:
        for _ in range(4):
            assert list(pool.map(lambda body: text(server, body), bodies))[:3] == expected


def test_conc_04_answers_under_load_are_those_of_each_request_alone(server: Running) -> None:
    def body(i: int) -> Body:
        more: Body = {"logprobs": 2} if i % 3 == 0 else {}
        return {"prompt": f"Item {i}:", "max_tokens": 10 + i, "temperature": 0, "seed": i, **more}

    def ask(i: int) -> tuple[str, list[Json]]:
        if i % 2 == 0:
            answer = body_of(server.post(body(i)))
            return answer["id"], answer["choices"]
        response = server.post(body(i) | {"stream": True})
        return response.headers["x-request-id"], folded(response)["choices"]

    alone = [body_of(server.post(body(i)))["choices"] for i in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, [*range(16)] * 2))
    assert [choices for _, choices in answers] == alone * 2
    assert len({name for name, _ in answers}) == 32


def test_conc_01_clients_that_leave_take_nothing_with_them(server: Running) -> None:
    chance = random.Random(1)
    reference = text(server, {"prompt": "Hello", "max_tokens": 8, "temperature": 0, "seed": 1})
    for attempt in range(30):
        more: Body = {"n": 4} if attempt % 5 == 0 else {}
        with sent(server, LONG | {"stream": True} | more) as connection:
            read_chunks(connection, chance.randrange(6))
    wait_until(server.url, lambda: is_idle(server.engine))
    stats = server.engine.stats()
    assert stats.running == 0
    assert stats.slots_free + stats.slots_idle == server.engine.capabilities.n_slots
    assert text(server, {"prompt": "Hello", "max_tokens": 8, "temperature": 0, "seed": 1}) == reference


def test_conc_01_a_client_that_leaves_while_its_prompt_is_read(server: Running) -> None:
    n_cancelled = server.engine.stats().cancelled
    prompt = [token % 40_000 for token in range(20_000, 20_950)]
    with sent(server, {"prompt": prompt, "max_tokens": 40, "stream": True, **NEVER_ENDS}):
        wait_until(server.url, lambda: not is_idle(server.engine))
    wait_until(server.url, lambda: is_idle(server.engine))
    assert server.engine.stats().cancelled == n_cancelled + 1


def test_conc_02_a_client_that_leaves_a_plain_answer_is_not_worked_for(server: Running) -> None:
    n_cancelled = server.engine.stats().cancelled
    with sent(server, LONG):
        wait_until(server.url, lambda: not is_idle(server.engine))
    assert text(server, {"prompt": "Hello", "max_tokens": 1, **forced(THE)}) == " the"
    wait_until(server.url, lambda: is_idle(server.engine))
    assert server.engine.stats().cancelled == n_cancelled + 1


def test_conc_02_a_client_that_leaves_the_waiting_room(server: Running) -> None:
    """Sixteen candidates hold all streams and the room before them; whoever goes there leaves no trace."""
    with sent(server, LONG | {"n": 16, "stream": True}) as busy:
        read_chunks(busy, 1)
        with sent(server, LONG):
            wait_until(server.url, lambda: server.engine.stats().waiting >= 9)
        wait_until(server.url, lambda: server.engine.stats().waiting == 8)
    wait_until(server.url, lambda: is_idle(server.engine))


def test_conc_03_a_slow_reader_holds_up_nobody_and_gets_everything(server: Running) -> None:
    body = {"prompt": "A", "max_tokens": 300, "stream": True, "seed": 1, **forced(THE)}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=120) as response:
        lines = response.iter_lines()
        seen = [next(lines)]
        assert text(server, {"prompt": "Hello", "max_tokens": 2, **forced(A)}) == " a a"
        seen += list(lines)
    chunks = [json.loads(line.removeprefix("data: ")) for line in seen if line.startswith("data: {")]
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == " the" * 300
