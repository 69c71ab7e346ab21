"""Write a GGUF file's weights as a BF16 safetensors model, for servers that do not read GGUF.

    python benchmarks/export_safetensors.py MODEL.gguf DIRECTORY

The quantised weights are the same numbers, rounded to BF16; nothing is fetched. Runs in vLLM's environment.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def export(source: Path, target: Path) -> None:
    """Write configuration, tokenizer and weights of `source` into the directory `target`."""
    folder, name = str(source.parent), source.name
    AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.save_pretrained(target)
    (target / ".exported").touch()


if __name__ == "__main__":
    export(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
