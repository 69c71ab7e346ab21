/**
 * Everything that was ever in the editor, as a tree of changes: undo goes to the parent, a branch is a new child.
 * Pure: knows no page, no server and no storage.
 *
 * What is done to the tree itself, deleting and naming, is undone as well, the latest first: an undo takes it back if
 * it was done after the current node was made. This lasts as long as the page.
 *
 * A node is `{id, parent, at, removed, inserted, kind, created, name, marks, run, next}`: at position `at` of the
 * parent's text, `removed` characters give way to `inserted`. `kind` is root, edit, completion or choice (an
 * alternative taken).
 * `marks` stand relative to `at`. `run` says how a completion came about, null for others. `next` is the child that
 * was visited last, for redo.
 */

import { before, shifted } from "./marks.js";

const KINDS = ["root", "edit", "completion", "choice"];
const FORMAT = "afterword-tree";
const VERSION = 1;
const N_CACHED = 16;

export class History extends EventTarget {
  #nodes = new Map();
  #children = new Map();
  #scores = new Map();
  #cache = new Map();
  /** What was done to the tree itself: `{when, takeBack}`, the latest last. */
  #deeds = [];
  #latest = 0;
  #current;

  /** With the nodes of an earlier session, or new. Fires `change` with `{ids}`, of nodes that came, went or changed. */
  constructor(nodes = [], current = null) {
    super();
    for (const node of [...nodes].sort(byAge)) {
      // Another window may have deleted what this one went on from: nobody knows that text any more.
      if (node.parent === null || this.#nodes.has(node.parent)) this.#keep(node);
    }
    if (this.#nodes.size === 0) this.#plant();
    this.#current = this.#nodes.has(current) ? current : [...this.#nodes.keys()].at(-1);
  }

  get current() {
    return this.#nodes.get(this.#current);
  }

  get size() {
    return this.#nodes.size;
  }

  node(id) {
    return this.#nodes.get(id);
  }

  /** The nodes without a parent, oldest first. */
  roots() {
    return [...this.#nodes.values()].filter((node) => node.parent === null).sort(byAge);
  }

  /** The children of a node, oldest first. */
  children(id) {
    return (this.#children.get(id) ?? []).map((child) => this.#nodes.get(child)).sort(byAge);
  }

  /** The whole text at a node. */
  text(id) {
    return this.#content(id).text;
  }

  /** What is known of the tokens of the text at a node. */
  marks(id) {
    return this.#content(id).marks;
  }

  /** Add a change of the text at `parent`; it does not become the current one. */
  add({ parent, at, removed, inserted, kind, marks = [], run = null }) {
    const node = this.#make({ parent, at, removed, inserted, kind, marks, run });
    this.#changed([node.id]);
    return node;
  }

  /** Replace some properties of a node, and forget what followed from the old ones. */
  update(id, properties) {
    this.#nodes.set(id, { ...this.#nodes.get(id), ...properties });
    this.#forget(id);
    this.#changed([id]);
  }

  /** Keep the marks of the whole text at a node, as the model scored it. They last as long as the page. */
  score(id, marks) {
    this.#scores.set(id, marks);
    this.#forget(id);
    this.#changed([id]);
  }

  /** Make a node the current one. */
  go(id) {
    const node = this.#nodes.get(id);
    const touched = [this.#current, id];
    this.#current = id;
    if (node.parent !== null) {
      this.#nodes.set(node.parent, { ...this.#nodes.get(node.parent), next: id });
      touched.push(node.parent);
    }
    this.#changed(touched);
  }

  /** Whether something was deleted or named since the current node was made. */
  get isDeedLatest() {
    return this.#deeds.length > 0 && this.#deeds.at(-1).when > this.current.created;
  }

  get canUndo() {
    return this.isDeedLatest || this.current.parent !== null;
  }

  /** Take back what was deleted or named since the current node was made, else go to the parent; false at a root. */
  undo() {
    const { parent } = this.current;
    if (this.isDeedLatest) this.takeBack();
    else if (parent !== null) this.go(parent);
    else return false;
    return true;
  }

  /** Go to the child that was visited last; false where there is none. */
  redo() {
    const { id, next } = this.current;
    const child = this.#nodes.has(next) ? next : this.children(id).at(-1)?.id;
    if (child === undefined) return false;
    this.go(child);
    return true;
  }

  /** Take back the latest deletion or name that has not been taken back. */
  takeBack() {
    this.#deeds.pop()?.takeBack();
  }

  /** Begin with an empty text beside all others. */
  restart() {
    this.go(this.#plant().id);
  }

  /** Give a node another name. */
  name(id, name) {
    const { name: before } = this.#nodes.get(id);
    this.update(id, { name });
    this.#did(() => this.update(id, { name: before }));
  }

  /** Delete a node and all below it. If the current one is among them, the parent is current, else the newest root. */
  remove(id) {
    const { parent } = this.#nodes.get(id);
    const stood = this.#current;
    const gone = this.#below(id).map((one) => ({ node: this.#nodes.get(one), marks: this.#scores.get(one) }));
    this.#drop(gone.map(({ node }) => node.id));
    const planted = this.#nodes.size === 0 ? this.#plant().id : null;
    if (!this.#nodes.has(this.#current)) this.#current = parent ?? this.roots().at(-1).id;
    this.#changed([...gone.map(({ node }) => node.id), this.#current]);
    this.#did(() => this.#restore(gone, stood, planted));
  }

  /** The completions that share the current one's place in their parent, oldest first; itself included. */
  siblings() {
    const { current } = this;
    if (current.parent === null || current.run === null) return [];
    return this.children(current.parent).filter((node) => node.run !== null && node.at === current.at);
  }

  /** The nearest node from the current one upwards that a model wrote, null if none did. */
  lastRun() {
    let node = this.current;
    while (node !== undefined && node.run === null) node = this.#nodes.get(node.parent);
    return node ?? null;
  }

  /** The tree as text. */
  export() {
    return JSON.stringify({
      format: FORMAT,
      version: VERSION,
      current: this.#current,
      nodes: [...this.#nodes.values()],
    });
  }

  /** Add an exported tree to this one, under new ids, and go where it was. Throws `Error` with a sentence. */
  import(json) {
    const { nodes, current } = parseTree(json);
    const ids = new Map(nodes.map((node) => [node.id, newId()]));
    for (const node of nodes) {
      this.#keep({
        ...node,
        id: ids.get(node.id),
        created: this.#now(),
        parent: node.parent === null ? null : ids.get(node.parent),
        next: ids.get(node.next) ?? null,
      });
    }
    this.#current = ids.get(current) ?? [...ids.values()].at(-1);
    this.#changed([...ids.values()]);
    return nodes.length;
  }

  /** Remember how to take back what was just done to the tree. */
  #did(takeBack) {
    this.#deeds.push({ when: this.#now(), takeBack });
  }

  #drop(ids) {
    for (const id of ids) {
      const { parent } = this.#nodes.get(id);
      const others = this.#children.get(parent)?.filter((child) => child !== id);
      if (others !== undefined) this.#children.set(parent, others);
      for (const map of [this.#nodes, this.#children, this.#scores, this.#cache]) map.delete(id);
    }
  }

  /**
   * Undo a deletion, with `stood` the current node at that time. `planted`: the empty text that took the place of a
   * whole tree; it goes if nobody wrote on it.
   */
  #restore(gone, stood, planted) {
    for (const { node, marks } of gone) {
      this.#keep(node);
      if (marks !== undefined) this.#scores.set(node.id, marks);
    }
    if (gone.some(({ node }) => node.id === stood)) this.#current = stood;
    const unused = planted !== null && this.children(planted).length === 0 ? [planted] : [];
    this.#drop(unused);
    this.#changed([...gone.map(({ node }) => node.id), ...unused, this.#current]);
  }

  #plant() {
    return this.#make({ parent: null, at: 0, removed: 0, inserted: "", kind: "root", marks: [], run: null });
  }

  #make(properties) {
    const node = { id: newId(), created: this.#now(), name: "", next: null, ...properties };
    this.#keep(node);
    return node;
  }

  /** Milliseconds since 1970, never twice the same: nodes are ordered by it. */
  #now() {
    this.#latest = Math.max(Date.now(), this.#latest + 1);
    return this.#latest;
  }

  #keep(node) {
    this.#latest = Math.max(this.#latest, node.created);
    this.#nodes.set(node.id, node);
    if (node.parent === null) return;
    this.#children.set(node.parent, [...(this.#children.get(node.parent) ?? []), node.id]);
  }

  #below(id) {
    const found = [id];
    // The loop also visits what it adds.
    for (const one of found) found.push(...(this.#children.get(one) ?? []));
    return found;
  }

  #forget(id) {
    if (this.#cache.size > 0) for (const one of this.#below(id)) this.#cache.delete(one);
  }

  /** Text and marks at a node: from the nearest remembered ancestor down. */
  #content(id) {
    const path = [];
    let known = null;
    for (let at = id; at !== null && known === null; at = this.#nodes.get(at).parent) {
      known = this.#cache.get(at) ?? null;
      if (known === null) path.push(this.#nodes.get(at));
    }
    let content = known ?? { text: "", marks: [] };
    for (const node of path.reverse()) content = this.#apply(content, node);
    this.#cache.delete(id);
    this.#cache.set(id, content);
    if (this.#cache.size > N_CACHED) this.#cache.delete(this.#cache.keys().next().value);
    return content;
  }

  #apply({ text, marks }, node) {
    const { at, removed, inserted } = node;
    return {
      text: text.slice(0, at) + inserted + text.slice(at + removed),
      marks: this.#scores.get(node.id) ?? [...before(marks, at), ...shifted(node.marks, at)],
    };
  }

  #changed(ids) {
    this.dispatchEvent(new CustomEvent("change", { detail: { ids } }));
  }
}

/** The change from one text to another: `{at, removed, inserted}`, as short as it can be. */
export function difference(from, to) {
  const shorter = Math.min(from.length, to.length);
  let at = 0;
  while (at < shorter && from.charCodeAt(at) === to.charCodeAt(at)) at += 1;
  let same = 0;
  while (same < shorter - at && from.charCodeAt(from.length - 1 - same) === to.charCodeAt(to.length - 1 - same))
    same += 1;
  return { at, removed: from.length - at - same, inserted: to.slice(at, to.length - same) };
}

/** Nodes and current id of an exported tree, checked. Throws `Error` with a sentence that says what is wrong. */
export function parseTree(json) {
  let tree;
  try {
    tree = JSON.parse(json);
  } catch {
    throw new Error("The file is not JSON.");
  }
  if (tree?.format !== FORMAT || !Array.isArray(tree.nodes))
    throw new Error("The file is not a tree saved by this page.");
  if (tree.version !== VERSION)
    throw new Error(`The file has version ${tree.version}; this page reads version ${VERSION}.`);
  const known = new Set();
  tree.nodes.forEach((node, i) => {
    if (!isNode(node) || !(node.parent === null || known.has(node.parent)) || known.has(node.id)) {
      throw new Error(`Entry ${i + 1} of the file is damaged.`);
    }
    known.add(node.id);
  });
  if (known.size === 0) throw new Error("The file holds an empty tree.");
  return { nodes: tree.nodes, current: tree.current };
}

function isNode(node) {
  if (typeof node !== "object" || node === null) return false;
  const texts = [node.id, node.inserted, node.name].every((value) => typeof value === "string");
  const numbers = [node.at, node.removed, node.created].every((value) => Number.isInteger(value) && value >= 0);
  const run = node.run === null || (typeof node.run === "object" && node.run !== undefined);
  return texts && numbers && run && KINDS.includes(node.kind) && Array.isArray(node.marks) && node.marks.every(isMark);
}

function isMark(mark) {
  const places = [mark?.start, mark?.end].every((value) => Number.isInteger(value) && value >= 0);
  const value = mark?.logprob === null || Number.isFinite(mark?.logprob);
  const top =
    mark?.top === null ||
    (Array.isArray(mark?.top) && mark.top.every((one) => typeof one?.[0] === "string" && Number.isFinite(one[1])));
  return places && value && top && typeof mark.name === "string";
}

function byAge(a, b) {
  return a.created - b.created;
}

function newId() {
  return Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) => part.toString(36)).join("");
}
