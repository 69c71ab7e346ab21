"""Raw HTTP as the replayed clients speak it, and the strict readers that several of them share. Knows no client."""

import json
from dataclasses import dataclass
from typing import Any

import httpx

KEY = "k-1"
PAGE = "https://page.example"
"""The page that the server may be used by."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wire:
    """The way to one server."""

    url: str

    def post(self, body: Json, path: str = "/v1/completions", **headers: str) -> httpx.Response:
        """Send a body as it is; the answer must be a 200."""
        response = self.send(body, path, **headers)
        assert response.status_code == 200, response.text
        return response

    def send(self, body: Json, path: str = "/v1/completions", **headers: str) -> httpx.Response:
        """Send a body as it is, redirects not followed."""
        # `json.dumps` writes nulls, and other characters than ASCII as escapes: what most clients do.
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"} | headers
        return httpx.post(self.url + path, content=json.dumps(body), headers=headers, timeout=60)

    def get(self, path: str) -> httpx.Response:
        """Ask for a page."""
        return httpx.get(self.url + path, headers={"Authorization": f"Bearer {KEY}"})


def require(value: Json, **types: type) -> None:
    """What a typed deserializer demands: every key is there, not null, and of exactly its type."""
    found = {key: type(value[key]) for key in types}
    assert found == types


def require_completion(answer: Json) -> None:
    """The fields that readers with static types declare without an option for their absence."""
    require(answer, id=str, object=str, created=int, model=str, choices=list, usage=dict)
    require(answer["usage"], prompt_tokens=int, completion_tokens=int, total_tokens=int)
    for choice in answer["choices"]:
        require(choice, text=str, index=int, finish_reason=str)


def stream_of(response: httpx.Response) -> list[Json]:
    """The chunks of a stream, read as strictly as the strictest: LF framing, `data: ` with its space, `[DONE]` last.

    Lines are split at everything that any reader takes for the end of one, U+2028 and U+0085 among it.
    """
    assert response.headers["content-type"].split(";")[0] == "text/event-stream"
    assert "\r" not in response.text
    assert response.text.split("\n") == [*response.text.splitlines(), ""]
    *events, end = response.text.split("\n\n")
    assert end == ""
    assert all(event.startswith("data: ") for event in events)
    *chunks, done = [event.removeprefix("data: ") for event in events]
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


def text_of(chunks: list[Json]) -> str:
    """The text of the first choice of a stream."""
    return "".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"])
