// The same as a stream.

import OpenAI from "openai";

const openai = new OpenAI();

const stream = await openai.completions.create({
  model: "gpt-3.5-turbo-instruct",
  prompt: "Say this is a test",
  max_tokens: 7,
  temperature: 0,
  stream: true,
});
for await (const chunk of stream) {
  console.log(chunk.choices[0].text);
}
