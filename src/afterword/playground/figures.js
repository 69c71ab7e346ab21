/**
 * Numbers under the editor: how the last answer came about, and how likely the text or the selection is.
 */

import { number } from "./alternatives.js";
import { byId, el } from "./dom.js";
import { coverage, figures, within } from "./marks.js";

/** Show a run's usage, speed and fingerprint; null: nothing ran here. */
export function showRun(run) {
  const box = byId("run-figures");
  if (run === null) {
    box.replaceChildren();
    return;
  }
  const { usage } = run;
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? null;
  const facts = [
    ["Prompt", usage && `${usage.prompt_tokens} tokens${cached === null ? "" : `, ${cached} cached`}`],
    ["Completion", usage && `${usage.completion_tokens} tokens`],
    ["Speed", run.speed === null ? null : `${run.speed.toFixed(1)} tokens/s`],
    ["First token", run.firstToken === null ? null : `${Math.round(run.firstToken)} ms`],
    ["Total", run.total === null ? null : `${(run.total / 1000).toFixed(2)} s`],
    ["Ended by", run.reason],
    ["Fingerprint", run.fingerprint],
  ];
  const shown = facts.filter(([, value]) => value !== null && value !== undefined);
  box.replaceChildren(...shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** Show what is known of the text from `start` to `end`, the whole text if they are equal. */
export function showLikelihood(text, marks, [start, end]) {
  const box = byId("likelihood");
  const isSelection = start < end;
  const [from, to] = isSelection ? [start, end] : [0, text.length];
  const { count, total, perplexity } = figures(within(marks, from, to));
  const what = isSelection ? "Selection" : "Text";
  if (count === 0) {
    box.textContent = isSelection ? "Selection: not scored" : "";
    return;
  }
  const part = coverage(marks, from, to);
  const missing = part < 0.999 ? ` · ${Math.round(part * 100)}% of it scored` : "";
  const length = count === 1 ? "1 token" : `${count} tokens`;
  const sum = `log-probability ${number(total)} · perplexity ${number(perplexity)}`;
  box.textContent = `${what}: ${length} · ${sum}${missing}`;
}
