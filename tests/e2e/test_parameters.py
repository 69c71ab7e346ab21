"""The form beside the editor: every field explained, presets, models, the key, and what the server says of a field."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, expect
from tests.api.served import app_of
from tests.e2e.conftest import open_page
from tests.e2e.playground import Playground
from tests.live import run_server

from afterword.api.playground import form
from afterword.fields.field import FOLDED

pytestmark = [pytest.mark.e2e, pytest.mark.model]

KEY = "k-secret"


@pytest.fixture
def locked_url() -> Iterator[str]:
    """A server that wants a key."""
    with run_server(app_of(api_key=KEY)) as url:
        yield url


def spelled(default: object) -> str:
    match default:
        case None | "":
            return "none"
        case bool():
            return str(default).lower()
        case list():
            return ", ".join(json.dumps(item) for item in default)
        case _:
            return f"{default:g}"


def test_every_field_has_a_line_and_its_default(playground: Playground) -> None:
    for title in FOLDED:
        playground.page.get_by_text(title, exact=True).click()
    for name, field in form()["fields"].items():
        if "by_page" in field:
            continue
        about = playground.page.locator(f"#field-{name}-about").inner_text()
        assert about.startswith(field["description"]), name
        assert about.endswith(f"Default: {spelled(field['default'])}."), name
        expect(playground.page.get_by_label(name, exact=True)).to_have_attribute("id", f"field-{name}")


def test_fields_that_the_page_sets_are_explained_too(playground: Playground) -> None:
    playground.page.get_by_text("Set by the page").click()
    names = playground.page.locator(".field.plain .name").all_inner_texts()
    assert names == [name for name, field in form()["fields"].items() if "by_page" in field]


def test_samplers_are_folded_until_one_is_set(playground: Playground) -> None:
    field = playground.field("typical_p")
    expect(field).to_be_hidden()
    playground.page.locator("#preset").select_option("Typical")
    expect(field).to_be_visible()


def test_a_json_schema_of_several_lines_gives_the_answer_its_form(playground: Playground) -> None:
    person = {"properties": {"name": {"enum": ["Ann", "Bob"]}}, "required": ["name"], "additionalProperties": False}
    schema = {"type": "object"} | person
    playground.page.get_by_text("Form of the answer", exact=True).click()
    playground.set("json_schema", json.dumps(schema, indent=2))
    playground.type("A person as JSON: ")
    playground.complete()
    assert json.loads(playground.text.removeprefix("A person as JSON: "))["name"] in ("Ann", "Bob")
    playground.set("json_schema", '{"type":\n')
    playground.press("Complete")
    expect(playground.complaint("json_schema")).to_contain_text("'json_schema' is no JSON")


def test_presets_of_writers_set_values_that_the_server_takes(playground: Playground) -> None:
    preset = playground.page.get_by_role("combobox", name="Preset", exact=True)
    known = preset.locator("optgroup[label='Known to writers'] option").all_inner_texts()
    assert {"simple-1", "Midnight Enigma", "Universal-Light"} <= set(known)
    playground.choose_model("echo")
    playground.type("abc ")
    for name in [*known, "Four beams"]:
        preset.select_option(name)
        with playground.page.expect_response("**/v1/completions") as answered:
            playground.complete()
        assert answered.value.status == 200, name


def test_beams_come_side_by_side_with_the_best_first(playground: Playground) -> None:
    playground.page.locator("#preset").select_option("Four beams")
    expect(playground.field("num_beams")).to_be_visible()
    playground.type("The capital of France is")
    playground.complete()
    expect(playground.candidates).to_have_count(4)
    assert len(set(playground.candidates.all_inner_texts())) == 4


def test_guidance_by_a_prompt_of_several_lines_is_sent(playground: Playground) -> None:
    playground.page.get_by_text("Beams and guidance", exact=True).click()
    playground.set("guidance_scale", "1.5")
    playground.set("negative_prompt", "dull\nand long")
    playground.type("Hello")
    with playground.page.expect_request("**/v1/completions") as sent:
        playground.complete()
    assert (sent.value.post_data_json or {})["negative_prompt"] == "dull\nand long"


def test_what_is_set_is_sent_and_nothing_else(playground: Playground) -> None:
    playground.page.get_by_role("button", name="Reset max_tokens").click()
    playground.set("temperature", "0.25")
    playground.set("seed", "-5")
    playground.set("stop", "\\n\\n\nEND")
    playground.field("ignore_eos").check()
    playground.set("stop_token_ids", "2, 17")
    playground.type("Hello")
    with playground.page.expect_request("**/v1/completions") as sent:
        playground.complete()
    assert sent.value.post_data_json == {
        "model": "smollm2-135m-instruct",
        "prompt": "Hello",
        "temperature": 0.25,
        "seed": -5,
        "stop": ["\n\n", "END"],
        "ignore_eos": True,
        "stop_token_ids": [2, 17],
        "logprobs": 5,
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False},
    }


def test_slider_and_number_show_the_same(playground: Playground) -> None:
    slider = playground.page.get_by_role("slider", name="temperature")
    slider.fill("0.5")
    expect(playground.field("temperature")).to_have_value("0.5")
    playground.set("temperature", "1.5")
    expect(slider).to_have_value("1.5")


def test_models_of_the_server_can_be_picked_and_are_remembered(playground: Playground) -> None:
    picker = playground.page.get_by_role("combobox", name="Model", exact=True)
    assert picker.locator("option").all_inner_texts() == ["smollm2-135m-instruct", "filler", "echo", "long"]
    picker.select_option("echo")
    playground.set("temperature", "0")
    playground.type("abc ")
    playground.complete()
    assert playground.text.startswith("abc abc")
    playground.page.reload()
    expect(picker).to_have_value("echo")


def test_presets_are_saved_in_the_browser(playground: Playground) -> None:
    page = playground.page
    preset = page.get_by_role("combobox", name="Preset")
    playground.set("temperature", "0.3")
    expect(preset).to_have_value("")
    page.get_by_label("Name of a new preset").fill("cool")
    playground.press("Save")
    expect(preset).to_have_value("cool")
    preset.select_option("Four candidates")
    expect(playground.field("n")).to_have_value("4")
    expect(playground.field("temperature")).to_have_value("")
    page.reload()
    preset.select_option("cool")
    expect(playground.field("temperature")).to_have_value("0.3")
    playground.press("Delete")
    assert "cool" not in preset.locator("option").all_inner_texts()


def take_back(playground: Playground) -> None:
    """Press the button beside the sentence under the editor."""
    playground.page.get_by_role("button", name="Take back").click()


def test_page_01_a_preset_that_was_deleted_or_saved_over_can_be_taken_back(playground: Playground) -> None:
    preset = playground.page.get_by_role("combobox", name="Preset", exact=True)
    name = playground.page.get_by_role("textbox", name="Name of a new preset")
    for value in ("0.3", "0.4"):
        playground.set("temperature", value)
        name.fill("mine")
        playground.press("Save")
    take_back(playground)
    preset.select_option("mine")
    expect(playground.field("temperature")).to_have_value("0.3")
    playground.page.locator("#preset-delete").click()
    expect(preset.get_by_role("option", name="mine")).to_have_count(0)
    take_back(playground)
    expect(preset).to_have_value("mine")


def test_page_01_parameters_that_one_click_overwrites_can_be_taken_back(playground: Playground) -> None:
    temperature, preset = playground.field("temperature"), playground.page.get_by_role("combobox", name="Preset")
    playground.set("temperature", "0.35")
    preset.select_option("Four candidates")
    expect(temperature).to_have_value("")
    take_back(playground)
    expect(temperature).to_have_value("0.35")
    playground.press("Reset temperature")
    expect(temperature).to_have_value("")
    take_back(playground)
    expect(temperature).to_have_value("0.35")
    playground.field("logit_bias").click()
    for label, value in (("Token id", "17"), ("Bias of token", "-5")):
        playground.page.get_by_label(label, exact=False).last.fill(value)
    playground.page.get_by_role("button", name=re.compile("^Take token")).click()
    expect(playground.page.locator(".bias-row")).to_have_count(0)
    take_back(playground)
    expect(playground.page.get_by_label("Bias of token 17")).to_have_value("-5")


def test_key_is_asked_for_sent_and_kept(context: BrowserContext, locked_url: str, faults: list[str]) -> None:
    playground = open_page(context, locked_url, faults)
    page = playground.page
    key = page.get_by_label("Key", exact=True)
    expect(key).to_be_focused()
    expect(page.locator("#key-complaint")).to_contain_text("This server asks for an API key")
    key.fill("wrong")
    key.press("Enter")
    expect(page.locator("#key-complaint")).to_contain_text("not the one this server expects")
    key.fill(KEY)
    key.press("Enter")
    expect(page.locator("#key-complaint")).to_be_hidden()
    playground.set("temperature", "0")
    playground.type("abc ")
    playground.complete()
    assert playground.text.startswith("abc abc")
    page.reload()
    expect(page.get_by_role("combobox", name="Model", exact=True)).to_have_value("echo")
    playground.open_tab("Code")
    expect(page.locator("#code-text")).to_contain_text("$AFTERWORD_API_KEY")
    expect(page.locator("#code-text")).not_to_contain_text(KEY)
    assert faults == []


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("temperature", "3", "'temperature' must be at most 2, not 3."),
        ("best_of", "21", "'best_of' must be at most 20, not 21."),
        ("stop_token_ids", "abc", "'stop_token_ids'[0] must be an integer, not a string."),
        ("logprobs", "101", "'logprobs' must be at most 100 for this model, not 101."),
    ],
)
def test_refusal_stands_beside_its_field(playground: Playground, name: str, value: str, sentence: str) -> None:
    playground.open_tab("Tree")
    playground.type("Hello")
    playground.open_tab("Parameters")
    playground.set(name, value)
    playground.press("Complete")
    expect(playground.complaint(name)).to_have_text(sentence)
    expect(playground.field(name)).to_have_attribute("aria-invalid", "true")
    expect(playground.field(name)).to_be_focused()
    described = playground.field(name).get_attribute("aria-describedby") or ""
    assert f"field-{name}-complaint" in described.split()
    assert playground.text == "Hello"
    playground.set(name, "")
    expect(playground.complaint(name)).to_be_hidden()


def test_refusals_without_a_field_stand_under_the_editor(playground: Playground) -> None:
    playground.set("max_tokens", "5000")
    playground.type("Hello")
    playground.press("Complete")
    expect(playground.page.locator(".notice.error")).to_contain_text(
        re.compile("maximum context length is 2048 tokens")
    )
    expect(playground.page.locator("#count")).to_have_class(re.compile("over"))


def test_server_that_is_gone_is_said_in_words(context: BrowserContext, faults: list[str]) -> None:
    with run_server(app_of()) as url:
        playground = open_page(context, url, faults)
    playground.type("Hello")
    playground.press("Complete")
    expect(playground.notice).to_have_text("The server cannot be reached. Is it still running?")
    assert playground.text == "Hello"
