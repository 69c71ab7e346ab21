"""What must hold of any good answer, whatever was asked: read off the JSON.

docs/rules.md#answers, docs/rules.md#streams, docs/rules.md#log-probabilities

Written against the wire and a model whose tokens are bytes; nothing of the server's own code is used.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

END, CONTROL = 256, 257
SPECIAL = {END: "<|endoftext|>", CONTROL: "<|control|>"}
_TOKEN = re.compile("|".join(re.escape(spelled) for spelled in SPECIAL.values()))


def given(body: Json, name: str, default: Any) -> Any:
    """The value of a field: null means not given."""
    value = body.get(name)
    return default if value is None else value


@dataclass(frozen=True, slots=True)
class Asked:
    """One prompt as it was sent."""

    text: str
    """What `echo` shows."""
    data: bytes
    """The bytes of it, with those of a character that a token array leaves incomplete."""
    n_tokens: int


def prompts_of(body: Json) -> list[Asked]:
    """The prompts of a request, in order."""
    prompt = given(body, "prompt", "")
    if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
        prompt = [prompt]
    elif not prompt:
        prompt = [""]
    asked = [_of_text(item) if isinstance(item, str) else _of_ids(item, body) for item in prompt]
    keep = given(body, "truncate_prompt_tokens", -1)
    return asked if keep == -1 else [Asked(a.text, a.data, min(a.n_tokens, keep)) for a in asked]


def _of_text(text: str) -> Asked:
    rest = _TOKEN.sub("", text)
    return Asked(text, text.encode(), (len(rest.encode()) + len(_TOKEN.findall(text))) or 1)


def _of_ids(ids: list[int], body: Json) -> Asked:
    skip = given(body, "skip_special_tokens", True)
    pieces = [bytes([token]) if token < END else b"" if skip else SPECIAL[token].encode() for token in ids]
    data = b"".join(pieces)
    return Asked(whole_characters(data), data, len(ids) or 1)


def whole_characters(data: bytes) -> str:
    """`data` as text: invalid bytes as U+FFFD, without a character that is cut off at the end."""
    text = data.decode("utf-8", "replace")
    for n_cut in range(1, min(4, len(data) + 1)):
        tail = data[-n_cut:]
        if any(_is_begun(tail, more) for more in range(1, 4)):
            return data[:-n_cut].decode("utf-8", "replace")
    return text


def _is_begun(tail: bytes, n_missing: int) -> bool:
    """Whether `tail` is the start of one character that lacks `n_missing` bytes."""
    for filler in (b"\x80", b"\x90", b"\xbf"):
        # The byte after the first may have a narrower range than those after it.
        try:
            text = (tail + filler + b"\x80" * (n_missing - 1)).decode()
        except UnicodeDecodeError:
            continue
        return len(text) == 1
    return False


def bytes_of(spelled: str, *, shows_special: bool) -> bytes:
    """The bytes that a listed token adds to a text."""
    if spelled in SPECIAL.values():
        return spelled.encode() if shows_special else b""
    if spelled.startswith("bytes:"):
        return bytes(int(digits, 16) for digits in spelled.removeprefix("bytes:").split("\\x")[1:])
    return spelled.encode()


def check_answer(body: Json, answer: Json) -> None:
    """Every rule, of the whole answer and of each of its choices."""
    assert re.fullmatch(r"cmpl-[0-9A-Za-z]{29}", answer["id"])
    assert re.fullmatch(r"fp_[0-9a-f]{10}", answer["system_fingerprint"])
    assert (answer["object"], answer["model"]) == ("text_completion", "echo")
    asked, n = prompts_of(body), given(body, "n", 1)
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(asked) * n))
    for choice in answer["choices"]:
        _check_choice(body, asked[choice["index"] // n], choice)
    _check_usage(body, asked, answer)


def _check_usage(body: Json, asked: list[Asked], answer: Json) -> None:
    usage, n = answer["usage"], given(body, "n", 1)
    n_candidates = len(asked) * given(body, "best_of", n)
    assert usage["prompt_tokens"] == sum(prompt.n_tokens for prompt in asked)
    assert 0 <= usage["completion_tokens"] <= n_candidates * given(body, "max_tokens", 16)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    if body.get("logprobs") is None or body.get("stop") or n_candidates > len(asked) * n:
        return
    # Without stops, all tokens are listed, and the end token with them.
    listed = sum(len(choice["logprobs"]["tokens"]) for choice in answer["choices"])
    ends = sum(choice["finish_reason"] == "stop" for choice in answer["choices"])
    echoed = usage["prompt_tokens"] * n if given(body, "echo", False) else 0
    assert usage["completion_tokens"] == listed - ends - echoed


def _check_choice(body: Json, asked: Asked, choice: Json) -> None:
    assert choice["finish_reason"] in ("stop", "length")
    assert ("prompt_logprobs" in choice) == (body.get("prompt_logprobs") is not None)
    if "prompt_logprobs" in choice:
        assert len(choice["prompt_logprobs"]) == asked.n_tokens
        assert choice["prompt_logprobs"][0] is None
    assert ("token_ids" in choice) == given(body, "return_token_ids", False) == ("prompt_token_ids" in choice)
    if "token_ids" in choice:
        _check_ids(body, asked, choice)
    text = choice["text"]
    if given(body, "echo", False):
        assert text.startswith(asked.text)
        text = text.removeprefix(asked.text)
    _check_stops(body, text)
    assert (choice["logprobs"] is None) == (body.get("logprobs") is None)
    if choice["logprobs"] is not None:
        _check_logprobs(body, asked, choice["logprobs"], text)


def _check_ids(body: Json, asked: Asked, choice: Json) -> None:
    prompt, sampled = choice["prompt_token_ids"], choice["token_ids"]
    assert len(prompt) == asked.n_tokens
    assert all(0 <= token <= CONTROL for token in prompt + sampled)
    if choice["logprobs"] is not None:
        echoed = prompt if given(body, "echo", False) else []
        spelled = [SPECIAL.get(token) or _spelled(token) for token in echoed + sampled]
        assert choice["logprobs"]["tokens"] == spelled


def _spelled(byte: int) -> str:
    return chr(byte) if byte < 128 else f"bytes:\\x{byte:02x}"


def _check_stops(body: Json, text: str) -> None:
    stops = given(body, "stop", [])
    for stop in [stops] if isinstance(stops, str) else stops:
        if stop != "":
            at_end = given(body, "include_stop_str_in_output", False) and text.endswith(stop)
            assert stop not in (text[:-1] if at_end else text)


def _check_logprobs(body: Json, asked: Asked, logprobs: Json, text: str) -> None:
    k, echo = body["logprobs"], given(body, "echo", False)
    tokens, values, offsets = logprobs["tokens"], logprobs["token_logprobs"], logprobs["text_offset"]
    assert len(tokens) == len(values) == len(offsets)
    assert offsets == sorted(offsets)
    assert [value for value in values if value is None] == ([None] if echo else [])
    assert all(math.isfinite(value) and value <= 0 for value in values if value is not None)
    assert (logprobs["top_logprobs"] is None) == (k == 0)
    if k > 0:
        _check_tops(k, tokens, values, logprobs["top_logprobs"])
    n_prompt = asked.n_tokens if echo else 0
    if echo:
        assert values[0] is None
        assert all(0 <= offset <= len(asked.text) for offset in offsets[:n_prompt])
    sampled = tokens[n_prompt:]
    assert all(len(asked.text) <= offset <= len(asked.text) + len(text) for offset in offsets[n_prompt:])
    shows_special = not given(body, "skip_special_tokens", True)
    if shows_special and sampled and sampled[-1] in SPECIAL.values():
        return  # An end token has no text and a control token has; which one this was, the answer does not say.
    ends = {SPECIAL.get(token) or _spelled(token) for token in given(body, "stop_token_ids", [])}
    if sampled and sampled[-1] in ends:
        sampled = sampled[:-1]  # Listed, without text.
    data = b"".join(bytes_of(token, shows_special=shows_special) for token in sampled)
    # One token a byte, so what is listed up to a stop is what is shown.
    assert whole_characters(asked.data + data) == whole_characters(asked.data) + text


def _check_tops(k: int, tokens: list[str], values: list[float | None], tops: list[dict[str, float] | None]) -> None:
    assert len(tops) == len(tokens)
    for token, value, top in zip(tokens, values, tops, strict=True):
        if value is None:
            assert top is None
            continue
        assert top is not None
        assert k <= len(top) <= k + 1
        # To the bit: evaluation harnesses compare them.
        assert top[token] == value
        assert all(math.isfinite(one) for one in top.values())


def check_error(status: int, answer: Json) -> None:
    """A refusal: four keys, the client's fault, and a sentence."""
    assert status in (400, 404)
    assert list(answer) == ["error"]
    error = answer["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert error["type"] == "invalid_request_error"
    assert len(error["message"]) > 10
    assert (status == 404) == (error["code"] == "model_not_found")
