"""How many bytes of memory a slot takes, found with a small context: architectures keep many things of a text."""

from dataclasses import dataclass

from afterword.engine.llama.binding import LlamaContext, LlamaModel
from afterword.engine.llama.caches import Attention
from afterword.engine.llama.memory import SMALLEST_CONTEXT


@dataclass(frozen=True, slots=True)
class SlotSizes:
    """Bytes of one slot."""

    per_token: int
    """Keys and values of a token, in the layers that have some."""
    state: int
    """What does not grow with the text, where memory cannot be cut; else 0."""


def measure_slot(model: LlamaModel, attention: Attention) -> SlotSizes:
    """Computes two tokens and sees what they leave. Raises what `LlamaContext` does."""
    context = LlamaContext(model, n_slots=1, n_ctx_slot=SMALLEST_CONTEXT, n_batch=2, n_threads=1, attention=attention)
    try:
        sizes: list[int] = []
        for position in range(2):
            context.decode([0], [position], [0], [1])
            sizes.append(len(context.snapshot(0)))
        return SlotSizes(sizes[1] - sizes[0], 0 if model.memory_can_be_cut else len(context.state(0)))
    finally:
        context.close()
