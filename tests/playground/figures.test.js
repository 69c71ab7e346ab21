import assert from "node:assert/strict";
import { test } from "node:test";
import { factsOf, likelihoodOf } from "../../src/afterword/playground/figures.js";

const RUN = { usage: null, speed: null, firstToken: null, total: null, reason: null, fingerprint: undefined };

function mark(start, end, logprob) {
  return { start, end, name: "x", logprob, top: null };
}

test("of a run only what is known is told", () => {
  assert.deepEqual(factsOf(RUN), []);
  assert.deepEqual(factsOf({ ...RUN, reason: "stop" }), [["Ended by", "stop"]]);
});

test("a run's figures carry their units", () => {
  const usage = { prompt_tokens: 12, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 8 } };
  const run = { usage, speed: 12.345, firstToken: 80.6, total: 1234, reason: "length", fingerprint: "fp" };
  assert.deepEqual(factsOf(run), [
    ["Prompt", "12 tokens, 8 cached"],
    ["Completion", "3 tokens"],
    ["Speed", "12.3 tokens/s"],
    ["First token", "81 ms"],
    ["Total", "1.23 s"],
    ["Ended by", "length"],
    ["Fingerprint", "fp"],
  ]);
  const plain = { ...RUN, usage: { prompt_tokens: 1, completion_tokens: 0 } };
  assert.deepEqual(factsOf(plain), [
    ["Prompt", "1 tokens"],
    ["Completion", "0 tokens"],
  ]);
});

test("a text that was never scored has no line, a selection says so", () => {
  assert.equal(likelihoodOf("abc", [], [1, 1]), "");
  assert.equal(likelihoodOf("abc", [], [1, 2]), "Selection: not scored");
  assert.equal(likelihoodOf("abc", [mark(0, 1, null)], [0, 0]), "");
});

test("the line is about the selection if there is one, with a real minus", () => {
  const marks = [mark(0, 2, null), mark(2, 4, -1), mark(4, 6, -3)];
  assert.equal(likelihoodOf("abcdef", marks, [6, 6]), "Text: 2 tokens · log-probability −4.00 · perplexity 7.39");
  assert.equal(likelihoodOf("abcdef", marks, [2, 4]), "Selection: 1 token · log-probability −1.00 · perplexity 2.72");
});

test("what was not scored is told as a part", () => {
  assert.match(likelihoodOf("abcd", [mark(0, 2, -1)], [0, 0]), / · 50% of it scored$/);
});
