"""What an answer shows besides the sampled text: fields that no engine gets."""

from dataclasses import dataclass

from afterword.fields.field import documented, extension, fields_of
from afterword.fields.shapes import LogprobsForm, TokenIds


@dataclass(frozen=True, slots=True)
class Shown:
    """As the client wrote it."""

    echo: bool = documented(False, "Put the prompt in front of the text.", "On when the text is scored.", kind="answer")
    logprobs: int | None = documented(
        None,
        "Log-probabilities of the sampled and the k likeliest tokens.",
        "Probabilities",
        kind="answer",
        ge=0,
        supports=("logprobs",),
    )
    prompt_logprobs: int | None = extension(
        None,
        "Log-probabilities of the prompt, beside the choice.",
        "Not needed: scoring uses echo.",
        kind="answer",
        ge=0,
        needs_ids=True,
        supports=("logprobs", "prompt_logprobs"),
    )
    logprob_token_ids: TokenIds = extension(
        (),
        "Log-probabilities of these tokens in place of the k likeliest, wherever any are listed.",
        "Not needed: the page shows the likeliest.",
        kind="answer",
        goes_with="logprobs",
        needs_ids=True,
        only_here=True,
    )
    logprobs_format: LogprobsForm = extension(
        "",
        "base64: log-probabilities as arrays of numbers, k up to the whole vocabulary.",
        "Not needed: the page reads JSON.",
        kind="answer",
        goes_with="logprobs",
    )
    return_tokens_as_token_ids: bool = extension(
        False, "Log-probabilities name each token `token_id:N`.", "Off: the page shows text.", kind="answer"
    )
    return_token_ids: bool = extension(
        False,
        "Put the ids of the prompt's and the completion's tokens beside the text.",
        "Off: the page shows text.",
        kind="answer",
        needs_ids=True,
        supports=("token_ids",),
    )

    @property
    def lists_tokens(self) -> bool:
        """Whether the sampled tokens are listed in any way."""
        return self.logprobs is not None or self.return_token_ids


BESIDE_THE_TEXT = tuple(field for field in fields_of(Shown) if field.name != "echo")
"""Fields that add something to the answer that is no text."""
