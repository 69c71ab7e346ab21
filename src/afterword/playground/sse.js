/**
 * Server-sent events out of a response's bytes. Knows nothing of what the events mean.
 */

/** Yields the data of every event of a `Response`, also when an event comes in many pieces. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const data = dataOf(block);
        if (data !== null) yield data;
      }
    }
  } finally {
    // Leaving early tells the server that nobody reads any more. A connection that failed needs no cancel.
    reader.cancel().catch(() => null);
  }
}

function dataOf(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length === 0 ? null : lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
}
