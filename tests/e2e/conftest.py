"""A live server with the default model, Debian's Chromium, and a fresh page for each test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, sync_playwright
from tests.e2e.playground import SHORT_MS, Playground
from tests.live import run_server
from tests.models.engines import load_default

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.registry import Registry, ServedModel
from afterword.text.infill_template import parse_template

CHROMIUM = shutil.which("chromium")

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

CONTEXT = 2048

TEMPLATE = "{suffix}\n\n{prefix}"
"""Not what the model learned: it is enough that the text after the gap is sent and seen."""


@pytest.fixture(scope="session")
def url(cache_dir: Path) -> Iterator[str]:
    """A server with the default model, the same one with an infill template, and the echo engine."""
    engine = load_default(cache_dir, context=CONTEXT, parallel=8, threads=2)
    models = [
        ServedModel("smollm2-135m-instruct", engine, 1700000000, aliases=("default",)),
        ServedModel("filler", engine, 1700000000, infill_template=parse_template(TEMPLATE)),
        ServedModel("echo", EchoEngine(context=2**16), 1700000000),
        ServedModel("long", EchoEngine(context=2**17), 1700000000),
    ]
    with run_server(create_app(Registry(models), ServerConfig())) as running:
        yield running


@pytest.fixture(scope="session")
def driver() -> Iterator[Playwright]:
    """What starts browsers. There can be only one in a process."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(driver: Playwright) -> Iterator[Browser]:
    """One browser for all tests."""
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
    yield browser
    browser.close()


@pytest.fixture
def context(browser: Browser, tmp_path: Path) -> Iterator[BrowserContext]:
    """A new browser profile."""
    context = browser.new_context(
        viewport={"width": 1360, "height": 860}, permissions=["clipboard-read", "clipboard-write"]
    )
    context.set_default_timeout(SHORT_MS)
    yield context
    context.close()


@pytest.fixture
def faults() -> list[str]:
    """What the page's scripts failed at; empty at the end of every test that opened a page by `playground`."""
    return []


@pytest.fixture
def playground(context: BrowserContext, url: str, faults: list[str]) -> Iterator[Playground]:
    """The page, opened and ready. Fails the test if a script of the page threw."""
    opened = open_page(context, url, faults)
    yield opened
    assert faults == []


def open_page(context: BrowserContext, url: str, faults: list[str]) -> Playground:
    """A page of `context` at `url`, ready; what its scripts throw is added to `faults`."""
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(url)
    page.locator("html[data-ready]").wait_for()
    return Playground(page)
