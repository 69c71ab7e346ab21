"""A completion request as the client wrote it. Defaults are OpenAI's (docs/rules.md#defaults). Knows no model."""

from dataclasses import dataclass

from afterword.fields.bans import Bans
from afterword.fields.decoding import Decoding
from afterword.fields.field import documented, extension
from afterword.fields.grammars import Constraints
from afterword.fields.sampling import Sampling
from afterword.fields.shapes import PredictedText, Prompts, Stops, StreamOptions, Text, TokenIds
from afterword.fields.shown import Shown

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_READING = "Prompt and text"


@dataclass(frozen=True, slots=True)
class CompletionBody:
    """Checked for types and ranges. Fields that belong together are in the first five."""

    sampling: Sampling
    shown: Shown
    constraints: Constraints
    decoding: Decoding
    bans: Bans
    model: Text | None = documented(
        None, "Name of the model; the default model if missing or blank.", "Chosen at the top of the page."
    )
    prompt: Prompts = documented(
        ("",),
        "Text or token ids, or an array of either; empty is a new document.",
        "The text before the place where the model writes.",
        uses="token_prompts",
        needs_ids=True,
    )
    suffix: Text = documented(
        "", "Text that comes after the completion.", "The text after it, if the model can fill gaps."
    )
    max_tokens: int = documented(16, "Most tokens to generate; 0 only scores the prompt.", "Length and choices", ge=0)
    n: int = documented(1, "Choices for each prompt.", "Length and choices", ge=1, le=128)
    best_of: int | None = documented(
        None,
        "Candidates to choose the n likeliest from; n if null.",
        "Length and choices",
        ge=1,
        le=20,
        supports=("logprobs",),
    )
    stop: Stops = documented(
        (),
        "Texts that end a choice and are left out of it.",
        "Length and choices",
        aliases=("stop_sequence", "stopping_strings"),
    )
    min_tokens: int = extension(
        0, "Sample no end before this many tokens.", "Length and choices", ge=0, vendors=("vllm",)
    )
    seed: int | None = documented(
        None, "The same seed gives the same answer.", "Sampling", ge=INT64_MIN, le=INT64_MAX, supports=("seed",)
    )
    do_sample: bool = extension(True, "False: as temperature 0.", "Set temperature to 0 instead.")
    stop_token_ids: TokenIds = extension(
        (), "Tokens that end.", "Single tokens", needs_ids=True, ours_with_ids=True, vendors=("vllm",)
    )
    ignore_eos: bool = extension(
        False,
        "Go on past the end-of-text token.",
        "Single tokens",
        aliases=("bypass_eos",),
        vendors=("llama-server", "vllm"),
    )
    add_special_tokens: bool = extension(
        True, "Add BOS where the model asks for it.", _READING, aliases=("add_bos_token",), needs_ids=True
    )
    truncate_prompt_tokens: int = extension(
        -1, "Keep the last k prompt tokens; -1: all.", _READING, ge=-1, needs_ids=True
    )
    skip_special_tokens: bool = extension(
        True, "Give control tokens no text.", _READING, ours_with_ids=True, vendors=("vllm",)
    )
    include_stop_str_in_output: bool = extension(False, "Leave the stop in the text.", _READING, kind="answer")
    prediction: PredictedText | None = extension(
        None,
        "A text that the answer may repeat; it is then computed several tokens at once, and is the same.",
        "Not in the form: it changes nothing of the text.",
        kind="neutral",
        only_here=True,
    )
    user: Text | None = documented(None, "The end user, for the records.", _READING, kind="neutral")
    priority: int | None = extension(
        None,
        "Lower is earlier; not earlier than the API key's own, which is 0 unless it was made with another.",
        _READING,
        kind="neutral",
        ge=-(2**31),
        le=2**31 - 1,
    )
    stream: bool = documented(
        False, "Send the choices as they grow.", "On, unless best_of is above n or there are beams.", kind="answer"
    )
    stream_options: StreamOptions | None = documented(
        None, "Only with stream.", "Asks for the token counts.", kind="answer"
    )
