"""openai-python 0.x against the server at argv[1]; prints what it understood."""

import asyncio
import json
import sys
from typing import Any

import openai

openai.api_base = f"{sys.argv[1]}/v1"
openai.api_key = "unused"
FIELDS: dict[str, Any] = {
    "prompt": "One, two, three, four, five,",
    "max_tokens": 6,
    "temperature": 0,
    "logprobs": 1,
    "seed": 1,
}


async def awaited(**more: Any) -> Any:
    answer = await openai.Completion.acreate(**FIELDS, **more)
    return answer["choices"][0]["text"]


async def awaited_stream() -> list[str]:
    stream = await openai.Completion.acreate(model="default", stream=True, **FIELDS)
    return [chunk["choices"][0]["text"] async for chunk in stream]


def refused(**more: Any) -> list[Any]:
    try:
        openai.Completion.create(model="default", prompt="x", **more)
    except openai.error.OpenAIError as error:
        return [type(error).__name__, error.http_status, error.json_body["error"]["param"]]
    return []


whole = openai.Completion.create(model="default", **FIELDS)
engine = openai.Completion.create(engine="smollm2-135m-instruct", **FIELDS)
chunks = list(openai.Completion.create(model="default", stream=True, **FIELDS))
batch = openai.Completion.create(model="default", prompt=["A", "B"], n=2, max_tokens=1, echo=True, seed=1)
print(
    json.dumps(
        {
            "whole": whole,
            "engine": engine,
            "chunks": chunks,
            "batch": batch,
            "awaited": asyncio.run(awaited(engine="default")),
            "awaited stream": asyncio.run(awaited_stream()),
            "refused": [refused(temperature=3), refused(n=4, best_of=2)],
            "models": [model["id"] for model in openai.Model.list()["data"]],
        }
    )
)
