/** Safetensors: round trips, PyTorch's layout, and every way a header can lie. @module */
import assert from "node:assert/strict";
import { FormatError, state, Tensor } from "../../mod.ts";
import "../nn/support.ts";
import { inFolder } from "../support/folder.ts";

/** A file of a header text and some data bytes. */
function file(header: string, data = 0): Uint8Array {
  const head = new TextEncoder().encode(header), out = new Uint8Array(8 + head.length + data);
  new DataView(out.buffer).setBigUint64(0, BigInt(head.length), true);
  out.set(head, 8);
  return out;
}

Deno.test("safetensors: every dtype comes back, bit for bit", async () => {
  const dict: Record<string, Tensor> = {};
  for (const d of ["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "uint64", "float32", "float64"]) {
    dict[d] = new Tensor([[0, 1, 2], [3, 100, 7]], { dtype: d });
  }
  dict.half = new Tensor([0.5, -2, 65504], { dtype: "float16" });
  dict.brain = new Tensor([0.5, -2, 3e38], { dtype: "bfloat16" });
  dict.small = new Tensor([0.5, -2, 448], { dtype: "fp8e4m3" });
  dict.tiny = new Tensor([0.5, -2, Infinity], { dtype: "fp8e5m2" });
  dict.flags = new Tensor([true, false]);
  dict.scalar = new Tensor(2.5);
  dict.none = Tensor.zeros([0, 3]);
  dict["__proto__x"] = new Tensor([1]);
  const bytes = await state.safeBytes(dict, { metadata: { made: "here" } });
  assert.equal(bytes.length % 8 >= 0 && new DataView(bytes.buffer).getUint32(0, true) % 8, 0);
  const back = state.safeParse(bytes);
  assert.deepEqual(Object.keys(back).sort(), Object.keys(dict).sort());
  for (const [name, t] of Object.entries(dict)) {
    assert.equal(back[name].dtype, t.dtype);
    assert.deepEqual(back[name].shape, t.shape);
    assert.deepEqual([...await back[name].data()], [...await t.data()], name);
  }
});

Deno.test("safetensors: files", () =>
  inFolder(async (dir) => {
    const path = `${dir}/a.safetensors`;
    await state.safeSave({ w: new Tensor([[1, 2], [3, 4.5]]) }, path, { metadata: { k: "v" } });
    assert.deepEqual([...Deno.readDirSync(dir)].map((e) => e.name), ["a.safetensors"]);
    assert.deepEqual(await (await state.safeLoad(path)).w.tolist(), [[1, 2], [3, 4.5]]);
    assert.deepEqual(await state.safeLoadMetadata(path), { k: "v" });
    await state.safeSave({ w: new Tensor([7]) }, path);
    assert.deepEqual(await (await state.safeLoad(path)).w.tolist(), [7]);
    await assert.rejects(() => state.safeSave({ w: new Tensor([7]) }, `${dir}/no/such/folder.safetensors`));
    assert.deepEqual([...Deno.readDirSync(dir)].map((e) => e.name), ["a.safetensors"]);
    await Deno.writeFile(`${dir}/b`, file("{", 4));
    await assert.rejects(
      () => state.safeLoad(`${dir}/b`),
      (e: unknown) => e instanceof FormatError && /\/b: /.test(e.message),
    );
  }));

Deno.test("saving: a file has the values of one moment, whatever runs beside it, and does not wait for each tensor", async () => {
  const dir = await Deno.makeTempDir(), names = Array.from({ length: 40 }, (_, i) => `w${i}`);
  const dict = Object.fromEntries(names.map((n, i) => [n, Tensor.zeros([3 + i], { device: "JS" }).clone().realize()]));
  const ways: [string, (path: string) => Promise<void>, (path: string) => Promise<Record<string, Tensor>>][] = [
    ["safetensors", (path) => state.safeSave(dict, path), state.safeLoad],
    ["shards", (path) => state.safeSave(dict, path, { maxShardBytes: 1000 }), (p) => state.safeLoad(`${p}.index.json`)],
    ["npz", (path) => state.npzSave(dict, path), state.npzLoad],
  ];
  try {
    for (const [name, save, load] of ways) {
      let steps = 0, done = false;
      const train = async () => {
        while (!done) {
          for (const t of Object.values(dict)) t.addInPlace(1);
          Tensor.realize(Object.values(dict));
          steps++;
          await dict.w0.max().item();
        }
      };
      const running = train(), before = steps, path = `${dir}/${name}.safetensors`;
      await save(path).finally(() => done = true);
      await running;
      const loaded = Object.values(await load(path)), values = new Set<unknown>();
      for (const t of loaded) for (const v of await t.tolist() as number[]) values.add(v);
      assert.equal(loaded.length, names.length, name);
      assert.equal(values.size, 1, `${name} has the values ${[...values]}`);
      // shards and members of archives are written one after the other
      assert.ok(name !== "safetensors" || steps - before < 2 * names.length, `${name} took ${steps - before} steps`);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

const F32 = (shape: string, from: number, to: number) =>
  `{"dtype":"F32","shape":[${shape}],"data_offsets":[${from},${to}]}`;
const BAD: readonly (readonly [string, Uint8Array, RegExp])[] = [
  ["nothing", new Uint8Array(0), /0 bytes, too few/],
  ["seven bytes", new Uint8Array(7), /7 bytes, too few/],
  ["a header beyond the end", new Uint8Array([9, 0, 0, 0, 0, 0, 0, 0]), /header has 9 bytes, and only 0 follow/],
  ["a huge header", new Uint8Array(16).fill(255), /more than 100000000/],
  ["no JSON", file("{nope"), /no valid JSON/],
  ["no UTF-8", file("\u0000").fill(0xff, 8), /no valid JSON/],
  ["no object", file("[]"), /no JSON object/],
  ["a duplicate key", file(`{"a":${F32("1", 0, 4)},"a":${F32("1", 0, 4)}}`, 4), /duplicate key "a"/],
  ["an unknown dtype", file('{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}}', 4), /"a" has dtype "Q4"/],
  ["no dtype", file('{"a":{"shape":[1],"data_offsets":[0,4]}}', 4), /"a" has dtype/],
  ["a negative size", file(`{"a":${F32("-1", 0, 4)}}`, 4), /no valid shape/],
  ["a fractional size", file(`{"a":${F32("1.5", 0, 6)}}`, 6), /no valid shape/],
  ["one offset", file('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}', 4), /no valid data_offsets/],
  ["offsets reversed", file(`{"a":${F32("1", 4, 0)}}`, 4), /needs 4 bytes and has -4/],
  ["bytes that do not fit the shape", file(`{"a":${F32("2", 0, 4)}}`, 4), /needs 8 bytes and has 4/],
  ["a shape that overflows", file(`{"a":${F32("9007199254740991,9007199254740991", 0, 4)}}`, 4), /"a".*needs/],
  ["an overlap", file(`{"a":${F32("2", 0, 8)},"b":${F32("1", 4, 8)}}`, 8), /"b" overlaps/],
  ["a hole", file(`{"a":${F32("1", 0, 4)},"b":${F32("1", 8, 12)}}`, 12), /hole of 4 bytes before tensor "b"/],
  ["truncation", file(`{"a":${F32("2", 0, 8)}}`, 7), /truncated/],
  ["bytes after the end", file(`{"a":${F32("1", 0, 4)}}`, 5), /1 bytes follow/],
  ["an unknown field", file('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}', 4), /unknown field "x"/],
  ["metadata that is no text", file('{"__metadata__":{"a":1}}'), /metadata "a" is no text/],
];
for (const [name, bytes, why] of BAD) {
  Deno.test(`safetensors: rejects ${name}`, () => {
    assert.throws(() => state.safeParse(bytes), (e: unknown) => e instanceof FormatError && why.test(e.message));
  });
}
