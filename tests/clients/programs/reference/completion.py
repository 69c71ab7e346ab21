"""The API reference's request with the Python SDK, as it is: address and key come from the environment."""

from openai import OpenAI

client = OpenAI()

completion = client.completions.create(
    model="gpt-3.5-turbo-instruct",
    prompt="Say this is a test",
    max_tokens=7,
    temperature=0,
)
print(completion.to_json())
