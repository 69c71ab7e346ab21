"""What the measured servers are called in results."""

OURS = "afterword"
OURS_ON_LLAMA_CPP = "afterword-on-llama.cpp"
"""With llama.cpp's own kernels in place of this project's."""

REFERENCE = "llama-server"
"""Everybody's figures are given as ratios to this one's."""

IK = "ik_llama.cpp"
"""The server of ik_llama.cpp, whose kernels for processors are the fastest known of others'."""

VLLM = "vllm"
PACKAGED = "llama-cpp-python"

CEILING, CEILING_OURS = "llama.cpp", "llama.cpp-on-our-kernels"
"""llama.cpp's own loops, and one of ours on this project's kernels."""

OPENVINO = "openvino"
"""OpenVINO GenAI in process: what is known to read prompts fast on processors, of the few types that it takes."""

ECHO = "echo"
"""Ours with the echo engine: what the server costs apart from a model."""

ON_CLUSTER = "-cluster"
"""After the name of a server: the same as replicas on a Ray cluster."""
