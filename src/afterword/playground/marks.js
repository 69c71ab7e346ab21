/**
 * Marks: which token stands where in a text and how likely the model found it. Pure; knows no page.
 *
 * A mark is `{start, end, name, logprob, top}`: UTF-16 positions, the token as the API spells it, its natural
 * log-probability (null where nothing precedes it), and the likeliest tokens there as `[name, logprob]` pairs,
 * likeliest first, or null. Marks are sorted and never overlap. A token that adds no whole character has
 * `start === end`.
 */

/** Probabilities at which the colour changes, likeliest first; a mark's level is the number of them it falls below. */
export const LEVELS = [0.5, 0.2, 0.05, 0.01, 0.001];

/** From 0 (expected) to 5 (nearly impossible); null where there is no probability. */
export function level(logprob) {
  if (logprob === null) return null;
  const probability = Math.exp(logprob);
  return LEVELS.filter((limit) => probability < limit).length;
}

/**
 * Marks of a `logprobs` object whose tokens stand in `text`, which begins at offset `base` (code points of the object's
 * own count). Tokens the text does not reach have no place in it and stand at its end.
 */
export function marksOf(logprobs, text, base) {
  const place = placer(text);
  const { tokens, token_logprobs: values, top_logprobs: tops, text_offset: offsets } = logprobs;
  return tokens.map((name, i) => ({
    start: place(offsets[i] - base),
    end: i + 1 < tokens.length ? place(offsets[i + 1] - base) : text.length,
    name,
    logprob: values[i],
    top: tops === null || tops[i] === null ? null : Object.entries(tops[i]).sort((a, b) => b[1] - a[1]),
  }));
}

/** `marks` of the first tokens of a `logprobs` object, and those of the tokens that came since. See `marksOf`. */
export function extended(marks, logprobs, text, base) {
  // The last one ended where the text did; now it ends where the next one begins.
  const from = Math.max(marks.length - 1, 0);
  const since = Object.fromEntries(Object.entries(logprobs).map(([name, values]) => [name, values.slice(from)]));
  return [...marks.slice(0, from), ...marksOf(since, text, base)];
}

/** Marks moved by `by` positions. */
export function shifted(marks, by) {
  return by === 0 ? marks : marks.map((mark) => ({ ...mark, start: mark.start + by, end: mark.end + by }));
}

/** The marks that still hold after a change at `at`: whatever comes later was said about another text. */
export function before(marks, at) {
  return marks.slice(
    0,
    firstFrom(marks, (mark) => mark.end > at || mark.start >= at),
  );
}

/** The mark whose text holds position `at`, else the one that ends there, else null. */
export function markAt(marks, at) {
  const next = marks[firstFrom(marks, (mark) => mark.end > at)];
  if (next !== undefined && next.start <= at) return next;
  const last = marks[firstFrom(marks, (mark) => mark.end > at) - 1];
  return last !== undefined && last.end === at && last.start < last.end ? last : null;
}

/** The marks that touch the range from `start` to `end`. */
export function within(marks, start, end) {
  return marks.slice(
    firstFrom(marks, (mark) => mark.end > start),
    firstFrom(marks, (mark) => mark.start >= end),
  );
}

/** Where the run of marks that `mark` belongs to ends: the last of those that follow it without a gap. */
export function endOfRun(marks, mark) {
  let i = marks.indexOf(mark);
  while (i + 1 < marks.length && marks[i + 1].start === marks[i].end) i += 1;
  return marks[i].end;
}

/** Count, sum of log-probabilities, and perplexity of the marks that have one; perplexity is null for none. */
export function figures(marks) {
  const values = marks.map((mark) => mark.logprob).filter((value) => value !== null);
  const total = values.reduce((sum, value) => sum + value, 0);
  const mean = values.length === 0 ? null : total / values.length;
  return { count: values.length, total, mean, perplexity: mean === null ? null : Math.exp(-mean) };
}

/** How much of the range from `start` to `end` the marks cover, from 0 to 1. */
export function coverage(marks, start, end) {
  const covered = within(marks, start, end).reduce(
    (sum, mark) => sum + Math.min(mark.end, end) - Math.max(mark.start, start),
    0,
  );
  return end === start ? 0 : covered / (end - start);
}

/** The first index for which `test` holds, given that it holds for all after it; the length if for none. */
export function firstFrom(items, test) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(items[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** From a count of code points, asked in rising order, to a UTF-16 position of `text`. */
function placer(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (points) => Math.min(Math.max(points, 0), text.length);
  let points = 0;
  let position = 0;
  return (wanted) => {
    while (points < wanted && position < text.length) {
      position += text.codePointAt(position) > 0xffff ? 2 : 1;
      points += 1;
    }
    return position;
  };
}
