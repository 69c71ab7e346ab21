/**
 * How the text is cut into tokens: ids, spelling, the count against the context. Asks the server after each pause in
 * typing, with spelling only while somebody looks. Clicking a token puts it into `logit_bias`.
 */

import { copy } from "./clipboard.js";
import { byId, debounced, el, spoken, visible } from "./dom.js";

const PAUSE = 250;

/** Tokens of a group: what is made at once when it comes into view. */
const GROUP = 200;

export class TokenView extends EventTarget {
  #api;
  #list = byId("tokens");
  #count = byId("count");
  #abort = new AbortController();
  #tokens = [];
  #names = [];
  #watch = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: "400px" });
  #ask = debounced((question) => this.#asked(question), PAUSE);
  #isOpen = false;
  #question = null;
  #bias = {};

  /** Fires `pick` with the id and name of a token that was clicked, and `problem` with an `ApiError`. */
  constructor(api) {
    super();
    this.#api = api;
    byId("copy-tokens").addEventListener("click", () => this.#copy());
    this.#list.addEventListener("keydown", (event) => this.#keyed(event));
  }

  /** The text changed, or what it is asked of: `{model, text, withBos, maxTokens}`. */
  changed(question) {
    this.#question = question;
    this.#ask(question);
  }

  /** Whether somebody looks at the tokens. */
  set open(open) {
    this.#isOpen = open;
    if (open && this.#question !== null) this.#ask(this.#question);
  }

  /** Token ids that have a bias now, as keys. */
  set bias(bias) {
    this.#bias = bias;
    for (const chip of this.#list.querySelectorAll("button")) markBiased(chip, bias);
  }

  async #asked({ model, text, withBos, maxTokens }) {
    this.#abort.abort();
    this.#abort = new AbortController();
    const options = { spelled: this.#isOpen, withBos, signal: this.#abort.signal };
    let answer;
    try {
      answer = await this.#api.tokenize(model, text, options);
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("problem", { detail: error }));
      return;
    }
    this.#tokens = answer.tokens;
    this.#showCount(answer.count, answer.max_model_len, maxTokens);
    if (answer.token_strs !== null) this.#show(answer.token_strs);
  }

  #showCount(count, limit, maxTokens) {
    const isOver = count + maxTokens > limit;
    this.#count.textContent = `${count.toLocaleString("en")} of ${limit.toLocaleString("en")} tokens`;
    this.#count.classList.toggle("over", isOver);
    this.#count.title = isOver
      ? `With max_tokens ${maxTokens} the text does not fit: ${count + maxTokens - limit} tokens too many.`
      : "";
    byId("token-summary").textContent = isOver
      ? `${count} tokens and max_tokens ${maxTokens}: ${count + maxTokens - limit} more than the context's ${limit}.`
      : `${count} tokens; room for ${limit - count} more.`;
  }

  #show(names) {
    this.#names = names;
    this.#watch.disconnect();
    const groups = [];
    for (let at = 0; at < names.length; at += GROUP)
      groups.push(el("div", { class: "token-group", role: "presentation", dataset: { at } }));
    this.#list.replaceChildren(...groups);
    for (const group of groups) this.#watch.observe(group);
  }

  #seen(entries) {
    for (const { isIntersecting, target } of entries) {
      const at = Number(target.dataset.at);
      if (!isIntersecting || target.firstChild !== null) continue;
      this.#watch.unobserve(target);
      target.append(...this.#names.slice(at, at + GROUP).map((name, i) => this.#chip(at + i, name)));
    }
  }

  #chip(i, name) {
    const id = this.#tokens[i];
    const chip = el(
      "button",
      {
        type: "button",
        class: "chip",
        dataset: { id },
        tabindex: i === 0 ? 0 : -1,
        "aria-label": `${spoken(name)}, id ${id}`,
        title: `Token ${i + 1}: id ${id}. Click to bias it.`,
        on: { click: () => this.dispatchEvent(new CustomEvent("pick", { detail: { id, name } })) },
      },
      el("code", {}, visible(name)),
      el("span", { class: "id" }, String(id)),
    );
    markBiased(chip, this.#bias);
    return chip;
  }

  /** One stop of the tab key; arrows move within. */
  #keyed(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const chips = [...this.#list.querySelectorAll("button")];
    const next = chips[chips.indexOf(document.activeElement) + step];
    if (next === undefined) return;
    event.preventDefault();
    document.activeElement.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  #copy() {
    copy(JSON.stringify(this.#tokens), byId("copy-tokens"));
  }
}

function markBiased(chip, bias) {
  const isBiased = bias[chip.dataset.id] !== undefined;
  chip.classList.toggle("biased", isBiased);
  chip.setAttribute("aria-pressed", String(isBiased));
}
