/**
 * The card that says how likely a token was and what else could have stood there. Opens under the token by mouse or
 * caret; its bars are buttons that put another token in its place.
 */

import { byId, el, spoken, visible } from "./dom.js";

/** Milliseconds that the mouse may be outside before the card goes: enough to get into it. */
const DELAY = 250;

const GAP = 6;

export class Alternatives extends EventTarget {
  #card = byId("alternatives");
  #mark = null;
  #timer = null;

  /** Fires `choose` with the mark and the alternative's name, and `leave` when it is closed from the keyboard. */
  constructor() {
    super();
    this.#card.addEventListener("pointerenter", () => clearTimeout(this.#timer));
    this.#card.addEventListener("pointerleave", () => this.hideSoon());
    this.#card.addEventListener("keydown", (event) => this.#keyed(event));
  }

  /** The mark shown, null if the card is closed. */
  get mark() {
    return this.#mark;
  }

  /** Show what is known of a mark under `rect`. */
  show(mark, rect) {
    clearTimeout(this.#timer);
    if (rect === null) return;
    if (mark !== this.#mark) {
      this.#mark = mark;
      this.#card.replaceChildren(...this.#content(mark));
    }
    this.#card.hidden = false;
    const { width, height } = this.#card.getBoundingClientRect();
    const below = rect.bottom + GAP;
    const top = below + height > innerHeight ? rect.top - height - GAP : below;
    this.#card.style.left = `${Math.max(GAP, Math.min(rect.left, innerWidth - width - GAP))}px`;
    this.#card.style.top = `${Math.max(GAP, Math.min(top, innerHeight - height - GAP))}px`;
  }

  /** Move the keyboard into the card. */
  focus() {
    this.#buttons()[0]?.focus();
  }

  hide() {
    clearTimeout(this.#timer);
    this.#mark = null;
    this.#card.hidden = true;
  }

  /** Close the card unless the mouse gets into it, or the keyboard is. */
  hideSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (!this.#card.contains(document.activeElement)) this.hide();
    }, DELAY);
  }

  #content(mark) {
    const head = el(
      "p",
      { class: "alternatives-head" },
      el("span", { class: "sr-only" }, `Token ${spoken(mark.name)}: `),
      el("code", { "aria-hidden": "true" }, visible(mark.name)),
      el("span", {}, mark.logprob === null ? "nothing precedes it" : percent(mark.logprob)),
      mark.logprob === null ? null : el("span", { class: "quiet" }, `log-probability ${number(mark.logprob)}`),
    );
    if (mark.top === null || mark.top.length === 0) {
      return [
        head,
        el(
          "p",
          { class: "quiet" },
          mark.logprob === null ? "The first token has no probability." : "No alternatives were asked for.",
        ),
      ];
    }
    const rest = 1 - mark.top.reduce((sum, [, logprob]) => sum + Math.exp(logprob), 0);
    return [
      head,
      el("ol", { class: "bars" }, ...mark.top.map(([name, logprob]) => el("li", {}, this.#bar(mark, name, logprob)))),
      rest > 0.0005 ? el("p", { class: "quiet" }, `All other tokens: ${percent(Math.log(rest))}`) : null,
      el("p", { class: "quiet" }, "Choose one to put it there and go on from it."),
    ].filter((part) => part !== null);
  }

  #bar(mark, name, logprob) {
    const isShown = name === mark.name;
    const choose = () => this.dispatchEvent(new CustomEvent("choose", { detail: { mark, name } }));
    const bar = el("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${(Math.exp(logprob) * 100).toFixed(2)}%`;
    return el(
      "button",
      {
        type: "button",
        "aria-label": `${spoken(name)}, ${percent(logprob)}${isShown ? ", in the text" : ""}`,
        "aria-current": isShown ? "true" : null,
        on: { click: choose },
      },
      bar,
      el("code", {}, visible(name)),
      el("span", { class: "share" }, percent(logprob)),
    );
  }

  #buttons() {
    return [...this.#card.querySelectorAll("button")];
  }

  #keyed(event) {
    const buttons = this.#buttons();
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "ArrowDown") buttons[(at + 1) % buttons.length].focus();
    else if (event.key === "ArrowUp") buttons[(at - 1 + buttons.length) % buttons.length].focus();
    else if (event.key === "Escape") {
      this.hide();
      this.dispatchEvent(new Event("leave"));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** A log-probability as a percentage with as many digits as it needs. */
export function percent(logprob) {
  const value = Math.exp(logprob) * 100;
  if (value >= 99.95) return "100%";
  if (value >= 10) return `${value.toFixed(1)}%`;
  return value >= 0.01 ? `${value.toFixed(2)}%` : "< 0.01%";
}

/** A number with a real minus and two decimals. */
export function number(value) {
  return value.toFixed(2).replace("-", "\u2212");
}
