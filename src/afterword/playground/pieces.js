/**
 * How a long text is cut so that a change of it touches little: into blocks of whole lines, and lines that are too long
 * for that into pieces. Pure; knows no page.
 */

/** Characters of a piece, about. */
const PIECE = 1500;

/** Whole lines, put together up to the size of a piece. */
export function blocksOf(text) {
  const blocks = [];
  let open = "";
  for (const line of text.match(/[^\n]*\n|[^\n]+/g) ?? []) {
    if (open !== "" && open.length + line.length > PIECE) {
      blocks.push(open);
      open = "";
    }
    open += line;
  }
  return open === "" ? blocks : [...blocks, open];
}

/** A text in pieces, cut behind a space where there is one and never within a character. */
export function cut(text) {
  const pieces = [];
  for (let at = 0; at < text.length; ) {
    const end = pieceEnd(text, at);
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

/** Which of `items`, texts in a row, a change touches: from `first` to before `last`, which begin at `offset`. */
export function touched(items, at, removed) {
  let first = 0;
  let offset = 0;
  while (first < items.length - 1 && offset + items[first].text.length <= at) {
    offset += items[first].text.length;
    first += 1;
  }
  let last = first;
  let old = "";
  while (last < items.length && (last === first || old.length < at - offset + removed)) {
    old += items[last].text;
    last += 1;
  }
  return { first, last, offset, old };
}

/** `text` with `inserted` in the place of `removed` characters at `at`. */
export function spliced(text, at, removed, inserted) {
  return text.slice(0, at) + inserted + text.slice(at + removed);
}

/** Where the piece that begins at `at` ends: behind a space if there is one, never within a character. */
function pieceEnd(text, at) {
  const limit = at + PIECE;
  if (limit >= text.length) return text.length;
  const space = text.lastIndexOf(" ", limit) + 1;
  if (space > at + PIECE / 2) return space;
  return (text.charCodeAt(limit) & 0xfc00) === 0xdc00 ? limit - 1 : limit;
}
