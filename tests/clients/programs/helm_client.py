"""HELM's client of the Completions API against the server at argv[1], on the text argv[2]; prints what it read."""

import json
import sys
from typing import Any

from helm.clients.openai_client import OpenAILegacyCompletionsClient
from helm.common.cache import BlackHoleCacheConfig
from helm.common.request import Request

client = OpenAILegacyCompletionsClient(
    cache_config=BlackHoleCacheConfig(), api_key="unused", base_url=f"{sys.argv[1]}/v1", openai_model_name="default"
)


def read(**fields: Any) -> list[dict[str, Any]]:
    result = client.make_request(Request(model="own/model", model_deployment="own/model", **fields))
    assert result.success, result.error
    return [
        {
            "text": completion.text,
            "logprob": completion.logprob,
            "tokens": [[token.text, token.logprob] for token in completion.tokens],
            "finish_reason": completion.finish_reason,
        }
        for completion in result.completions
    ]


print(
    json.dumps(
        {
            "scored": read(prompt=sys.argv[2], max_tokens=0, temperature=0, echo_prompt=True),
            "greedy": read(prompt=sys.argv[2], max_tokens=8, temperature=0, num_completions=2, top_k_per_token=3),
        }
    )
)
