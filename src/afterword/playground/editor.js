/**
 * The text that is written on: a plain text field with a mirror behind it. Owns the caret, the selection and what is
 * visible; knows nothing of models or history.
 */

import { difference } from "./history.js";
import { Mirror } from "./mirror.js";
import { reveal } from "./view.js";

/** Pixels kept free under the line that is being written. */
const ROOM_BELOW = 120;

export class Editor extends EventTarget {
  #field;
  #window;
  #mirror;
  #text = "";
  #marks = [];
  #follow = false;
  #caret = null;
  #selection = "";

  /**
   * Over the page's text field, the mirror's box and the element both scroll in. Fires `edit` when a person changes
   * the text, with the text before and after and the kind of input; `select` when caret or selection move.
   */
  constructor(field, box, window) {
    super();
    this.#field = field;
    this.#window = window;
    this.#mirror = new Mirror(box, window);
    field.addEventListener("input", (event) => this.#typed(event));
    field.addEventListener("focus", () => this.#restored());
    document.addEventListener("selectionchange", () => this.#selected());
    for (const name of ["keyup", "pointerup", "select"]) field.addEventListener(name, () => this.#selected());
    for (const name of ["wheel", "touchmove"])
      window.addEventListener(name, () => (this.#follow = false), { passive: true });
    field.value = "";
  }

  get text() {
    return this.#text;
  }

  get marks() {
    return this.#marks;
  }

  /** Where the next text goes: the selection's end, or the text's end before anybody was in the field. */
  get caret() {
    return Math.min(this.#caret ?? this.#text.length, this.#text.length);
  }

  /** `[start, end]` of the selection; equal if there is none. */
  get selection() {
    return [this.#field.selectionStart, this.#field.selectionEnd];
  }

  /** Whether a person may write. */
  set locked(locked) {
    this.#field.readOnly = locked;
    this.#field.ariaBusy = String(locked);
    this.#follow = locked;
  }

  focus() {
    this.#field.focus({ preventScroll: true });
  }

  /**
   * Show another text. The caret goes to `caret`, or to the end of what is different if that is null; the window
   * follows it while locked.
   */
  show(text, marks, caret) {
    const change = difference(this.#text, text);
    const isNew = change.removed > 0 || change.inserted !== "";
    if (isNew) {
      this.#text = text;
      this.#caret = caret ?? change.at + change.inserted.length;
      this.#field.setRangeText(change.inserted, change.at, change.at + change.removed, "end");
      this.#field.setSelectionRange(this.#caret, this.#caret);
    }
    this.#marks = marks;
    this.#mirror.change(change, marks);
    if (isNew && this.#follow) this.reveal(this.#caret);
  }

  /** Bring a place of the text into view, with room below. */
  reveal(at) {
    const rect = this.rectOf(Math.max(at - 1, 0), at);
    if (rect !== null) reveal(rect, this.#window, ROOM_BELOW);
  }

  /** The mark under a point of the window, null if there is none. */
  markAt(x, y) {
    return this.#mirror.markAt(x, y);
  }

  /** Where the text from `start` to `end` is in the window; null if nowhere. */
  rectOf(start, end) {
    return this.#mirror.rectOf(start, end);
  }

  #typed(event) {
    const before = this.#text;
    this.#text = this.#field.value;
    this.#caret = this.#field.selectionEnd;
    const kind = event.inputType ?? "";
    this.dispatchEvent(new CustomEvent("edit", { detail: { before, after: this.#text, kind } }));
  }

  /** What a person typed is in the field already: only the mirror follows. */
  mirror(before, marks) {
    this.#marks = marks;
    this.#mirror.change(difference(before, this.#text), marks);
  }

  /** A field that was changed while it was not in use may have forgotten where the caret belongs. */
  #restored() {
    if (this.#field.selectionEnd !== this.caret) this.#field.setSelectionRange(this.caret, this.caret);
  }

  #selected() {
    const now = this.selection.join(":");
    // What a field that is not in use says of its selection is no person's doing.
    if (now === this.#selection || document.activeElement !== this.#field) return;
    this.#selection = now;
    this.#caret = this.#field.selectionEnd;
    this.dispatchEvent(new Event("select"));
  }
}
