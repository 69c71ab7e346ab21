/**
 * Turns what a person types into changes of the history: a burst of typing is one change, a pause begins the next.
 */

import { difference } from "./history.js";

/** Milliseconds without typing after which the next letter is a change of its own. */
const PAUSE = 1000;

export class Recorder {
  #history;
  #open = null;
  #last = 0;
  #kind = "";

  constructor(history) {
    this.#history = history;
  }

  /** Record that the current text became `after` by an input of `kind` (an `inputType`). */
  record(after, kind) {
    const group = groupOf(kind);
    const { current } = this.#history;
    const now = performance.now();
    const isOpen = this.#open === current.id && group === this.#kind && now - this.#last < PAUSE;
    if (isOpen && this.#history.children(current.id).length === 0) {
      this.#history.update(current.id, difference(this.#history.text(current.parent), after));
    } else {
      const change = difference(this.#history.text(current.id), after);
      const node = this.#history.add({ parent: current.id, kind: "edit", ...change });
      this.#history.go(node.id);
      this.#open = node.id;
    }
    this.#last = now;
    this.#kind = group;
  }

  /** The next letter begins a change of its own. */
  close() {
    this.#open = null;
  }
}

/** What inputs have in common that make one change together. */
function groupOf(kind) {
  if (kind.startsWith("delete")) return "delete";
  return kind === "insertText" ? "type" : kind;
}
