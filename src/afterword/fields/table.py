"""Every field of a completion request, and what follows from all of them together."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from afterword.fields.bans import BAN_FIELDS, Bans
from afterword.fields.body import CompletionBody
from afterword.fields.decoding import DECODING_FIELDS, Decoding
from afterword.fields.field import RequestField, fields_of
from afterword.fields.grammars import CONSTRAINT_FIELDS, Constraints
from afterword.fields.sampling import SAMPLING_FIELDS, sampling_of, values_of_sampling
from afterword.fields.shown import Shown

_SHOWN_FIELDS, _BODY_FIELDS = fields_of(Shown), fields_of(CompletionBody)


def _place_in_the_reference(field: RequestField) -> tuple[bool, bool, str]:
    """Sort key: model and prompt, the other documented fields by name, then the extensions as declared."""
    return (not field.documented, field.name not in ("model", "prompt"), field.name if field.documented else "")


DECLARED = (
    *SAMPLING_FIELDS,
    *CONSTRAINT_FIELDS,
    *DECODING_FIELDS,
    *BAN_FIELDS,
    *_BODY_FIELDS,
    *_SHOWN_FIELDS,
)
"""In the order of the playground's form."""

FIELDS = tuple(sorted(DECLARED, key=_place_in_the_reference))
"""In the order of the public reference, then the extensions."""

FEATURES = tuple(dict.fromkeys(field.feature for field in FIELDS if field.feature is not None))
"""What an engine may lack."""

ONLY_HERE = tuple(field.feature for field in FIELDS if field.only_here and field.feature is not None)
"""Those of them that engines of this server alone have."""

EXTENSIONS = tuple(field.name for field in FIELDS if field.vendors)
"""Fields beyond the documented API that a vendor may honour."""


_shown, _constraints, _decoding, _bans, _others = (
    itemgetter(*(field.name for field in fields))
    for fields in (_SHOWN_FIELDS, CONSTRAINT_FIELDS, DECODING_FIELDS, BAN_FIELDS, _BODY_FIELDS)
)


def body_of(values: Mapping[str, Any]) -> CompletionBody:
    """A body of the values of all fields by name."""
    return CompletionBody(
        sampling_of(values),
        Shown(*_shown(values)),
        Constraints(*_constraints(values)),
        Decoding(*_decoding(values)),
        Bans(*_bans(values)),
        *_others(values),
    )


def values_of(body: CompletionBody) -> dict[str, Any]:
    """The values of all fields by name."""
    holders = (
        (body.shown, _SHOWN_FIELDS),
        (body.constraints, CONSTRAINT_FIELDS),
        (body.decoding, DECODING_FIELDS),
        (body.bans, BAN_FIELDS),
        (body, _BODY_FIELDS),
    )
    others = {field.name: getattr(holder, field.name) for holder, fields in holders for field in fields}
    return values_of_sampling(body.sampling) | others
