import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Api, ApiError } from "../../src/afterword/playground/api.js";

/** An api whose calls are answered by `answers`, one after another, and the calls it made. */
function answered(t, ...answers) {
  const calls = [];
  t.after(() => mock.restoreAll());
  mock.method(globalThis, "fetch", async (path, options) => {
    calls.push({ path, ...options });
    const next = answers.shift();
    if (next instanceof Error) throw next;
    return next;
  });
  return { api: new Api(() => "secret"), calls };
}

async function all(chunks) {
  const found = [];
  for await (const chunk of chunks) found.push(chunk);
  return found;
}

const stream = (...data) => new Response(data.map((one) => `data: ${one}\n\n`).join(""));

test("models are asked for with the key, and never from a cache", async (t) => {
  const { api, calls } = answered(t, Response.json({ data: [{ id: "a" }] }));
  assert.deepEqual(await api.models(), [{ id: "a" }]);
  assert.equal(calls[0].path, "v1/models");
  assert.equal(calls[0].cache, "no-store");
  assert.deepEqual(calls[0].headers, { Authorization: "Bearer secret" });
  assert.equal(calls[0].method, undefined);
});

test("without a key none is sent", async (t) => {
  const { calls } = answered(t, Response.json({ data: [] }));
  await new Api(() => "").models();
  assert.deepEqual(calls[0].headers, {});
});

test("a model's name is escaped in an address", async (t) => {
  const { api, calls } = answered(t, Response.json({ eos_token: "</s>" }));
  await api.tokenizerInfo("a/b&c");
  assert.equal(calls[0].path, "tokenizer_info?model=a%2Fb%26c");
});

test("tokens are asked for with their spelling only if wanted", async (t) => {
  const { api, calls } = answered(t, Response.json({ count: 1 }));
  await api.tokenize("m", "text", { spelled: true, withBos: false });
  assert.deepEqual(JSON.parse(calls[0].body), {
    model: "m",
    prompt: "text",
    return_token_strs: true,
    add_special_tokens: false,
  });
  assert.equal(calls[0].headers["Content-Type"], "application/json");
});

test("a plain answer is one chunk", async (t) => {
  const { api } = answered(t, Response.json({ choices: [] }));
  assert.deepEqual(await all(api.complete({ prompt: "a" })), [{ choices: [] }]);
});

test("a streamed answer is its chunks, up to the end mark", async (t) => {
  const { api } = answered(t, stream('{"n": 1}', '{"n": 2}', "[DONE]", '{"n": 3}'));
  assert.deepEqual(await all(api.complete({ stream: true })), [{ n: 1 }, { n: 2 }]);
});

test("a streamed answer without its end mark is a failure", async (t) => {
  const { api } = answered(t, stream('{"n": 1}'));
  await assert.rejects(all(api.complete({ stream: true })), {
    name: "ApiError",
    message: "The server ended the answer before it was complete.",
  });
});

test("an error within a stream is a failure with the server's words", async (t) => {
  const { api } = answered(t, stream('{"error": {"message": "No room.", "code": "busy", "param": null}}'));
  await assert.rejects(all(api.complete({ stream: true })), { message: "No room.", code: "busy", param: null });
});

test("a refusal says which field it is about, and its status", async (t) => {
  const error = { message: "Too large.", param: "n", code: "bad" };
  const { api } = answered(t, Response.json({ error }, { status: 400 }));
  await assert.rejects(all(api.complete({})), { ...error, status: 400, name: "ApiError" });
});

test("a refusal in no words of ours is told by its status", async (t) => {
  for (const body of ["<html>", "null", "{}", '{"error": null}']) {
    const { api } = answered(t, new Response(body, { status: 502 }));
    await assert.rejects(api.models(), { message: "The server answered with status 502.", status: 502, param: null });
    mock.restoreAll();
  }
});

test("no answer at all is a failure in words, a call that was stopped is none of them", async (t) => {
  const stopped = new DOMException("stopped", "AbortError");
  const { api } = answered(t, new TypeError("fetch failed"), stopped);
  await assert.rejects(api.models(), new ApiError("The server cannot be reached. Is it still running?"));
  await assert.rejects(api.models(), stopped);
});
