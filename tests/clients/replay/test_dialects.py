"""Every field of other servers' clients has its effect, is refused by name, or changes nothing for a reason."""

from typing import Any

import pytest
from tests.clients.replay.dialects import DIALECTS, IGNORED, REFUSED
from tests.clients.replay.wire import Json
from tests.completions.scripted import AsciiTokenizer, completion, served

from afterword.errors import InvalidRequest

SENT = [(dialect, name) for dialect, fields in DIALECTS.items() for name in fields]


def outcome(name: str, value: Any, beside: Json) -> str:
    base: Json = {"prompt": "some text", "seed": 3} | {key: one for key, one in beside.items() if key != name}
    if name == "seed":
        del base["seed"]
    model = served(AsciiTokenizer())
    try:
        changed = completion(model, **(base | {name: value}))
    except InvalidRequest as error:
        return "refused" if error.param == name and name in str(error) else str(error)
    return "ignored" if changed == completion(model, **base) else "has its effect"


@pytest.mark.parametrize(("dialect", "name"), SENT)
def test_a_field_has_its_effect_or_there_is_a_reason(dialect: str, name: str) -> None:
    expected = "refused" if name in REFUSED else "ignored" if name in IGNORED else "has its effect"
    assert outcome(name, *DIALECTS[dialect][name]) == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_fields_that_have_an_effect_go_together(dialect: str) -> None:
    forms = ("json_schema", "regex_pattern", "grammar_string", "grammar", "guided_json", "guided_regex")
    alone = {*forms, "guided_choice", "use_beam_search", "num_beams", "n", "seed", "guidance_scale", "cfg_scale"}
    fields = {
        name: value
        for name, (value, _) in DIALECTS[dialect].items()
        if name not in REFUSED and name not in IGNORED and name not in alone
    }
    [request] = completion(prompt="some text", **fields).generations
    assert request != completion(prompt="some text").generations[0]
    assert len(fields) >= 20


def test_every_reason_is_of_a_field_that_somebody_sends() -> None:
    assert {*REFUSED, *IGNORED} <= {name for fields in DIALECTS.values() for name in fields}
