import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../src/afterword/playground/api.js";
import { difference, History } from "../../src/afterword/playground/history.js";
import { Writer } from "../../src/afterword/playground/writer.js";

/** A chunk with the tokens of one choice, each with the log-probability -1. */
function chunk(tokens, { index = 0, offset = 0, reason = null, usage = null } = {}) {
  const offsets = tokens.map((_token, i) => offset + tokens.slice(0, i).join("").length);
  return {
    choices: [
      {
        index,
        text: tokens.join(""),
        finish_reason: reason,
        logprobs: {
          tokens,
          token_logprobs: tokens.map(() => -1),
          top_logprobs: tokens.map((token) => ({ [token]: -1, " other": -2 })),
          text_offset: offsets,
        },
      },
    ],
    usage,
    system_fingerprint: "fp",
  };
}

/** A server that answers one request after another with `answers`, lists of chunks or failures. */
class Server {
  asked = [];

  constructor(...answers) {
    this.answers = answers;
  }

  async *complete(body, signal) {
    this.asked.push(body);
    for (const one of this.answers.shift()) {
      await null;
      if (signal.aborted) throw new DOMException("stopped", "AbortError");
      if (one instanceof Error) throw one;
      yield typeof one === "function" ? one() : one;
    }
  }
}

/** A writer at the end of `text`, with what it told. */
function writing(text, answers, draft = {}) {
  const history = new History();
  const node = history.add({ parent: history.current.id, kind: "edit", ...difference("", text) });
  history.go(node.id);
  const server = new Server(...answers);
  const now = () => history.text(history.current.id);
  const base = { place: "end", caret: 0, model: "m", canFill: false, params: {}, colours: true };
  const writer = new Writer(server, history, () => ({ ...base, text: now(), ...draft }));
  const told = [];
  for (const name of ["busy", "note", "refused"])
    writer.addEventListener(name, ({ detail }) => told.push([name, detail?.message ?? detail]));
  return { history, server, writer, told, now };
}

const places = (marks) => marks.map(({ start, end, name }) => [start, end, name]);

test("what comes is put behind the text, token by token", async () => {
  const usage = { completion_tokens: 3 };
  const { history, writer, told, now } = writing("Once", [
    [chunk([" upon"], { offset: 4 }), chunk([" a", " time"], { offset: 9, reason: "stop" }), { choices: [], usage }],
  ]);
  await writer.complete();
  assert.equal(now(), "Once upon a time");
  assert.deepEqual(places(history.marks(history.current.id)), [
    [4, 9, " upon"],
    [9, 11, " a"],
    [11, 16, " time"],
  ]);
  const { run } = history.current;
  assert.deepEqual([run.reason, run.mean, run.count, run.usage], ["stop", -1, 3, usage]);
  assert.equal("prompt" in run.request, false);
  assert.deepEqual(told, [
    ["busy", null],
    ["busy", null],
  ]);
});

test("candidates become siblings, and the first is shown", async () => {
  const answer = [chunk([" two"], { index: 1, offset: 4 }), chunk([" one"], { offset: 4 })];
  const { history, writer, now } = writing("Once", [answer], { params: { n: 2 } });
  await writer.complete();
  assert.equal(now(), "Once one");
  assert.deepEqual(
    history.siblings().map((node) => node.inserted),
    [" one", " two"],
  );
});

test("an answer without probabilities has no mean", async () => {
  const choice = { index: 0, text: " upon", logprobs: null, finish_reason: "length" };
  const { history, writer, now } = writing("Once", [[{ choices: [choice], usage: null }]], { colours: false });
  await writer.complete();
  assert.equal(now(), "Once upon");
  assert.deepEqual([history.current.run.mean, history.current.marks], [null, []]);
});

test("carriage returns give way to what a text field holds, and every place stays", async () => {
  const { history, writer, now } = writing("a", [[chunk(["\r\n", "b\r", "c"], { offset: 1 })]]);
  await writer.complete();
  assert.equal(now(), "a \nb\nc");
  assert.deepEqual(places(history.current.marks), [
    [0, 2, "\r\n"],
    [2, 4, "b\r"],
    [4, 5, "c"],
  ]);
});

test("what came before a failure stays, and the failure is told", async () => {
  const { writer, told, now } = writing("Once", [[chunk([" upon"], { offset: 4 }), new ApiError("Broken.")]]);
  await writer.complete();
  assert.equal(now(), "Once upon");
  assert.deepEqual(told.at(1), ["refused", "Broken."]);
  assert.equal(writer.busy, false);
});

test("a refusal before the first token leaves the history as it was", async () => {
  const { history, writer, now } = writing("Once", [[new ApiError("No.")]]);
  const { size } = history;
  await writer.complete();
  assert.deepEqual([history.size, now()], [size, "Once"]);
});

test("stopping ends the answer and keeps what has come", async () => {
  const stop = () => {
    assert.equal(writer.stop(), true);
    return chunk([" upon"], { offset: 4 });
  };
  const { writer, told, now } = writing("Once", [[stop, chunk([" a"], { offset: 9 })]]);
  await writer.complete();
  assert.equal(now(), "Once upon");
  assert.equal(writer.stop(), false);
  assert.deepEqual(
    told.map(([name]) => name),
    ["busy", "busy"],
  );
});

test("while something runs nothing else begins", async () => {
  const { writer, server } = writing("Once", [[chunk([" upon"], { offset: 4 })]]);
  const running = writer.complete();
  assert.equal(writer.busy, true);
  await Promise.all([writer.complete(), writer.score(), writer.regenerate(), writer.choose({}, "x", false), running]);
  assert.equal(server.asked.length, 1);
});

test("what the draft refuses is never sent", async () => {
  const { writer, server, told } = writing("Once [insert]", []);
  await writer.complete();
  assert.equal(server.asked.length, 0);
  assert.match(told[0][1], /no infill tokens/);
});

test("regenerating asks the same again and puts the answer beside the first", async () => {
  const { history, writer, server, now } = writing("Once", [
    [chunk([" upon"], { offset: 4 })],
    [chunk([" more"], { offset: 4 })],
  ]);
  await writer.complete();
  await writer.regenerate();
  assert.equal(now(), "Once more");
  assert.deepEqual(server.asked[1], server.asked[0]);
  assert.equal(history.siblings().length, 2);
});

test("regenerating writes at the old place, wherever the cursor is now and whatever was typed since", async () => {
  const draft = { place: "cursor", caret: 4 };
  const { history, writer, server, now } = writing("Once.", [[chunk([" upon"])], [chunk([" more"])]], draft);
  await writer.complete();
  assert.equal(now(), "Once upon.");
  const node = history.add({ parent: history.current.id, kind: "edit", ...difference(now(), "Once upon. And") });
  history.go(node.id);
  draft.place = "end";
  await writer.regenerate();
  assert.equal(server.asked[1].prompt, "Once");
  assert.equal(now(), "Once more.");
});

test("regenerating with a seed says that nothing else will come", async () => {
  const answers = [[chunk([" upon"])], [chunk([" upon"])]];
  const { writer, told } = writing("Once", answers, { params: { seed: 1 } });
  await writer.complete();
  await writer.regenerate();
  assert.deepEqual(told.at(-1), ["note", "With a seed the same request gives the same text."]);
});

test("another token takes the place of the one there was and all that followed from it", async () => {
  const { history, writer, server, now } = writing("Once", [
    [chunk([" upon", " a", " time"], { offset: 4 })],
    [chunk([" day"], { offset: 10 })],
    [chunk([" night"], { offset: 10 })],
  ]);
  await writer.complete();
  const [, mark] = history.marks(history.current.id);
  await writer.choose(mark, " other", false);
  assert.equal(server.asked[1].prompt, "Once upon other");
  assert.equal(now(), "Once upon other day");
  assert.equal(history.current.kind, "choice");
  assert.deepEqual(places(history.marks(history.current.id)), [
    [4, 9, " upon"],
    [9, 15, " other"],
    [15, 19, " day"],
  ]);
  await writer.regenerate();
  assert.equal(server.asked[2].prompt, "Once upon other");
  assert.equal(now(), "Once upon other night");
});

test("the token that ends a text ends it there, without asking", async () => {
  const { history, writer, server, now } = writing("Once", [[chunk([" upon", " a"], { offset: 4 })]]);
  await writer.complete();
  await writer.choose(history.marks(history.current.id)[1], "</s>", true);
  assert.equal(now(), "Once upon");
  assert.equal(server.asked.length, 1);
});

test("a part of a character cannot be chosen", async () => {
  const { writer, server, told, history } = writing("Once", [[chunk([" upon"], { offset: 4 })]]);
  await writer.complete();
  await writer.choose(history.marks(history.current.id)[0], "bytes:\\xf0", false);
  assert.equal(server.asked.length, 1);
  assert.match(told.at(-1)[1], /only a part of a character/);
});

test("scoring marks the whole text and adds nothing", async () => {
  const { history, writer, server, now } = writing("Once upon", [[chunk(["Once", " upon"])]]);
  const { size } = history;
  await writer.score();
  assert.equal(server.asked[0].max_tokens, 0);
  assert.equal(now(), "Once upon");
  assert.equal(history.size, size);
  assert.deepEqual(places(history.marks(history.current.id)), [
    [0, 4, "Once"],
    [4, 9, " upon"],
  ]);
});

test("a scoring that was stopped is no failure", async () => {
  const { writer, told } = writing("Once", [[chunk(["Once"])]]);
  const scoring = writer.score();
  assert.equal(writer.stop(), true);
  await scoring;
  assert.deepEqual(
    told.map(([name]) => name),
    ["busy", "busy"],
  );
});
