"""The embedded engine in a process of its own, which may end without taking the server with it."""
