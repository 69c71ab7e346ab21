import assert from "node:assert/strict";
import { test } from "node:test";
import { events } from "../../src/afterword/playground/sse.js";

async function read(...pieces) {
  const found = [];
  for await (const data of events(new Response(streamOf(pieces)))) found.push(data);
  return found;
}

function streamOf(pieces, { left = () => undefined } = {}) {
  const encoder = new TextEncoder();
  const waiting = pieces.map((piece) => (typeof piece === "string" ? encoder.encode(piece) : piece));
  return new ReadableStream({
    pull(controller) {
      const next = waiting.shift();
      if (next === undefined) controller.close();
      else controller.enqueue(next);
    },
    cancel: left,
  });
}

test("every event's data is given, in order", async () => {
  assert.deepEqual(await read("data: one\n\ndata: two\n\n"), ["one", "two"]);
});

test("events come through whole however the bytes are cut", async () => {
  const bytes = new TextEncoder().encode(
    'data: {"text": "🌍\\n"}\r\n\r\n: ping\n\ndata:x\ndata: y\n\ndata: [DONE]\n\n',
  );
  for (let at = 0; at <= bytes.length; at += 1) {
    const found = await read(bytes.slice(0, at), bytes.slice(at));
    assert.deepEqual(found, ['{"text": "🌍\\n"}', "x\ny", "[DONE]"], `cut at ${at}`);
  }
  assert.deepEqual(await read(...Array.from(bytes, (byte) => Uint8Array.of(byte))), [
    '{"text": "🌍\\n"}',
    "x\ny",
    "[DONE]",
  ]);
});

test("comments and other fields are no data", async () => {
  assert.deepEqual(await read(": hello\n\nevent: note\nid: 1\n\nevent: note\ndata: one\n\n"), ["one"]);
});

test("only one space after the colon is not part of the data", async () => {
  assert.deepEqual(await read("data:  two\n\ndata:none\n\n"), [" two", "none"]);
});

test("an event that was not ended is none", async () => {
  assert.deepEqual(await read("data: one\n\ndata: tw"), ["one"]);
});

test("leaving early closes the connection", async () => {
  let body;
  const left = new Promise((resolve) => {
    body = streamOf(["data: one\n\n", "data: two\n\n", "data: three\n\n"], { left: resolve });
  });
  for await (const data of events(new Response(body))) {
    assert.equal(data, "one");
    break;
  }
  await left;
});
