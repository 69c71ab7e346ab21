"""The embedded engine: llama.cpp in process, continuous batching, exact prefix reuse."""
