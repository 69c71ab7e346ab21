"""What the measured servers are called in results."""

OURS_AS_SHIPPED = "afterword"
OURS_Q8_0 = "afterword-q8_0"

REFERENCE = "llama-server"
"""Everybody's figures are given as ratios to this one's."""

REFERENCE_Q8_0 = "llama-server-q8_0"
VLLM = "vllm"
PACKAGED = "llama-cpp-python"

CEILING, CEILING_Q8_0 = "llama.cpp", "llama.cpp-q8_0"
"""llama.cpp's own loops, on the file as shipped and on its copy."""

ECHO = "echo"
"""Ours with the echo engine: what the server costs apart from a model."""
