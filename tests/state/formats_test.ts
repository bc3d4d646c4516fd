/** What PyTorch and NumPy wrote is read; what is written comes back, and NumPy's own layout is kept. @module */
import assert from "node:assert/strict";
import { ArgumentError, DTypeError, nn, state, Tensor } from "../../mod.ts";
import "../nn/support.ts";
import { encodeGguf, readGguf } from "../../src/llm/llm.ts";
import { load, toBytes } from "../../src/onnx/onnx.ts";
import { inFolder } from "../support/folder.ts";

const FIXTURES = new URL("fixtures/", import.meta.url);
const at = (name: string) => new URL(name, FIXTURES);

const range = (n: number, from = 0, step = 1) => Array.from({ length: n }, (_, i) => from + i * step);
const rows = (flat: number[], width: number) =>
  Array.from({ length: flat.length / width }, (_, i) => flat.slice(i * width, (i + 1) * width));

const base = range(24);
const TENSORS: Readonly<Record<string, unknown>> = {
  dense: [rows(base.slice(0, 12), 4), rows(base.slice(12), 4)],
  transposed: range(6).map((c) => range(4).map((r) => r * 6 + c)),
  permuted: range(4).map((k) => range(2).map((i) => range(3).map((j) => i * 12 + j * 4 + k))),
  columns: [[1, 2], [7, 8], [13, 14], [19, 20]],
  stepped: range(8, 1, 3),
  expanded: [[0, 0], [1, 1], [2, 2]],
  scalar: 5,
  empty: [],
  parameter: [0, 1, 2, 3],
  tail: [20, 21, 22, 23],
};
for (const file of ["state.pt", "legacy.pt"]) {
  Deno.test(`torch: ${file}`, async () => {
    const dict = await state.torchLoad(at(file));
    for (const [name, want] of Object.entries(TENSORS)) {
      assert.deepEqual(await dict[name].tolist(), want, name);
      assert.equal(dict[name].dtype.name, "float32");
    }
    assert.deepEqual(dict.empty.shape, [0, 3]);
    const names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float64"];
    for (const name of names) {
      assert.equal(dict[name].dtype.name, name);
      assert.deepEqual(await dict[name].tolist(), name === "bool" ? [false, true, true, true] : [0, 1, 2, 100], name);
    }
    assert.deepEqual(Object.keys(dict), [...Object.keys(TENSORS), ...names]);
  });
}

Deno.test("torch: dtypes without a storage of their own", async () => {
  const dict = await state.torchLoad(at("untyped.pt"));
  for (
    const [name, dtype, last] of [
      ["uint16", "uint16", 100],
      ["uint32", "uint32", 100],
      ["uint64", "uint64", 100],
      ["float8_e4m3fn", "fp8e4m3", 96],
      ["float8_e5m2", "fp8e5m2", 96],
    ] as const
  ) {
    assert.equal(dict[name].dtype.name, dtype);
    assert.deepEqual(await dict[name].tolist(), [0, 1, 2, last], name);
  }
});

Deno.test("torch: what stands beside tensors is plain values: of NumPy, of argparse, of collections, of paths", async () => {
  const { array, mask, weight, ...rest } = await state.torchLoad<Record<string, Tensor>>(at("values.pt"));
  assert.deepEqual([array.dtype.name, await array.tolist()], ["float32", [[0, 1, 2], [3, 4, 5]]]);
  assert.deepEqual([await mask.tolist(), await weight.tolist()], [[true, false], [0, 1]]);
  assert.deepEqual(
    rest,
    {
      numbers: { best: 0.5, step: 7, big: 2n ** 60n, done: true },
      args: { lr: 0.1, hidden: [4, 8] },
      path: "/data/a.txt",
      counts: { a: 2, b: 1 },
      table: { a: [1] },
      names: ["x"],
      z: { re: 1, im: 2 },
      part: [1, null, null],
    } as unknown as typeof rest,
  );
});

Deno.test("torch: what is no plain value is refused, with what to do in Python", async () => {
  const sparse = /asks for "torch\._utils\._rebuild_sparse_tensor", which is not allowed: call \.to_dense\(\)/;
  await assert.rejects(state.torchLoad(at("sparse.pt")), sparse);
  const module =
    /asks for "torch\.nn\.modules\.linear\.Linear", which is not allowed: save what is plain, .*state_dict\(\)/;
  await assert.rejects(state.torchLoad(at("module.pt")), module);
});

Deno.test("npz: beside texts the arrays are read by their names", async () => {
  await assert.rejects(state.npzLoad(at("text.npz")), /its elements are '<U2': .* read by \{ names: \["a","b"\] \}/);
  const { a, b, ...none } = await state.npzLoad(at("text.npz"), { names: ["a", "b"] });
  assert.deepEqual([await a.tolist(), await b.tolist(), none], [[0, 1], [0, 1, 2], {}]);
  await assert.rejects(state.npzLoad(at("text.npz"), { names: ["c"] }), /no array "c"; its members are names\.npy, a/);
  await assert.rejects(state.npzLoad(at("text.npz"), { names: ["names"] }), /its elements are '<U2'/);
  await assert.rejects(
    state.npzLoad(at("text.npz"), { names: "a" as never }),
    /names must be a list of names, not "a"/,
  );
});

Deno.test("torch: a tar archive of PyTorch 0.1", async () => {
  const { w, b } = await state.torchLoad(at("old.pt"));
  assert.deepEqual(await w.tolist(), [[0, 1, 2], [3, 4, 5]]);
  assert.deepEqual(await b.tolist(), [1, 3]);
});

Deno.test("torch: a checkpoint of more than tensors; its weights load into a model", async () => {
  const saved = await state.torchLoad<{ model: state.StateDict }>(at("checkpoint.pt"));
  const { model, ...rest } = saved;
  assert.deepEqual(rest as unknown, {
    epoch: 3,
    lr: 0.5,
    tags: ["a", ["b", null, true]],
    big: 2n ** 70n,
    raw: new Uint8Array([0, 255]),
    shape: [2, 3],
  });
  const layer = new nn.Linear(2, 1);
  state.loadStateDict(layer, model);
  assert.deepEqual(await layer.weight.tolist(), await model.weight.tolist());
});

Deno.test("torch: tensors stay on DISK where that is asked for and possible, and slices read their bytes", async () => {
  const dict = await state.torchLoad(at("state.pt"), { device: "DISK" });
  assert.equal(dict.dense.device, "DISK");
  assert.notEqual(dict.columns.device, "DISK");
  assert.deepEqual(await dict.dense.at(1, 2).to("JS").tolist(), [20, 21, 22, 23]);
  assert.deepEqual(await dict.columns.at(3).tolist(), [19, 20]);
});

Deno.test("npy: C and Fortran order, both byte orders, scalars", async () => {
  const grid = [[0, 1, 2], [3, 4, 5]];
  for (
    const [file, dtype, want] of [
      ["c", "int32", grid],
      ["fortran", "float64", grid],
      ["big", "float32", grid],
      ["scalar", "float16", 0.5],
    ] as const
  ) {
    for (const device of [undefined, "DISK"]) {
      const t = await state.npyLoad(at(`${file}.npy`), { device });
      assert.equal(t.dtype.name, dtype);
      assert.deepEqual(await t.tolist(), want, file);
    }
    assert.deepEqual(await state.npyParse(await Deno.readFile(at(`${file}.npy`))).tolist(), want);
    const bytes = new Tensor(await Deno.readFile(at(`${file}.npy`)));
    assert.deepEqual(await (await state.npyLoad(bytes)).tolist(), want);
  }
});

Deno.test("npy: written as NumPy writes it, byte for byte", async () => {
  const grid = new Tensor([[0, 1, 2], [3, 4, 5]]);
  assert.deepEqual(await state.npyBytes(grid), await Deno.readFile(at("c.npy")));
  await assert.rejects(() => state.npyBytes(grid.cast("bfloat16")), DTypeError);
  await inFolder(async (folder) => {
    await state.npySave(grid.transpose().cast("float64"), `${folder}/t.npy`);
    assert.deepEqual(await (await state.npyLoad(`${folder}/t.npy`)).tolist(), [[0, 3], [1, 4], [2, 5]]);
    assert.deepEqual([...Deno.readDirSync(folder)].map((e) => e.name), ["t.npy"]);
  });
});

Deno.test("npz: stored and deflated, there and back", async () => {
  for (const file of ["stored", "deflated"]) {
    const { a, b, c } = await state.npzLoad(at(`${file}.npz`));
    assert.deepEqual([await a.tolist(), await b.tolist(), c.shape], [[0, 1, 2], [[true, false]], [0, 2]]);
    assert.deepEqual([a.dtype.name, b.dtype.name, c.dtype.name], ["uint8", "bool", "int64"]);
  }
  await inFolder(async (folder) => {
    for (const compressed of [false, true]) {
      const path = `${folder}/a.npz`, dict = { "läyer.w": Tensor.arange(1000), "b/c": new Tensor([true]) };
      await state.npzSave(dict, path, { compressed });
      const back = await state.npzLoad(path);
      assert.deepEqual(Object.keys(back), Object.keys(dict));
      assert.deepEqual(await back["läyer.w"].tolist(), range(1000));
      assert.equal((await Deno.stat(path)).size < 3000, compressed);
    }
  });
});

Deno.test("zip and tar: members as bytes, links left out", async () => {
  const zip = await state.zipExtract(at("deflated.npz"));
  assert.deepEqual(Object.keys(zip), ["a.npy", "b.npy", "c.npy"]);
  assert.deepEqual(await (await state.npyLoad(zip["a.npy"])).tolist(), [0, 1, 2]);
  const tar = await state.tarExtract(at("small.tar"));
  assert.deepEqual(Object.keys(tar), ["a.txt", `d/${"n".repeat(120)}.bin`]);
  assert.equal(new TextDecoder().decode(await tar["a.txt"].data() as Uint8Array), "hello");
  const gnu = await state.tarExtract(at("gnu.tar.gz"));
  assert.deepEqual(await gnu["x".repeat(150)].tolist(), [97, 98, 99]);
});

Deno.test("loading: bytes in every form, and URLs of servers are told what to do", async () => {
  const w = new Tensor([1, 2]), tree = { w: new Tensor([0, 0]) }, model = (t: Tensor) => t.add(1);
  const loaders: [string, Uint8Array<ArrayBuffer>, (from: state.Loadable) => Promise<unknown>][] = [
    [
      "safeLoad",
      Uint8Array.from(await state.safeBytes({ w })),
      async (from) => (await state.safeLoad(from)).w.tolist(),
    ],
    ["npyLoad", Uint8Array.from(await state.npyBytes(w)), async (from) => (await state.npyLoad(from)).tolist()],
    ["zipExtract", await Deno.readFile(at("stored.npz")), async (from) => Object.keys(await state.zipExtract(from))],
    ["npzLoad", await Deno.readFile(at("stored.npz")), async (from) => Object.keys(await state.npzLoad(from))],
    ["tarExtract", await Deno.readFile(at("small.tar")), async (from) => Object.keys(await state.tarExtract(from))],
    ["torchLoad", await Deno.readFile(at("state.pt")), async (from) => (await state.torchLoad(from)).scalar.item()],
    ["loadCheckpoint", Uint8Array.from(await state.checkpointBytes({ tree: { w } })), async (from) => {
      await state.loadCheckpoint(from, { tree });
      return tree.w.tolist();
    }],
    ["onnx.load", Uint8Array.from(await toBytes(model, [Tensor.ones([2])])), async (from) => {
      const [y] = (await load(from)).call(Tensor.zeros([2]));
      return (y as Tensor).tolist();
    }],
    [
      "readGguf",
      Uint8Array.from(await encodeGguf({ metadata: {}, tensors: { w } })),
      async (from) => (await readGguf(from)).tensors.get("w")!.load().tolist(),
    ],
  ];
  for (const [name, bytes, use] of loaders) {
    const want = await use(new Tensor(bytes));
    for (const from of [bytes, bytes.buffer, new Blob([bytes]), new File([bytes], "a")]) {
      assert.deepEqual(await use(from), want, `${name} of a ${from.constructor.name}`);
    }
    for (const from of ["https://a.b/c", new URL("http://a.b/c")]) {
      await assert.rejects(
        () => use(from),
        (e: Error) =>
          e instanceof ArgumentError &&
          /must be file:, not https?:; bytes that were fetched can be loaded/.test(e.message),
      );
    }
    await assert.rejects(() => use(new Response("x") as never), { name: "ArgumentError", message: /not a Response/ });
  }
  assert.equal((await state.safeLoad(String(at("none"))).catch((e) => e)).code, "ENOENT");
});

Deno.test("TensorIO: reads, seeks and writes", async () => {
  const file = new state.TensorIO(new Tensor(new Uint8Array(range(10))));
  assert.deepEqual([...await file.read(3)], [0, 1, 2]);
  assert.equal(file.seek(2, "current"), 5);
  const into = new Uint8Array(3);
  assert.equal(await file.readinto(into), 3);
  assert.deepEqual([...into, file.tell()], [5, 6, 7, 8]);
  assert.equal(file.seek(-1, "end"), 9);
  assert.deepEqual([...await file.read(), ...await file.read()], [9]);
  file.seek(8);
  assert.equal(file.write(new Uint8Array([70, 80, 90])), 2);
  file.seek(7);
  assert.deepEqual([...await file.read()], [7, 70, 80]);
  assert.throws(() => new state.TensorIO(Tensor.ones([2])), ArgumentError);
});

Deno.test("safetensors: several files and their index", () =>
  inFolder(async (folder) => {
    const dict = { a: Tensor.arange(10), b: Tensor.ones([6]), c: Tensor.zeros([2]) },
      path = `${folder}/model.safetensors`;
    await state.safeSave(dict, path, { maxShardBytes: 40 });
    const names = [1, 2].map((i) => `model-0000${i}-of-00002.safetensors`);
    assert.deepEqual([...Deno.readDirSync(folder)].map((e) => e.name).sort(), [
      ...names,
      "model.safetensors.index.json",
    ]);
    const index = JSON.parse(await Deno.readTextFile(`${path}.index.json`));
    assert.deepEqual(index, { metadata: { total_size: 72 }, weight_map: { a: names[0], b: names[1], c: names[1] } });
    const back = await state.safeLoad(`${path}.index.json`);
    for (const [name, t] of Object.entries(dict)) assert.deepEqual(await back[name].tolist(), await t.tolist());
    assert.deepEqual(await (await state.safeLoad(new URL(`file://${path}.index.json`))).c.tolist(), [0, 0]);
    await state.safeSave(dict, path, { maxShardBytes: 1000 });
    assert.deepEqual(Object.keys(await state.safeLoad(path)).sort(), ["a", "b", "c"]);
  }));

Deno.test("saving: an error leaves the target as it was, and nothing beside it", () =>
  inFolder(async (folder) => {
    const path = `${folder}/a.npz`, sound = Tensor.ones([3]);
    await state.npzSave({ sound }, path);
    const before = await Deno.readFile(path), gone = Tensor.ones([2]).add(1).realize();
    const broken = {
      get shape(): number[] {
        throw new Error("broken");
      },
    };
    gone.dispose();
    for (const bad of [gone, broken as Tensor]) {
      await assert.rejects(() => state.npzSave({ sound, bad }, path));
      await assert.rejects(() => state.safeSave({ sound, bad }, path));
      await assert.rejects(() => state.npySave(bad, path));
    }
    await Deno.mkdir(`${folder}/taken`);
    await assert.rejects(() => state.npySave(sound, `${folder}/taken`));
    assert.deepEqual(await Deno.readFile(path), before);
    assert.ok([...Deno.readDirSync(folder)].every((e) => !e.name.endsWith(".part")));
  }));

Deno.test("state: loading tells all that is missing and all that the model has not; verbose, consume, lazy", async () => {
  const layer = new nn.Linear(2, 1), { weight, bias } = state.getStateDict(new nn.Linear(2, 1));
  assert.throws(
    () => state.loadStateDict(layer, { weight, extra: bias, more: bias }),
    (e: unknown) =>
      e instanceof ArgumentError &&
      /: it lacks bias; the model has no extra, more; \{ strict: false \} loads the rest$/.test(e.message),
  );
  assert.throws(
    () => state.loadStateDict(layer, weight as never),
    /it must be an object of tensors by name, not a tensor/,
  );
  const dict: state.StateDict = { weight, bias, extra: bias }, lines: string[] = [], print = console.error;
  console.error = (line: string) => lines.push(line);
  try {
    state.loadStateDict(layer, dict, { strict: false, verbose: true, consume: true, realize: false });
  } finally {
    console.error = print;
  }
  assert.deepEqual(lines, ["weight [1, 2] float32 JS", "bias [1] float32 JS"]);
  assert.deepEqual(Object.keys(dict), ["extra"]);
  assert.equal(layer.weight.isRealized, false);
  assert.deepEqual(await layer.weight.tolist(), await weight.tolist());
});
