"""Grammars are read in another process: what takes too long ends that one, and the next is read as before."""

import json
import threading
import time

import pytest

from afterword.engine.grammars import grammar_compiler
from afterword.engine.grammars.grammar_compiler import GrammarFailed, compiled
from afterword.fields.grammars import Grammar

MULTIPLE = Grammar("json_schema", '{"type": "integer", "multipleOf": 999979}')


def test_what_takes_too_long_is_refused_and_the_next_is_read() -> None:
    with pytest.raises(GrammarFailed, match=r"^takes too long to be read\.$"):
        compiled(MULTIPLE)
    assert compiled(Grammar("regex", "after a long one")).text != ""


def test_a_process_that_has_ended_is_started_anew() -> None:
    compiled(Grammar("regex", "before"))
    process = grammar_compiler._READER._process
    assert process is not None
    process.kill()
    process.wait()
    with pytest.raises(GrammarFailed, match="to be read"):
        compiled(Grammar("regex", "meanwhile"))
    assert compiled(Grammar("regex", "meanwhile")).text != "", "what was refused for that reason is not remembered"


def test_a_grammar_that_is_sent_again_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled(Grammar("regex", "again"))
    monkeypatch.setattr(grammar_compiler, "_READER", None)
    assert compiled(Grammar("regex", "again")) == first


def test_nobody_can_satisfy_it_is_found_before_the_request_begins() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    with pytest.raises(GrammarFailed, match="no text satisfies it"):
        compiled(Grammar("json_schema", json.dumps(schema)))


def test_this_process_goes_on_while_a_grammar_is_read() -> None:
    def read() -> None:
        with pytest.raises(GrammarFailed):
            compiled(Grammar("json_schema", '{"type": "integer", "multipleOf": 999961}'))

    reader = threading.Thread(target=read)
    reader.start()
    used = time.process_time()
    reader.join()
    assert time.process_time() - used < 1, "the work is done elsewhere"
