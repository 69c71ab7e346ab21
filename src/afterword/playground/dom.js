/**
 * Makes elements. Every text goes in as text: nothing here can turn a string into HTML.
 */

/**
 * A new element. `props` are attributes, except `on` (listeners by event name) and `dataset`; a value of null,
 * undefined or false leaves the attribute out, true writes it empty. Children are nodes or strings, or null for none.
 */
export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else if (name === "dataset") {
      Object.assign(made.dataset, value);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : String(value));
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The element of the page with this id, which must be there. */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element #${id}`);
  return found;
}

/** White space and other characters that nobody sees, made visible for a token shown by itself. */
export function visible(text) {
  return text
    .replaceAll(" ", "·")
    .replaceAll("\n", "↵")
    .replaceAll("\t", "⇥")
    .replace(/[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu, hexCode);
}

/** A token's name for a screen reader: white space in words. */
export function spoken(text) {
  const words = text.replaceAll("\n", " line break ").replaceAll("\t", " tab ");
  const said = words.startsWith(" ") ? `space ${words.trim()}` : words;
  return said.trim() === "" ? "space" : said.trim();
}

/** Calls `later` once, `ms` after the last of any number of calls. */
export function debounced(later, ms) {
  let timer = null;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => later(...values), ms);
  };
}

function hexCode(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
