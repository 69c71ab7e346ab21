/**
 * The request that Complete would send, as code in three languages, with a button to copy it.
 */

import { copy } from "./clipboard.js";
import { byId } from "./dom.js";
import { curl, node, python } from "./snippets.js";

const LANGUAGES = { curl, python, node };

export class CodeView {
  #shown = byId("code-text");
  #copy = byId("code-copy");
  #fields;
  #body = {};
  #hasKey = false;

  /** `fields` is what the server says of each field. */
  constructor(fields) {
    this.#fields = fields;
    for (const choice of document.querySelectorAll("input[name=language]"))
      choice.addEventListener("change", () => this.#draw());
    this.#copy.addEventListener("click", () => copy(this.#shown.textContent, this.#copy));
  }

  /** Show another request; `hasKey` says whether calls carry one. */
  show(body, hasKey) {
    this.#body = body;
    this.#hasKey = hasKey;
    this.#draw();
  }

  #draw() {
    const language = document.querySelector("input[name=language]:checked").value;
    const base = new URL("v1", document.baseURI).href;
    this.#shown.textContent = LANGUAGES[language](this.#body, base, this.#hasKey, this.#fields);
  }
}
