class Module:
    """A type that nothing is an instance of."""
