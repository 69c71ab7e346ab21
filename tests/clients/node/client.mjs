// What all scripts share: where the server is, and how a script hands its findings to the test that ran it.

const [url, key] = process.argv.slice(2);

export const baseURL = `${url}/v1`;
export const apiKey = key;

// Prints what `probe` found, by name, as one JSON object. An exception of the client ends the script with an error.
export async function report(probes) {
  const findings = {};
  for (const [name, probe] of Object.entries(probes)) findings[name] = await probe();
  console.log(JSON.stringify(findings));
}

// The error that `call` must fail with.
export async function failure(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("the call was expected to fail");
}

export async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}
