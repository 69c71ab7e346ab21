"""GuideLLM: a benchmark that counts on a fixed length, on usage in every chunk, and on `/health`."""

import json
from typing import Any

import pytest
from tests.clients.conftest import OpenClient
from tests.clients.reference import Reference

pytestmark = [pytest.mark.clients, pytest.mark.model]

# The model all but surely ends here, so only a server that does what `ignore_eos` says goes on for nine tokens.
ENDED = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\nHello! How can I help you today?"
PROMPTS = [ENDED.format("Hi"), ENDED.format("Hello"), ENDED.format("Good morning")]


@pytest.fixture(scope="module")
def benchmark(open_client: OpenClient, server: str) -> Any:
    client = open_client("guidellm")
    rows = [{"prompt": prompt, "output_tokens_count": 9} for prompt in PROMPTS]
    (client.home / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    client.command(
        *["guidellm", "run", "--backend", f"kind=openai_http,target={server},request_format=/v1/completions"],
        *["--profile", "kind=synchronous", "--constraint", f"kind=max_requests,count={len(PROMPTS)}"],
        *["--data", "kind=json_file,path=prompts.jsonl", "--output", "kind=json,path=out.json", "--disable-progress"],
    )
    [measured] = json.loads((client.home / "out.json").read_text())["benchmarks"]
    return measured


def test_every_request_succeeds_and_is_as_long_as_asked_for(benchmark: Any, reference: Reference) -> None:
    assert benchmark["metrics"]["request_totals"] == {"successful": 3, "errored": 0, "incomplete": 0, "total": 3}
    requests = benchmark["requests"]["successful"]
    assert [request["output_metrics"]["text_tokens"] for request in requests] == [9, 9, 9]
    counts = sorted(request["input_metrics"]["text_tokens"] for request in requests)
    assert counts == sorted(len(reference.tokens(prompt)) for prompt in PROMPTS)


def test_it_asked_for_what_this_test_is_about(benchmark: Any) -> None:
    bodies = [json.loads(request["request_args"])["body"] for request in benchmark["requests"]["successful"]]
    assert all(body["ignore_eos"] and body["stream_options"]["continuous_usage_stats"] for body in bodies)
    assert [body["max_tokens"] for body in bodies] == [9, 9, 9]
