"""How fast OpenVINO GenAI reads a prompt: a ceiling for prompts, without a server. Runs in an environment of its own.

    python benchmarks/openvino_prefill.py MODEL.gguf THREADS WORDS

Prints one JSON object with tokens a second, the best of some runs. A file of a type that it
does not read ends it with an error.
"""

import json
import sys

RUNS = 5


def main(model: str, threads: int, words: int) -> None:
    """Read prompts of the same words, each with another beginning: nothing is answered from a cache."""
    import openvino_genai as genai  # type: ignore[import-not-found, unused-ignore]

    pipeline = genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
    wanted = genai.GenerationConfig()
    wanted.max_new_tokens = 1
    wanted.ignore_eos = True
    wanted.apply_chat_template = False
    rates = []
    for run in range(RUNS):
        metrics = pipeline.generate([f"{run}{' house' * words}"], wanted).perf_metrics
        rates.append(metrics.get_num_input_tokens() / (metrics.get_ttft().mean / 1e3))
    print(json.dumps({"prefill_tokens_per_s": max(rates)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
