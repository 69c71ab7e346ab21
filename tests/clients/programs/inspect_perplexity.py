"""Inspect AI's perplexity scorers on the texts argv[2:], by the server at argv[1]; prints scores and usage."""

import json
import os
import sys

root, *texts = sys.argv[1:]
os.environ["OWN_BASE_URL"] = os.environ["VLLM_BASE_URL"] = f"{root}/v1"
os.environ["OWN_API_KEY"] = os.environ["VLLM_API_KEY"] = "unused"

from inspect_ai import Task, eval  # noqa: E402
from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.model import GenerateConfig  # noqa: E402
from inspect_ai.scorer import perplexity  # noqa: E402

seen = {}
for provider in ("openai-api-completions/own/default", "vllm-completions/default"):
    task = Task(
        dataset=MemoryDataset([Sample(input=text) for text in texts]),
        scorer=perplexity(),
        config=GenerateConfig(prompt_logprobs=1, max_tokens=1, seed=1, num_choices=2, logprobs=True, top_logprobs=2),
    )
    [log] = eval(task, model=provider, display="none", log_dir="logs")
    assert log.status == "success", log.error
    assert log.samples is not None
    assert log.results is not None
    seen[provider] = {
        "samples": [
            {
                **sample.scores["perplexity"].metadata,
                "choices": [choice.message.text for choice in sample.output.choices],
                "tops": [len(choice.logprobs.content[0].top_logprobs) for choice in sample.output.choices],
                "usage": [sample.output.usage.input_tokens, sample.output.usage.output_tokens],
            }
            for sample in log.samples
        ],
        "metrics": {name: metric.value for name, metric in log.results.scores[0].metrics.items()},
    }
print(json.dumps(seen))
