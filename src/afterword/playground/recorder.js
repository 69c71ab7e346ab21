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
    const change = difference(this.#history.text(current.id), after);
    const isOpen =
      this.#open === current.id && !this.#history.isDeedLatest && group === this.#kind && now - this.#last < PAUSE;
    if (isOpen && !takesAway(change, group) && this.#history.children(current.id).length === 0) {
      this.#history.update(current.id, difference(this.#history.text(current.parent), after));
    } else {
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

/**
 * Whether a change takes away what was typed before it, as typing over a selection does. That must stay in the history.
 * An input method replaces what it composes letter by letter.
 */
function takesAway({ removed }, group) {
  return removed > 0 && group !== "delete" && group !== "insertCompositionText";
}

/** What inputs have in common that make one change together. */
function groupOf(kind) {
  if (kind.startsWith("delete")) return "delete";
  return kind === "insertText" ? "type" : kind;
}
