"""LangChain, litellm and dspy against the server at argv[1], token id argv[2]; prints what each made of the answers."""

import asyncio
import json
import sys
from typing import Any

import dspy
import litellm
from langchain_core.output_parsers import PydanticOutputParser, StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_openai import OpenAI
from pydantic import BaseModel, ConfigDict

URL = f"{sys.argv[1]}/v1"
PROMPT = "One, two, three, four, five,"


def langchain() -> dict[str, Any]:
    fields: dict[str, Any] = {"base_url": URL, "api_key": "unused", "model": "default", "max_tokens": 6}
    pairs = OpenAI(**fields, seed=1, n=2, logprobs=1, model_kwargs={"echo": True}).generate(["A", "B"])
    best = OpenAI(**fields, seed=1, best_of=3, extra_body={"ignore_eos": True}).generate([PROMPT])
    greedy = OpenAI(**fields, seed=1, temperature=0)
    with_numbers = OpenAI(**fields, seed=1, temperature=0, logprobs=1, streaming=True).generate([PROMPT])
    return {
        "pairs": [[choice.text for choice in choices] for choices in pairs.generations],
        "pairs usage": pairs.llm_output["token_usage"],
        "pairs logprobs": [
            [len(choice.generation_info["logprobs"]["tokens"]) for choice in choices] for choices in pairs.generations
        ],
        "best usage": best.llm_output["token_usage"],
        "text": greedy.invoke(PROMPT),
        "stream": list(greedy.stream(PROMPT)),
        "batch": greedy.batch([PROMPT, "A, B, C,"]),
        "awaited": asyncio.run(greedy.ainvoke(PROMPT)),
        "stopped": greedy.invoke(PROMPT, stop=[" eight"]),
        "extra": OpenAI(**fields, seed=1, temperature=1, extra_body={"top_k": 1}).invoke(PROMPT),
        "stream logprobs": with_numbers.generations[0][0].generation_info["logprobs"],
        "stream reason": with_numbers.generations[0][0].generation_info["finish_reason"],
        "biased": OpenAI(**fields, seed=1, logit_bias={sys.argv[2]: 99.5}).invoke(PROMPT),
    }


class Country(BaseModel):
    """What is asked for in structured answers."""

    model_config = ConfigDict(extra="forbid")
    name: str
    capital: str
    population: int


def structured() -> dict[str, Any]:
    """LangChain's chains of a prompt, the completions route and a parser: its models of texts have no other way."""
    fields: dict[str, Any] = {"base_url": URL, "api_key": "unused", "model": "default", "seed": 1, "max_tokens": 120}
    prompt = PromptTemplate.from_template("{country} as JSON with name, capital and population:\n")
    schema = Country.model_json_schema()
    found = {}
    for way, extra in {
        "guided_json": {"guided_json": schema},
        "response_format": {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}},
        "structured_outputs": {"structured_outputs": {"json": schema}},
    }.items():
        chain = prompt | OpenAI(**fields, extra_body=extra) | PydanticOutputParser(pydantic_object=Country)
        found[way] = [country.model_dump() for country in chain.batch([{"country": "France"}, {"country": "Chad"}])]
    choice = prompt | OpenAI(**fields, extra_body={"guided_choice": ["yes", "no"]}) | StrOutputParser()
    found["choice"] = "".join(choice.stream({"country": "Peru"}))
    # Its own option, which its models of chats fulfil, is not there for those of texts.
    try:
        OpenAI(**fields).with_structured_output(Country)
    except NotImplementedError:
        found["own option"] = "not implemented"
    banned = {"banned_strings": ["SIX", "eight"], "bad_words": [" 6"]}
    found["banned"] = OpenAI(**fields | {"max_tokens": 12}, temperature=0, extra_body=banned).invoke(PROMPT)
    return found


def through_litellm() -> dict[str, Any]:
    def ask(model: str, **more: Any) -> Any:
        return litellm.text_completion(
            model=model, api_base=URL, api_key="unused", max_tokens=6, temperature=0, seed=1, **more
        )

    whole = ask("text-completion-openai/default", prompt=PROMPT, logprobs=2, echo=True)
    return {
        "texts": [ask(f"{kind}/default", prompt=PROMPT).choices[0].text for kind in ("openai", "hosted_vllm")],
        "whole": whole.model_dump(),
        "stream": [
            chunk.choices[0].text or ""
            for chunk in ask("text-completion-openai/default", prompt=PROMPT, stream=True)
            if chunk.choices
        ],
        "batch": [
            [choice.index, choice.text]
            for choice in ask("text-completion-openai/default", prompt=["A", "B"], n=2, echo=True).choices
        ],
        "top_k": ask("text-completion-openai/default", prompt=PROMPT, top_k=1).choices[0].text,
    }


def through_dspy() -> dict[str, Any]:
    lm = dspy.LM(
        "text-completion-openai/default",
        model_type="text",
        api_base=URL,
        api_key="unused",
        temperature=0,
        max_tokens=6,
        seed=1,
        cache=False,
    )
    texts = lm(prompt=PROMPT)
    return {"texts": texts, "usage": lm.history[-1]["usage"], "three": len(lm(prompt=PROMPT, n=3, temperature=1.0))}


print(
    json.dumps(
        {"langchain": langchain(), "structured": structured(), "litellm": through_litellm(), "dspy": through_dspy()},
        default=str,
    )
)
