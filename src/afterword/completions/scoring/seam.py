"""Where a context ends and its continuation begins, in tokens (docs/rules.md#seam)."""

from afterword.completions.prompts import check_ids
from afterword.errors import InvalidRequest
from afterword.fields.shapes import PromptItem
from afterword.text.brief import brief
from afterword.tokens import Tokenizer, encode_within

Tokens = tuple[int, ...]


class Joiner:
    """Joins texts and token arrays of one request; remembers the tokens of the latest text in front."""

    def __init__(self, tokenizer: Tokenizer, *, add_special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._add_bos = add_special_tokens and tokenizer.add_bos
        self._latest: tuple[str, Tokens] | None = None

    def joined(self, context: PromptItem, continuation: PromptItem, param: str) -> tuple[Tokens, int]:
        """A context with its continuation, and how many of the tokens are the context's, at least one.

        Raises `InvalidRequest` if no token is the continuation's own.
        """
        if isinstance(context, str) and isinstance(continuation, str):
            # Space at the end mostly is part of the next word's token.
            stripped = context.rstrip()
            continuation = context[len(stripped) :] + continuation
            context = stripped
        head, tokens = self.head(context, param), self.whole(context, continuation, param)
        if len(tokens) <= len(head):
            shown = brief(continuation) if isinstance(continuation, str) else "an empty array"
            raise InvalidRequest(
                f"'{param}' has a continuation with no token of its own behind its context, so nothing of it can be "
                f"scored: '{shown}'.",
                param=param,
                code="invalid_value",
            )
        return tokens, len(head)

    def head(self, item: PromptItem, param: str) -> Tokens:
        """The tokens of what comes first; those of nothing are the separator, as everywhere."""
        if not isinstance(item, str):
            check_ids(item, self._tokenizer, param)
            return item or (self._tokenizer.separator_id,)
        return self._context(item) or (self._tokenizer.separator_id,)

    def whole(self, first: PromptItem, second: PromptItem, param: str) -> Tokens:
        """The tokens of both together: of two texts as one text, else one after the other."""
        if isinstance(first, str) and isinstance(second, str):
            tokens = self._encoded(first + second)
            return tokens if self._context(first) else (self._tokenizer.separator_id, *tokens)
        if isinstance(second, str):
            return (*self.head(first, param), *encode_within(self._tokenizer, second))
        check_ids(second, self._tokenizer, param)
        return (*self.head(first, param), *second)

    def _context(self, text: str) -> Tokens:
        if self._latest is None or self._latest[0] != text:
            self._latest = text, self._encoded(text)
        return self._latest[1]

    def _encoded(self, text: str) -> Tokens:
        return tuple(self._tokenizer.encode(text, add_bos=self._add_bos, parse_special=True))
