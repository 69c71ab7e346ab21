"""What the measured servers are called in results."""

OURS_AS_SHIPPED = "afterword"
OURS_ORIGINAL = "afterword-original"
"""With the file as it is; as shipped the server makes a copy for faster kernels."""

REFERENCE = "llama-server"
"""Everybody's figures are given as ratios to this one's."""

REFERENCE_SPLIT = "llama-server-split"
"""On the copy that this server makes."""
VLLM = "vllm"
PACKAGED = "llama-cpp-python"

CEILING, CEILING_SPLIT = "llama.cpp", "llama.cpp-split"
"""llama.cpp's own loops, on the file as shipped and on its copy."""

ECHO = "echo"
"""Ours with the echo engine: what the server costs apart from a model."""

ON_CLUSTER = "-cluster"
"""After the name of a server: the same as replicas on a Ray cluster."""
