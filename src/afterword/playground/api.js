/**
 * The server's routes as functions. Owns the key that goes with each call; knows nothing of the page.
 */

import { events } from "./sse.js";

/** A refusal or failure. `param` is the field it is about, null if none; `status` is null if no answer came. */
export class ApiError extends Error {
  constructor(message, { param = null, code = null, status = null } = {}) {
    super(message);
    this.name = "ApiError";
    this.param = param;
    this.code = code;
    this.status = status;
  }
}

export class Api {
  /** `readKey` gives the key to send, "" for none. Addresses are relative: a proxy may put the page anywhere. */
  constructor(readKey) {
    this.readKey = readKey;
  }

  /** Every served model's card; the first is the default. */
  async models() {
    const answer = await this.#ask("v1/models", {});
    return (await answer.json()).data;
  }

  /** `{count, max_model_len, tokens, token_strs}` of a text; spelled tokens only if asked for. */
  async tokenize(model, prompt, { spelled, withBos, signal }) {
    const body = { model, prompt, return_token_strs: spelled, add_special_tokens: withBos };
    const answer = await this.#ask("tokenize", { body, signal });
    return answer.json();
  }

  /** The tokenizer's special tokens, by name. */
  async tokenizerInfo(model) {
    const answer = await this.#ask(`tokenizer_info?model=${encodeURIComponent(model)}`, {});
    return answer.json();
  }

  /** Yields the chunks of a completion; a plain answer is one chunk. Ends early when `signal` aborts. */
  async *complete(body, signal) {
    const answer = await this.#ask("v1/completions", { body, signal });
    if (body.stream !== true) {
      yield await answer.json();
      return;
    }
    for await (const data of events(answer)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error !== undefined) throw new ApiError(chunk.error.message, chunk.error);
      yield chunk;
    }
    throw new ApiError("The server ended the answer before it was complete.");
  }

  async #ask(path, { body, signal }) {
    const headers = {};
    const key = this.readKey();
    if (key !== "") headers.Authorization = `Bearer ${key}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const options = { headers, signal, cache: "no-store" };
    if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    let answer;
    try {
      answer = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server cannot be reached. Is it still running?");
    }
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }
}

async function refusal(answer) {
  const body = await answer.json().catch(() => null);
  const told = body?.error;
  if (told === undefined || told === null) {
    return new ApiError(`The server answered with status ${answer.status}.`, { status: answer.status });
  }
  return new ApiError(told.message, { param: told.param, code: told.code, status: answer.status });
}
