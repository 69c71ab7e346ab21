import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { merged, Settings, TreeStore } from "../../src/afterword/playground/storage.js";

/** What the browser gives as `localStorage`; `limit` is the number of values it has room for. */
function browserWith(limit) {
  const kept = new Map();
  globalThis.localStorage = {
    getItem: (name) => kept.get(name) ?? null,
    setItem(name, value) {
      if (kept.size >= limit) throw new DOMException("full", "QuotaExceededError");
      kept.set(name, value);
    },
    removeItem: (name) => kept.delete(name),
  };
  return kept;
}

afterEach(() => {
  delete globalThis.localStorage;
});

test("a value is kept as JSON, and told of by an event of its name", () => {
  const kept = browserWith(9);
  const settings = new Settings();
  let told = 0;
  settings.addEventListener("params", () => {
    told += 1;
  });
  settings.set("params", { n: 1 });
  assert.equal(told, 1);
  assert.equal(kept.get("afterword.params"), '{"n":1}');
  assert.deepEqual(new Settings().get("params", null), { n: 1 });
});

test("what was never kept is what the caller says", () => {
  browserWith(9);
  assert.equal(new Settings().get("theme", "auto"), "auto");
});

test("null forgets a value", () => {
  const kept = browserWith(9);
  const settings = new Settings();
  settings.set("key", "secret");
  settings.set("key", null);
  assert.equal(kept.size, 0);
  assert.equal(settings.get("key", ""), "");
  assert.equal(new Settings().get("key", ""), "");
});

test("a value that cannot be read counts as none", () => {
  browserWith(9).set("afterword.params", "{");
  assert.deepEqual(new Settings().get("params", {}), {});
});

test("where nothing can be kept values last as long as the page", () => {
  browserWith(0);
  const settings = new Settings();
  settings.set("theme", "dark");
  assert.equal(settings.get("theme", "auto"), "dark");
  delete globalThis.localStorage;
  assert.equal(settings.get("theme", "auto"), "dark");
  assert.equal(settings.get("typeface", "serif"), "serif");
});

test("without a database the tree is not kept, and says so", async () => {
  const kept = browserWith(9);
  const store = await TreeStore.open(new Settings());
  assert.equal(store.lasting, false);
  store.put([["a", { id: "a" }]]);
  store.keep();
  await store.write();
  assert.deepEqual(await store.load(), []);
  assert.equal(kept.size, 0);
});

test("what a page had no time to write takes the place of what is written", () => {
  const written = [{ id: "a" }, { id: "b", name: "old" }, { id: "c" }];
  const kept = JSON.parse(
    JSON.stringify([
      ["b", { id: "b", name: "new" }],
      ["c", undefined],
      ["d", { id: "d" }],
    ]),
  );
  const { nodes, late } = merged(written, kept);
  assert.deepEqual(nodes, [{ id: "a" }, { id: "b", name: "new" }, { id: "d" }]);
  assert.deepEqual(late, [
    ["b", { id: "b", name: "new" }],
    ["c", undefined],
    ["d", { id: "d" }],
  ]);
});
