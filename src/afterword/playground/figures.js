/**
 * Numbers under the editor: how the last answer came about, and how likely the text or the selection is.
 */

import { number } from "./alternatives.js";
import { byId, el } from "./dom.js";
import { coverage, figures, within } from "./marks.js";

/** Show a run's usage, speed and fingerprint; null: nothing ran here. */
export function showRun(run) {
  const facts = run === null ? [] : factsOf(run);
  byId("run-figures").replaceChildren(
    ...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** Show what is known of the text from `start` to `end`, the whole text if they are equal. */
export function showLikelihood(text, marks, selection) {
  byId("likelihood").textContent = likelihoodOf(text, marks, selection);
}

/** What is known of a run, as pairs of name and value. */
export function factsOf({ usage, speed, firstToken, total, reason, fingerprint }) {
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? null;
  const facts = [
    ["Prompt", usage && `${usage.prompt_tokens} tokens${cached === null ? "" : `, ${cached} cached`}`],
    ["Completion", usage && `${usage.completion_tokens} tokens`],
    ["Speed", speed === null ? null : `${speed.toFixed(1)} tokens/s`],
    ["First token", firstToken === null ? null : `${Math.round(firstToken)} ms`],
    ["Total", total === null ? null : `${(total / 1000).toFixed(2)} s`],
    ["Ended by", reason],
    ["Fingerprint", fingerprint],
  ];
  return facts.filter(([, value]) => value !== null && value !== undefined);
}

/** A line on how likely the selection is, or the whole text if nothing is selected; "" if nothing is known of it. */
export function likelihoodOf(text, marks, [start, end]) {
  const isSelection = start < end;
  const [from, to] = isSelection ? [start, end] : [0, text.length];
  const { count, total, perplexity } = figures(within(marks, from, to));
  if (count === 0) return isSelection ? "Selection: not scored" : "";
  const what = isSelection ? "Selection" : "Text";
  const part = coverage(marks, from, to);
  const missing = part < 0.999 ? ` · ${Math.round(part * 100)}% of it scored` : "";
  const length = count === 1 ? "1 token" : `${count} tokens`;
  const sum = `log-probability ${number(total)} · perplexity ${number(perplexity)}`;
  return `${what}: ${length} · ${sum}${missing}`;
}
