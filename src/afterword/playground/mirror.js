/**
 * The same text behind the editor, cut into tokens and coloured. It is laid out exactly like the editor, so what stands
 * behind a letter is that letter's token.
 *
 * The text is kept in blocks of whole lines, so that a change lays out only its own block anew; a line longer than a
 * block is one block of several pieces in a row. Only pieces near the window are cut into tokens.
 */

import { coloured } from "./colours.js";
import { el } from "./dom.js";
import { firstFrom } from "./marks.js";
import { blocksOf, cut, spliced, touched } from "./pieces.js";

/** Pixels beyond the window that are coloured ahead. */
const AHEAD = "300px";

export class Mirror {
  #box;
  #end = el("div", { class: "end" });
  #blocks = [];
  #pieces = new Map();
  #near = new Set();
  #marks = [];
  #watch;

  /** `box` is the element that becomes the mirror, `window` the one it scrolls in. */
  constructor(box, window) {
    this.#box = box;
    this.#box.append(this.#end);
    this.#watch = new IntersectionObserver((entries) => this.#moved(entries), { root: window, rootMargin: AHEAD });
    this.#showEnd();
  }

  /** Show the text that follows from the shown one by a change, with `marks`. */
  change({ at, removed, inserted }, marks) {
    const isNew = removed > 0 || inserted !== "";
    if (isNew) this.#splice(at, removed, inserted);
    if (isNew || this.#marks !== marks) {
      this.#marks = marks;
      this.#paintNear();
    }
    if (isNew) this.#showEnd();
  }

  /** The mark whose token is drawn at a point of the window, null if none is. */
  markAt(x, y) {
    for (const element of document.elementsFromPoint(x, y)) {
      if (element.classList.contains("token") && this.#box.contains(element)) return this.#marks[element.dataset.i];
    }
    return null;
  }

  /** Where the text from `start` on is drawn, up to `end` or the end of its line; null if nothing is there. */
  rectOf(start, end) {
    let offset = 0;
    let last = null;
    for (const piece of this.#pieces.values()) {
      if (start < offset + piece.text.length) return rectIn(piece.element, start - offset, end - offset);
      last = piece;
      offset += piece.text.length;
    }
    return last === null ? null : rectIn(last.element, last.text.length - 1, last.text.length);
  }

  #splice(at, removed, inserted) {
    const { first, last, offset, old } = touched(this.#blocks, at, removed);
    const text = spliced(old, at - offset, removed, inserted);
    // A block that has lost its line break goes on in the next one.
    const joins = !text.endsWith("\n") && last < this.#blocks.length;
    const whole = joins ? text + this.#blocks[last].text : text;
    const block = this.#blocks[first];
    const texts = blocksOf(whole);
    const isOneLongLine = !joins && last - first === 1 && texts.length === 1 && block.pieces.length > 1;
    if (isOneLongLine) this.#patch(block, at - offset, removed, inserted);
    else this.#replace(first, joins ? last + 1 : last, texts.map(blockFrom));
    this.#pieces = new Map(this.#blocks.flatMap((one) => one.pieces.map((piece) => [piece.element, piece])));
  }

  /** Change the pieces of one long line: those that stay keep their place, and with it what was measured of them. */
  #patch(block, at, removed, inserted) {
    const { first, last, offset, old } = touched(block.pieces, at, removed);
    const fresh = piecesOf(spliced(old, at - offset, removed, inserted));
    const next = block.pieces[last]?.element ?? null;
    for (const piece of block.pieces.slice(first, last)) this.#drop(piece);
    for (const piece of fresh) block.element.insertBefore(piece.element, next);
    block.pieces.splice(first, last - first, ...fresh);
    block.text = spliced(block.text, at, removed, inserted);
    this.#observe(fresh);
  }

  #replace(first, last, fresh) {
    const next = this.#blocks[last]?.element ?? this.#end;
    for (const block of this.#blocks.slice(first, last)) {
      block.element.remove();
      for (const piece of block.pieces) this.#drop(piece);
    }
    for (const block of fresh) next.before(block.element);
    this.#blocks.splice(first, last - first, ...fresh);
    this.#observe(fresh.flatMap((block) => block.pieces));
  }

  #observe(pieces) {
    for (const piece of pieces) this.#watch.observe(piece.element);
    // The observer speaks up after the next frame only; what was just written is coloured before.
    if (pieces.length <= 4) for (const piece of pieces) this.#near.add(piece);
  }

  #drop(piece) {
    this.#watch.unobserve(piece.element);
    this.#near.delete(piece);
    piece.element.remove();
  }

  #moved(entries) {
    for (const entry of entries) {
      const piece = this.#pieces.get(entry.target);
      if (piece === undefined) continue;
      if (entry.isIntersecting) this.#near.add(piece);
      else if (this.#near.delete(piece)) plain(piece);
    }
    this.#paintNear();
  }

  #paintNear() {
    let offset = 0;
    for (const piece of this.#pieces.values()) {
      if (this.#near.has(piece)) paint(piece, offset, this.#marks);
      offset += piece.text.length;
    }
  }

  /** A line break that ends the text has nothing after it that would give the last line its height. */
  #showEnd() {
    const last = this.#blocks.at(-1)?.text ?? "";
    this.#end.textContent = last === "" || last.endsWith("\n") ? "\u200b" : "";
  }
}

function blockFrom(text) {
  const pieces = piecesOf(text);
  const element = el("div");
  element.append(...pieces.map((piece) => piece.element));
  return { text, element, pieces };
}

function piecesOf(text) {
  return cut(text).map((part) => ({ text: part, painted: null, element: el("span", {}, part) }));
}

function plain(piece) {
  piece.painted = null;
  piece.element.replaceChildren(piece.text);
}

function paint(piece, offset, marks) {
  const end = offset + piece.text.length;
  const first = firstFrom(marks, (mark) => mark.end > offset);
  const count = firstFrom(marks, (mark) => mark.start >= end) - first;
  if (count <= 0) {
    if (piece.painted !== null) plain(piece);
    return;
  }
  const painted = [offset, first, count, marks[first], marks[first + count - 1]];
  if (piece.painted !== null && painted.every((value, i) => value === piece.painted[i])) return;
  piece.painted = painted;
  piece.element.replaceChildren(...coloured(piece.text, offset, marks.slice(first, first + count), first));
}

/** The first box of the characters from `start` to `end` of an element's text. */
function rectIn(element, start, end) {
  const range = document.createRange();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let offset = 0;
  let begun = false;
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const { length } = node.data;
    if (!begun && start < offset + length) {
      range.setStart(node, Math.max(start - offset, 0));
      begun = true;
    }
    if (begun) range.setEnd(node, Math.min(end - offset, length));
    offset += length;
    if (end <= offset) break;
  }
  return begun ? range.getBoundingClientRect() : null;
}
