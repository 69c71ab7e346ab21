/**
 * A text as elements, its tokens in their colours. Knows no page.
 */

import { el } from "./dom.js";
import { level } from "./marks.js";

/**
 * The nodes of `text`, which begins at `offset` of the text that `marks` stand in: a span for each token with its words
 * in the token's colour, and where no mark is, the text as it is. `first` is the number of the first mark.
 */
export function coloured(text, offset, marks, first = 0) {
  const nodes = [];
  let shown = 0;
  marks.forEach((mark, i) => {
    const start = Math.max(mark.start - offset, shown);
    const end = Math.min(mark.end - offset, text.length);
    if (end <= start) return;
    if (start > shown) nodes.push(text.slice(shown, start));
    nodes.push(token(text.slice(start, end), level(mark.logprob), first + i));
    shown = end;
  });
  if (shown < text.length) nodes.push(text.slice(shown));
  return nodes;
}

function token(text, shade, i) {
  const parts =
    shade === null || shade === 0
      ? [text]
      : parted(text).map(({ word, part }) => (word ? el("span", { class: "word" }, part) : part));
  return el("span", { class: `token level-${shade ?? "none"}`, dataset: { i } }, ...parts);
}

/**
 * A token's words and the white space between, in order. White space has no colour: where a line ends at it, it would
 * be a coloured sliver apart from the token's word.
 */
export function parted(text) {
  const parts = text.match(/\s+|\S+/g) ?? [];
  return parts.map((part) => ({ word: part.trim() !== "", part }));
}
