/**
 * From what is in the editor and the form to the request that is sent. Pure; knows no page.
 */

/** Where the model is asked to write, as people type it. */
export const INSERT_MARK = "[insert]";

const DEFAULT_TOP = 5;

/**
 * What completing would do: `{at, removed, body, note}`: the text goes to `at` in place of `removed` characters.
 * `note` is a sentence on what was left out, null if nothing was. `draft` is `{text, caret, place, model, params,
 * colours, canFill}`; `place` is cursor or end, `params` the fields that are set, `colours` whether probabilities show.
 * A mark without a model that can fill it gives `{refusal: {param, message}}`.
 */
export function completion(draft) {
  const { text, canFill, model } = draft;
  const mark = text.indexOf(INSERT_MARK);
  if (mark >= 0 && !canFill) {
    const why = `${model} has no infill tokens, so it cannot write at ${INSERT_MARK}.`;
    return { refusal: { param: "suffix", message: `${why} Take the mark out, or choose a model that can.` } };
  }
  const at = mark >= 0 ? mark : placeOf(draft);
  const removed = mark >= 0 ? INSERT_MARK.length : 0;
  const after = text.slice(at + removed);
  const hasAfter = after.trim() !== "";
  const suffix = hasAfter && canFill ? after : null;
  const note = hasAfter && !canFill ? `${model} has no infill tokens: it did not see the text after the cursor.` : null;
  return { at, removed, body: requestBody(draft, text.slice(0, at), suffix), note };
}

/** The same for going on after `prompt`, whatever the cursor is at. */
export function continuation(draft, prompt) {
  return requestBody(draft, prompt, null);
}

/** A request that only scores `text`. */
export function scoring({ text, model, params }) {
  const kept = ["add_special_tokens", "truncate_prompt_tokens"].filter((name) => params[name] !== undefined);
  return {
    model,
    prompt: text,
    max_tokens: 0,
    echo: true,
    logprobs: params.logprobs ?? DEFAULT_TOP,
    ...Object.fromEntries(kept.map((name) => [name, params[name]])),
  };
}

function placeOf({ text, caret, place }) {
  return place === "end" ? text.length : caret;
}

function requestBody({ model, params, colours }, prompt, suffix) {
  const body = { model, prompt, ...(suffix === null ? {} : { suffix }), ...params };
  const n = params.n ?? 1;
  if (colours) body.logprobs = params.logprobs ?? DEFAULT_TOP;
  // Candidates are shown with their mean, which takes each token's own value.
  else if (params.logprobs === undefined && (n > 1 || (params.best_of ?? 1) > 1)) body.logprobs = 0;
  // Where the best are chosen, everything comes at the end.
  const chooses = (params.best_of ?? n) > n || params.use_beam_search === true || (params.num_beams ?? 1) > 1;
  if (!chooses) {
    body.stream = true;
    body.stream_options = { include_usage: true, include_obfuscation: false };
  }
  return body;
}
