/**
 * A request as code to copy: curl, Python, Node. Pure. The key is not written out: code reads it from the environment.
 */

const KEY = "AFTERWORD_API_KEY";

/** `base` is the address in front of `/completions`; `hasKey` says whether calls need a key. */
export function curl(body, base, hasKey) {
  const lines = [
    `curl${body.stream === true ? " --no-buffer" : ""} ${shellQuoted(`${base}/completions`)}`,
    `  -H 'Content-Type: application/json'`,
    ...(hasKey ? [`  -H "Authorization: Bearer $${KEY}"`] : []),
    `  -d ${shellQuoted(JSON.stringify(body, null, 2))}`,
  ];
  return lines.join(" \\\n");
}

/** `fields` is what the server says of each field: the client has arguments for those that are documented. */
export function python(body, base, hasKey, fields) {
  const own = Object.entries(body).filter(([name]) => fields[name]?.documented);
  const more = Object.entries(body).filter(([name]) => !fields[name]?.documented);
  const lines = own.map(([name, value]) => `    ${name}=${pythonLiteral(value)},`);
  if (more.length > 0) lines.push(`    extra_body=${pythonLiteral(Object.fromEntries(more))},`);
  const key = hasKey ? `os.environ["${KEY}"]` : '"unused"';
  return [
    ...(hasKey ? ["import os", ""] : []),
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${pythonLiteral(base)}, api_key=${key})`,
    "answer = client.completions.create(",
    ...lines,
    ")",
    ...(body.stream === true
      ? ["for chunk in answer:", "    for choice in chunk.choices:", '        print(choice.text, end="", flush=True)']
      : ["for choice in answer.choices:", "    print(choice.text)"]),
    "",
  ].join("\n");
}

export function node(body, base, hasKey) {
  const key = hasKey ? `process.env.${KEY}` : '"unused"';
  return [
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: ${key} });`,
    `const answer = await client.completions.create(${JSON.stringify(body, null, 2)});`,
    ...(body.stream === true
      ? [
          "for await (const chunk of answer) {",
          "  for (const choice of chunk.choices) process.stdout.write(choice.text);",
          "}",
        ]
      : ["for (const choice of answer.choices) console.log(choice.text);"]),
    "",
  ].join("\n");
}

function shellQuoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** JSON strings are Python strings but for the halves of surrogate pairs, which no request can hold. */
function pythonLiteral(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value)
      .map(([name, one]) => `${JSON.stringify(name)}: ${pythonLiteral(one)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value);
}
