import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { History } from "../../src/afterword/playground/history.js";
import { Recorder } from "../../src/afterword/playground/recorder.js";

let now = 0;
let history;
let recorder;

beforeEach(() => {
  now = 0;
  mock.restoreAll();
  mock.method(performance, "now", () => now);
  history = new History();
  recorder = new Recorder(history);
});

function type(text, kind = "insertText", pause = 100) {
  now += pause;
  recorder.record(text, kind);
}

const texts = () => {
  const found = [];
  do found.unshift(history.text(history.current.id));
  while (history.undo());
  return found;
};

test("a burst of typing is one change", () => {
  for (const text of ["a", "ab", "abc"]) type(text);
  assert.deepEqual(texts(), ["", "abc"]);
});

test("a pause begins the next change", () => {
  type("a");
  type("ab", "insertText", 1000);
  assert.deepEqual(texts(), ["", "a", "ab"]);
});

test("deleting is a change of its own, whichever keys do it", () => {
  type("abc");
  type("ab", "deleteContentBackward");
  type("b", "deleteContentForward");
  type("bx");
  assert.deepEqual(texts(), ["", "abc", "b", "bx"]);
});

test("another kind of input is a change of its own", () => {
  type("a");
  type("a pasted", "insertFromPaste");
  type("a pasted b");
  assert.deepEqual(texts(), ["", "a", "a pasted", "a pasted b"]);
});

test("what is typed over stays in the history", () => {
  type("one");
  type("x");
  type("xy");
  type("pasted", "insertFromPaste");
  type("again", "insertFromPaste");
  assert.deepEqual(texts(), ["", "one", "xy", "pasted", "again"]);
});

test("an input method's letters are one change, whatever it replaces", () => {
  for (const text of ["k", "か", "かn", "かん", "漢"]) type(text, "insertCompositionText");
  assert.deepEqual(texts(), ["", "漢"]);
});

test("what is typed after a deletion is undone before it", () => {
  const { id } = history.current;
  const other = history.add({ parent: id, at: 0, removed: 0, inserted: "other", kind: "edit" });
  type("a");
  history.remove(other.id);
  type("ab");
  history.undo();
  assert.equal(history.text(history.current.id), "a");
  assert.equal(history.node(other.id), undefined);
  history.undo();
  assert.notEqual(history.node(other.id), undefined);
});

test("typing on after undo begins a branch", () => {
  type("a");
  type("ab", "insertText", 2000);
  history.undo();
  type("ac");
  assert.equal(history.children(history.current.parent).length, 2);
});

test("a change that something followed from is not written over", () => {
  type("a");
  const { id } = history.current;
  history.add({ parent: id, at: 1, removed: 0, inserted: " story", kind: "completion", run: {} });
  type("ab");
  assert.equal(history.text(id), "a");
  assert.equal(history.text(history.current.id), "ab");
});

test("after close the next letter is a change of its own", () => {
  type("a");
  recorder.close();
  type("ab");
  assert.deepEqual(texts(), ["", "a", "ab"]);
});
