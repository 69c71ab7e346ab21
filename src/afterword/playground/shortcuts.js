/**
 * Keys that work anywhere on the page. Ctrl stands for Cmd on Apple's keyboards.
 */

import { byId, el } from "./dom.js";

/** Name of an action, its keys as people read them, and what it does. */
export const SHORTCUTS = [
  ["complete", "Ctrl Enter", "Complete"],
  ["stop", "Esc", "Stop"],
  ["undo", "Ctrl Z", "Undo"],
  ["redo", "Ctrl Shift Z or Ctrl Y", "Redo"],
  ["regenerate", "Alt R", "Regenerate"],
  ["score", "Alt S", "Score the text"],
  ["colours", "Alt P", "Show or hide probabilities"],
  ["alternatives", "Alt ↓", "Into the alternatives of the token at the caret"],
  ["editor", "Alt E", "Back to the text"],
  ["parameters", "Alt 1", "Parameters"],
  ["tree", "Alt 2", "Tree"],
  ["tokens", "Alt 3", "Tokens"],
  ["code", "Alt 4", "Code"],
];

/** Actions by place on the keyboard: Alt makes other characters of these keys on some systems. */
const BY_PLACE = {
  KeyR: "regenerate",
  KeyS: "score",
  KeyP: "colours",
  KeyE: "editor",
  ArrowDown: "alternatives",
  Digit1: "parameters",
  Digit2: "tree",
  Digit3: "tokens",
  Digit4: "code",
};

/** Call `actions[name]` when its keys are pressed. Fields of the form keep their own undo. */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    const name = actionOf(event);
    if (name === null || actions[name]() === false) return;
    event.preventDefault();
  });
  const field = byId("text");
  // The menus of browsers and phones undo without a key.
  field.addEventListener("beforeinput", (event) => {
    const name = { historyUndo: "undo", historyRedo: "redo" }[event.inputType];
    if (name === undefined) return;
    event.preventDefault();
    actions[name]();
  });
}

/** Fill the dialog that lists them. */
export function listShortcuts() {
  const rows = SHORTCUTS.map(([, keys, what]) => el("div", {}, el("dt", {}, el("kbd", {}, keys)), el("dd", {}, what)));
  byId("shortcut-list").replaceChildren(...rows);
}

/** The name of the action whose keys were pressed, null if they belong to none. */
export function actionOf(event) {
  const { code, key, altKey } = event;
  const main = event.ctrlKey || event.metaKey;
  if (main && key === "Enter") return "complete";
  if (key === "Escape" && !main && !altKey) return "stop";
  if (main && !altKey) return undoOrRedo(event);
  return altKey && !main ? (BY_PLACE[code] ?? null) : null;
}

function undoOrRedo({ key, shiftKey, target }) {
  const letter = key.toLowerCase();
  if (letter !== "z" && letter !== "y") return null;
  if (target.matches("input, textarea:not(#text)")) return null;
  return letter === "y" || shiftKey ? "redo" : "undo";
}
