"""Grammars: from what a client wrote to what llguidance reads, in a process of its own that bounds what that costs."""
