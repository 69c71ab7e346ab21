#!/bin/sh
# Build llama-server, llama-bench and llama-batched-bench for this machine, from the llama.cpp inside the source
# distribution of the llama-cpp-python we run on: same kernels on both sides. About ten minutes on two cores.
# Usage: benchmarks/build_peers.sh [DIRECTORY]     (default: bench-peers in the project's cache; programs land in DIRECTORY/bin)
# Needs cmake, a C++ compiler, python3 with pip. SOURCE=DIR names an unpacked source distribution.
# IK_SOURCE=DIR names a checkout of ik_llama.cpp, whose llama-server and llama-bench are then built too, into the
# directory bench-ik beside it.
set -eu
version=0.3.36
target=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/afterword/bench-peers}
mkdir -p "$target"
if [ -z "${SOURCE:-}" ]; then
    SOURCE=$target/llama_cpp_python-$version
    if [ ! -d "$SOURCE" ]; then
        "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps \
            --no-binary llama-cpp-python --dest "$target" "llama-cpp-python==$version"
        tar -xzf "$target/llama_cpp_python-$version.tar.gz" -C "$target"
    fi
fi
cmake -S "$SOURCE/vendor/llama.cpp" -B "$target" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_MTMD=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
cmake --build "$target" --parallel "$(nproc)" --target llama-server llama-bench llama-batched-bench
[ -n "${IK_SOURCE:-}" ] || exit 0
ik=$(dirname "$target")/bench-ik
cmake -S "$IK_SOURCE" -B "$ik" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF
cmake --build "$ik" --parallel "$(nproc)" --target llama-server llama-bench
