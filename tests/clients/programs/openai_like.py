"""llama-index's OpenAILike against the server at argv[1]; prints what it made of the answers."""

import asyncio
import json
import sys
from typing import Any

from llama_index.llms.openai_like import OpenAILike

PROMPT = "One, two, three, four, five,"


def llm(**more: Any) -> OpenAILike:
    return OpenAILike(
        model="default",
        api_base=f"{sys.argv[1]}/v1",
        api_key="unused",
        is_chat_model=False,
        temperature=0,
        max_tokens=6,
        max_retries=0,
        **more,
    )


scored = llm(logprobs=True, top_logprobs=3).complete(PROMPT)
print(
    json.dumps(
        {
            "text": llm().complete(PROMPT).text,
            "usage": llm().complete(PROMPT).additional_kwargs,
            "deltas": [part.delta for part in llm().stream_complete(PROMPT)],
            "awaited": asyncio.run(llm().acomplete(PROMPT)).text,
            "extra": llm(additional_kwargs={"extra_body": {"min_tokens": 5}, "stop": [" eight"]}).complete(PROMPT).text,
            "logprobs": [[[entry.token, entry.logprob] for entry in entries] for entries in scored.logprobs],
        }
    )
)
