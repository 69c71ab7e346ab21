/**
 * One completion on its way: the request, its choices as they grow, how fast they come, and how it ends.
 * Puts what arrives into the history; knows no page.
 */

import { extended, figures, shifted } from "./marks.js";

/** Milliseconds between two writings of a text of this many characters: long texts take longer to lay out. */
function pause(length) {
  if (length < 20_000) return 0;
  return length < 60_000 ? 60 : 150;
}

export class Run {
  #api;
  #history;
  #abort = new AbortController();
  #plan;
  #choices = new Map();
  #began = performance.now();
  #first = null;
  #last = null;
  #usage = null;
  #fingerprint = null;
  #timer = null;
  #written = 0;

  /**
   * `plan` is `{parent, at, removed, lead, kind, body}`. `lead` is `{text, marks}` that the text begins with, put there
   * by a person's choice and not by the model.
   */
  constructor(api, history, plan) {
    this.#api = api;
    this.#history = history;
    this.#plan = plan;
  }

  /** Runs to the end, or until `stop`. Throws `ApiError`; what came before a failure stays. Gives its first node. */
  async finish() {
    let failure = null;
    try {
      for await (const chunk of this.#api.complete(this.#plan.body, this.#abort.signal)) this.#take(chunk);
    } catch (error) {
      failure = error.name === "AbortError" ? null : error;
    }
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#write();
    if (failure !== null) throw failure;
    return this.#choices.get(0)?.node ?? null;
  }

  /** End it now, on the server too. */
  stop() {
    this.#abort.abort();
  }

  #take(chunk) {
    this.#last = performance.now();
    this.#usage = chunk.usage ?? this.#usage;
    this.#fingerprint = chunk.system_fingerprint;
    for (const choice of chunk.choices) this.#grow(choice);
    // A background tab paints no frames, so a timer writes there.
    if (this.#timer !== null) return;
    const length = this.#plan.at + (this.#choices.get(0)?.text.length ?? 0);
    const wait = Math.max(0, this.#written + pause(length) - performance.now());
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.#write();
      },
      Math.max(wait, 16),
    );
  }

  #grow({ index, text, logprobs, finish_reason: reason }) {
    const choice = this.#choices.get(index) ?? {
      node: null,
      text: "",
      logprobs: emptyLogprobs(),
      marks: [],
      reason: null,
    };
    if (logprobs !== null) {
      for (const [name, values] of Object.entries(choice.logprobs)) {
        for (const value of logprobs[name] ?? logprobs.tokens.map(() => null)) values.push(value);
      }
    }
    if (text !== "" || choice.logprobs.tokens.length > 0) this.#first ??= performance.now();
    choice.text += text;
    choice.reason = reason ?? choice.reason;
    this.#choices.set(index, choice);
  }

  /** Bring the history up to what has come. Nodes are made when there is something to hold. */
  #write() {
    const { parent, at, removed, lead, kind } = this.#plan;
    this.#written = performance.now();
    for (const [index, choice] of [...this.#choices].sort((a, b) => a[0] - b[0])) {
      // The first token stands where the completion begins, whatever its offset was counted from.
      const text = fieldText(choice.text);
      choice.marks = extended(choice.marks, choice.logprobs, text, choice.logprobs.text_offset[0] ?? 0);
      const properties = {
        inserted: lead.text + text,
        marks: [...lead.marks, ...shifted(choice.marks, lead.text.length)],
        run: this.#record(choice, figures(choice.marks)),
      };
      if (choice.node === null) {
        choice.node = this.#history.add({ parent, at, removed, kind, ...properties });
        if (index === 0) this.#history.go(choice.node.id);
      } else if (this.#history.node(choice.node.id) !== undefined) {
        this.#history.update(choice.node.id, properties);
      }
    }
  }

  #record(choice, { mean, count }) {
    const { prompt: _prompt, suffix: _suffix, ...request } = this.#plan.body;
    const usage = this.#usage;
    const tokens = usage?.completion_tokens ?? null;
    const seconds = this.#first === null ? 0 : (this.#last - this.#first) / 1000;
    // The first token came with the prompt's time, so it is not among those that the seconds after it brought.
    const speed = this.#plan.body.stream === true && tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : null;
    return {
      request,
      fingerprint: this.#fingerprint,
      usage,
      reason: choice.reason,
      mean,
      count,
      firstToken: this.#plan.body.stream === true && this.#first !== null ? this.#first - this.#began : null,
      total: this.#last === null ? null : this.#last - this.#began,
      speed,
    };
  }
}

function emptyLogprobs() {
  return { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
}

/** A text as a text field holds it: carriage returns give way to something as long, so that every place stays. */
function fieldText(text) {
  return text.includes("\r") ? text.replaceAll("\r\n", " \n").replaceAll("\r", "\n") : text;
}
