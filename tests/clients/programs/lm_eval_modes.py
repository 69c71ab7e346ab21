"""Every way lm-eval can send the tasks in the working folder to the server at argv[1]; prints the figures of each.

Our own model for it is in the sources at argv[2].
"""

import importlib
import json
import sys
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

sys.path.append(sys.argv[2])
importlib.import_module("afterword.lm_eval_model")

ROOT = sys.argv[1]
OPENAI = ("local-completions", f"model=default,base_url={ROOT}/v1/completions")
CHOICES, TEXTS, QUESTIONS = ["own_choices", "own_rigged"], ["own_texts"], ["own_questions"]
EVERYTHING = [*CHOICES, *TEXTS, *QUESTIONS]
MODES = {
    "tokens": (*OPENAI, 1, EVERYTHING),
    "tokens, four at a time": (*OPENAI, 4, EVERYTHING),
    "text": (OPENAI[0], f"{OPENAI[1]},tokenized_requests=False", 1, EVERYTHING),
    "text, four at a time": (OPENAI[0], f"{OPENAI[1]},tokenized_requests=False", 4, EVERYTHING),
    "concurrent": (OPENAI[0], f"{OPENAI[1]},num_concurrent=4", 1, EVERYTHING),
    "concurrent, four at a time": (OPENAI[0], f"{OPENAI[1]},num_concurrent=4", 4, EVERYTHING),
    "long documents": (*OPENAI, 1, ["own_long"]),
    "scores": ("afterword", OPENAI[1], 1, [*CHOICES, *TEXTS, *QUESTIONS, "own_long"]),
    "gguf": ("gguf", f"base_url={ROOT}", 1, [*CHOICES, *QUESTIONS]),
}


def figures(result: dict[str, Any]) -> dict[str, Any]:
    return {
        task: {
            "metrics": {name: value for name, value in result["results"][task].items() if isinstance(value, float)},
            "answers": [sample["filtered_resps"] for sample in sorted(samples, key=lambda sample: sample["doc_id"])],
        }
        for task, samples in result["samples"].items()
    }


manager = TaskManager(include_path=".", include_defaults=False)
seen = {}
for mode, (model, arguments, batch_size, tasks) in MODES.items():
    result = simple_evaluate(
        model=model,
        model_args=arguments,
        batch_size=batch_size,
        tasks=tasks,
        task_manager=manager,
        log_samples=True,
        bootstrap_iters=0,
    )
    seen[mode] = figures(result)
print(json.dumps(seen))
