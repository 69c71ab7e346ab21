// Continue's adapters: filling in the middle, plain completion, and a user who types on.

import { constructLlmApi } from "@continuedev/openai-adapters";
import { apiKey, baseURL, collect, report } from "./client.mjs";

const apiBase = `${baseURL}/`;
const adapter = (provider) => constructLlmApi({ provider, apiKey, apiBase });
const goOn = new AbortController().signal;
const gap = { prompt: "a = (", suffix: ")", max_tokens: 12, temperature: 0, stream: true };
const line = { model: "echo", prompt: "hello ", max_tokens: 8000, temperature: 0, stream: true };

const text = (chunks) => chunks.map((chunk) => chunk.choices[0].delta.content).join("");

async function typedOn(stream, controller, textOf) {
  let seen = "";
  try {
    for await (const chunk of stream) {
      seen += textOf(chunk);
      if (seen.length >= 3) controller.abort();
    }
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
  return seen.slice(0, 3);
}

await report({
  template: async () =>
    text(await collect(adapter("llamastack").fimStream({ ...gap, model: "template", stop: ["]", "\n\n"] }, goOn))),
  marks: async () => text(await collect(adapter("llamastack").fimStream({ ...gap, model: "infill" }, goOn))),
  legacy: async () => {
    const body = { ...line, max_tokens: 5, stop: ["<|endoftext|>", "<|fim_pad|>", "/src/", "#- coding: utf-8", "```"] };
    return (await collect(adapter("openai").completionStream(body, goOn)))
      .map((chunk) => chunk.choices[0].text)
      .join("");
  },
  legacyPlain: async () => {
    const body = { ...line, max_tokens: 5, stream: false };
    return (await adapter("openai").completionNonStream(body, goOn)).choices[0].text;
  },
  legacyAborted: () => {
    const controller = new AbortController();
    const stream = adapter("openai").completionStream(line, controller.signal);
    return typedOn(stream, controller, (chunk) => chunk.choices[0].text);
  },
  fimAborted: () => {
    const controller = new AbortController();
    const stream = adapter("llamastack").fimStream({ ...line, model: "template", suffix: ")" }, controller.signal);
    return typedOn(stream, controller, (chunk) => chunk.choices[0].delta.content);
  },
});
