"""Why a token's numbers never depend on luck: how many rows its sequence has in a micro-batch is decided by its kind.

Without flash attention llama.cpp computes a row's numbers in one of two ways, which differ in the last bits: one way
if its sequence has several rows in the micro-batch, whatever their number, and another if it has one. Neither depends
on other sequences, on how a prompt is cut, or on what is cached. So

    prompt tokens    always go in company: pieces of SEVERAL rows or more, filled up with rows that are thrown away;
    sampled tokens   always go alone: one row of their sequence a step

and a prompt token computed for one request is what any other would have computed. (ARCHITECTURE, "Exactness";
`probe.py` checks the running build and model.)
"""

SEVERAL = 2
"""Rows that make company."""
