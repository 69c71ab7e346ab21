/**
 * Copies text, also where a page without TLS may not use the clipboard's own interface.
 */

import { el } from "./dom.js";

const SHOWN_FOR = 1500;

/** Copy `text` and let `button` say so for a moment. */
export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copySelected(text);
  }
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = label), SHOWN_FOR);
}

function copySelected(text) {
  const field = el("textarea", { class: "sr-only", "aria-hidden": "true" });
  const focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus();
}
