"""`[[vendors]]`: other servers that run models for this one, and what each kind of them supports."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict, ValidationInfo, field_validator

from afterword.config.table_keys import Table, key
from afterword.config.values import Allowed, HeaderTable, HeaderText, HttpUrl, Seconds, Text
from afterword.fields.field import RequestField
from afterword.fields.table import EXTENSIONS, FIELDS

LOCAL = "local"
"""The vendor of models that run in this process."""

LONGEST_COOLDOWN = 300
"""Seconds; a vendor's cooldown is doubled each time up to this."""

UpstreamKind = Literal["openai", "llama-server", "vllm", "afterword"]


Extension = Literal[EXTENSIONS]  # type: ignore[valid-type]  # made of the table of fields


class Supports(Table):
    """What an upstream supports. Something missing is done here where that is possible, and else refused by name."""

    token_prompts: bool = key(True, "Prompts as arrays of token ids.")
    n: bool = key(True, "Several choices in one request; without, each is a request.")
    greedy_n: bool = key(True, "The same at temperature 0.")
    seed: bool = key(True, "`seed`.")
    logprobs: bool = key(True, "`logprobs`.")
    max_logprobs: int = key(5, "The most.", ge=0)
    min_logprobs: int = key(0, "The least that gives the sampled tokens' own.", ge=0)
    prompt_logprobs: bool = key(True, "`echo` with `logprobs` lists the prompt.")
    logit_bias: bool = key(True, "`logit_bias`.")
    penalties: bool = key(True, "`frequency_penalty` and `presence_penalty`.")
    zero_tokens: bool = key(True, "`max_tokens` 0; without, one token is asked for and dropped.")
    max_stops: int = key(4, "The most texts in `stop`; more are found here alone.", ge=0)
    include_stop: bool = key(False, "`include_stop_str_in_output`.")
    stream_usage: bool = key(True, "`stream_options.include_usage`.")
    token_ids: bool = key(False, "`return_tokens_as_token_ids`; `return_token_ids` needs it too.")
    extensions: Annotated[tuple[Extension, ...], Strict(False)] = key(
        (), "Those of the further fields that it supports."
    )

    def supports_field(self, field: RequestField) -> bool:
        """Whether it supports a field of a request."""
        if field.vendors:
            return field.name in self.extensions
        if field.only_here:
            return False
        return all(getattr(self, switch) for switch in field.supports)


def _extensions_of(kind: UpstreamKind) -> tuple[str, ...]:
    return tuple(field.name for field in FIELDS if kind in field.vendors)


PRESETS: Mapping[UpstreamKind, Supports] = {
    "openai": Supports(),
    "llama-server": Supports(
        n=False,  # it answers as many as it has slots for, and counts the first one's tokens only
        max_logprobs=100,
        min_logprobs=1,
        prompt_logprobs=False,
        zero_tokens=False,
        max_stops=64,
        extensions=_extensions_of("llama-server"),
    ),
    "vllm": Supports(
        greedy_n=False, max_logprobs=20, include_stop=True, token_ids=True, extensions=_extensions_of("vllm")
    ),
    "afterword": Supports(max_logprobs=100, max_stops=64, include_stop=True, token_ids=True, extensions=EXTENSIONS),
}
"""What each kind of server supports."""


def _without_slash(name: str) -> str:
    if "/" in name:
        raise ValueError
    return name


class VendorConfig(Table):
    """One upstream server."""

    name: Annotated[Text, AfterValidator(_without_slash), Allowed("a text that is not blank and has no slash")] = key(
        ..., "Its name in `vendor` of models, and in their full names before the slash."
    )
    url: HttpUrl = key(..., "Base of its API; usually ends in `/v1`.")
    kind: UpstreamKind = key("openai", "What kind of server it is.")
    api_key: HeaderText | None = key(None, "Its key, sent as a bearer token.", shown="none", secret=True)
    api_key_env: Text | None = key(None, "The environment variable that holds the key instead.", shown="none")
    headers: HeaderTable = key({}, "Further headers of every request.", shown="none", secret=True)
    max_concurrent: int = key(64, "Sequences that it gets at once; more wait here.", ge=1)
    connect_timeout: Seconds = key(5, "Time to connect, in seconds.")
    first_event_timeout: Seconds = key(300, "Time until an answer begins, in seconds.")
    idle_timeout: Seconds = key(60, "Longest pause within an answer, in seconds.")
    retries: int = key(2, "Further attempts after refused connections and 502, 503, 504.", ge=0, le=10)
    failures: int = key(3, "Failures in a row after which it gets no requests for a while.", ge=1)
    cooldown: Seconds = key(10, f"For how long, in seconds; doubled each time, up to {LONGEST_COOLDOWN}.")
    health_interval: Seconds = key(10, "Time between health checks meanwhile, in seconds.")
    supports: Supports = Field(
        default_factory=lambda vendor: PRESETS[vendor["kind"]],
        description="Where it differs from its kind, see below.",
        json_schema_extra={"default": "as its kind"},
    )

    @field_validator("supports", mode="before")
    @classmethod
    def _on_top_of_its_kind(cls, given: object, info: ValidationInfo) -> object:
        preset = PRESETS.get(info.data.get("kind", "openai"))
        return {**preset.model_dump(), **given} if isinstance(given, dict) and preset is not None else given
