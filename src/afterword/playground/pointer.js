/**
 * When the card of a token's alternatives opens: under the mouse, and at the caret as it is moved.
 */

import { Alternatives } from "./alternatives.js";
import { byId } from "./dom.js";
import { markAt } from "./marks.js";

export class Pointer extends EventTarget {
  #editor;
  #isActive;
  #card = new Alternatives();
  #frame = 0;

  /** `isActive()` says whether cards may open now. Fires `choose` with a mark and the name of an alternative. */
  constructor(editor, isActive) {
    super();
    this.#editor = editor;
    this.#isActive = isActive;
    this.#followMouse(byId("sheet"));
    this.#followCaret(byId("text"));
    this.#card.addEventListener("leave", () => editor.focus());
    this.#card.addEventListener("choose", ({ detail }) => {
      this.close();
      editor.focus();
      this.dispatchEvent(new CustomEvent("choose", { detail }));
    });
  }

  /** Close the card; false if it was closed. */
  close() {
    const wasOpen = this.#card.mark !== null;
    this.#card.hide();
    return wasOpen;
  }

  /** Move the keyboard from the text into the card of the token at the caret; false if there is none. */
  enter() {
    if (document.activeElement !== byId("text") || !this.#showAtCaret()) return false;
    this.#card.focus();
    return true;
  }

  #followMouse(sheet) {
    sheet.addEventListener("pointermove", (event) => {
      cancelAnimationFrame(this.#frame);
      this.#frame = requestAnimationFrame(() => this.#pointed(event));
    });
    sheet.addEventListener("pointerleave", () => {
      cancelAnimationFrame(this.#frame);
      this.#card.hideSoon();
    });
    sheet.addEventListener("scroll", () => this.close(), { passive: true });
  }

  #followCaret(field) {
    field.addEventListener("keyup", (event) => {
      if (event.key.startsWith("Arrow") && !event.altKey && !event.shiftKey) this.#showAtCaret();
    });
    // A finger has no hover: its tap moves the caret.
    field.addEventListener("click", (event) => {
      if (event.pointerType === "touch") this.#showAtCaret();
    });
    field.addEventListener("blur", () => this.#card.hideSoon());
  }

  #pointed(event) {
    if (!this.#isActive() || event.buttons !== 0 || event.pointerType === "touch") return;
    const mark = this.#editor.markAt(event.clientX, event.clientY);
    if (mark === null) this.#card.hideSoon();
    else this.#card.show(mark, this.#editor.rectOf(mark.start, mark.end));
  }

  /** Whether there is a mark at the caret to show. */
  #showAtCaret() {
    const mark = this.#isActive() ? markAt(this.#editor.marks, this.#editor.caret) : null;
    if (mark === null) {
      this.close();
      return false;
    }
    this.#card.show(mark, this.#editor.rectOf(mark.start, mark.end));
    return true;
  }
}
