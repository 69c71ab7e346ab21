// LangChain's text model, which slices the choices of a batch by position and joins streamed text by hand.

import { OpenAI } from "@langchain/openai";
import { apiKey, baseURL, collect, failure, report } from "./client.mjs";

const model = (more) =>
  new OpenAI({
    model: "echo",
    apiKey,
    maxTokens: 4,
    temperature: 0,
    maxRetries: 0,
    configuration: { baseURL },
    ...more,
  });

await report({
  invoke: () => model().invoke("hello "),
  batch: async () => {
    const result = await model({ n: 2 }).generate(["ab", "cd"]);
    return {
      texts: result.generations.map((prompt) => prompt.map((generation) => generation.text)),
      reasons: result.generations.map((prompt) => prompt.map((generation) => generation.generationInfo.finishReason)),
      usage: result.llmOutput.tokenUsage,
    };
  },
  stream: async () => (await collect(await model().stream("hello "))).join("|"),
  stop: () => model({ stop: ["l"] }).invoke("hello "),
  refused: async () => (await failure(() => model({ model: "gone" }).invoke("hello "))).code,
});
