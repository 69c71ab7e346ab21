"""vLLM's asynchronous engine behind this package's engine protocol: GPUs, tensor and pipeline parallelism."""
