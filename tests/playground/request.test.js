import assert from "node:assert/strict";
import { test } from "node:test";
import { completion, continuation, INSERT_MARK, scoring } from "../../src/afterword/playground/request.js";

const DRAFT = {
  text: "Once upon a time",
  caret: 4,
  place: "cursor",
  model: "small",
  canFill: false,
  params: {},
  colours: false,
};

test("the text before the cursor is the prompt", () => {
  const { at, removed, body, note } = completion({ ...DRAFT, text: "Once", caret: 4 });
  assert.deepEqual([at, removed, note], [4, 0, null]);
  assert.deepEqual(body, {
    model: "small",
    prompt: "Once",
    stream: true,
    stream_options: { include_usage: true, include_obfuscation: false },
  });
});

test("at the end means the end, wherever the cursor is", () => {
  const { at, body } = completion({ ...DRAFT, place: "end" });
  assert.equal(at, DRAFT.text.length);
  assert.equal(body.prompt, DRAFT.text);
});

test("what comes after the cursor is the suffix if the model can fill gaps", () => {
  const { body, note } = completion({ ...DRAFT, canFill: true });
  assert.equal(body.suffix, " upon a time");
  assert.equal(note, null);
});

test("a model that cannot fill gaps goes on from the cursor, and a note says what it did not see", () => {
  const { body, note } = completion(DRAFT);
  assert.equal(body.suffix, undefined);
  assert.equal(note, "small has no infill tokens: it did not see the text after the cursor.");
});

test("white space after the cursor is no suffix and worth no note", () => {
  for (const canFill of [true, false]) {
    const { body, note } = completion({ ...DRAFT, text: "Once \n", caret: 4, canFill });
    assert.equal(body.suffix, undefined);
    assert.equal(note, null);
  }
});

test("the mark gives its place to what is written", () => {
  const text = `Once ${INSERT_MARK} a time`;
  const { at, removed, body } = completion({ ...DRAFT, text, caret: 0, canFill: true });
  assert.equal(text.slice(at, at + removed), INSERT_MARK);
  assert.deepEqual([body.prompt, body.suffix], ["Once ", " a time"]);
});

test("the mark is refused with a model that cannot fill it", () => {
  const { refusal, body } = completion({ ...DRAFT, text: INSERT_MARK });
  assert.equal(body, undefined);
  assert.equal(refusal.param, "suffix");
  assert.match(refusal.message, /small has no infill tokens/);
});

test("fields that are set travel as they are", () => {
  const params = { max_tokens: 0, temperature: 0, stop: ["\n"], logit_bias: { 5: -100 } };
  const { body } = completion({ ...DRAFT, params });
  for (const [name, value] of Object.entries(params)) assert.deepEqual(body[name], value);
});

test("colours ask for alternatives, as many as are set", () => {
  const asked = (colours, params) => completion({ ...DRAFT, colours, params }).body.logprobs;
  assert.equal(asked(true, {}), 5);
  assert.equal(asked(true, { logprobs: 0 }), 0);
  assert.equal(asked(false, {}), undefined);
  assert.equal(asked(false, { logprobs: 3 }), 3);
});

test("candidates need each token's own probability for their mean", () => {
  const asked = (params) => completion({ ...DRAFT, params }).body.logprobs;
  assert.equal(asked({ n: 2 }), 0);
  assert.equal(asked({ best_of: 2 }), 0);
  assert.equal(asked({ n: 1, best_of: 1 }), undefined);
  assert.equal(asked({ n: 2, logprobs: 4 }), 4);
});

test("the best of several cannot be streamed", () => {
  const streamed = (params) => completion({ ...DRAFT, params }).body.stream;
  assert.equal(streamed({ best_of: 3 }), undefined);
  assert.equal(streamed({ n: 2, best_of: 3 }), undefined);
  assert.equal(streamed({ n: 2, best_of: 2 }), true);
  assert.equal(streamed({ n: 3 }), true);
});

test("a continuation has its own prompt and no suffix", () => {
  const body = continuation({ ...DRAFT, canFill: true, params: { seed: 1 } }, "Once more");
  assert.deepEqual([body.prompt, body.suffix, body.seed], ["Once more", undefined, 1]);
});

test("scoring asks for no token, and keeps of the fields only those that say what the prompt is", () => {
  const params = { temperature: 2, n: 3, max_tokens: 9, add_special_tokens: false, truncate_prompt_tokens: 7 };
  assert.deepEqual(scoring({ ...DRAFT, params }), {
    model: "small",
    prompt: DRAFT.text,
    max_tokens: 0,
    echo: true,
    logprobs: 5,
    add_special_tokens: false,
    truncate_prompt_tokens: 7,
  });
  assert.equal(scoring({ ...DRAFT, params: { logprobs: 0 } }).logprobs, 0);
});

test("what chooses the best comes at the end, everything else as it grows", () => {
  const streams = (params) => completion({ ...DRAFT, params }).body.stream === true;
  for (const params of [{}, { n: 2 }, { n: 2, best_of: 2 }, { num_beams: 1 }, { use_beam_search: false }]) {
    assert.ok(streams(params), JSON.stringify(params));
  }
  for (const params of [{ best_of: 2 }, { num_beams: 2, n: 2 }, { use_beam_search: true }]) {
    assert.ok(!streams(params), JSON.stringify(params));
  }
});
