import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf, cut, spliced, touched } from "../../src/afterword/playground/pieces.js";
import { numbers } from "./random.js";

const LINE = `${"word ".repeat(40)}\n`;

test("blocks are whole lines, and together the text", () => {
  const text = `${LINE.repeat(30)}the end`;
  const blocks = blocksOf(text);
  assert.equal(blocks.join(""), text);
  assert.ok(blocks.length > 3);
  for (const block of blocks.slice(0, -1)) assert.ok(block.endsWith("\n") && block.length <= 1500);
});

test("a line longer than a block is a block of its own", () => {
  const long = `${"x".repeat(5000)}\n`;
  assert.deepEqual(blocksOf(`a\n${long}b\n`), ["a\n", long, "b\n"]);
});

test("there are no blocks of nothing", () => {
  assert.deepEqual(blocksOf(""), []);
  assert.deepEqual(blocksOf("\n\n"), ["\n\n"]);
});

test("pieces are cut behind spaces where there are any", () => {
  const text = "word ".repeat(2000);
  const pieces = cut(text);
  assert.equal(pieces.join(""), text);
  for (const piece of pieces) assert.ok(piece.endsWith(" ") && piece.length > 750 && piece.length <= 1501);
});

test("pieces are never cut within a character", () => {
  for (const before of ["", "a"]) {
    const text = before + "🌍".repeat(3000);
    const pieces = cut(text);
    assert.equal(pieces.join(""), text);
    for (const piece of pieces) assert.ok(piece.isWellFormed());
  }
  assert.deepEqual(cut(""), []);
});

test("a change touches the texts it reaches into, and one at least", () => {
  const items = ["abc", "def", "ghi"].map((text) => ({ text }));
  assert.deepEqual(touched(items, 0, 0), { first: 0, last: 1, offset: 0, old: "abc" });
  assert.deepEqual(touched(items, 3, 0), { first: 1, last: 2, offset: 3, old: "def" });
  assert.deepEqual(touched(items, 2, 3), { first: 0, last: 2, offset: 0, old: "abcdef" });
  assert.deepEqual(touched(items, 9, 0), { first: 2, last: 3, offset: 6, old: "ghi" });
  assert.deepEqual(touched([], 0, 0), { first: 0, last: 0, offset: 0, old: "" });
});

test("changing only what is touched changes the whole", () => {
  const random = numbers(3);
  for (let i = 0; i < 2000; i += 1) {
    const items = Array.from({ length: 1 + random(4) }, () => ({ text: "abc".slice(0, 1 + random(3)) }));
    const text = items.map((item) => item.text).join("");
    const at = random(text.length + 1);
    const removed = random(text.length - at + 1);
    const { first, last, offset, old } = touched(items, at, removed);
    const texts = items.map((item) => item.text);
    assert.equal(texts.slice(0, first).join("").length, offset);
    texts.splice(first, last - first, spliced(old, at - offset, removed, "X"));
    assert.equal(texts.join(""), spliced(text, at, removed, "X"));
  }
});
