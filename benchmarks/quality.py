"""What a layout does to the model's answers: perplexity, and how far its distributions are from the original's.

usage: python -m benchmarks.quality ORIGINAL.gguf COPY.gguf [--offsets ADAPTER.gguf] TEXT_FILE...

Prints one JSON line a text. KL is the mean over positions of KL(original || copy) in nats; `same_top` is the share of
positions where both have the same likeliest token. Runs in the server's own environment, without a server.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from afterword.engine.llama.binding import LlamaContext, LlamaModel

N_TOKENS = 512
"""Tokens of each text that are looked at."""

PIECE = 64


@dataclass(frozen=True, slots=True)
class Distance:
    """Two layouts on one text of n tokens."""

    n: int
    perplexity_original: float
    perplexity_copy: float
    kl: float
    kl_p99: float
    same_top: float


def log_probabilities(model: LlamaModel, tokens: NDArray[np.int32]) -> NDArray[np.float64]:
    """(n, n_vocab) log-softmax after each of the tokens."""
    n_cells = -(-len(tokens) // 256) * 256
    context = LlamaContext(model, n_slots=1, n_ctx_slot=n_cells, n_batch=PIECE, n_threads=2)
    rows = []
    for start in range(0, len(tokens), PIECE):
        piece = tokens[start : start + PIECE]
        positions = np.arange(start, start + len(piece), dtype=np.int32)
        logits = context.decode(piece, positions, np.zeros_like(piece), np.ones(len(piece), dtype=np.int8))
        rows.append(logits.astype(np.float64))
    context.close()
    logits64 = np.concatenate(rows)
    logits64 -= logits64.max(axis=1, keepdims=True)
    normalised: NDArray[np.float64] = logits64 - np.log(np.exp(logits64).sum(axis=1, keepdims=True))
    return normalised


def distance(original: LlamaModel, copy: LlamaModel, text: str) -> Distance:
    """How far `copy` is from `original` on the first tokens of a text."""
    tokens = np.array(original.tokenize(text, parse_special=False)[:N_TOKENS], dtype=np.int32)
    p, q = log_probabilities(original, tokens)[:-1], log_probabilities(copy, tokens)[:-1]
    at = (np.arange(len(tokens) - 1), tokens[1:])
    kl = (np.exp(p) * (p - q)).sum(axis=1)
    return Distance(
        n=len(tokens),
        perplexity_original=float(np.exp(-p[at].mean())),
        perplexity_copy=float(np.exp(-q[at].mean())),
        kl=float(kl.mean()),
        kl_p99=float(np.quantile(kl, 0.99)),
        same_top=float((p.argmax(axis=1) == q.argmax(axis=1)).mean()),
    )


def main() -> None:
    """Compare two files on some texts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("original", type=Path)
    parser.add_argument("copy", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--offsets", type=Path, help="adapter of a split copy")
    options = parser.parse_args()
    models = LlamaModel(options.original), LlamaModel(options.copy, offsets=options.offsets)
    for text in options.texts:
        found = distance(*models, text.read_text())
        line = {name: round(getattr(found, name), 5) for name in Distance.__dataclass_fields__}
        print(json.dumps({"text": text.name, **line}), flush=True)


if __name__ == "__main__":
    main()
