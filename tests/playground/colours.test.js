import assert from "node:assert/strict";
import { test } from "node:test";
import { parted } from "../../src/afterword/playground/colours.js";

/** The text with what has a colour in brackets. */
const bracketed = (text) => parted(text).map(({ word, part }) => (word ? `[${part}]` : part));

test("no white space of a token has a colour", () => {
  assert.deepEqual(bracketed(" the"), [" ", "[the]"]);
  assert.deepEqual(bracketed("in the end, "), ["[in]", " ", "[the]", " ", "[end,]", " "]);
  assert.deepEqual(bracketed(".\n\n"), ["[.]", "\n\n"]);
  assert.deepEqual(bracketed("\u3000\u00a0"), ["\u3000\u00a0"]);
});

test("the parts are the text", () => {
  for (const text of ["", " ", "a", "\ta b\n", "\u{1f30d} \u0301"]) {
    const parts = parted(text).map(({ part }) => part);
    assert.equal(parts.join(""), text);
  }
});
