/**
 * Tabs as the ARIA practices describe them: one stop of the tab key, arrows between.
 */

/** Over the tabs of a list; `opened(id)` is called with the panel that comes to the front. */
export class Tabs {
  #list;
  #tabs;
  #opened;

  constructor(list, opened) {
    this.#list = list;
    this.#tabs = [...list.querySelectorAll("[role=tab]")];
    this.#opened = opened;
    for (const tab of this.#tabs) tab.addEventListener("click", () => this.#select(tab));
    list.addEventListener("keydown", (event) => this.#keyed(event));
  }

  /** Bring the panel with this id to the front. */
  open(panel) {
    this.#select(this.#tabs.find((tab) => tab.getAttribute("aria-controls") === panel));
  }

  #select(tab) {
    for (const one of this.#tabs) {
      const isSelected = one === tab;
      one.setAttribute("aria-selected", String(isSelected));
      one.tabIndex = isSelected ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !isSelected;
    }
    this.#opened(tab.getAttribute("aria-controls"));
    // On narrow screens the panel is below the text.
    this.#list.scrollIntoView({ block: "start" });
  }

  #keyed(event) {
    const at = this.#tabs.indexOf(document.activeElement);
    const last = this.#tabs.length - 1;
    const next = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[
      event.key
    ];
    if (next === undefined) return;
    event.preventDefault();
    this.#select(this.#tabs[next]);
    this.#tabs[next].focus();
  }
}
