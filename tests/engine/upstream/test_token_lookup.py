r"""Which token of a vocabulary is meant."""

import pytest

from afterword.engine.upstream.reply import Entry, MalformedReply, Named
from afterword.engine.upstream.token_lookup import TokenLookup
from afterword.tokens import ByteTokenizer

SPELLING = TokenLookup(ByteTokenizer())


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        pytest.param(Named("a"), 97, id="text"),
        pytest.param(Named("bytes:\\xe2"), 0xE2, id="bytes"),
        pytest.param(Named("<|endoftext|>"), ByteTokenizer.END, id="control token"),
        pytest.param(Named("token_id:98"), 98, id="by id"),
        pytest.param(Named("whatever", 99), 99, id="with an id"),
    ],
)
def test_a_token_is_found(token: Named, expected: int) -> None:
    assert SPELLING.id_of(token) == expected
    assert SPELLING.may_mean(token, expected)
    assert not SPELLING.may_mean(token, 100)


@pytest.mark.parametrize("token", [Named("ab"), Named("token_id:258"), Named("a", 258), Named("token_id:")])
def test_what_is_not_in_the_vocabulary_shows_that_it_is_another_s(token: Named) -> None:
    with pytest.raises(MalformedReply, match="not in the configured tokenizer's vocabulary"):
        SPELLING.id_of(token)


def test_the_likeliest_come_first_and_ties_by_id() -> None:
    entry = Entry(Named("z"), -9.0, ((Named("z"), -9.0), (Named("b"), -1.0), (Named("a"), -1.0), (Named("c"), -2.0)))
    assert SPELLING.likeliest(entry, 3) == ((97, -1.0), (98, -1.0), (99, -2.0))
    assert SPELLING.likeliest(entry, 0) == ()


class Pairs(ByteTokenizer):
    """Bytes, but the last token is two of them."""

    def piece(self, token: int) -> bytes:
        return b"\xe2\x80" if token == self.CONTROL else super().piece(token)


def test_bytes_are_taken_apart_into_the_longest_pieces() -> None:
    assert TokenLookup(Pairs()).ids_of(b"\xe2\x80\xe2a") == [Pairs.CONTROL, 0xE2, 97]
