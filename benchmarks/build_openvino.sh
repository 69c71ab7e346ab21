#!/bin/sh
# Install OpenVINO GenAI into an environment of its own. Usage: benchmarks/build_openvino.sh [DIRECTORY]     (some 300 MB, once)
set -eu
target=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/afterword/bench-openvino-2026.4.1}
if [ ! -e "$target/.installed" ]; then
    "${PYTHON:-python3}" -m venv "$target/env"
    "$target/env/bin/python" -m pip install --quiet --disable-pip-version-check openvino-genai==2026.4.1.0
    touch "$target/.installed"
fi
echo "$target"
