import assert from "node:assert/strict";
import { test } from "node:test";
import { escaped, idOf, listOf, numberOf, unescaped } from "../../src/afterword/playground/controls.js";
import { FIRST_PRESET, nameOf, PRESETS } from "../../src/afterword/playground/presets.js";

const typed = (value, badInput = false) => numberOf({ value, validity: { badInput } });

test("a number field gives its number, nothing if it is empty", () => {
  assert.equal(typed("0"), 0);
  assert.equal(typed("-1.5"), -1.5);
  assert.equal(typed(""), undefined);
});

test("what is no number goes to the server as it is, for it to say so", () => {
  assert.equal(typed("", true), "?");
  assert.equal(typed("9007199254740993"), "9007199254740993");
  assert.equal(typed("9007199254740991"), 9007199254740991);
});

test("token ids are numbers, other words stay words", () => {
  assert.deepEqual(["12", "-1", "x", "1.5", ""].map(idOf), [12, "-1", "x", "1.5", ""]);
});

test("a list without anything in it is not set", () => {
  assert.deepEqual(listOf(["a", "", "b"]), ["a", "b"]);
  assert.deepEqual(listOf([0]), [0]);
  assert.equal(listOf(["", ""]), undefined);
});

test("a text of several lines is one line in the form, and the same text again", () => {
  for (const text of ["a\nb", "\\n", "\\\\n", "a\tb\\", "\\t\n\\"]) {
    assert.doesNotMatch(escaped(text), /\n|\t/);
    assert.equal(unescaped(escaped(text)), text);
  }
  assert.equal(unescaped("\\x"), "\\x");
});

test("values are named by the preset that has them, in whatever order they were set", () => {
  const presets = { Calm: { top_p: 0.9, temperature: 0.7 }, None: {} };
  assert.equal(nameOf(presets, { temperature: 0.7, top_p: 0.9 }), "Calm");
  assert.equal(nameOf(presets, {}), "None");
  assert.equal(nameOf(presets, { temperature: 0.7 }), null);
});

test("the presets that come along differ, and the page begins with one of them", () => {
  for (const [name, values] of Object.entries(PRESETS)) assert.equal(nameOf(PRESETS, values), name);
  assert.ok(FIRST_PRESET in PRESETS);
});
