"""scale-gp-beta against the default model of the server at argv[1]; prints what it understood."""

import asyncio
import json
import sys
from typing import Any

from scale_gp_beta import AsyncSGPClient, SGPClient

ACCESS: dict[str, Any] = {"base_url": sys.argv[1], "api_key": "unused", "account_id": "unused", "max_retries": 0}
MODEL = "local/smollm2-135m-instruct"
PROMPT = "The café on the corner sells"
GREEDY: dict[str, Any] = {"model": MODEL, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "seed": 1}
SCORED: dict[str, Any] = {"model": MODEL, "prompt": PROMPT, "max_tokens": 0, "echo": True, "logprobs": 2}


async def at_once() -> list[str]:
    async with AsyncSGPClient(**ACCESS) as client:

        async def text(number: int) -> str:
            fields = GREEDY | {"prompt": f"{number} plus one is", "max_tokens": 6}
            if number % 2 == 0:
                return (await client.completions.create(**fields)).choices[0].text
            chunks = await client.completions.create(**fields, stream=True)
            return "".join([chunk.choices[0].text async for chunk in chunks])

        return await asyncio.gather(*(text(number) for number in range(12)))


with SGPClient(**ACCESS) as client:
    whole = client.completions.create(**GREEDY)
    stream = client.completions.create(**GREEDY, stream=True)
    print(
        json.dumps(
            {
                "model": whole.model,
                "text": whole.choices[0].text,
                "streamed": [chunk.choices[0].text for chunk in stream],
                "scored": client.completions.create(**SCORED).to_dict(),
                "at once": asyncio.run(at_once()),
                "context": client.models.retrieve(MODEL).metadata["max_model_len"],
            }
        )
    )
