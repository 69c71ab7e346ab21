"""What README.md shows can be pasted."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
from tests.api.served import app_of, client_of
from tests.live import run_server

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
MAX_LINES = 120
ADDRESS = "http://127.0.0.1:8000"


def block(language: str, containing: str) -> str:
    """The one example in a language that contains a text."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    [chosen] = [text for text in found if containing in text]
    return chosen


def test_the_first_page_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES


async def test_the_example_for_curl_scores_its_text() -> None:
    words = shlex.split(block("sh", "curl").replace("\\\n", " "))
    assert words[:2] == ["curl", f"{ADDRESS}/v1/completions"]
    headers = dict([words[words.index("-H") + 1].split(": ")])
    async with client_of(app_of()) as client:
        answer = await client.post("/v1/completions", content=words[words.index("-d") + 1], headers=headers)
    assert answer.status_code == httpx.codes.OK, answer.text
    body = answer.json()
    assert body["usage"]["completion_tokens"] == 0
    assert body["choices"][0]["logprobs"]["token_logprobs"][1:] != []


def test_the_example_for_python_writes_the_text_as_it_comes() -> None:
    with run_server(app_of()) as url:
        program = block("python", "OpenAI(").replace(ADDRESS, url)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout != ""
