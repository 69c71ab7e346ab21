"""The command line: parse, call, print. Knows every other part and is known by none."""
