"""What a browser loads: little, from this server alone, under a policy that holds."""

import pytest
from playwright.sync_api import BrowserContext, Response
from tests.e2e.conftest import open_page
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

MAX_FIRST_LOAD = 175_000


def test_first_load_is_small_and_from_one_host(context: BrowserContext, url: str, faults: list[str]) -> None:
    page = context.new_page()
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto(url)
    page.locator("html[data-ready]").wait_for()
    page.wait_for_load_state("networkidle")
    assert {answer.status for answer in answers} == {200}
    assert [answer.url for answer in answers if not answer.url.startswith(f"{url}/")] == []
    sizes = [answer.request.sizes() for answer in answers]
    assert 20_000 < sum(size["responseBodySize"] + size["responseHeadersSize"] for size in sizes) < MAX_FIRST_LOAD
    assert sum(len(answer.body()) for answer in answers) < MAX_FIRST_LOAD, "also where nothing is compressed"


def test_second_load_asks_for_the_page_alone(context: BrowserContext, url: str, faults: list[str]) -> None:
    playground = open_page(context, url, faults)
    answers: list[Response] = []
    playground.page.on("response", lambda answer: answers.append(answer))
    playground.page.reload()
    playground.page.locator("html[data-ready]").wait_for()
    asked = {
        answer.url.removeprefix(url)
        for answer in answers
        if answer.request.sizes()["responseBodySize"] > 0 and "/playground/" in answer.url
    }
    assert asked == set()


def test_whole_session_talks_to_this_server_only(playground: Playground, url: str) -> None:
    others: list[str] = []
    playground.page.on("request", lambda request: None if request.url.startswith(url) else others.append(request.url))
    playground.set("max_tokens", "4")
    playground.set("n", "2")
    playground.type("A text")
    playground.complete()
    playground.score()
    for tab in ("Tree", "Tokens", "Code"):
        playground.open_tab(tab)
    playground.page.wait_for_load_state("networkidle")
    assert others == []


@pytest.mark.parametrize(
    "script",
    [
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)",
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')",
        "document.body.innerHTML = '<b>bold</b>'",
        "setTimeout('window.ran = 1', 0)",
        "(0, eval)('window.ran = 1')",
        "document.body.setAttribute('onclick', 'window.ran = 1'); document.body.click()",
    ],
    ids=["inline script", "inserted HTML", "inner HTML", "text as a timer", "eval", "handler attribute"],
)
def test_policy_lets_no_text_run(context: BrowserContext, url: str, script: str) -> None:
    page = context.new_page()
    page.goto(url)
    page.locator("html[data-ready]").wait_for()
    # Later than the evaluation itself, which the browser's tools exempt from the policy.
    watched = """new Promise(resolve => {
        const violations = [];
        document.addEventListener("securitypolicyviolation", event => violations.push(event.effectiveDirective));
        window.addEventListener("error", event => event.preventDefault());
        setTimeout(() => { %s }, 0);
        setTimeout(() => resolve({
            violations, ran: window.ran ?? null, bold: document.querySelector("body > b") !== null,
        }), 200);
    })"""
    blocked = page.evaluate(watched.replace("%s", script))
    assert blocked["violations"] != []
    assert (blocked["ran"], blocked["bold"]) == (None, False)
