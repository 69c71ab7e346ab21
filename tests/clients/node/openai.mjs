// The official SDK, in everything a completion can ask for.

import OpenAI from "openai";
import { apiKey, baseURL, collect, failure, report } from "./client.mjs";

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const hello = { model: "echo", prompt: "hello ", max_tokens: 4, temperature: 0 };
const create = (more) => client.completions.create({ ...hello, ...more });

await report({
  everyField: () =>
    create({
      best_of: 2,
      echo: true,
      frequency_penalty: 0,
      logit_bias: { 104: 1 },
      logprobs: 2,
      n: 1,
      presence_penalty: 0,
      seed: 0,
      stop: ["zz"],
      top_p: 1,
      user: "someone",
    }),
  batch: async () => {
    const answer = await create({ prompt: ["ab", "cd"], n: 2, max_tokens: 2 });
    return answer.choices.map((choice) => [choice.index, choice.text]);
  },
  tokens: async () => (await create({ prompt: [104, 105] })).choices[0].text,
  stream: async () => collect(await create({ stream: true, logprobs: 0, stream_options: { include_usage: true } })),
  aborted: async () => {
    const stream = await create({ stream: true, max_tokens: 8000 });
    let text = "";
    for await (const chunk of stream) {
      text += chunk.choices[0].text;
      if (text.length >= 3) stream.controller.abort();
    }
    return text.slice(0, 3);
  },
  requestId: async () => {
    const { response, request_id } = await create().withResponse();
    return response.headers.get("x-request-id") === request_id;
  },
  refused: async () => {
    const error = await failure(() => create({ temperature: 3 }));
    return [error.constructor.name, error.status, error.type, error.param, error.code];
  },
  refusedStream: async () => {
    const error = await failure(() => create({ model: "gone", stream: true }));
    return [error.constructor.name, error.code];
  },
  locked: async () => {
    const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
    return (await failure(() => stranger.completions.create(hello))).constructor.name;
  },
  models: async () => (await collect(client.models.list())).map((model) => model.id),
});
