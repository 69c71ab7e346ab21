/**
 * What stays in the browser: the tree in IndexedDB, everything small in localStorage. Nothing here leaves the machine.
 */

const DATABASE = "afterword-playground";
const NODES = "nodes";
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
    this.#values.set(name, value);
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

  /** `database` null: nothing is kept. */
  constructor(database) {
    this.#database = database;
  }

  /** Opens the browser's database; without one, a store that keeps nothing. */
  static async open() {
    try {
      const opening = indexedDB.open(DATABASE, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(NODES, { keyPath: "id" });
      return new TreeStore(await settled(opening));
    } catch {
      return new TreeStore(null);
    }
  }

  get lasting() {
    return this.#database !== null;
  }

  /** Every node kept. */
  async load() {
    if (this.#database === null) return [];
    return settled(this.#database.transaction(NODES).objectStore(NODES).getAll());
  }

  /** Write the nodes that there are, delete those that are undefined. Pairs of id and node. */
  async write(pairs) {
    if (this.#database === null) return;
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
  }
}

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
