"""What accounts, keys and models may be called."""

import pytest

from afterword.gateway.names import BadName, check_model, check_name, unknown


@pytest.mark.parametrize("name", ["a", "laptop", "team-7_b.old", "me@example.org", "0", "x" * 64])
def test_a_name_is_taken_as_it_is(name: str) -> None:
    assert check_name(name, "a key") == name


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", ".a", "x" * 65, "naïve", "a\n", "a/b", "a,b"])
def test_a_bad_name_is_refused_with_what_it_may_be(name: str) -> None:
    with pytest.raises(BadName) as caught:
        check_name(name, "a key")
    assert str(caught.value).startswith(f"The name of a key is {name!r}: it must be 1 to 64 letters, digits, dots")


def test_a_name_cannot_pass_for_an_account_s_id() -> None:
    with pytest.raises(BadName, match="only ids begin with acct_"):
        check_name("acct_1", "an account")


@pytest.mark.parametrize("name", ["local/echo", "up.2/meta-llama/Llama-3", "local/My Model", "local/a,b"])
def test_a_full_model_name_is_taken_as_it_is(name: str) -> None:
    assert check_model(name) == name


@pytest.mark.parametrize(
    "name", ["echo", "", "/", "local/", "/echo", "local/ ", "local/a\n", "lo cal/echo", "local/a "]
)
def test_anything_but_a_full_name_is_refused(name: str) -> None:
    with pytest.raises(BadName, match="must be a full name, vendor/name"):
        check_model(name)


def test_an_unknown_name_comes_with_those_nearly_the_same_or_with_advice() -> None:
    known = ["research", "reseach-old", "sales"]
    assert str(unknown("account", "resarch", known, "Make it.")) == (
        "There is no account 'resarch'. Did you mean research or reseach-old?"
    )
    assert str(unknown("account", "x", known, "Make it.")) == "There is no account 'x'. Make it."
