"""The same clients behind nginx: with its defaults, and with the site of docs/operate.md, which is read from there."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from tests.api.served import is_idle, wait_until
from tests.clients.certificate import make_certificate, trust_in
from tests.clients.languages.driver import CLIENTS, KEY, Answer, Client, Trust, missing, running
from tests.clients.languages.served import Served
from tests.clients.nginx import NGINX, address, documented_site, listeners, run_nginx
from tests.live import run_server

SOURCES = Path(__file__).resolve().parents[3] / "src"
SECONDS_OF_IDLING = 90

pytestmark = [pytest.mark.clients, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]

BODY = {"model": "echo", "prompt": "héllo\n", "max_tokens": 12, "temperature": 0}
STREAM = BODY | {"stream": True}

DEFAULTS = """
log_format connections "$connection";
server {
    listen LISTENS;
    access_log FOLDER/connections connections;
    location / { proxy_pass SERVER; }
    location /below/a/path/ { proxy_pass SERVER/; }
}
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running nginx in front of a server."""

    server: str
    """Without nginx."""
    defaults: str
    """The site that sets nothing."""
    documented: str
    """The site of the page, with TLS and below a path."""
    trust: Trust
    connections: Path
    """A line for each request to the first site: the number of its connection."""

    @property
    def bases(self) -> dict[str, str]:
        """Where clients may find the server."""
        return {
            "server": self.server,
            "defaults": self.defaults,
            "defaults below a path": f"{self.defaults}/below/a/path",
            "documented": self.documented,
        }


@pytest.fixture(scope="module")
def proxy(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("nginx")
    certificate = make_certificate(folder)
    with listeners(2) as taken:
        plain, secure = (address(one) for one in taken)
        changes = {"LISTENS": plain, "FOLDER": str(folder), "SERVER": served.url}
        sites = documented_site(taken[1], served.url, certificate)
        sites += re.sub("|".join(changes), lambda found: changes[found.group()], DEFAULTS)
        with run_nginx(folder, sites, taken):
            yield Proxy(
                server=served.url,
                defaults=f"http://{plain}",
                documented=f"https://{secure}/afterword",
                trust=trust_in(certificate),
                connections=folder / "connections",
            )


@pytest.fixture(scope="module")
def clients(home: Path, proxy: Proxy) -> Iterator[dict[str, Client]]:
    """All of them that this machine has."""
    with ExitStack() as stack:
        names = [name for name in CLIENTS if missing(name) is None]
        yield {name: stack.enter_context(running(name, home, proxy.trust)) for name in names}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    if request.param not in clients:
        pytest.skip(f"not installed: {missing(request.param)}")
    return clients[request.param]


def check(answers: Mapping[object, Answer]) -> None:
    """All are the completion of `BODY`."""
    assert {key: (answer.status, answer.written) for key, answer in answers.items()} == dict.fromkeys(
        answers, (200, "héllo\nhéll")
    )


def ask_everywhere(clients: Mapping[str, Client], proxy: Proxy) -> dict[object, Answer]:
    """Each client's answer at each place, plain and streamed."""
    return {
        (name, place, verb): client.ask(verb, f"{base}/v1/completions", STREAM if verb == "lines" else BODY)
        for name, client in clients.items()
        for place, base in proxy.bases.items()
        for verb in ("whole", "lines")
    }


END = "\nended with "


def curl(
    proxy: Proxy, base: str, body: Mapping[str, Any], *options: str, times: int = 1
) -> AbstractContextManager[subprocess.Popen[str]]:
    """A curl that asks for the same so many times."""
    headers = ["-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json"]
    command = ["curl", "-sS", *options, "-w", f"{END}%{{http_code}}\n", *headers, "-d", json.dumps(body)]
    return subprocess.Popen(
        [*command, *[f"{base}/v1/completions"] * times],
        env={**os.environ, **proxy.trust.variables},
        stdout=subprocess.PIPE,
        text=True,
    )


def answers_of(process: subprocess.Popen[str]) -> list[tuple[int, str]]:
    """The status and the completion of each answer, once a curl has ended."""
    written, _ = process.communicate()
    answers = re.findall(rf"(.*?){END}(\d+)\n", written, re.DOTALL)
    return [(int(status), Answer(int(status), text).written) for text, status in answers]


@pytest.mark.parametrize("place", ["defaults", "defaults below a path", "documented"])
def test_a_stream_is_not_held_back_and_who_leaves_it_ends_the_generation(
    client: Client, proxy: Proxy, served: Served, place: str
) -> None:
    n_rows, n_cancelled = len(served.ledger.rows), served.still.stats().cancelled
    body = STREAM | {"model": "still", "prompt": "hi"}
    left = client.ask("leave", f"{proxy.bases[place]}/v1/completions", body)
    assert '"text":"h"' in left.text.replace(" ", "")
    row = served.row_of_who_left(n_rows)
    assert (row.status, row.completion_tokens, row.finish_reasons) == (499, 1, ())
    wait_until(served.url, lambda: is_idle(served.still))
    assert served.still.stats().cancelled == n_cancelled + 1


def test_a_refusal_comes_through_as_it_is(client: Client, proxy: Proxy) -> None:
    for base in proxy.bases.values():
        refusal = client.ask("whole", f"{base}/v1/completions", BODY | {"temperature": 3})
        assert (refusal.status, refusal.body["error"]["param"]) == (400, "temperature")


def test_the_documented_site_takes_bodies_as_large_as_the_server_does(proxy: Proxy, clients: dict[str, Client]) -> None:
    large = {"model": "echo", "prompt": "a" * 3_000_000, "max_tokens": 1}
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(verify=False, headers=headers) as client:
        direct = client.post(f"{proxy.server}/v1/completions", json=large)
        proxied = client.post(f"{proxy.documented}/v1/completions", json=large)
    assert proxied.json() == direct.json()
    assert proxied.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("place", ["defaults below a path", "documented"])
def test_the_playground_and_the_documentation_are_below_the_path_too(proxy: Proxy, place: str) -> None:
    base = proxy.bases[place]
    with httpx.Client(verify=False, follow_redirects=True) as client:
        page = client.get(base)
        assert str(page.url) == f"{base}/"
        links = [urljoin(str(page.url), link) for link in re.findall(r'(?:src|href)="([^"#]+)"', page.text)]
        assert f"{base}/docs" in links
        assert len(links) > 20
        answers = {link: client.get(link, headers={"Authorization": f"Bearer {KEY}"}) for link in links}
    assert {link: answer.status_code for link, answer in answers.items()} == dict.fromkeys(links, 200)
    assert all(link.startswith(f"{base}/") for link in links)


@pytest.mark.parametrize("end", ["", "/", "/v1"])
def test_the_command_line_asks_below_the_path(proxy: Proxy, tmp_path: Path, end: str) -> None:
    program = [sys.executable, "-c", "from afterword.cli.main import app; app()", "complete", "hi", "--json"]
    options = ["--url", f"{proxy.documented}{end}", "--api-key", KEY, "--model", "echo", "--max-tokens", "2"]
    done = subprocess.run(
        [*program, *options, "--temperature", "0"],
        env={**os.environ, **proxy.trust.variables, "PYTHONPATH": str(SOURCES)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["choices"][0]["text"] == "hi"


async def says_who_asks(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with the address of its client."""
    if scope["type"] == "http":
        await PlainTextResponse(scope["client"][0])(scope, receive, send)


def test_the_server_behind_the_documented_site_knows_who_asks(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with ExitStack() as stack:
        server = stack.enter_context(run_server(says_who_asks))
        [listener] = stack.enter_context(listeners(1))
        stack.enter_context(run_nginx(tmp_path, documented_site(listener, server, certificate), [listener]))
        for own in ("127.0.0.1", "127.0.0.2"):
            transport = httpx.HTTPTransport(verify=False, local_address=own)
            client = stack.enter_context(httpx.Client(transport=transport))
            # What the client says itself does not count.
            told = client.get(f"https://{address(listener)}/afterword/", headers={"X-Forwarded-For": "192.0.2.1"})
            assert told.text == own


def test_a_client_that_keeps_connections_keeps_the_one_to_nginx(clients: dict[str, Client], proxy: Proxy) -> None:
    kept = {}
    for name, client in clients.items():
        before = len(proxy.connections.read_text().split())
        for _ in range(3):
            client.ask("whole", f"{proxy.defaults}/v1/completions", BODY)
        while len(numbers := proxy.connections.read_text().split()[before:]) < 3:
            time.sleep(0.01)
        kept[name] = len(set(numbers)) == 1
    # curl is run anew for each request, and PHP's streams ask for the connection to be closed.
    assert kept == {name: not name.startswith(("curl", "php-wrapper")) for name in clients}


@pytest.mark.timeout(400)
@pytest.mark.skipif(missing("curl") is not None, reason="not installed: curl")
def test_nothing_is_lost_after_90_seconds_of_idling_and_70_of_silence(clients: dict[str, Client], proxy: Proxy) -> None:
    check(ask_everywhere(clients, proxy))
    with ExitStack() as stack:
        # With that rate curl starts a request every 90 seconds, and keeps the connection in between.
        idle = [
            stack.enter_context(curl(proxy, base, body, "--rate", f"{3600 // SECONDS_OF_IDLING}/h", times=2))
            for base in proxy.bases.values()
            for body in (BODY, STREAM)
        ]
        silent = [
            stack.enter_context(curl(proxy, base, body | {"model": "silent", "prompt": "hi", "max_tokens": 2}))
            for base in (proxy.server, proxy.documented)
            for body in (BODY, STREAM)
        ]
        time.sleep(SECONDS_OF_IDLING)
        check(ask_everywhere(clients, proxy))
        assert [answers_of(process) for process in idle] == [[(200, "héllo\nhéll")] * 2] * len(idle)
        assert [answers_of(process) for process in silent] == [[(200, "hi")]] * len(silent)
