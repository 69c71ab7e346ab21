"""How the text is cut, the count against the context, `logit_bias` by clicking, the request as code, the figures."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

NODE_CLIENTS = Path(__file__).resolve().parents[1] / "clients" / "node"

TRICKY = 'It\'s "so" \\ $HOME `x` \u00e9\u4e16\U0001f30d\nend'


def test_text_is_shown_as_tokens_with_ids(playground: Playground, url: str) -> None:
    playground.type("Hello brave new world\n")
    playground.open_tab("Tokens")
    asked = {"prompt": "Hello brave new world\n", "return_token_strs": True}
    expected = httpx.post(f"{url}/tokenize", json=asked).json()
    chips = playground.page.locator("#tokens button")
    expect(chips).to_have_count(expected["count"])
    assert chips.locator(".id").all_inner_texts() == [str(token) for token in expected["tokens"]]
    assert chips.locator("code").all_inner_texts() == ["Hello", "·brave", "·new", "·world", "↵"]


def test_count_follows_the_text(playground: Playground) -> None:
    count = playground.page.locator("#count")
    expect(count).to_have_text("0 of 2,048 tokens")
    playground.type("one two three")
    expect(count).to_have_text("3 of 2,048 tokens")
    playground.choose_model("echo")
    expect(count).to_have_text(re.compile("^13 of "))


def test_tokens_are_copied_as_an_array(playground: Playground, url: str) -> None:
    playground.type("Hello brave new world")
    playground.open_tab("Tokens")
    expect(playground.page.locator("#tokens button")).to_have_count(4)
    playground.press("Copy as token array")
    expect(playground.button("Copied")).to_be_visible()
    copied = json.loads(playground.page.evaluate("navigator.clipboard.readText()"))
    assert copied == httpx.post(f"{url}/tokenize", json={"prompt": "Hello brave new world"}).json()["tokens"]


def test_clicking_a_token_bans_it(playground: Playground) -> None:
    playground.set("max_tokens", "1")
    playground.set("temperature", "0")
    playground.type("one, two, three, four")
    playground.complete()
    unbiased = playground.text
    playground.press("Undo")
    playground.open_tab("Tokens")
    playground.page.get_by_label("Bias that a click gives").fill("-50")
    comma = playground.page.locator("#tokens button", has_text=",").first
    comma.click()
    expect(comma).to_have_class(re.compile("biased"))
    playground.editor.focus()
    with playground.page.expect_request("**/v1/completions") as sent:
        playground.complete()
    [(token, bias)] = (sent.value.post_data_json or {})["logit_bias"].items()
    assert (int(token) > 0, bias) == (True, -50)
    assert playground.text != unbiased
    playground.open_tab("Parameters")
    expect(playground.page.get_by_label("Token id")).to_have_value(token)
    playground.page.get_by_label(f"Bias of token {token}").fill("1.5")
    playground.open_tab("Code")
    expect(playground.page.locator("#code-text")).to_contain_text(f'"{token}": 1.5')


def test_code_of_each_language_is_the_request(playground: Playground) -> None:
    playground.set("max_tokens", "4")
    playground.set("temperature", "0")
    playground.set("top_k", "3")
    playground.paste(TRICKY)
    playground.page.get_by_role("combobox", name="Write at").select_option("end")
    playground.open_tab("Code")
    page = playground.page
    codes = {}
    for language in ("curl", "Python", "Node"):
        page.get_by_role("radio", name=language).check()
        playground.press("Copy")
        codes[language] = page.evaluate("navigator.clipboard.readText()")
        assert codes[language] == page.locator("#code-text").text_content()
    playground.editor.focus()
    playground.complete()
    expected = playground.text.removeprefix(TRICKY)
    ran = subprocess.run(["bash", "-c", codes["curl"]], capture_output=True, check=True, timeout=60)
    lines = [line.removeprefix("data: ") for line in ran.stdout.decode().split("\n\n") if line.startswith("data: {")]
    assert "".join(choice["text"] for line in lines for choice in json.loads(line)["choices"]) == expected
    python = subprocess.run([sys.executable, "-c", codes["Python"]], capture_output=True, check=True, timeout=60)
    assert python.stdout.decode() == expected
    if (NODE_CLIENTS / "node_modules").is_dir():
        run_node(codes["Node"], expected)


def run_node(code: str, expected: str) -> None:
    """Run a snippet where the official client is installed."""
    command = ["node", "--input-type=module", "-e", code]
    ran = subprocess.run(command, capture_output=True, check=True, timeout=60, cwd=NODE_CLIENTS, env={**os.environ})
    assert ran.stdout.decode() == expected


def test_figures_of_the_last_answer(playground: Playground, url: str) -> None:
    playground.set("max_tokens", "12")
    playground.field("ignore_eos").check()
    playground.type("Some text of a dozen tokens or so to begin with.")
    playground.complete()
    assert playground.figure("Completion") == "12 tokens"
    assert re.fullmatch(r"\d+ tokens, \d+ cached", playground.figure("Prompt"))
    assert float(playground.figure("Speed").removesuffix(" tokens/s")) > 0
    assert int(playground.figure("First token").removesuffix(" ms")) >= 0
    assert playground.figure("Ended by") == "length"
    models = httpx.get(f"{url}/v1/models").json()["data"]
    assert playground.figure("Fingerprint") == models[0]["system_fingerprint"]
    playground.press("Regenerate")
    playground.wait()
    assert int(playground.figure("Prompt").split(", ")[1].removesuffix(" cached")) > 0
