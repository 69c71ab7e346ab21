/**
 * The completions that share one place in the text, side by side. Picking one shows it in the editor.
 */

import { number } from "./alternatives.js";
import { coloured } from "./colours.js";
import { byId, el } from "./dom.js";
import { reveal } from "./view.js";

/** Tokens of a card that are coloured; beyond them its text is plain. */
const COLOURED = 400;

/** Pixels kept free around a card that is scrolled to. */
const GAP = 8;

export class Candidates {
  #history;
  #section = byId("candidates");
  #list = byId("candidate-list");
  #cards = new Map();

  constructor(history) {
    this.#history = history;
  }

  /** Bring the cards up to the history. */
  show() {
    const nodes = this.#history.siblings();
    this.#section.hidden = nodes.length < 2;
    if (nodes.length < 2) {
      this.#list.replaceChildren();
      this.#cards.clear();
      return;
    }
    const best = nodes.reduce((a, b) => ((b.run.mean ?? -Infinity) > (a.run.mean ?? -Infinity) ? b : a));
    const cards = nodes.map((node, i) => this.#card(node, i + 1, node === best && best.run.mean !== null));
    const known = [...this.#list.children];
    if (cards.length !== known.length || cards.some((card, i) => card !== known[i]))
      this.#list.replaceChildren(...cards);
    byId("candidate-count").textContent = `${nodes.length} candidates`;
  }

  /** Scroll to the first card, where the page is so narrow that the cards are below the text. */
  reveal() {
    const [first] = this.#list.children;
    if (first !== undefined) reveal(first.getBoundingClientRect(), document.documentElement, GAP);
  }

  #card(node, place, isBest) {
    let card = this.#cards.get(node.id);
    if (card === undefined) {
      const pick = el("button", { type: "button", class: "pick", on: { click: () => this.#history.go(node.id) } });
      card = {
        element: el("li", { class: "card" }),
        pick,
        head: el("p", { class: "card-head" }),
        text: el("p", { class: "card-text", dir: "auto" }),
        node: null,
      };
      card.element.append(card.head, card.text, pick);
      this.#cards.set(node.id, card);
    }
    const isCurrent = node.id === this.#history.current.id;
    card.element.classList.toggle("current", isCurrent);
    card.pick.textContent = isCurrent ? "In the text" : "Use this one";
    card.pick.setAttribute("aria-pressed", String(isCurrent));
    card.pick.setAttribute("aria-label", `Candidate ${place}: ${isCurrent ? "in the text" : "use this one"}`);
    if (card.node !== node) {
      card.node = node;
      card.text.replaceChildren(...coloured(node.inserted, 0, node.marks.slice(0, COLOURED)));
    }
    const mean = node.run.mean === null ? "no probabilities" : `mean log-probability ${number(node.run.mean)}`;
    card.head.replaceChildren(
      el("strong", {}, `${place}`),
      el("span", {}, mean),
      el("span", { class: "quiet" }, node.run.reason ?? "…"),
      ...(isBest ? [el("span", { class: "badge" }, "likeliest")] : []),
    );
    return card.element;
  }
}
