/**
 * Which field of a request stands where in the form, and what kind of control it gets. What a field means, its range
 * and its default come from the server.
 */

/** Groups in the order of the form. A control is one of those that `controls.js` makes. */
export const GROUPS = [
  {
    title: "Length and choices",
    fields: { max_tokens: "number", n: "number", best_of: "number", stop: "texts", min_tokens: "number" },
  },
  {
    title: "Sampling",
    fields: { temperature: "slider", top_p: "slider", top_k: "number", min_p: "slider", seed: "number" },
  },
  {
    title: "Repetition",
    fields: { frequency_penalty: "slider", presence_penalty: "slider", repetition_penalty: "number" },
  },
  { title: "Single tokens", fields: { logit_bias: "bias", stop_token_ids: "numbers", ignore_eos: "switch" } },
  { title: "Probabilities", fields: { logprobs: "number" } },
  {
    title: "Prompt and text",
    fields: {
      add_special_tokens: "switch",
      truncate_prompt_tokens: "number",
      skip_special_tokens: "switch",
      include_stop_str_in_output: "switch",
      user: "text",
    },
  },
];

/** Fields that the page sets by itself, and how. */
export const SET_BY_PAGE = {
  model: "Chosen at the top of the page.",
  prompt: "The text before the place where the model writes.",
  suffix: "The text after it, if the model can fill gaps.",
  stream: "On, unless best_of is above n.",
  stream_options: "Asks for the token counts.",
  echo: "On when the text is scored.",
  prompt_logprobs: "Not needed: scoring uses echo.",
  return_tokens_as_token_ids: "Off: the page shows text.",
};

/** Presets that come along. */
export const PRESETS = {
  "The page’s own": { max_tokens: 64 },
  "The API’s defaults": {},
  "Most likely text": { max_tokens: 64, temperature: 0 },
  "Four candidates": { max_tokens: 40, n: 4 },
  Calm: { max_tokens: 64, temperature: 0.7, top_p: 0.9 },
};

export const FIRST_PRESET = "The page’s own";
