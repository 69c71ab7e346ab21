"""What the kernels and types of the KV cache do to a model's answers: perplexity, and how far distributions move.

usage: python -m benchmarks.quality MODEL.gguf TEXT_FILE...

Prints JSON lines: for each text our kernels beside llama.cpp's, then each type of the KV cache beside f16. KL is the
mean over positions of KL(base || other) in nats; `same_top` is the share of positions where both have the same
likeliest token. Runs in the server's own environment, without a server.
"""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from afterword.config.model import KVType
from afterword.engine.llama.binding import LIBRARIES_FOLDER, PACKAGE_VERSION, LlamaContext, LlamaModel
from afterword.engine.llama.caches import Attention
from afterword.engine.llama.kernels import use_kernels

N_TOKENS = 512
"""Tokens of each text that are looked at."""

PIECE = 64

OTHER_TYPES: tuple[KVType, ...] = ("q8_0",)


@dataclass(frozen=True, slots=True)
class Distance:
    """Both on one text of n tokens."""

    n: int
    perplexity_base: float
    perplexity_other: float
    kl: float
    kl_p99: float
    same_top: float


def log_probabilities(model: LlamaModel, tokens: NDArray[np.int32], attention: Attention) -> NDArray[np.float64]:
    """(n, n_vocab) log-softmax after each of the tokens."""
    n_cells = -(-len(tokens) // 256) * 256
    context = LlamaContext(model, n_slots=1, n_ctx_slot=n_cells, n_batch=PIECE, n_threads=2, attention=attention)
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


def distance(tokens: NDArray[np.int32], p: NDArray[np.float64], q: NDArray[np.float64]) -> Distance:
    """How far q, (n, n_vocab) log-probabilities after each token, is from p."""
    p, q = p[:-1], q[:-1]
    at = (np.arange(len(tokens) - 1), tokens[1:])
    kl = (np.exp(p) * (p - q)).sum(axis=1)
    return Distance(
        n=len(tokens),
        perplexity_base=float(np.exp(-p[at].mean())),
        perplexity_other=float(np.exp(-q[at].mean())),
        kl=float(kl.mean()),
        kl_p99=float(np.quantile(kl, 0.99)),
        same_top=float((p.argmax(axis=1) == q.argmax(axis=1)).mean()),
    )


def main() -> None:
    """Compare the kernels, then the types, on some texts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    options = parser.parse_args()
    texts, llama_cpp = _read(options.model, options.texts, Attention(fused=False))
    # From here on the process computes with the other kernels.
    assert use_kernels(PACKAGE_VERSION, LIBRARIES_FOLDER) is not None
    _, ours = _read(options.model, options.texts, Attention(fused=True))
    _print("llama.cpp", "own", options.texts, [distance(*both) for both in zip(texts, llama_cpp, ours, strict=True)])
    for kv_type in OTHER_TYPES:
        _, found = _read(options.model, options.texts, Attention(fused=True, kv_type=kv_type))
        _print("f16", kv_type, options.texts, [distance(*both) for both in zip(texts, ours, found, strict=True)])


def _print(base: str, other: str, texts: list[Path], found: list[Distance]) -> None:
    for text, distances in zip(texts, found, strict=True):
        line = {name: round(value, 6) for name, value in asdict(distances).items()}
        print(json.dumps({"base": base, "other": other, "text": text.name, **line}), flush=True)


def _read(
    file: Path, texts: list[Path], attention: Attention
) -> tuple[list[NDArray[np.int32]], list[NDArray[np.float64]]]:
    """(tokens, log-probabilities after each) of every text."""
    model = LlamaModel(file)
    tokens = [np.array(model.tokenize(text.read_text(), parse_special=False)[:N_TOKENS], np.int32) for text in texts]
    found = [log_probabilities(model, ids, attention) for ids in tokens]
    model.close()
    return tokens, found


if __name__ == "__main__":
    main()
