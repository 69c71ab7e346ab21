"""Folds a stream's chunks into the body they stand for: the client's half of the contract."""

import json
from typing import Any

JsonObject = dict[str, Any]


def events_of(stream: str) -> list[str]:
    """The data of each event. Fails on anything that is not one `data: ` line and a blank one."""
    assert stream.endswith("\n\n")
    blocks = stream.removesuffix("\n\n").split("\n\n")
    for block in blocks:
        assert block.startswith("data: ")
        assert "\n" not in block
    return [block.removeprefix("data: ") for block in blocks]


def chunks_of(stream: str) -> list[JsonObject]:
    """The chunks of a stream that ended well: `[DONE]` last, and nowhere else."""
    *chunks, last = events_of(stream)
    assert last == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


def fold(chunks: list[JsonObject]) -> JsonObject:
    """The plain body: choices by index, `usage` from the chunk without choices."""
    choices: dict[int, JsonObject] = {}
    usage: JsonObject | None = None
    for chunk in chunks:
        if not chunk["choices"]:
            usage = chunk["usage"]
            continue
        [part] = chunk["choices"]
        whole = choices.setdefault(part["index"], {"text": "", "logprobs": None, "finish_reason": None})
        assert whole["finish_reason"] is None, "a chunk after the end of its choice"
        whole["text"] += part["text"]
        whole["logprobs"] = _joined(whole["logprobs"], part["logprobs"])
        whole["finish_reason"] = part["finish_reason"]
        if "prompt_logprobs" in part:
            assert "prompt_logprobs" not in whole
            whole["prompt_logprobs"] = part["prompt_logprobs"]
        if "token_ids" in part:
            assert (part["prompt_token_ids"] is None) == ("token_ids" in whole), "once, in the first chunk"
            whole.setdefault("prompt_token_ids", part["prompt_token_ids"])
            whole["token_ids"] = whole.get("token_ids", []) + part["token_ids"]
    return {"choices": [{"index": index, **choices[index]} for index in sorted(choices)], "usage": usage}


def _joined(whole: JsonObject | None, part: JsonObject | None) -> JsonObject | None:
    if whole is None or part is None:
        assert whole is None or part is not None, "log-probabilities in some chunks only"
        return part
    return {name: None if whole[name] is None else whole[name] + part[name] for name in whole}
