import assert from "node:assert/strict";
import { test } from "node:test";
import { History } from "../../src/afterword/playground/history.js";
import { chain, snippet } from "../../src/afterword/playground/tree.js";

/** The tree's shape: each entry as the text it inserted, followed by its branches. */
function shape(history) {
  const drawn = (entries) => entries.map(({ node, branches }) => [node.inserted, ...branches.map(drawn)]);
  return history.roots().map((root) => drawn(chain(history, root)));
}

function add(history, parent, inserted, more = {}) {
  return history.add({ parent, at: history.text(parent).length, removed: 0, inserted, kind: "edit", ...more }).id;
}

const RUN = { kind: "completion", run: { mean: null } };

test("of texts typed one after another only the last is shown, and where one is", () => {
  const history = new History();
  const first = add(history, history.current.id, "a");
  const second = add(history, first, "b");
  add(history, second, "c");
  history.go(second);
  assert.deepEqual(shape(history), [[["b"], ["c"]]]);
});

test("completions are shown, and what they were tried on", () => {
  const history = new History();
  const root = history.current.id;
  const first = add(history, root, "a");
  const text = add(history, first, "b");
  const run = add(history, text, " one", RUN);
  const last = add(history, run, "c");
  history.go(last);
  assert.deepEqual(shape(history), [[["b"], [" one"], ["c"]]]);
});

test("named nodes are shown", () => {
  const history = new History();
  const first = add(history, history.current.id, "a");
  const second = add(history, first, "b");
  history.go(second);
  history.update(first, { name: "draft" });
  assert.deepEqual(shape(history), [[["a"], ["b"]]]);
});

test("there is a new level only where a text goes on in two ways", () => {
  const history = new History();
  const text = add(history, history.current.id, "a");
  const one = add(history, text, " one", RUN);
  add(history, text, " two", RUN);
  add(history, one, " more", RUN);
  history.go(one);
  assert.deepEqual(shape(history), [[["a", [[" one"], [" more"]], [[" two"]]]]]);
});

test("a chain of ten thousand changes is no deeper than one", () => {
  const history = new History();
  let at = history.current.id;
  for (let i = 0; i < 10_000; i += 1) at = history.add({ ...EMPTY, parent: at }).id;
  history.go(at);
  assert.equal(chain(history, history.roots()[0]).length, 1);
});

const EMPTY = { at: 0, removed: 0, inserted: "", kind: "edit" };

test("a snippet says what a node brought", () => {
  const history = new History();
  const root = history.current.id;
  assert.equal(snippet(history, history.current), "Empty page");
  const long = add(history, root, `begin ${"x".repeat(80)} end`);
  assert.match(snippet(history, history.node(long)), /^…x+ end$/);
  const run = add(history, long, "\n  wrote   this ", RUN);
  assert.equal(snippet(history, history.node(run)), "wrote this");
  const cut = history.add({ parent: run, at: 0, removed: 5, inserted: "", kind: "edit" }).id;
  assert.equal(snippet(history, history.node(cut)), "5 characters taken out");
  const wrote = add(history, long, "w".repeat(90), RUN);
  assert.equal(snippet(history, history.node(wrote)), `${"w".repeat(69)}…`);
});
