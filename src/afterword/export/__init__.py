"""A GGUF model as a directory in the format of the Hugging Face libraries, which vLLM reads."""
