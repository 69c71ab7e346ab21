/**
 * Sentences for people: what went wrong, beside what it is about, and what is going on, also for screen readers.
 */

import { byId } from "./dom.js";

/**
 * Show a sentence under the editor, on narrow screens at their top; "" takes it away. `kind` is note or error.
 * `takeBack` undoes what the sentence tells of, by a button beside it.
 */
export function notice(text, kind = "note", takeBack = null) {
  const box = byId("notice");
  const undo = byId("notice-undo");
  box.hidden = text === "";
  box.className = `notice ${kind}`;
  byId("notice-text").textContent = text;
  undo.hidden = takeBack === null;
  undo.onclick = () => {
    notice("");
    takeBack();
  };
  byId("notice-close").onclick = () => notice("");
}

/** Say a sentence to screen readers only. */
export function announce(text) {
  byId("announcement").textContent = text;
}

/** Show a sentence beside one of the page's own controls: key, model. "" takes it away. */
export function complain(id, text) {
  const box = byId(`${id}-complaint`);
  box.textContent = text;
  box.hidden = text === "";
  if (text === "") byId(id).removeAttribute("aria-invalid");
  else {
    byId(id).closest("details")?.setAttribute("open", "");
    byId(id).setAttribute("aria-invalid", "true");
  }
}
