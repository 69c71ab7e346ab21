"""What crosses between replicas."""

import pickle

import pytest

from afterword.engine.engine_refusal import refusal
from afterword.errors import EngineFailed, InvalidRequest, Overloaded


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("Field x is 1.", param="x", code="invalid_value"),
        Overloaded("The engine is full.", retry_after=7),
        EngineFailed("The engine broke."),
    ],
)
def test_an_error_crosses_as_a_value_and_comes_out_the_same(error: InvalidRequest | Overloaded | EngineFailed) -> None:
    arrived = pickle.loads(pickle.dumps(refusal(error))).error()
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)
