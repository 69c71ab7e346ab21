"""The meaning of the Completions API: what a request asks for and what an answer holds. No HTTP, no model."""
