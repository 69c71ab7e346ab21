"""Fields that have an answer searched for instead of drawn (docs/rules.md#beam-search)."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator, WithJsonSchema

from afterword.fields.field import Control, extension, fields_of
from afterword.fields.shapes import refusal, shown


def _early_stopping(value: object) -> bool | str:
    if isinstance(value, bool) or value == "never":
        return value
    raise refusal("invalid_type", f'must be true, false or "never", not {shown(value)}.')


_SHAPE: Final = {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["never"]}]}

EarlyStopping = Annotated[
    bool | Literal["never"], PlainValidator(_early_stopping), WithJsonSchema(_SHAPE), Control("switch")
]

_GROUP: Final = "Beam search"
_LIKE: Final[dict[str, Any]] = {"uses": "beams", "vendors": ("afterword",)}


@dataclass(frozen=True, slots=True)
class Search:
    """As the client wrote it."""

    use_beam_search: bool = extension(
        False, "Search for the likeliest answers with best_of beams, or n, instead of drawing tokens.", _GROUP, **_LIKE
    )
    num_beams: int = extension(1, "The same with so many beams; 1 is none.", _GROUP, ge=1, le=128, **_LIKE)
    length_penalty: float = extension(
        1.0, "Answers compare by their log-probability divided by this power of their length.", _GROUP, ge=-10, le=10
    )
    early_stopping: EarlyStopping = extension(
        False, "End the search with as many answers as there are beams; never: not before none can be better.", _GROUP
    )

    @property
    def wanted(self) -> bool:
        """Whether there is to be one."""
        return self.use_beam_search or self.num_beams > 1


SEARCH_FIELDS = fields_of(Search)
