/**
 * The tree of what was tried: every completion and every text that something was tried on, with ways to go there, name
 * and delete it. Chains stay flush; only where a text goes on in two ways is there a new level.
 */

import { number } from "./alternatives.js";
import { byId, el } from "./dom.js";
import { notice } from "./notice.js";

const SNIPPET = 70;

export class Tree {
  #history;
  #box = byId("tree");
  #naming = null;

  constructor(history) {
    this.#history = history;
  }

  /** Whether nothing may be deleted, as while a completion is written. */
  locked = false;

  /** Draw the tree anew. */
  show() {
    if (this.#naming !== null) return;
    const focused = document.activeElement?.dataset?.node ?? null;
    const roots = this.#history.roots().flatMap((root) => chain(this.#history, root));
    this.#box.replaceChildren(this.#list(roots));
    if (focused !== null) this.#box.querySelector(`[data-node="${CSS.escape(focused)}"]`)?.focus();
  }

  #list(entries) {
    return el("ul", { class: "branch" }, ...entries.map((entry) => this.#entry(entry)));
  }

  #entry({ node, branches }) {
    const isCurrent = node.id === this.#history.current.id;
    const mean = node.run?.mean ?? null;
    const go = el(
      "button",
      {
        type: "button",
        class: "go",
        "aria-current": isCurrent ? "true" : null,
        dataset: { node: node.id },
        on: { click: () => this.#history.go(node.id) },
      },
      el("span", { class: `kind ${node.kind}`, "aria-hidden": "true" }),
      el("span", { class: "sr-only" }, KINDS[node.kind]),
      ...(node.name === "" ? [] : [el("strong", {}, node.name)]),
      el("span", { class: "snippet" }, snippet(this.#history, node)),
      ...(mean === null ? [] : [el("span", { class: "quiet" }, number(mean))]),
    );
    const name = el(
      "button",
      {
        type: "button",
        class: "small",
        "aria-label": `Name: ${label(node)}`,
        on: { click: () => this.#name(node, line) },
      },
      "name",
    );
    const remove = el(
      "button",
      {
        type: "button",
        class: "small",
        disabled: this.locked,
        "aria-label": `Delete: ${label(node)}`,
        on: { click: () => this.#delete(node) },
      },
      "delete",
    );
    const line = el("div", { class: "entry" }, go, el("span", { class: "entry-tools" }, name, remove));
    return el("li", {}, line, ...branches.map((branch) => this.#list(branch)));
  }

  #name(node, line) {
    const input = el("input", { type: "text", value: node.name, "aria-label": "Name of this branch", maxlength: 60 });
    const close = (name) => {
      if (this.#naming === null) return;
      this.#naming = null;
      notice("");
      if (name === null || name === node.name) this.show();
      else this.#history.name(node.id, name);
      this.#box.querySelector(`[data-node="${CSS.escape(node.id)}"]`)?.focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") close(input.value.trim());
      if (event.key === "Escape") close(null);
      event.stopPropagation();
    });
    input.addEventListener("blur", () => close(input.value.trim()));
    this.#naming = node.id;
    line.replaceChildren(input);
    input.focus();
    input.select();
  }

  #delete(node) {
    const below = this.#history.children(node.id).length > 0;
    if (below && !confirm(`Delete "${label(node)}" and everything that follows it?`)) return;
    this.#history.remove(node.id);
    notice(`Deleted "${label(node)}".`, "note", () => this.#history.takeBack());
  }
}

const KINDS = { root: "Beginning: ", edit: "Typed: ", completion: "Completion: ", choice: "Another token: " };

/**
 * A node and what follows it until it forks, as `{node, branches}`: the last entry has the fork's branches, each a list
 * like this one. Of the nodes before the fork only those that matter are there.
 */
export function chain(history, node) {
  const entries = [];
  let at = node;
  let children = history.children(at.id);
  while (children.length === 1) {
    if (isShown(history, at, children[0])) entries.push({ node: at, branches: [] });
    [at] = children;
    children = history.children(at.id);
  }
  return [...entries, { node: at, branches: children.map((child) => chain(history, child)) }];
}

function isShown(history, node, child) {
  return node.run !== null || node.name !== "" || node.id === history.current.id || child.run !== null;
}

/** What a node brought; a text that people typed is told by its end, for that is where it goes on. */
export function snippet(history, node) {
  if (node.kind === "root") return "Empty page";
  if (node.inserted === "") return `${node.removed} characters taken out`;
  if (node.run !== null) return shortened(node.inserted);
  const text = history.text(node.id);
  return text.length > SNIPPET ? `…${shortened(text.slice(-SNIPPET))}` : shortened(text);
}

function label(node) {
  return node.name !== "" ? node.name : shortened(node.inserted) || "empty page";
}

function shortened(text) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > SNIPPET ? `${line.slice(0, SNIPPET - 1)}…` : line;
}
