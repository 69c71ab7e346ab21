// The API reference's request with the Node SDK, as it is: address and key come from the environment.

import OpenAI from "openai";

const openai = new OpenAI();

const completion = await openai.completions.create({
  model: "gpt-3.5-turbo-instruct",
  prompt: "Say this is a test",
  max_tokens: 7,
  temperature: 0,
});
console.log(JSON.stringify(completion));
