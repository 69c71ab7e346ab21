/**
 * The form of a request's fields: what is set, what each means, what the server said about one. Knows no request.
 */

import { CONTROLS } from "./controls.js";
import { byId, el } from "./dom.js";
import { notice } from "./notice.js";
import { FIRST_PRESET, PRESETS } from "./presets.js";

export class Parameters extends EventTarget {
  #settings;
  #rows = new Map();
  #values;

  /** `groups` and `fields` are what the server says of the form and of each field. Fires `change` when a value does. */
  constructor({ groups, fields }, settings) {
    super();
    this.#settings = settings;
    this.#values = settings.get("params", PRESETS[FIRST_PRESET]);
    byId("parameters").append(...groups.map((group) => this.#group(group, fields)), setByPage(fields));
    this.#show();
  }

  /** The fields that are set, ready for a request. */
  get values() {
    return this.#values;
  }

  /** Set the values of all fields at once. */
  replace(values) {
    this.#values = { ...values };
    this.#show();
    this.#keep();
  }

  /** Set one field; undefined leaves it to its default. */
  setOne(name, value) {
    this.replace({ ...this.#values, [name]: value });
  }

  /** Do what drops a value or a part of it at one click, and offer to take it back. */
  #drop(name, work) {
    const before = this.#values;
    work();
    notice(`${name} has changed.`, "note", () => this.replace(before));
  }

  /** Whether the form has a field of this name. */
  has(name) {
    return this.#rows.has(name);
  }

  /** Show what the server said beside the field it is about, and go there. */
  complain(name, message) {
    const { control, complaint, row } = this.#rows.get(name);
    complaint.textContent = message;
    complaint.hidden = false;
    row.closest("details").open = true;
    row.classList.add("wrong");
    control.input.setAttribute("aria-invalid", "true");
    control.input.focus();
    complaint.scrollIntoView({ block: "nearest" });
  }

  /** Take back everything that the server said. */
  clearComplaints() {
    for (const { control, complaint, row } of this.#rows.values()) {
      complaint.hidden = true;
      row.classList.remove("wrong");
      control.input.removeAttribute("aria-invalid");
    }
  }

  #group({ title, fields: names, open }, fields) {
    const rows = names.map((name) => this.#row(name, fields[name]));
    return el("details", { open, class: "group" }, el("summary", {}, title), ...rows);
  }

  #row(name, field) {
    const id = `field-${name}`;
    const control = CONTROLS[field.control](id, field, {
      changed: (value) => this.#changed(name, value),
      dropped: (work) => this.#drop(name, work),
    });
    const reset = el(
      "button",
      {
        type: "button",
        class: "reset",
        "aria-label": `Reset ${name}`,
        on: { click: () => this.#drop(name, () => this.setOne(name, undefined)) },
      },
      "reset",
    );
    const complaint = el("p", { id: `${id}-complaint`, class: "complaint", hidden: true });
    control.input.setAttribute("aria-describedby", `${id}-about ${id}-complaint`);
    const row = el(
      "div",
      { class: `field ${field.control}` },
      el("label", { for: id }, name),
      reset,
      control.element,
      el("p", { id: `${id}-about`, class: "about" }, about(field)),
      complaint,
    );
    this.#rows.set(name, { control, complaint, row, reset });
    return row;
  }

  #changed(name, value) {
    this.#values = { ...this.#values, [name]: value };
    this.#showSet();
    this.#keep();
  }

  #keep() {
    for (const [name, value] of Object.entries(this.#values)) if (value === undefined) delete this.#values[name];
    this.clearComplaints();
    this.#settings.set("params", this.#values);
    this.dispatchEvent(new Event("change"));
  }

  #show() {
    for (const [name, { control, row }] of this.#rows) {
      control.set(this.#values[name]);
      if (this.#values[name] !== undefined) row.closest("details").open = true;
    }
    this.#showSet();
  }

  #showSet() {
    for (const [name, { row, reset }] of this.#rows) {
      const isSet = this.#values[name] !== undefined;
      row.classList.toggle("set", isSet);
      reset.hidden = !isSet;
    }
  }
}

/** One line: what the field does, its range, its default. */
function about({ description, minimum, maximum, exclusiveMinimum, default: otherwise }) {
  const from = exclusiveMinimum === undefined ? minimum : `above ${exclusiveMinimum}`;
  let range = "";
  if (from !== undefined && maximum !== undefined && Math.abs(maximum) < 1e15) range = ` ${from} to ${maximum}.`;
  else if (exclusiveMinimum !== undefined) range = ` Above ${exclusiveMinimum}.`;
  else if (minimum !== undefined && Math.abs(minimum) < 1e15) range = ` ${minimum} or more.`;
  const shown = Array.isArray(otherwise) ? otherwise.map((item) => JSON.stringify(item)).join(", ") : otherwise;
  return `${description}${range} Default: ${shown === "" ? "none" : (shown ?? "none")}.`;
}

function setByPage(fields) {
  const rows = Object.entries(fields)
    .filter(([, field]) => field.by_page !== undefined)
    .map(([name, { description, by_page }]) =>
      el(
        "div",
        { class: "field plain" },
        el("span", { class: "name" }, name),
        el("p", { class: "about" }, `${description} ${by_page}`),
      ),
    );
  return el("details", { class: "group" }, el("summary", {}, "Set by the page"), ...rows);
}
