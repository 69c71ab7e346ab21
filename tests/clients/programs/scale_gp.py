"""scale-gp-beta against the server at argv[1] with the key argv[2]; prints what it understood."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import scale_gp_beta
from scale_gp_beta import AsyncSGPClient, SGPClient, Stream
from scale_gp_beta.types import Completion

ACCESS: dict[str, Any] = {"base_url": sys.argv[1], "api_key": sys.argv[2], "account_id": "acc-1", "max_retries": 0}
MODEL = "openai/davinci"

FIELDS: dict[str, Any] = {
    "model": MODEL,
    "prompt": ["hello ", "world "],
    "best_of": 3,
    "echo": True,
    "frequency_penalty": 0.5,
    "logit_bias": {"104": 2},
    "logprobs": 2,
    "max_tokens": 6,
    "n": 2,
    "presence_penalty": -0.5,
    "seed": 7,
    "stop": ["zz", "yy"],
    "temperature": 1.5,
    "top_p": 0.9,
    "user": "u-1",
}
INFILL: dict[str, Any] = {"model": MODEL, "prompt": "ab", "suffix": "cd", "max_tokens": 4, "temperature": 0}
STREAMED: dict[str, Any] = FIELDS | {"best_of": 2, "stream": True, "stream_options": {"include_usage": True}}
SHORT: dict[str, Any] = {"prompt": "hi", "max_tokens": 2, "temperature": 0}


def failure(call: Callable[..., Any], *args: Any, **fields: Any) -> Any:
    try:
        call(*args, **fields)
    except scale_gp_beta.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.body]
    return None


def model_of(client: SGPClient, name: str | None) -> str:
    more = {} if name is None else {"extra_body": {"model": name}}
    return client.completions.create(model=MODEL, **SHORT, **more).model


def end_of_the_other_dialect() -> str:
    """What the SDK makes of a stream that ends without a name."""
    body = {"stream": True, **SHORT}
    stream = client.post("/v1/completions", body=body, cast_to=Completion, stream=True, stream_cls=Stream[Completion])
    try:
        chunks_of(stream)
    except ValueError as error:
        return type(error).__name__
    return "no error"


def chunks_of(stream: Any) -> list[Any]:
    with stream:
        return [chunk.to_dict() for chunk in stream]


def leave() -> str:
    """Close a stream that has hardly begun."""
    stream = client.completions.create(model="local/slow", prompt="hello ", max_tokens=8000, temperature=0, stream=True)
    with stream:
        return next(stream).choices[0].text


async def leave_awaited() -> str:
    async with AsyncSGPClient(**ACCESS) as client:
        stream = await client.completions.create(
            model="local/slow", prompt="hello ", max_tokens=8000, temperature=0, stream=True
        )
        async with stream:
            return (await anext(stream)).choices[0].text


async def awaited() -> dict[str, Any]:
    async with AsyncSGPClient(**ACCESS) as client:
        stream = await client.completions.create(**STREAMED)
        return {
            "whole": (await client.completions.create(**FIELDS)).to_dict(),
            "chunks": [chunk.to_dict() async for chunk in stream],
            "models": [model.id async for model in client.models.list(limit=1)],
            "model": (await client.models.retrieve(MODEL)).name,
        }


client = SGPClient(**ACCESS)
strict = SGPClient(**ACCESS, _strict_response_validation=True)
create, models = client.completions.create, client.models
wrong_key = client.with_options(api_key="wrong")
davinci = strict.models.retrieve(MODEL)
print(
    json.dumps(
        {
            "asked": FIELDS,
            "whole": create(**FIELDS).to_dict(),
            "infill": create(**INFILL).to_dict(),
            "chunks": chunks_of(create(**STREAMED)),
            "strict": strict.completions.create(model=MODEL, **SHORT).to_dict(),
            "awaited": asyncio.run(awaited()),
            "names": [model_of(client, name) for name in (None, "local/echo", "default", "text-davinci-003", " ")],
            "broken": chunks_of(create(model="local/broken", stream=True, **SHORT)),
            "left": [leave(), asyncio.run(leave_awaited())],
            "end of the other dialect": end_of_the_other_dialect(),
            "request id": client.completions.with_raw_response.create(model=MODEL, **SHORT).headers["x-request-id"],
            "patience": failure(client.with_options(max_retries=1).completions.create, model="local/full", **SHORT),
            "models": [model.id for model in models.list()],
            "pages": [[model.id for model in page.items] for page in models.list(limit=2).iter_pages()],
            "backwards": [
                [model.id for model in page.items]
                for page in models.list(limit=1, ending_before="local/broken").iter_pages()
            ],
            "by vendor": [model.id for model in models.list(model_vendor="openai")],
            "by name": [model.id for model in models.list(name="echo")],
            "newest first": [model.id for model in models.list(sort_by="created_at", sort_order="desc")],
            "model": davinci.to_dict(mode="json"),
            "created": [davinci.created_at.timestamp(), models.retrieve("default").id],
            "status": [models.retrieve("local/broken").status, davinci.api_model_vendor, davinci.api_model_type],
            "refused": {
                "bad field": failure(create, **SHORT | {"temperature": 3}, model=MODEL),
                "bad field, streamed": failure(create, **SHORT | {"temperature": 3}, model=MODEL, stream=True),
                "short name": failure(create, model="echo", **SHORT),
                "unknown model": failure(models.retrieve, "openai/gone"),
                "wrong key": failure(wrong_key.completions.create, model=MODEL, **SHORT),
                "wrong key for models": failure(wrong_key.models.retrieve, MODEL),
                "bad page": failure(models.list, limit=0),
                "bad cursor": failure(models.list, starting_after="gone"),
                "read only": failure(models.delete, MODEL),
                "full": failure(create, model="local/full", **SHORT),
            },
        }
    )
)
