/**
 * Puts the page together: what is kept, what is shown, and which part tells which.
 */

import { Api } from "./api.js";
import { Candidates } from "./candidates.js";
import { CodeView } from "./codeview.js";
import { byId, debounced, el } from "./dom.js";
import { Editor } from "./editor.js";
import { showLikelihood, showRun } from "./figures.js";
import { History } from "./history.js";
import { announce, complain, notice } from "./notice.js";
import { Parameters } from "./parameters.js";
import { Pointer } from "./pointer.js";
import { Presets } from "./presets.js";
import { Recorder } from "./recorder.js";
import { completion } from "./request.js";
import { listen, listShortcuts } from "./shortcuts.js";
import { Settings, TreeStore } from "./storage.js";
import { Tabs } from "./tabs.js";
import { TokenView } from "./tokenview.js";
import { Tree } from "./tree.js";
import { TreeFile } from "./treefile.js";
import { Writer } from "./writer.js";

class Page {
  #models = [];
  #endName = null;
  #isWriting = false;

  constructor({ settings, form, store, history }) {
    this.settings = settings;
    this.fields = form.fields;
    this.history = history;
    this.store = store;
    this.api = new Api(() => settings.get("key", ""));
    this.editor = new Editor(byId("text"), byId("mirror"), byId("sheet"));
    this.recorder = new Recorder(history);
    this.parameters = new Parameters(form, settings);
    this.presets = new Presets(this.parameters, settings);
    this.candidates = new Candidates(history);
    this.tree = new Tree(history);
    this.tokens = new TokenView(this.api);
    this.code = new CodeView(form.fields);
    this.writer = new Writer(this.api, history, () => this.draft());
    this.pointer = new Pointer(this.editor, () => this.#colours && !this.writer.busy);
    this.tabs = new Tabs(byId("tabs"), (panel) => this.#opened(panel));
    this.#connectHistory();
    this.#connectEditor();
    this.#connectWriter();
    this.#connectControls();
    this.#connectSettings();
    this.#show();
  }

  get #model() {
    return this.#models.find((model) => model.id === byId("model").value) ?? null;
  }

  get #colours() {
    return this.settings.get("colours", true);
  }

  /** What a request is made of, see `request.completion`. */
  draft() {
    const model = this.#model;
    return {
      text: this.editor.text,
      caret: this.editor.caret,
      place: byId("place").value,
      model: model?.id ?? "",
      canFill: model?.capabilities.suffix ?? false,
      params: this.parameters.values,
      colours: this.#colours,
    };
  }

  /** Ask for the models; again whenever the key changes. */
  async loadModels() {
    complain("key", "");
    if (await this.#listModels(this.settings.get("model", null))) await this.#modelChanged();
  }

  /** Ask for the models and their states, and choose `kept` if it is there; whether the server has answered. */
  async #listModels(kept) {
    try {
      this.#models = await this.api.models();
    } catch (error) {
      this.#refused(error);
      return false;
    }
    const shown = ({ id, state }) => (state === "ready" ? id : `${id} (${state})`);
    byId("model").replaceChildren(...this.#models.map((model) => el("option", { value: model.id }, shown(model))));
    if (this.#models.some((model) => model.id === kept)) byId("model").value = kept;
    return true;
  }

  async #modelChanged() {
    this.#ask();
    const model = this.#model;
    try {
      this.#endName = (await this.api.tokenizerInfo(model.id)).eos_token;
      // That has loaded it, and another may have gone for it: what it can do is known now.
      if (model.state !== "ready") await this.#listModels(byId("model").value);
    } catch {
      // Known for one comfort only: which alternative means the end.
      this.#endName = null;
    }
  }

  #connectHistory() {
    const save = debounced(() => {
      this.store.write().catch(() => notice("This browser has no room left: what you write now is not kept.", "error"));
    }, 400);
    // A page that is left or closed is hidden first.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.store.keep();
    });
    this.history.addEventListener("change", ({ detail: { ids } }) => {
      this.store.put(ids.map((id) => [id, this.history.node(id)]));
      this.settings.set("current", this.history.current.id);
      save();
      this.#show();
    });
  }

  #connectEditor() {
    this.editor.addEventListener("edit", ({ detail: { before, after, kind } }) => {
      this.#isWriting = true;
      this.recorder.record(after, kind);
      this.#isWriting = false;
      this.editor.mirror(before, this.#marks());
      this.pointer.close();
      notice("");
    });
    this.editor.addEventListener("select", () => {
      this.#showSelection();
      this.#showCode();
    });
  }

  #connectWriter() {
    this.pointer.addEventListener("choose", ({ detail: { mark, name } }) => {
      this.writer.choose(mark, name, name === this.#endName);
    });
    this.writer.addEventListener("busy", () => this.#showBusy());
    this.writer.addEventListener("note", ({ detail }) => notice(detail));
    this.writer.addEventListener("refused", ({ detail }) => this.#refused(detail));
  }

  #connectControls() {
    for (const [name, action] of Object.entries(this.#actions())) {
      const button = document.querySelector(`[data-action="${name}"]`);
      button?.addEventListener("click", () => action());
    }
    listen(this.#actions());
    listShortcuts();
    byId("shortcuts-open").addEventListener("click", () => byId("shortcuts").showModal());
    byId("restart").addEventListener("click", () => {
      this.history.restart();
      this.editor.focus();
    });
    const file = new TreeFile(this.history);
    file.addEventListener("problem", ({ detail }) => notice(detail, "error"));
    this.tokens.addEventListener("problem", ({ detail }) => this.#refused(detail));
    this.tokens.addEventListener("pick", ({ detail: { id, name } }) => this.#bias(id, name));
    this.parameters.addEventListener("change", () => {
      notice("");
      this.#ask();
    });
  }

  #connectSettings() {
    const { settings } = this;
    byId("key").value = settings.get("key", "");
    byId("key").addEventListener("change", () => {
      settings.set("key", byId("key").value.trim() || null);
      this.loadModels();
    });
    byId("model").addEventListener("change", () => {
      settings.set("model", byId("model").value);
      this.#modelChanged();
    });
    for (const [id, otherwise] of [
      ["place", "cursor"],
      ["typeface", "serif"],
      ["theme", "auto"],
    ]) {
      byId(id).value = settings.get(id, otherwise);
      byId(id).addEventListener("change", () => {
        settings.set(id, byId(id).value);
        this.#applyLook();
      });
    }
    this.#applyLook();
  }

  #actions() {
    const { writer } = this;
    return {
      complete: () => this.#begin(() => writer.complete()),
      regenerate: () => this.#begin(() => writer.regenerate()),
      score: () => this.#begin(() => writer.score()),
      stop: () => this.#stop(),
      undo: () => this.#travel(() => this.history.undo()),
      redo: () => this.#travel(() => this.history.redo()),
      colours: () => this.#toggleColours(),
      alternatives: () => this.pointer.enter(),
      editor: () => this.editor.focus(),
      parameters: () => this.#goToTab("parameters-panel"),
      tree: () => this.#goToTab("tree-panel"),
      tokens: () => this.#goToTab("tokens-panel"),
      code: () => this.#goToTab("code-panel"),
    };
  }

  #begin(work) {
    this.recorder.close();
    this.parameters.clearComplaints();
    this.pointer.close();
    notice("");
    work();
  }

  #stop() {
    return this.writer.stop() || this.pointer.close();
  }

  #travel(move) {
    if (this.writer.busy) return;
    this.recorder.close();
    this.pointer.close();
    move();
  }

  #toggleColours() {
    this.settings.set("colours", !this.#colours);
    this.#applyLook();
    this.#show();
  }

  #goToTab(panel) {
    this.tabs.open(panel);
    document.querySelector(`[aria-controls="${panel}"]`).focus();
  }

  /** The text, its colours and everything beside it, as the history has them. */
  #show() {
    const { history } = this;
    if (!this.#isWriting) this.#showText();
    this.candidates.show();
    if (!byId("tree-panel").hidden) this.tree.show();
    const { undo, redo, regenerate } = this.#buttons();
    undo.disabled = this.writer?.busy || !history.canUndo;
    redo.disabled = this.writer?.busy || history.children(history.current.id).length === 0;
    regenerate.disabled = this.writer?.busy || history.lastRun() === null;
    showRun(history.current.run ?? history.lastRun()?.run ?? null);
    this.#showSelection();
    this.#ask();
  }

  /** The caret goes behind what a model wrote; elsewhere to what is different. */
  #showText() {
    const { id, run, at, inserted } = this.history.current;
    this.editor.show(this.history.text(id), this.#marks(), run === null ? null : at + inserted.length);
  }

  #buttons() {
    const names = ["complete", "stop", "undo", "redo", "regenerate", "score"];
    return Object.fromEntries(names.map((name) => [name, document.querySelector(`[data-action=${name}]`)]));
  }

  #showBusy() {
    const { busy } = this.writer;
    const buttons = this.#buttons();
    this.editor.locked = busy;
    this.tree.locked = busy;
    buttons.complete.hidden = busy;
    buttons.stop.hidden = !busy;
    buttons.score.disabled = busy;
    document.body.classList.toggle("busy", busy);
    this.#show();
    const { run } = this.history.current;
    if (busy) {
      announce("Working.");
      return;
    }
    this.candidates.reveal();
    if (run !== null) announce(`Done: ${run.usage?.completion_tokens ?? "some"} tokens.`);
  }

  #marks() {
    return this.#colours ? this.history.marks(this.history.current.id) : NO_MARKS;
  }

  #showSelection() {
    showLikelihood(this.editor.text, this.history.marks(this.history.current.id), this.editor.selection);
  }

  /** Everything that depends on what would be sent. */
  #ask() {
    if (this.#model === null) return;
    this.#showCode();
    const { text, model, params } = this.draft();
    const withBos = params.add_special_tokens ?? true;
    this.tokens.bias = params.logit_bias ?? {};
    this.tokens.changed({ model, text, withBos, maxTokens: params.max_tokens ?? this.fields.max_tokens.default });
  }

  #showCode() {
    if (byId("code-panel").hidden || this.#model === null) return;
    const plan = completion(this.draft());
    if (plan.refusal === undefined) this.code.show(plan.body, this.settings.get("key", "") !== "");
  }

  #opened(panel) {
    this.tokens.open = panel === "tokens-panel";
    if (panel === "tree-panel") this.tree.show();
    if (panel === "code-panel") this.#showCode();
  }

  /** Put a token that was clicked into `logit_bias`, or take it out again. */
  #bias(id, name) {
    const { values: before } = this.parameters;
    const { [id]: known, ...others } = before.logit_bias ?? {};
    const value = Number(byId("bias-value").value);
    const bias = known === undefined ? { ...others, [id]: value } : others;
    this.parameters.setOne("logit_bias", Object.keys(bias).length === 0 ? undefined : bias);
    const token = `Token ${id} (${JSON.stringify(name)})`;
    if (known === undefined) notice(`${token} has the bias ${value}.`);
    else notice(`${token} has no bias any more.`, "note", () => this.parameters.replace(before));
  }

  /** Show a failure in words, beside the field it is about if the page has one. */
  #refused({ message, param, status = null }) {
    if (status === 401 || status === 403) {
      this.tabs.open("parameters-panel");
      complain("key", message);
      byId("key").focus();
      byId("key-complaint").scrollIntoView({ block: "nearest" });
    } else if (param !== null && this.parameters.has(param)) {
      this.tabs.open("parameters-panel");
      this.parameters.complain(param, message);
    } else if (param === "model") complain("model", message);
    notice(message, "error");
  }

  #applyLook() {
    const root = document.documentElement;
    const colours = document.querySelector("[data-action=colours]");
    root.dataset.theme = this.settings.get("theme", "auto");
    root.dataset.typeface = this.settings.get("typeface", "serif");
    colours.setAttribute("aria-pressed", String(this.#colours));
    byId("legend").hidden = !this.#colours;
    if (!this.#colours) this.pointer.close();
  }
}

const NO_MARKS = [];

async function start() {
  const settings = new Settings();
  const folder = new URL(".", import.meta.url);
  const [form, store] = await Promise.all([
    fetch(new URL("fields.json", folder)).then((answer) => answer.json()),
    TreeStore.open(settings),
  ]);
  const history = new History(await store.load(), settings.get("current", null));
  const page = new Page({ settings, form, store, history });
  if (!store.lasting) notice("This browser keeps nothing for this page: export the tree to save it.");
  await page.loadModels();
  document.documentElement.dataset.ready = "true";
}

start();
