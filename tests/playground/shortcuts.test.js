import assert from "node:assert/strict";
import { test } from "node:test";
import { actionOf, SHORTCUTS } from "../../src/afterword/playground/shortcuts.js";

const CODES = { "↓": "ArrowDown", 1: "Digit1", 2: "Digit2", 3: "Digit3", 4: "Digit4" };

/** The event of keys as the list of shortcuts writes them; `field` says whether they are pressed in the form. */
function pressed(keys, { field = false, meta = false } = {}) {
  const parts = keys.split(" ");
  const last = parts.at(-1);
  const letter = parts.includes("Shift") ? last : last.toLowerCase();
  return {
    key: { Esc: "Escape", Enter: "Enter" }[last] ?? letter,
    code: CODES[last] ?? `Key${last}`,
    ctrlKey: parts.includes("Ctrl") && !meta,
    metaKey: parts.includes("Ctrl") && meta,
    altKey: parts.includes("Alt"),
    shiftKey: parts.includes("Shift"),
    target: { matches: () => field },
  };
}

test("every shortcut that is listed works, with Cmd as with Ctrl", () => {
  for (const [name, written] of SHORTCUTS) {
    for (const keys of written.split(" or ")) {
      assert.equal(actionOf(pressed(keys)), name, keys);
      assert.equal(actionOf(pressed(keys, { meta: true })), name, keys);
    }
  }
});

test("fields of the form keep their own undo, and nothing else", () => {
  for (const [name, written] of SHORTCUTS) {
    const isUndo = name === "undo" || name === "redo";
    for (const keys of written.split(" or "))
      assert.equal(actionOf(pressed(keys, { field: true })), isUndo ? null : name, keys);
  }
});

test("other keys mean nothing", () => {
  for (const keys of ["Z", "Enter", "R", "Alt Z", "Ctrl R", "Ctrl Alt Z", "Ctrl Alt R", "Ctrl Esc", "Alt Esc", "Alt X"])
    assert.equal(actionOf(pressed(keys)), null, keys);
});
