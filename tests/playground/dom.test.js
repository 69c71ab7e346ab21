import assert from "node:assert/strict";
import { test } from "node:test";
import { number, percent } from "../../src/afterword/playground/alternatives.js";
import { debounced, spoken, visible } from "../../src/afterword/playground/dom.js";

test("white space of a token is made visible", () => {
  assert.equal(visible(" the\n\t"), "·the↵⇥");
});

test("characters that nobody sees are shown by their numbers", () => {
  assert.equal(visible("\u0000\u001b\u007f\u0085"), "U+0000U+001BU+007FU+0085");
  assert.equal(visible("a\u200b\u202eb\ufeff"), "aU+200BU+202EbU+FEFF");
  assert.equal(visible("é🌍"), "é🌍");
});

test("a token's name is said with its white space in words", () => {
  assert.equal(spoken(" the"), "space the");
  assert.equal(spoken("\n"), "space line break");
  assert.equal(spoken(" "), "space");
  assert.equal(spoken(""), "space");
  assert.equal(spoken("a\tb"), "a tab b");
});

test("a probability has as many digits as it needs", () => {
  assert.equal(percent(0), "100%");
  assert.equal(percent(Math.log(0.9996)), "100%");
  assert.equal(percent(Math.log(0.9994)), "99.9%");
  assert.equal(percent(Math.log(0.0512)), "5.12%");
  assert.equal(percent(Math.log(0.0001)), "0.01%");
  assert.equal(percent(-9999), "< 0.01%");
});

test("a number has a real minus and two decimals", () => {
  assert.equal(number(-1.234), "−1.23");
  assert.equal(number(3), "3.00");
});

test("of many calls only the last is made, after a pause", (t) => {
  const timers = [];
  t.mock.method(globalThis, "setTimeout", (later, ms) => timers.push([later, ms]));
  t.mock.method(globalThis, "clearTimeout", (timer) => {
    if (timer !== null) timers[timer - 1] = null;
  });
  const calls = [];
  const call = debounced((...values) => calls.push(values), 100);
  call(1);
  call(2, 3);
  assert.equal(timers[0], null);
  const [later, ms] = timers[1];
  assert.equal(ms, 100);
  later();
  assert.deepEqual(calls, [[2, 3]]);
});
