"""afterword: the text Completions API on people's own machines."""

__version__ = "0.1.0"
