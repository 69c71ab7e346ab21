/**
 * What a person can have the model do: complete, stop, regenerate, score, take another token. One thing at a time.
 * Knows the history and the requests; shows nothing itself.
 */

import { endOfRun, marksOf } from "./marks.js";
import { completion, continuation, scoring } from "./request.js";
import { Run } from "./run.js";

const NO_LEAD = { text: "", marks: [] };

export class Writer extends EventTarget {
  #api;
  #history;
  #draft;
  #run = null;
  #scoring = null;

  /**
   * `draft()` gives what a request is made of, see `request.completion`. Fires `busy` when work begins or ends, `note`
   * with a sentence, and `refused` with an `ApiError` or `{param, message}`.
   */
  constructor(api, history, draft) {
    super();
    this.#api = api;
    this.#history = history;
    this.#draft = draft;
  }

  get busy() {
    return this.#run !== null || this.#scoring !== null;
  }

  /** Write on at the cursor, at the end, or at the mark. */
  async complete() {
    if (this.busy) return;
    const plan = completion(this.#draft());
    if (plan.refusal !== undefined) {
      this.#tell("refused", plan.refusal);
      return;
    }
    const { at, removed, body, note } = plan;
    await this.#start({ parent: this.#history.current.id, at, removed, lead: NO_LEAD, kind: "completion", body });
    if (note !== null) this.#tell("note", note);
  }

  /** Have the last completion written anew, beside the one there is. */
  async regenerate() {
    const last = this.#history.lastRun();
    if (this.busy || last === null) return;
    const { parent, at, removed, kind } = last;
    const text = this.#history.text(parent);
    const lead = kind === "choice" ? this.#leadOf(last) : NO_LEAD;
    const draft = { ...this.#draft(), text, caret: at, place: "cursor" };
    const plan = kind === "choice" ? { body: continuation(draft, text.slice(0, at) + lead.text) } : completion(draft);
    if (plan.refusal !== undefined) {
      this.#tell("refused", plan.refusal);
      return;
    }
    await this.#start({ parent, at, removed, lead, kind, body: plan.body });
    if (plan.body.seed !== undefined) this.#tell("note", "With a seed the same request gives the same text.");
  }

  /** Put the alternative called `name` in the place of a mark's token, and go on from there unless it ends the text. */
  async choose(mark, name, endsText) {
    if (this.busy) return;
    const draft = this.#draft();
    const parent = this.#history.current.id;
    const removed = endOfRun(this.#history.marks(parent), mark) - mark.start;
    if (name.startsWith("bytes:")) {
      this.#tell("note", "That token is only a part of a character, so it cannot stand in a text by itself.");
      return;
    }
    if (endsText) {
      const node = this.#history.add({ parent, at: mark.start, removed, inserted: "", kind: "edit" });
      this.#history.go(node.id);
      return;
    }
    const logprob = mark.top.find(([other]) => other === name)[1];
    const lead = { text: name, marks: [{ start: 0, end: name.length, name, logprob, top: mark.top }] };
    const body = continuation(draft, draft.text.slice(0, mark.start) + name);
    await this.#start({ parent, at: mark.start, removed, lead, kind: "choice", body });
  }

  /** Ask how likely the model finds the whole text. */
  async score() {
    if (this.busy) return;
    const draft = this.#draft();
    const { id } = this.#history.current;
    this.#scoring = new AbortController();
    this.#tell("busy");
    try {
      for await (const answer of this.#api.complete(scoring(draft), this.#scoring.signal)) {
        this.#history.score(id, marksOf(answer.choices[0].logprobs, draft.text, 0));
      }
    } catch (error) {
      if (error.name !== "AbortError") this.#tell("refused", error);
    } finally {
      this.#scoring = null;
      this.#tell("busy");
    }
  }

  /** End what runs; false if nothing does. */
  stop() {
    this.#run?.stop();
    this.#scoring?.abort();
    return this.busy;
  }

  async #start(plan) {
    this.#run = new Run(this.#api, this.#history, plan);
    this.#tell("busy");
    try {
      await this.#run.finish();
    } catch (error) {
      this.#tell("refused", error);
    } finally {
      this.#run = null;
      this.#tell("busy");
    }
  }

  /** The token a person chose, at the front of what a choice inserted. */
  #leadOf({ inserted, marks }) {
    const [first] = marks;
    return { text: inserted.slice(0, first.end), marks: [first] };
  }

  #tell(name, detail = null) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
