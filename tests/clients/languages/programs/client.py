"""The official SDK of Python, one client an address. Orders and answers: tests/clients/languages/driver.py."""

import json
import sys

import openai

clients: dict[str, openai.OpenAI] = {}

for order in sys.stdin:
    verb, url, body = order.split(" ", 2)
    base = url.removesuffix("/completions")
    client = clients.setdefault(base, openai.OpenAI(base_url=base, max_retries=0))
    fields = json.loads(body)
    try:
        if verb == "whole":
            answer = client.completions.with_raw_response.create(**fields)
            print(f"status {answer.status_code}\n| {answer.text}", flush=True)
        else:
            with client.completions.create(**fields) as stream:
                print("status 200", flush=True)
                for chunk in stream:
                    print(f"| data: {chunk.to_json(indent=None)}\n| ", flush=True)
                    if verb == "leave":
                        break
                else:
                    print("| data: [DONE]\n| ", flush=True)
    except openai.APIStatusError as error:
        print(f"status {error.status_code}\n| {error.response.text}", flush=True)
    print("end", flush=True)
