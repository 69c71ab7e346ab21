import assert from "node:assert/strict";
import { test } from "node:test";
import {
  before,
  coverage,
  endOfRun,
  extended,
  figures,
  firstFrom,
  level,
  markAt,
  marksOf,
  shifted,
  within,
} from "../../src/afterword/playground/marks.js";

function mark(start, end, logprob = -1) {
  return { start, end, name: "x", logprob, top: null };
}

function logprobs(tokens, offsets) {
  return {
    tokens,
    token_logprobs: tokens.map(() => -1),
    top_logprobs: tokens.map((token) => ({ [token]: -1, other: -0.5 })),
    text_offset: offsets,
  };
}

const places = (marks) => marks.map(({ start, end }) => [start, end]);

test("a token's level counts the limits its probability falls below", () => {
  assert.equal(level(null), null);
  assert.equal(level(0), 0);
  assert.equal(level(Math.log(0.5)), 0);
  assert.equal(level(Math.log(0.49)), 1);
  assert.equal(level(Math.log(0.03)), 3);
  assert.equal(level(-9999), 5);
});

test("marks stand where the API's offsets say, counted from the base", () => {
  const marks = marksOf(logprobs(["One", " day"], [10, 13]), "One day", 10);
  assert.deepEqual(places(marks), [
    [0, 3],
    [3, 7],
  ]);
  assert.equal(marks[1].name, " day");
});

test("alternatives are pairs, likeliest first", () => {
  const [mark] = marksOf(logprobs(["a"], [0]), "a", 0);
  assert.deepEqual(mark.top, [
    ["other", -0.5],
    ["a", -1],
  ]);
});

test("alternatives that were not asked for, or that the first token cannot have, are null", () => {
  assert.equal(marksOf({ ...logprobs(["a"], [0]), top_logprobs: null }, "a", 0)[0].top, null);
  assert.equal(marksOf({ ...logprobs(["a"], [0]), top_logprobs: [null] }, "a", 0)[0].top, null);
});

test("offsets count code points, places UTF-16 units", () => {
  const text = "🌍 and 🌙!";
  const marks = marksOf(logprobs(["🌍", " and ", "🌙", "!"], [0, 1, 6, 7]), text, 0);
  assert.deepEqual(
    marks.map(({ start, end }) => text.slice(start, end)),
    ["🌍", " and ", "🌙", "!"],
  );
});

test("a token that adds no whole character has no length, and none reaches beyond the text", () => {
  assert.deepEqual(places(marksOf(logprobs(["bytes:\\xf0", "🌍", "cut off"], [0, 0, 1]), "🌍", 0)), [
    [0, 0],
    [0, 2],
    [2, 2],
  ]);
  assert.deepEqual(places(marksOf(logprobs(["a", "b"], [0, 9]), "ab", 0)), [
    [0, 2],
    [2, 2],
  ]);
});

test("marks extended piece by piece are those of the whole", () => {
  const tokens = ["Once", " upon", " 🌍", "", " time"];
  const offsets = [5, 9, 14, 16, 16];
  const text = tokens.join("");
  let marks = [];
  for (let n = 1; n <= tokens.length; n += 1) {
    const known = logprobs(tokens.slice(0, n), offsets.slice(0, n));
    const end = tokens.slice(0, n).join("").length;
    marks = extended(marks, known, text.slice(0, end), 5);
    assert.deepEqual(marks, marksOf(known, text.slice(0, end), 5));
  }
  assert.equal(marks.at(-1).end, text.length);
});

test("the last mark ends where the next one turns out to begin", () => {
  const first = extended([], logprobs(["a"], [0]), "a", 0);
  assert.deepEqual(places(extended(first, logprobs(["a", "b"], [0, 2]), "a b", 0)), [
    [0, 2],
    [2, 3],
  ]);
});

test("shifting by nothing gives the same marks back", () => {
  const marks = [mark(0, 2), mark(2, 5)];
  assert.equal(shifted(marks, 0), marks);
  assert.deepEqual(places(shifted(marks, 3)), [
    [3, 5],
    [5, 8],
  ]);
});

test("a change leaves the marks that end before it, and none that begins at it", () => {
  const marks = [mark(0, 2), mark(2, 4), mark(4, 4), mark(4, 6)];
  assert.deepEqual(before(marks, 4), marks.slice(0, 2));
  assert.deepEqual(before(marks, 3), marks.slice(0, 1));
  assert.deepEqual(before(marks, 9), marks);
  assert.deepEqual(before(marks, 0), []);
});

test("the mark at a place is the one around it, else the one that ends there", () => {
  const marks = [mark(0, 2), mark(2, 4), mark(6, 8)];
  assert.equal(markAt(marks, 0), marks[0]);
  assert.equal(markAt(marks, 2), marks[1]);
  assert.equal(markAt(marks, 4), marks[1]);
  assert.equal(markAt(marks, 5), null);
  assert.equal(markAt(marks, 8), marks[2]);
  assert.equal(markAt(marks, 9), null);
  assert.equal(markAt([], 0), null);
});

test("a mark without length is never the one at a place", () => {
  assert.equal(markAt([mark(2, 2)], 2), null);
});

test("marks within a range are those that touch it", () => {
  const marks = [mark(0, 2), mark(2, 4), mark(4, 6)];
  assert.deepEqual(within(marks, 1, 3), marks.slice(0, 2));
  assert.deepEqual(within(marks, 2, 4), marks.slice(1, 2));
  assert.deepEqual(within(marks, 6, 9), []);
});

test("a run of marks ends at the first gap", () => {
  const marks = [mark(0, 2), mark(2, 4), mark(5, 6)];
  assert.equal(endOfRun(marks, marks[0]), 4);
  assert.equal(endOfRun(marks, marks[1]), 4);
  assert.equal(endOfRun(marks, marks[2]), 6);
});

test("perplexity is that of the tokens that have a probability", () => {
  const { count, total, mean, perplexity } = figures([mark(0, 1, null), mark(1, 2, -1), mark(2, 3, -3)]);
  assert.deepEqual([count, total, mean], [2, -4, -2]);
  assert.ok(Math.abs(perplexity - Math.exp(2)) < 1e-9);
});

test("without a probability there is no mean", () => {
  assert.deepEqual(figures([mark(0, 1, null)]), { count: 0, total: 0, mean: null, perplexity: null });
});

test("coverage is the part of the range under marks", () => {
  const marks = [mark(0, 2), mark(4, 8)];
  assert.equal(coverage(marks, 0, 8), 0.75);
  assert.equal(coverage(marks, 1, 5), 0.5);
  assert.equal(coverage(marks, 2, 4), 0);
  assert.equal(coverage(marks, 3, 3), 0);
});

test("the first index for which a test holds", () => {
  for (let n = 0; n < 9; n += 1) {
    const items = Array.from({ length: n }, (_none, i) => i);
    for (let from = 0; from <= n; from += 1)
      assert.equal(
        firstFrom(items, (item) => item >= from),
        from,
      );
  }
});
