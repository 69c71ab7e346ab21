/**
 * Named sets of parameter values: those that come along and those that a person saved in this browser.
 */

import { byId, el } from "./dom.js";
import { notice } from "./notice.js";

/** Presets that come along. */
const OURS = {
  "The page’s own": { max_tokens: 64 },
  "The API’s defaults": {},
  "Most likely text": { max_tokens: 64, temperature: 0 },
  "Four candidates": { max_tokens: 40, n: 4 },
  Calm: { max_tokens: 64, temperature: 0.7, top_p: 0.9 },
  "Min P": { max_tokens: 64, temperature: 1, min_p: 0.1 },
  "Lively: min P, XTC, DRY": {
    max_tokens: 64,
    temperature: 1.2,
    min_p: 0.02,
    temperature_last: true,
    xtc_probability: 0.5,
    dry_multiplier: 0.8,
  },
  "Top n sigma": { max_tokens: 64, temperature: 1.5, top_n_sigma: 1 },
  Typical: { max_tokens: 64, typical_p: 0.9 },
  Mirostat: { max_tokens: 64, mirostat: 2, mirostat_tau: 5, mirostat_eta: 0.1 },
  "Adaptive P": { max_tokens: 64, min_p: 0.05, adaptive_target: 0.5 },
  "Four beams": { max_tokens: 40, num_beams: 4, n: 4 },
};

/** Values that writers know by these names, from text-generation-webui and SillyTavern. */
const KNOWN = {
  "simple-1": { max_tokens: 64, temperature: 0.7, top_p: 0.9, top_k: 20, repetition_penalty: 1.15 },
  "LLaMA-Precise": { max_tokens: 64, temperature: 0.7, top_p: 0.1, top_k: 40, repetition_penalty: 1.18 },
  "Midnight Enigma": { max_tokens: 64, temperature: 0.98, top_p: 0.37, top_k: 100, repetition_penalty: 1.18 },
  "Big O": {
    max_tokens: 64,
    temperature: 0.87,
    top_p: 0.99,
    top_k: 85,
    typical_p: 0.68,
    tfs: 0.68,
    repetition_penalty: 1.01,
  },
  Shortwave: { max_tokens: 64, temperature: 1.53, top_p: 0.64, top_k: 33, top_a: 0.04, repetition_penalty: 1.07 },
  "TFS with Top A": { max_tokens: 64, temperature: 0.7, tfs: 0.95, top_a: 0.2, repetition_penalty: 1.15 },
  "NovelAI (Storywriter)": {
    max_tokens: 64,
    temperature: 0.72,
    top_p: 0.73,
    repetition_penalty: 1.1,
    temperature_last: true,
  },
  "Universal-Light": { max_tokens: 64, temperature: 1.25, min_p: 0.1 },
  "Universal-Creative": { max_tokens: 64, temperature: 1.5, min_p: 0.1 },
};

export const PRESETS = { ...OURS, ...KNOWN };

export const FIRST_PRESET = "The page’s own";

export class Presets {
  #parameters;
  #settings;
  #list = byId("preset");
  #name = byId("preset-name");
  #remove = byId("preset-delete");

  constructor(parameters, settings) {
    this.#parameters = parameters;
    this.#settings = settings;
    this.#list.addEventListener("change", () => this.#apply());
    this.#remove.addEventListener("click", () => this.#delete());
    byId("preset-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save(this.#name.value.trim());
    });
    parameters.addEventListener("change", () => this.#match());
    this.#show();
  }

  get #saved() {
    return this.#settings.get("presets", {});
  }

  get #all() {
    return { ...PRESETS, ...this.#saved };
  }

  #apply() {
    const name = this.#list.value;
    const { values: before } = this.#parameters;
    const isLost = nameOf(this.#all, before) === null;
    if (this.#all[name] === undefined) return;
    this.#parameters.replace(this.#all[name]);
    if (isLost) notice(`The parameters are those of "${name}" now.`, "note", () => this.#parameters.replace(before));
  }

  #save(name) {
    if (name === "") return;
    const before = this.#saved;
    this.#keep({ ...before, [name]: this.#parameters.values });
    this.#name.value = "";
    this.#list.value = name;
    this.#remove.disabled = false;
    if (name in before) notice(`The preset "${name}" has new values.`, "note", () => this.#keep(before));
  }

  #delete() {
    const name = this.#list.value;
    const before = this.#saved;
    const { [name]: _gone, ...others } = before;
    this.#keep(others);
    notice(`The preset "${name}" is deleted.`, "note", () => this.#keep(before));
  }

  #keep(presets) {
    this.#settings.set("presets", presets);
    this.#show();
  }

  #show() {
    const own = Object.keys(this.#saved);
    this.#list.replaceChildren(
      el("option", { value: "" }, "As set below"),
      groupOf("Come along", OURS, own),
      groupOf("Known to writers", KNOWN, own),
      ...(own.length === 0 ? [] : [el("optgroup", { label: "Yours" }, ...own.map((name) => el("option", {}, name)))]),
    );
    this.#match();
  }

  /** Name the preset that the values are, if they are one. */
  #match() {
    this.#list.value = nameOf(this.#all, this.#parameters.values) ?? "";
    this.#remove.disabled = this.#saved[this.#list.value] === undefined;
  }
}

/** The presets that a person has not saved over. */
function groupOf(label, presets, own) {
  const names = Object.keys(presets).filter((name) => !own.includes(name));
  return el("optgroup", { label }, ...names.map((name) => el("option", {}, name)));
}

/** The name of the preset with these values, in whatever order they were set; null if there is none. */
export function nameOf(presets, values) {
  const wanted = canonical(values);
  return Object.keys(presets).find((name) => canonical(presets[name]) === wanted) ?? null;
}

function canonical(values) {
  return JSON.stringify(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1)));
}
