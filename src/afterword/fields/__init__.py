"""The table of a completion request's fields: each is described once, and everything else is made from that.

A new field that samplers are told goes into `sampling.py`, one that only changes what the answer shows into `shown.py`,
any other into `body.py`. What it does is written where it is done; `completions/unsupported.py` no longer names it.
"""
