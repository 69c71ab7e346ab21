// Vercel's AI SDK: the strictest readers of all, which check every answer against a schema.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import { apiKey, baseURL, failure, report } from "./client.mjs";

const compatible = createOpenAICompatible({ name: "own", apiKey, baseURL, includeUsage: true });
const models = {
  compatible: compatible.completionModel("echo"),
  openai: createOpenAI({ apiKey, baseURL }).completion("echo"),
};

function ask(model, more) {
  return { model, prompt: "hello", maxOutputTokens: 5, temperature: 0, maxRetries: 0, ...more };
}

async function plain(model, more) {
  const { text, finishReason, usage, response } = await generateText(ask(model, more));
  return { text, finishReason, input: usage.inputTokens, output: usage.outputTokens, model: response.modelId };
}

async function streamed(model, more) {
  const errors = [];
  const answer = streamText(ask(model, { ...more, onError: ({ error }) => errors.push(String(error)) }));
  let text = "";
  for await (const part of answer.textStream) text += part;
  const usage = await answer.usage;
  return {
    text,
    finishReason: await answer.finishReason,
    input: usage.inputTokens,
    output: usage.outputTokens,
    errors,
  };
}

await report({
  compatiblePlain: () => plain(models.compatible),
  compatibleStream: () => streamed(models.compatible),
  openaiPlain: () => plain(models.openai, { providerOptions: { openai: { logprobs: 3 } } }),
  openaiStream: () => streamed(models.openai, { providerOptions: { openai: { logprobs: true } } }),
  extension: async () => (await plain(models.compatible, { providerOptions: { own: { top_k: 1 } } })).text,
  refused: async () => {
    const error = await failure(() => plain(models.compatible, { temperature: 3 }));
    return { status: error.statusCode, message: error.message, data: error.data };
  },
});
