/** The cache of compiled objects: what a crash at any byte, damage, other processes and a full directory leave of it. */
import assert from "node:assert/strict";
import { digest, ObjectCache } from "../../src/device/object_cache.ts";
import { inFolder } from "../support/folder.ts";

/** Gives what a function with a folder writes to standard error. */
async function heardIn(fn: (root: string) => void | Promise<void>): Promise<string[]> {
  const lines: string[] = [], { error } = console;
  console.error = (line: string) => void lines.push(line);
  try {
    await inFolder(fn);
  } finally {
    console.error = error;
  }
  return lines;
}

function cacheIn(root: string): ObjectCache {
  const cache = new ObjectCache(root, "objects", "CLANG", ".so");
  cache.refresh();
  return cache;
}

/** Adds an object of `size` bytes with one symbol. */
function add(cache: ObjectCache, key: string, size: number, symbol = "f"): string {
  const name = cache.newName(".so");
  cache.inFolder((folder) => {
    Deno.writeFileSync(`${folder}/made`, new Uint8Array(size).fill(key.charCodeAt(0)));
    Deno.renameSync(`${folder}/made`, `${cache.folder}/${name}`);
  });
  cache.add(name, [[digest(key), symbol]]);
  return name;
}

const has = (cache: ObjectCache, key: string): boolean => cache.get(digest(key)) !== undefined;

Deno.test("object cache: an index that ends at any byte names what is whole, and takes more", async () => {
  const lines = await heardIn((root) => {
    const first = cacheIn(root);
    for (const key of ["a", "b", "c"]) add(first, key, 10);
    const index = `${root}/objects/index`, whole = Deno.readFileSync(index);
    const ends = [...whole].flatMap((byte, i) => byte === 10 && i > 0 && whole[i - 1] !== 10 ? [i] : []);
    assert.equal(ends.length, 3);
    for (let length = 0; length <= whole.length; length++) {
      Deno.writeFileSync(index, whole.subarray(0, length));
      const cache = cacheIn(root);
      ["a", "b", "c"].forEach((key, i) => assert.equal(has(cache, key), ends[i] <= length, `${key} at ${length}`));
      add(cache, "d", 5);
      assert.ok(has(cacheIn(root), "d"), `after ${length} bytes`);
    }
  });
  assert.deepEqual(lines, []);
});

Deno.test("object cache: an object that ends or differs at any byte is as good as absent, which is told once", async () => {
  for (const damage of ["cut", "flip"] as const) {
    for (let at = 0; at < 10; at++) {
      const lines = await heardIn((root) => {
        const first = cacheIn(root), path = `${root}/objects/${add(first, "a", 10)}`, bytes = Deno.readFileSync(path);
        add(first, "b", 10);
        if (damage === "flip") bytes[at] ^= 1;
        Deno.writeFileSync(path, damage === "flip" ? bytes : bytes.subarray(0, at));
        const cache = cacheIn(root);
        for (let i = 0; i < 3; i++) assert.equal(has(cache, "a"), false);
        assert.ok(has(cache, "b"));
        add(cache, "a", 10);
        assert.ok(has(cache, "a") && has(cacheIn(root), "a"));
      });
      assert.equal(lines.length, 1);
      assert.match(lines[0], /^CLANG: \S+\.so is damaged; its kernels are compiled again$/);
    }
  }
});

Deno.test("object cache: lines of other formats, and lines with bits changed, are passed over", async () => {
  await heardIn((root) => {
    add(cacheIn(root), "a", 10);
    const index = `${root}/objects/index`, line = Deno.readTextFileSync(index).trim();
    for (let i = 0; i < line.length; i++) {
      const other = line.slice(0, i) + String.fromCharCode(line.charCodeAt(i) ^ 1) + line.slice(i + 1);
      Deno.writeTextFileSync(index, `v9 ${line}\n\n${other}\n`);
      const entry = cacheIn(root).get(digest("a"));
      // but for its name, by which the loader asks, nothing of a good line can be wrong
      if (entry !== undefined) assert.notEqual(entry.symbol, "f");
    }
  });
});

Deno.test("object cache: beyond its size the objects not used for longest go", async () => {
  await heardIn((root) => {
    const cache = cacheIn(root), other = cacheIn(root), keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    keys.forEach((key, i) => {
      const path = `${root}/objects/${add(cache, key, 1000)}`;
      Deno.utimeSync(path, 1e9 + i, 1e9 + i);
    });
    other.refresh();
    assert.ok(has(cacheIn(root), "a")); // used now
    cache.limit(8000);
    assert.ok(keys.every((key) => has(cache, key)));
    cache.limit(6000);
    const left = keys.filter((key) => has(cache, key));
    assert.deepEqual(left, ["a", "f", "g", "h"]);
    const fresh = cacheIn(root);
    assert.deepEqual(keys.filter((key) => has(fresh, key)), left);
    // one that knew the others finds them missing, and may add them again
    assert.deepEqual(keys.filter((key) => has(other, key)), left);
    add(other, "c", 1000);
    assert.ok(has(cacheIn(root), "c"));
    assert.equal([...Deno.readDirSync(`${root}/objects`)].filter((f) => f.name.endsWith(".tmp")).length, 0);
  });
});

Deno.test("object cache: what two processes add at once, both see", async () => {
  await heardIn((root) => {
    const one = cacheIn(root), two = cacheIn(root);
    for (let i = 0; i < 20; i++) add(i % 2 === 0 ? one : two, `k${i}`, 10);
    for (const cache of [one, two]) {
      cache.refresh();
      for (let i = 0; i < 20; i++) assert.ok(has(cache, `k${i}`));
    }
  });
});
