"""Random grammars: each is followed or refused in a sentence, within bounds of time and memory, and ends no process.

AFTERWORD_TEST_GRAMMARS is how many there are; `make fuzz` has ten thousand.
"""

import json
import os
import select
import subprocess
import sys
from typing import Any

from tests.api.served import app_of, client_of
from tests.fuzz.grammars import HOSTILE, grammars

from afterword.fields.grammars import Grammar

COUNT = int(os.environ.get("AFTERWORD_TEST_GRAMMARS", "150"))
SEED = 1

SILENT = 60
"""Seconds after which a grammar counts as one that never ends."""

OPENED, STEP = 2.0, 0.5
"""Seconds of processor time, in the process of a model: for the beginning of a grammar, and for one of its tokens."""

MEMORY = 1024
"""MiB of that process, the vocabulary and the grammars that it keeps included."""


def test_a_grammar_is_followed_or_refused_within_bounds() -> None:
    taken = followed(COUNT)
    assert max(took["opened"] for took in taken) < OPENED
    assert max(took["step"] for took in taken) < STEP
    assert taken[-1]["memory"] < MEMORY
    kept = [took for took in taken if took["refused"] == ""]
    assert 0.2 < len(kept) / len(taken) < 0.8, "neither all nor none are of use"
    assert all(len(took["refused"]) < 300_000 for took in taken)


def followed(count: int) -> list[dict[str, Any]]:
    """What each grammar took; fails with the one that ended its process or did not end itself."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.follow_grammars", str(count), str(SEED)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    taken: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        said: Any = {"begins": "the first"}
        pending = b""
        while select.select([process.stdout], [], [], SILENT)[0]:
            data = os.read(process.stdout.fileno(), 1 << 16)
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                said = json.loads(line)
                taken += [said] if "refused" in said else []
            if not data:
                break
        else:
            process.kill()
            raise AssertionError(f"not ended within {SILENT} s: {said}")
    assert process.returncode == 0, f"ended with {process.returncode} after {said}"
    assert len(taken) == count
    return taken


async def test_the_server_answers_or_refuses_whatever_grammar_it_is_sent() -> None:
    chosen = [*HOSTILE, *list(grammars(SEED + 1, COUNT))[len(HOSTILE) :: 5]]
    async with client_of(app_of()) as client:
        for grammar in chosen:
            asked = {"prompt": "x", "max_tokens": 5, "seed": 1, **field_of(grammar)}
            answer = await client.post("/v1/completions", json=asked)
            assert answer.status_code in {200, 400}, (grammar, answer.text)
            if answer.status_code == 400:
                assert answer.json()["error"]["message"] != ""
        after = await client.post("/v1/completions", json={"prompt": "x", "max_tokens": 3, "regex": "abc"})
    assert after.json()["choices"][0]["text"] == "abc"


def field_of(grammar: Grammar) -> dict[str, Any]:
    """The request field that says it."""
    if grammar.kind == "choice":
        return {"guided_choice": json.loads(grammar.text)} if is_json(grammar.text) else {"regex": "a"}
    return {{"json_schema": "json_schema", "regex": "regex"}.get(grammar.kind, "grammar"): grammar.text}


def is_json(text: str) -> bool:
    """Whether it can be sent as it is."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
