"""The same as a stream."""

from openai import OpenAI

client = OpenAI()

for chunk in client.completions.create(
    model="gpt-3.5-turbo-instruct",
    prompt="Say this is a test",
    max_tokens=7,
    temperature=0,
    stream=True,
):
    print(chunk.choices[0].text)
