// The official SDK of Node, one client an address. Orders and answers: tests/clients/languages/driver.py.

import { createInterface } from "node:readline";
import OpenAI from "openai";

const clients = new Map();

function clientAt(baseURL) {
  if (!clients.has(baseURL)) clients.set(baseURL, new OpenAI({ baseURL, maxRetries: 0 }));
  return clients.get(baseURL);
}

async function carryOut(verb, url, body) {
  const client = clientAt(url.replace(/\/completions$/, ""));
  if (verb === "whole") {
    const response = await client.completions.create(body).asResponse();
    console.log(`status ${response.status}\n| ${await response.text()}`);
    return;
  }
  const stream = await client.completions.create(body);
  console.log("status 200");
  for await (const chunk of stream) {
    console.log(`| data: ${JSON.stringify(chunk)}\n| `);
    if (verb === "leave") return;
  }
  console.log("| data: [DONE]\n| ");
}

for await (const order of createInterface({ input: process.stdin })) {
  const [verb, url] = order.split(" ", 2);
  try {
    await carryOut(verb, url, JSON.parse(order.slice(verb.length + url.length + 2)));
  } catch (error) {
    if (!(error instanceof OpenAI.APIError) || error.status === undefined) throw error;
    console.log(`status ${error.status}\n| ${JSON.stringify({ error: error.error })}`);
  }
  console.log("end");
}
