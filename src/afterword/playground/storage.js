/**
 * What stays in the browser: the tree in IndexedDB, everything small in localStorage. Nothing here leaves the machine.
 */

const DATABASE = "afterword-playground";
const NODES = "nodes";
const LATE = "unwritten";
const PREFIX = "afterword.";

/** Small values by name, as JSON. Where the browser keeps nothing (private windows), they last as long as the page. */
export class Settings extends EventTarget {
  #values = new Map();

  /** The value kept under `name`, else `otherwise`. */
  get(name, otherwise) {
    if (this.#values.has(name)) return this.#values.get(name);
    let kept = null;
    try {
      kept = localStorage.getItem(PREFIX + name);
      return kept === null ? otherwise : JSON.parse(kept);
    } catch {
      return otherwise;
    }
  }

  /** Keep a value; null forgets it. Fires an event called `name`. */
  set(name, value) {
    if (value === null) this.#values.delete(name);
    else this.#values.set(name, value);
    try {
      if (value === null) localStorage.removeItem(PREFIX + name);
      else localStorage.setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      // Full, or not allowed: the value above is what is left.
    }
    this.dispatchEvent(new Event(name));
  }
}

/** The nodes of a tree, kept one by one so that a long session writes only what changed. */
export class TreeStore {
  #database;
  #settings;
  /** Nodes by id, undefined where one was deleted, that are not in the database yet. */
  #unwritten = new Map();

  /** `database` null: nothing is kept. */
  constructor(database, settings) {
    this.#database = database;
    this.#settings = settings;
  }

  /** Opens the browser's database; without one, a store that keeps nothing. */
  static async open(settings) {
    try {
      const opening = indexedDB.open(DATABASE, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(NODES, { keyPath: "id" });
      return new TreeStore(await settled(opening), settings);
    } catch {
      return new TreeStore(null, settings);
    }
  }

  get lasting() {
    return this.#database !== null;
  }

  /** Every node kept, with those that the page had no time to write when it was left. */
  async load() {
    if (this.#database === null) return [];
    const written = await settled(this.#database.transaction(NODES).objectStore(NODES).getAll());
    const { nodes, late } = merged(written, this.#settings.get(LATE, []));
    this.put(late);
    if (late.length > 0) await this.write();
    return nodes;
  }

  /** What the next `write` writes: pairs of id and node, undefined for one to delete. */
  put(pairs) {
    if (this.#database === null) return;
    for (const [id, node] of pairs) this.#unwritten.set(id, node);
  }

  /** The page may be left: what is not written is kept at once, for the next `load`. */
  keep() {
    if (this.#unwritten.size > 0) this.#settings.set(LATE, [...this.#unwritten]);
  }

  /** Write what was put. */
  async write() {
    if (this.#unwritten.size === 0) return;
    const pairs = [...this.#unwritten];
    const transaction = this.#database.transaction(NODES, "readwrite");
    const store = transaction.objectStore(NODES);
    for (const [id, node] of pairs) {
      if (node === undefined) store.delete(id);
      else store.put(node);
    }
    await new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    for (const [id, node] of pairs) if (this.#unwritten.get(id) === node) this.#unwritten.delete(id);
    if (this.#settings.get(LATE, null) !== null) this.#settings.set(LATE, null);
  }
}

/** `written` nodes with the pairs of `kept` in their places; and these pairs, as `TreeStore.put` takes them. */
export function merged(written, kept) {
  const nodes = new Map(written.map((node) => [node.id, node]));
  // JSON has null for undefined.
  const late = kept.map(([id, node]) => [id, node ?? undefined]);
  for (const [id, node] of late) {
    if (node === undefined) nodes.delete(id);
    else nodes.set(id, node);
  }
  return { nodes: [...nodes.values()], late };
}

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
