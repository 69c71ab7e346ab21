"""The table of a completion request's fields: each is described once, and everything else is made from that.

A new field for samplers goes into `sampling.py`, one that only changes what the answer shows into `shown.py`, any other
into `body.py`. Its implementation goes where it takes effect; `completions/unsupported.py` must not name it any more.
"""
