"""A real browser on a page of another site, and on one whose name was bent to this machine, against an open server."""

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, Playwright
from tests.api.served import app_of
from tests.e2e.conftest import ARGUMENTS, CHROMIUM
from tests.live import run_server

from afterword.engine.echo import EchoEngine

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]

REBOUND = "page.example"

ASK = """async ([url, type]) => {
    const body = JSON.stringify({prompt: "hi", max_tokens: 2, temperature: 0});
    const options = type === null ? {} : {headers: {"Content-Type": type}};
    try {
        const answer = await fetch(`${url}/v1/completions`, {method: "POST", body, ...options});
        return [answer.status, await answer.text()];
    } catch (error) {
        return [0, error.name];
    }
}"""
"""Status and text of an answer, as far as the browser lets a page see them."""


@pytest.fixture(scope="module")
def page(driver: Playwright) -> Iterator[Page]:
    """A browser for which `REBOUND` is this machine, as a name server would have it."""
    rules = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, rules])
    yield browser.new_page()
    browser.close()


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Another web server on this machine."""
    (folder / "index.html").write_text("<!doctype html><title>elsewhere</title>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def n_prompts(engine: EchoEngine) -> int:
    return engine.stats().prompt_tokens


@pytest.mark.parametrize("type_", ["application/json", "text/plain", None])
def test_a_page_of_another_site_neither_reads_nor_computes(page: Page, tmp_path: Path, type_: str | None) -> None:
    engine = EchoEngine()
    with run_server(app_of(engine)) as url, site(tmp_path) as elsewhere:
        page.goto(elsewhere)
        # What the page is told is that it cannot be: `fetch` fails.
        assert page.evaluate(ASK, [url, type_]) == [0, "TypeError"]
    assert n_prompts(engine) == 0


def test_a_page_that_is_named_may(page: Page, tmp_path: Path) -> None:
    engine = EchoEngine()
    with site(tmp_path) as elsewhere, run_server(app_of(engine, cors_origins=(elsewhere,))) as url:
        page.goto(elsewhere)
        status, text = page.evaluate(ASK, [url, "application/json"])
    assert (status, '"text":"hi"' in text) == (200, True)


def test_a_name_that_leads_here_opens_nothing(page: Page) -> None:
    engine = EchoEngine()
    with run_server(app_of(engine)) as url:
        bent = url.replace("127.0.0.1", REBOUND)
        page.goto(bent)
        # To the browser this is the page's own server.
        status, text = page.evaluate(ASK, [bent, "application/json"])
    assert (status, "allowed_hosts" in text) == (403, True)
    assert n_prompts(engine) == 0


def test_the_server_s_own_page_may_under_each_of_its_names(page: Page) -> None:
    with run_server(app_of()) as url:
        for own in (url, url.replace("127.0.0.1", "localhost"), url.replace("127.0.0.1", "app.localhost")):
            page.goto(own)
            status, _ = page.evaluate(ASK, [own, "application/json"])
            assert status == 200
