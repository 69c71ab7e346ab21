/**
 * The tree as a file: out by a download, in by a file that a person chooses.
 */

import { byId, el } from "./dom.js";

export class TreeFile extends EventTarget {
  #history;

  /** Fires `problem` with a sentence when a file cannot be read. */
  constructor(history) {
    super();
    this.#history = history;
    const file = byId("import-file");
    byId("export").addEventListener("click", () => this.#save());
    byId("import").addEventListener("click", () => file.click());
    file.addEventListener("change", () => this.#read(file));
  }

  #save() {
    const url = URL.createObjectURL(new Blob([this.#history.export()], { type: "application/json" }));
    const day = new Date().toISOString().slice(0, 10);
    el("a", { href: url, download: `afterword-tree-${day}.json` }).click();
    // The download has its own hold of the file by then.
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  async #read(file) {
    const [chosen] = file.files;
    if (chosen === undefined) return;
    try {
      this.#history.import(await chosen.text());
    } catch (error) {
      this.dispatchEvent(new CustomEvent("problem", { detail: error.message }));
    }
    file.value = "";
  }
}
