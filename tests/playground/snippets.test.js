import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { curl, node, python } from "../../src/afterword/playground/snippets.js";

const BASE = "http://127.0.0.1:8000/v1";
const DOCUMENTED = ["model", "prompt", "logit_bias", "echo", "suffix", "stream"];
const EXTENSIONS = ["top_k", "ignore_eos"];
const FIELDS = Object.fromEntries(
  [...DOCUMENTED, ...EXTENSIONS].map((name) => [name, { documented: DOCUMENTED.includes(name) }]),
);
const NASTY = { model: "m", prompt: 'It\'s "$HOME" `x` \\n\n\t\u2028🌍 </script>', logit_bias: { 5: -100 } };

test("curl's command carries the request through the shell unchanged", () => {
  for (const body of [NASTY, { ...NASTY, stream: true }]) {
    const command = curl(body, BASE, true).replace("curl", 'printf "%s\\0"');
    const words = execFileSync("/bin/sh", ["-c", command], { env: { AFTERWORD_API_KEY: "k" }, encoding: "utf8" });
    const [...parts] = words.split("\0");
    assert.ok(parts.includes(`${BASE}/completions`));
    assert.ok(parts.includes("Authorization: Bearer k"));
    assert.deepEqual(JSON.parse(parts[parts.indexOf("-d") + 1]), body);
    assert.equal(parts.includes("--no-buffer"), body.stream === true);
  }
});

test("without a key no code asks for one", () => {
  for (const write of [curl, python, node]) {
    assert.match(write(NASTY, BASE, true, FIELDS), /AFTERWORD_API_KEY/);
    assert.doesNotMatch(write(NASTY, BASE, false, FIELDS), /AFTERWORD_API_KEY|import os/);
  }
});

test("Python gets its own constants, and what the client has no argument for in extra_body", () => {
  const body = { model: "m", prompt: [1, 2], echo: true, suffix: null, top_k: 5, ignore_eos: false };
  assert.equal(
    python(body, BASE, false, FIELDS),
    `from openai import OpenAI

client = OpenAI(base_url="${BASE}", api_key="unused")
answer = client.completions.create(
    model="m",
    prompt=[1, 2],
    echo=True,
    suffix=None,
    extra_body={"top_k": 5, "ignore_eos": False},
)
for choice in answer.choices:
    print(choice.text)
`,
  );
});

test("a streamed answer is printed as it comes", () => {
  assert.match(python({ ...NASTY, stream: true }, BASE, true, FIELDS), /for chunk in answer:\n {4}for choice in chunk/);
  assert.match(node({ ...NASTY, stream: true }, BASE, true), /for await \(const chunk of answer\)/);
});

test("Node's code calls the client with the request", async () => {
  const asked = [];
  class OpenAI {
    constructor(options) {
      this.completions = { create: (body) => asked.push(options, body) && { choices: [] } };
    }
  }
  const code = node(NASTY, BASE, false).replace(/^import .*$/m, "");
  const AsyncFunction = (async () => null).constructor;
  await new AsyncFunction("OpenAI", code)(OpenAI);
  assert.deepEqual(asked, [{ baseURL: BASE, apiKey: "unused" }, NASTY]);
});
