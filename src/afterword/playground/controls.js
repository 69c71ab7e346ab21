/**
 * One control for each kind of field. A control is `{element, input, set(value)}`: `set` shows a value, undefined for
 * "not set". Knows nothing of requests.
 */

import { el } from "./dom.js";

/**
 * The maker of each kind: `(id, field, {changed, dropped}) => control`. `changed(value)` is called with what a person
 * made of it; `dropped(work)` does `work`, which takes out a part of it at one click.
 */
export const CONTROLS = { number, slider, switch: toggle, text, lines, texts, numbers, bias };

function number(id, field, { changed }) {
  const input = el("input", {
    id,
    type: "number",
    inputmode: field.type === "integer" ? "numeric" : "decimal",
    step: field.type === "integer" ? 1 : "any",
    placeholder: field.default ?? "none",
    on: { input: () => changed(numberOf(input)) },
  });
  return { element: input, input, set: (value) => (input.value = value ?? "") };
}

function slider(id, field, { changed }) {
  const range = el("input", {
    type: "range",
    min: field.minimum,
    max: field.maximum,
    step: 0.01,
    "aria-label": `${id.replace("field-", "")}, slider`,
    on: {
      input: () => {
        exact.input.value = range.value;
        changed(Number(range.value));
      },
    },
  });
  const place = (value) => (range.value = value ?? field.default ?? 0);
  const exact = number(id, field, {
    changed: (value) => {
      place(value);
      changed(value);
    },
  });
  const set = (value) => {
    place(value);
    exact.set(value);
  };
  return { element: el("div", { class: "slider" }, range, exact.element), input: exact.input, set };
}

function toggle(id, field, { changed }) {
  const input = el("input", { id, type: "checkbox", role: "switch", on: { change: () => changed(valueNow()) } });
  const valueNow = () => (input.checked === field.default ? undefined : input.checked);
  return { element: input, input, set: (value) => (input.checked = value ?? field.default) };
}

function text(id, _field, { changed }) {
  const input = el("input", {
    id,
    type: "text",
    autocomplete: "off",
    placeholder: "none",
    on: { input: () => changed(input.value === "" ? undefined : input.value) },
  });
  return { element: input, input, set: (value) => (input.value = value ?? "") };
}

/** One text of several lines, such as a JSON schema, sent as it is written. */
function lines(id, _field, { changed }) {
  const input = el("textarea", {
    id,
    rows: 3,
    spellcheck: "false",
    placeholder: "none",
    on: { input: () => changed(input.value.trim() === "" ? undefined : input.value) },
  });
  return { element: input, input, set: (value) => (input.value = value ?? "") };
}

/** Several texts, one a line; line breaks within one are written \n. */
function texts(id, _field, { changed }) {
  const input = el("textarea", {
    id,
    rows: 2,
    spellcheck: "false",
    placeholder: "one a line; \\n is a line break",
    on: { input: () => changed(listOf(input.value.split("\n").map(unescaped))) },
  });
  const set = (value) => (input.value = [value ?? []].flat().map(escaped).join("\n"));
  return { element: input, input, set };
}

function numbers(id, _field, { changed }) {
  const input = el("input", {
    id,
    type: "text",
    inputmode: "numeric",
    autocomplete: "off",
    placeholder: "none, or ids such as 2, 17",
    on: { input: () => changed(listOf(input.value.split(/[\s,]+/).map(idOf))) },
  });
  return { element: input, input, set: (value) => (input.value = (value ?? []).join(", ")) };
}

/** Token ids and their biases, a row each. */
function bias(id, _field, { changed, dropped }) {
  const rows = el("div", { class: "bias-rows" });
  const add = el(
    "button",
    { id, type: "button", class: "small", on: { click: () => addRow("", "").focus() } },
    "Add a token id",
  );
  const report = () => {
    const pairs = [...rows.children].map((row) =>
      [...row.querySelectorAll("input")].map((input) => input.value.trim()),
    );
    const given = pairs.filter(([token, value]) => token !== "" && value !== "");
    changed(given.length === 0 ? undefined : Object.fromEntries(given.map(([token, value]) => [token, Number(value)])));
  };
  const addRow = (token, value) => {
    const key = el("input", {
      type: "text",
      inputmode: "numeric",
      value: token,
      "aria-label": "Token id",
      placeholder: "id",
      on: { input: report },
    });
    const weight = el("input", {
      type: "number",
      step: "any",
      value,
      "aria-label": `Bias of token ${token}`,
      placeholder: "-100 to 100",
      on: { input: report },
    });
    const drop = () => {
      dropped(() => {
        row.remove();
        report();
      });
      add.focus();
    };
    const row = el(
      "div",
      { class: "bias-row" },
      key,
      weight,
      el(
        "button",
        { type: "button", class: "small", "aria-label": `Take token ${token} out`, on: { click: drop } },
        "×",
      ),
    );
    rows.append(row);
    return key;
  };
  const set = (value) => {
    rows.replaceChildren();
    for (const [token, weight] of Object.entries(value ?? {})) addRow(token, weight);
  };
  return { element: el("div", { class: "bias" }, rows, add), input: add, set };
}

/** What a number field holds: undefined if nothing, the text itself if it is no number, for the server to say so. */
export function numberOf(input) {
  if (input.value === "") return input.validity.badInput ? "?" : undefined;
  const value = Number(input.value);
  // Beyond these a number is no longer the one that was typed.
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? input.value : value;
}

export function idOf(word) {
  return /^\d+$/.test(word) ? Number(word) : word;
}

export function listOf(values) {
  const given = values.filter((value) => value !== "");
  return given.length === 0 ? undefined : given;
}

export function escaped(value) {
  return value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

export function unescaped(line) {
  const meant = { n: "\n", t: "\t", "\\": "\\" };
  return line.replace(/\\([nt\\])/g, (_whole, letter) => meant[letter]);
}
