"""Fields that have several sequences computed for one answer: beam search, and guidance by a second prompt."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator, WithJsonSchema

from afterword.fields.field import Control, extension, fields_of
from afterword.fields.shapes import Lines, refusal, shown


def _early_stopping(value: object) -> bool | str:
    if isinstance(value, bool) or value == "never":
        return value
    raise refusal("invalid_type", f'must be true, false or "never", not {shown(value)}.')


_SHAPE: Final = {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["never"]}]}

EarlyStopping = Annotated[
    bool | Literal["never"], PlainValidator(_early_stopping), WithJsonSchema(_SHAPE), Control("switch")
]

_GROUP: Final = "Beams and guidance"
_OURS: Final = ("afterword",)
_BEAMS: Final[dict[str, Any]] = {"uses": "beams", "vendors": _OURS}


@dataclass(frozen=True, slots=True)
class Decoding:
    """As the client wrote it."""

    use_beam_search: bool = extension(
        False, "Search for the likeliest answers with best_of beams, or n, instead of drawing tokens.", _GROUP, **_BEAMS
    )
    num_beams: int = extension(1, "The same with so many beams; 1 is none.", _GROUP, ge=1, le=128, **_BEAMS)
    length_penalty: float = extension(
        1.0, "Answers compare by their log-probability divided by this power of their length.", _GROUP, ge=-10, le=10
    )
    early_stopping: EarlyStopping = extension(
        False, "End the search with as many answers as there are beams; never: not before none can be better.", _GROUP
    )

    guidance_scale: float = extension(
        1.0,
        "How far the log-probabilities are moved away from those after negative_prompt; 1 is not at all.",
        _GROUP,
        ge=0,
        le=100,
        aliases=("cfg_scale",),
        vendors=_OURS,
    )
    negative_prompt: Lines = extension("", "The prompt to steer away from; empty is a new document.", _GROUP)

    @property
    def searches(self) -> bool:
        """Whether there is a beam search."""
        return self.use_beam_search or self.num_beams > 1


DECODING_FIELDS = fields_of(Decoding)
