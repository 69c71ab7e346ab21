import assert from "node:assert/strict";
import { test } from "node:test";
import { difference, History, parseTree } from "../../src/afterword/playground/history.js";
import { numbers } from "./random.js";

function typed(history, text) {
  const { id } = history.current;
  const node = history.add({ parent: id, kind: "edit", ...difference(history.text(id), text) });
  history.go(node.id);
  return node.id;
}

function completed(history, parent, at, inserted) {
  return history.add({ parent, at, removed: 0, inserted, kind: "completion", run: { mean: -1 } }).id;
}

function mark(start, end, name = "x") {
  return { start, end, name, logprob: -1, top: null };
}

/** The ids that `change` told of while `work` ran. */
function told(history, work) {
  const ids = [];
  const listen = ({ detail }) => ids.push(...detail.ids);
  history.addEventListener("change", listen);
  work();
  history.removeEventListener("change", listen);
  return new Set(ids);
}

test("a new history is one empty text", () => {
  const history = new History();
  assert.equal(history.size, 1);
  assert.equal(history.current.kind, "root");
  assert.equal(history.text(history.current.id), "");
  assert.equal(history.undo(), false);
  assert.equal(history.redo(), false);
});

test("a node's text is its parent's with the change made", () => {
  const history = new History();
  typed(history, "Once upon a time");
  typed(history, "Once upon some time");
  assert.deepEqual([history.current.at, history.current.removed, history.current.inserted], [10, 1, "some"]);
  assert.equal(history.text(history.current.id), "Once upon some time");
});

test("undo goes to the parent, redo to the child that was visited last", () => {
  const history = new History();
  const start = typed(history, "a");
  const first = typed(history, "ab");
  history.undo();
  const second = typed(history, "ac");
  history.undo();
  assert.equal(history.current.id, start);
  assert.ok(history.redo());
  assert.equal(history.current.id, second);
  history.undo();
  history.go(first);
  history.undo();
  history.redo();
  assert.equal(history.current.id, first);
});

test("redo goes to the newest child where none was visited, and where the visited one is gone", () => {
  const history = new History();
  const { id } = history.current;
  const first = completed(history, id, 0, "one");
  const second = completed(history, id, 0, "two");
  assert.ok(history.redo());
  assert.equal(history.current.id, second);
  history.remove(second);
  assert.ok(history.redo());
  assert.equal(history.current.id, first);
});

test("a new text begins beside the others", () => {
  const history = new History();
  typed(history, "a");
  history.restart();
  assert.equal(history.roots().length, 2);
  assert.equal(history.text(history.current.id), "");
});

test("marks are the parent's before the change and the node's own, moved to their place", () => {
  const history = new History();
  const text = typed(history, "ab");
  history.score(text, [mark(0, 1, "a"), mark(1, 2, "b")]);
  const node = history.add({
    parent: text,
    at: 1,
    removed: 1,
    inserted: "xyz",
    kind: "choice",
    marks: [mark(0, 1, "x"), mark(1, 3, "yz")],
  });
  assert.deepEqual(
    history.marks(node.id).map(({ start, end, name }) => [start, end, name]),
    [
      [0, 1, "a"],
      [1, 2, "x"],
      [2, 4, "yz"],
    ],
  );
});

test("a change of a node reaches what was remembered below it", () => {
  const history = new History();
  const first = typed(history, "one");
  const second = typed(history, "one two");
  assert.equal(history.text(second), "one two");
  history.update(first, { inserted: "ONE" });
  assert.equal(history.text(second), "ONE two");
  history.score(first, [mark(0, 3)]);
  assert.equal(history.marks(second).length, 1);
});

test("whoever stands in what is deleted goes to its parent", () => {
  const history = new History();
  const kept = typed(history, "a");
  const gone = typed(history, "ab");
  const below = typed(history, "abc");
  const ids = told(history, () => history.remove(gone));
  assert.equal(history.current.id, kept);
  assert.deepEqual(ids, new Set([gone, below, kept]));
  assert.equal(history.node(below), undefined);
  assert.deepEqual(history.children(kept), []);
});

test("deleting the last root leaves an empty text, deleting another one the newest root", () => {
  const history = new History();
  const first = history.current.id;
  history.remove(first);
  assert.equal(history.size, 1);
  assert.notEqual(history.current.id, first);
  const second = history.current.id;
  history.restart();
  history.remove(history.current.id);
  assert.equal(history.current.id, second);
});

test("undo brings back what was deleted, and goes on to the parent", () => {
  const history = new History();
  const kept = typed(history, "a");
  const leaf = typed(history, "ab");
  history.score(leaf, [mark(0, 2)]);
  history.remove(leaf);
  assert.ok(history.canUndo);
  const ids = told(history, () => history.undo());
  assert.ok(ids.has(leaf));
  assert.equal(history.current.id, leaf);
  assert.equal(history.marks(leaf).length, 1);
  history.undo();
  assert.equal(history.current.id, kept);
});

test("what was deleted elsewhere comes back too, and whoever undoes stays where he is", () => {
  const history = new History();
  const root = history.current.id;
  const [one, two] = ["one", "two"].map((text) => completed(history, root, 0, text));
  const below = completed(history, one, 3, " more");
  history.go(two);
  history.remove(one);
  history.undo();
  assert.equal(history.current.id, two);
  assert.equal(history.text(below), "one more");
  assert.deepEqual(
    history.children(root).map(({ id }) => id),
    [one, two],
  );
});

test("what was written since a deletion is undone before it", () => {
  const history = new History();
  const kept = typed(history, "a");
  const gone = typed(history, "ab");
  history.remove(gone);
  typed(history, "ac");
  history.undo();
  assert.equal(history.current.id, kept);
  assert.equal(history.node(gone), undefined);
  history.undo();
  assert.equal(history.current.id, gone);
});

test("undo brings back a whole tree, in place of the empty text that it left", () => {
  const history = new History();
  const first = history.current.id;
  const text = typed(history, "a");
  history.remove(first);
  assert.equal(history.size, 1);
  assert.ok(history.canUndo);
  history.undo();
  assert.equal(history.current.id, text);
  assert.deepEqual(
    history.roots().map(({ id }) => id),
    [first],
  );
  history.remove(first);
  typed(history, "b");
  history.undo();
  history.undo();
  assert.equal(history.roots().length, 2, "what was written on the empty text stays");
});

test("undo brings back a name that was written over", () => {
  const history = new History();
  const node = typed(history, "a");
  history.name(node, "first");
  history.name(node, "second");
  history.undo();
  assert.equal(history.current.name, "first");
  history.undo();
  assert.equal(history.current.name, "");
  assert.equal(history.current.id, node);
});

test("siblings are the completions at the same place", () => {
  const history = new History();
  const text = typed(history, "ab");
  const one = completed(history, text, 2, " one");
  const other = completed(history, text, 2, " two");
  completed(history, text, 1, " elsewhere");
  history.add({ parent: text, at: 2, removed: 0, inserted: "typed", kind: "edit" });
  assert.deepEqual(history.siblings(), []);
  history.go(other);
  assert.deepEqual(
    history.siblings().map(({ id }) => id),
    [one, other],
  );
});

test("the last run is the nearest completion upwards", () => {
  const history = new History();
  assert.equal(history.lastRun(), null);
  const run = completed(history, history.current.id, 0, "one");
  history.go(run);
  typed(history, "one more");
  assert.equal(history.lastRun().id, run);
});

test("nodes kept by an earlier session come back in the order they were made", () => {
  const history = new History();
  typed(history, "a");
  const last = typed(history, "ab");
  const nodes = JSON.parse(history.export()).nodes;
  const again = new History([...nodes].reverse(), last);
  assert.equal(again.text(again.current.id), "ab");
  assert.equal(new History(nodes, "no such id").current.id, last);
});

test("nodes whose parent another window has deleted do not keep the others away", () => {
  const history = new History();
  const first = typed(history, "a");
  typed(history, "ab");
  typed(history, "abc");
  const nodes = JSON.parse(history.export()).nodes.filter(({ id }) => id !== first);
  const again = new History(nodes, history.current.id);
  assert.equal(again.size, 1);
  assert.equal(again.text(again.current.id), "");
});

test("an imported tree stands beside the one there is, under new ids", () => {
  const history = new History();
  typed(history, "a");
  typed(history, "ab");
  history.undo();
  const tree = history.export();
  const other = new History();
  assert.equal(other.import(tree), 3);
  assert.equal(other.roots().length, 2);
  assert.equal(other.text(other.current.id), "a");
  other.redo();
  assert.equal(other.text(other.current.id), "ab");
  assert.equal(history.node(other.current.id), undefined);
  other.import(tree);
  assert.equal(other.size, 7);
});

test("a file that is no tree is refused in a sentence", () => {
  const history = new History();
  const tree = JSON.parse(history.export());
  const [node] = tree.nodes;
  const sentence = (file) => {
    try {
      parseTree(typeof file === "string" ? file : JSON.stringify(file));
    } catch (error) {
      return error.message;
    }
    return null;
  };
  assert.equal(sentence(tree), null);
  assert.equal(sentence("{"), "The file is not JSON.");
  for (const file of ["null", "3", "[]", {}, { ...tree, format: "x" }, { ...tree, nodes: {} }])
    assert.equal(sentence(file), "The file is not a tree saved by this page.");
  assert.equal(sentence({ ...tree, version: 2 }), "The file has version 2; this page reads version 1.");
  assert.equal(sentence({ ...tree, nodes: [] }), "The file holds an empty tree.");
  const damaged = [
    null,
    { ...node, id: 1 },
    { ...node, at: -1 },
    { ...node, at: 0.5 },
    { ...node, created: "now" },
    { ...node, kind: "other" },
    { ...node, parent: "missing" },
    { ...node, run: 1 },
    { ...node, run: undefined },
    { ...node, marks: [null] },
    { ...node, marks: [{ start: 0, end: 1, name: "a", logprob: "x", top: null }] },
    { ...node, marks: [{ start: 0, end: 1, name: "a", logprob: null, top: [["a"]] }] },
    { ...node, marks: [{ start: 0, end: 1, logprob: null, top: null }] },
    node,
  ];
  for (const one of damaged)
    assert.equal(sentence({ ...tree, nodes: [node, one] }), "Entry 2 of the file is damaged.", JSON.stringify(one));
  const marks = [{ start: 0, end: 1, name: "a", logprob: null, top: [["a", -1]] }];
  assert.equal(sentence({ ...tree, nodes: [{ ...node, marks }] }), null);
});

test("times are never twice the same, so that order can be told by them", () => {
  const history = new History();
  for (let i = 0; i < 50; i += 1) history.restart();
  const times = history.roots().map(({ created }) => created);
  assert.equal(new Set(times).size, times.length);
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
});

test("the difference of two texts is one change, as short as it can be", () => {
  const random = numbers(7);
  const texts = Array.from({ length: 60 }, () => Array.from({ length: random(8) }, () => "ab"[random(2)]).join(""));
  for (const from of texts) {
    for (const to of texts) {
      const { at, removed, inserted } = difference(from, to);
      assert.equal(from.slice(0, at) + inserted + from.slice(at + removed), to);
      const begin = removed > 0 && inserted !== "" && from[at] === inserted[0];
      const end = removed > 0 && inserted !== "" && from[at + removed - 1] === inserted.at(-1);
      assert.ok(!begin && !end, `${from} ${to}`);
    }
  }
});

/** Do one thing at random to a history, and to `texts`, which has the text of each node that there is or was. */
function act(history, texts, random) {
  const ids = living(history, texts);
  const id = ids[random(ids.length)];
  const text = texts.get(id);
  const at = random(text.length + 1);
  const removed = random(text.length - at + 1);
  const inserted = "abc".slice(0, random(4));
  const change = () => {
    const node = history.add({ parent: id, at, removed, inserted, kind: "edit" });
    texts.set(node.id, text.slice(0, at) + inserted + text.slice(at + removed));
  };
  const go = () => history.go(id);
  const remove = () => {
    history.remove(id);
    if (!texts.has(history.current.id)) texts.set(history.current.id, "");
  };
  const actions = [...Array(20).fill(change), ...Array(6).fill(go), () => history.undo(), () => history.redo(), remove];
  actions[random(actions.length)]();
}

function living(history, texts) {
  return [...texts.keys()].filter((id) => history.node(id) !== undefined);
}

test("whatever is done in whatever order, every node keeps its text", () => {
  for (let seed = 1; seed <= 20; seed += 1) {
    const random = numbers(seed);
    const history = new History();
    const texts = new Map([[history.current.id, ""]]);
    for (let step = 0; step < 200; step += 1) {
      act(history, texts, random);
      assert.equal(history.text(history.current.id), texts.get(history.current.id));
    }
    const ids = living(history, texts);
    assert.equal(history.size, ids.length);
    for (const id of ids) assert.equal(history.text(id), texts.get(id));
  }
});

/** Everything that a history keeps, in the order of its nodes' making. */
function kept(history) {
  const { nodes, current } = JSON.parse(history.export());
  return { current, nodes: nodes.toSorted((a, b) => a.created - b.created) };
}

test("whatever is deleted comes back as it was, the latest first", () => {
  for (let seed = 1; seed <= 20; seed += 1) {
    const random = numbers(seed);
    const history = new History();
    const texts = new Map([[history.current.id, ""]]);
    for (let step = 0; step < 60; step += 1) act(history, texts, random);
    const states = [];
    for (let deleted = 0; deleted < 5; deleted += 1) {
      states.push(kept(history));
      const { nodes } = states.at(-1);
      history.remove(nodes[random(nodes.length)].id);
    }
    while (states.length > 0) {
      history.takeBack();
      assert.deepEqual(kept(history), states.pop());
    }
  }
});
