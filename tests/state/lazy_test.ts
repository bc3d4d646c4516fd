/** Files as memory: what is read, and when; what happens to a file meanwhile; loading into models. @module */
import assert from "node:assert/strict";
import { Device, DeviceError, FormatError, nn, state, Tensor } from "../../mod.ts";
import { fill } from "../nn/support.ts";
import { inFolder } from "../support/folder.ts";

const disk = Device.get("DISK");

/** Bytes read by `fn`. */
async function bytesRead(fn: () => unknown): Promise<number> {
  const before = disk.info().bytesRead as number;
  await fn();
  return disk.info().bytesRead as number - before;
}

/** A safetensors file of one float32 tensor that is nearly all hole: `rows` of 1024, the rows of `known` filled. */
async function sparse(path: string, rows: number, known: Readonly<Record<number, number>>): Promise<void> {
  const nbytes = rows * 4096, header = `{"w":{"dtype":"F32","shape":[${rows},1024],"data_offsets":[0,${nbytes}]}}`;
  const head = new TextEncoder().encode(header.padEnd(Math.ceil(header.length / 8) * 8));
  using file = await Deno.open(path, { write: true, create: true });
  await file.write(new Uint8Array(new BigUint64Array([BigInt(head.length)]).buffer));
  await file.write(head);
  for (const [row, value] of Object.entries(known)) {
    await file.seek(8 + head.length + Number(row) * 4096, Deno.SeekMode.Start);
    await file.write(new Uint8Array(new Float32Array(1024).fill(value).buffer));
  }
  await file.truncate(8 + head.length + nbytes);
}

Deno.test("lazy: a slice of 8 GB reads its own bytes, wherever it is used", () =>
  inFolder(async (folder) => {
    const path = `${folder}/large.safetensors`, last = 2 ** 21 - 1;
    await sparse(path, last + 1, { 7: 1.5, [last]: 2.5 });
    let w: Tensor, onDisk: Tensor;
    assert.ok(
      await bytesRead(async () => {
        w = (await state.safeLoad(path)).w;
        onDisk = (await state.safeLoad(path, { device: "DISK" })).w;
      }) < 1000,
    );
    assert.deepEqual([w!.shape, w!.device, onDisk!.device], [[2 ** 21, 1024], Device.default, "DISK"]);
    assert.equal(
      await bytesRead(async () => {
        assert.deepEqual([...await w.at(last).data()], new Array(1024).fill(2.5));
      }),
      4096,
    );
    assert.equal(
      await bytesRead(async () => {
        assert.equal(await w.at([6, 8]).sum().item(), 1.5 * 1024);
        assert.deepEqual(await onDisk.at(7, [3, 5]).tolist(), [1.5, 1.5]);
        assert.deepEqual(await onDisk.at([last, null]).to("JS").mean().tolist(), 2.5);
      }),
      2 * 4096 + 8 + 4096,
    );
  }));

Deno.test("lazy: nothing is read before it is used; what was used is not read again", () =>
  inFolder(async (folder) => {
    const path = `${folder}/a.safetensors`;
    await state.safeSave({ a: fill([600, 1024], 0.3, 0), b: fill([10], 0.2, 0) }, path);
    const { a, b } = await state.safeLoad(path);
    assert.equal(await bytesRead(() => b.realize()), 40);
    assert.equal(await bytesRead(() => Tensor.realize([a.sum(), a.max()])), 600 * 4096);
    const want = await fill([600, 1024], 0.3, 0).sum().item();
    assert.ok(Math.abs(Number(await a.sum().item()) - Number(want)) < 1e-2);
    assert.equal(await bytesRead(async () => void await b.tolist()), 0);
  }));

Deno.test("lazy: without FFI, a file that changed is told, not read", () =>
  inFolder(async (folder) => {
    const mod = new URL("../../mod.ts", import.meta.url).href, path = `${folder}/a.safetensors`;
    await Deno.writeTextFile(
      `${folder}/main.ts`,
      `import { Device, state, Tensor } from "${mod}";
      Device.default = "JS";
      const path = ${JSON.stringify(path)};
      await state.safeSave({ w: Tensor.arange(1_000_000) }, path);
      const { w } = await state.safeLoad(path);
      console.log(Device.get("DISK").info().mapped, await w.at([999_998, 1_000_000]).tolist());
      await Deno.truncate(path, 2_000_000);
      await w.at([0, 2]).tolist().catch((e) => console.log(e.name, e.message.split(": ")[1]));
      await Deno.remove(path);
      await w.at([1, 2]).tolist().catch((e) => console.log(e.name, e.message.split(": ")[1]));`,
    );
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-check", "--no-prompt", "--allow-read", "--allow-write", `${folder}/main.ts`],
    }).output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));
    const changed = "FormatError it was changed or removed after it was loaded";
    assert.equal(new TextDecoder().decode(stdout), `false [ 999998, 999999 ]\n${changed}\n${changed}\n`);
  }));

Deno.test("lazy: a file that is cut short while it is mapped is told", () =>
  inFolder(async (folder) => {
    const path = `${folder}/a.safetensors`;
    await state.safeSave({ w: Tensor.arange(1_000_000) }, path);
    const { w } = await state.safeLoad(path);
    await Deno.truncate(path, 2_000_000);
    await assert.rejects(() => w.at([999_999, 1_000_000]).tolist(), (e) => e instanceof FormatError);
  }));

Deno.test("lazy: a file may be saved over while its tensors are in use", () =>
  inFolder(async (folder) => {
    const path = `${folder}/a.safetensors`;
    await state.safeSave({ w: Tensor.arange(1_000_000), b: Tensor.ones([2]) }, path);
    for (let i = 0; i < 2; i++) {
      const { w, b } = await state.safeLoad(path);
      await state.safeSave({ w, b: b.add(1) }, path);
    }
    const { w, b } = await state.safeLoad(path);
    assert.deepEqual(await w.at([999_998, null]).tolist(), [999_998, 999_999]);
    assert.deepEqual(await b.tolist(), [3, 3]);
    assert.deepEqual([...Deno.readDirSync(folder)].map((e) => e.name), ["a.safetensors"]);
  }));

Deno.test("lazy: DISK neither computes nor takes values", () =>
  inFolder(async (folder) => {
    await Deno.writeFile(`${folder}/b`, new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]));
    const t = await state.fromFile(`${folder}/b`, { device: "DISK" });
    assert.equal(t.device, "DISK");
    for (const fn of [() => t.add(1).realize(), () => Tensor.ones([2]).to("DISK").realize()]) {
      assert.throws(fn, (e: unknown) => e instanceof DeviceError && /DISK: files are only read/.test(e.message));
    }
    assert.deepEqual(await t.at([2, 4]).to("JS").add(1).tolist(), [4, 5]);
    const words = await state.fromFile(`${folder}/b`, { dtype: "uint16", offset: 2 });
    assert.deepEqual(await words.tolist(), [0x0403, 0x0605, 0x0807]);
    assert.deepEqual(await (await state.fromFile(`${folder}/b`, { shape: [2, 2], offset: 1 })).tolist(), [[2, 3], [
      4,
      5,
    ]]);
    await assert.rejects(() => state.fromFile(`${folder}/b`, { shape: [9] }), FormatError);
    await assert.rejects(
      () => state.fromFile(folder),
      (e) => e instanceof FormatError && /it is no file/.test(e.message),
    );
    await assert.rejects(() => state.fromFile(`${folder}/none`), Deno.errors.NotFound);
  }));

Deno.test("lazy: loading a model reads each tensor once, and leaves no second copy on the device", () =>
  inFolder(async (folder) => {
    const path = `${folder}/m.safetensors`, made = [new nn.Linear(600, 600), new nn.Linear(600, 600)];
    await state.safeSave(state.getStateDict(made), path);
    const want = await made[1].weight.at(599, [590, 600]).tolist(), before = Device.memory().JS.bytes;
    for (const realized of [false, true]) {
      const model = [new nn.Linear(600, 600), new nn.Linear(600, 600)];
      if (realized) Tensor.realize(state.getParameters(model));
      const dict = await state.safeLoad(path);
      const read = await bytesRead(() => state.loadStateDict(model, dict, { consume: true }));
      assert.equal(read, 2 * 4 * (600 * 600 + 600));
      assert.deepEqual(Object.keys(dict), []);
      assert.deepEqual(await model[1].weight.at(599, [590, 600]).tolist(), want);
      assert.equal(model[0].weight.requiresGrad, true);
      if (!realized) continue;
      const after = Device.memory().JS.bytes - before;
      assert.ok(after < 2.5 * 2 * 4 * 600 * 600, `${after} bytes more`);
    }
  }));

Deno.test("lazy: a model that was just made never draws its initial values; it trains", () => {
  const model = new nn.Linear(2, 1),
    dict = { weight: new Tensor([[2, 3]], { dtype: "float32" }), bias: Tensor.ones([1]) };
  state.loadStateDict(model, dict);
  const optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 1 });
  Tensor.train(() => {
    optimizer.zeroGrad();
    model.call(new Tensor([[1, 1]], { dtype: "float32" })).sum().backward();
    optimizer.step();
  });
  assert.deepEqual(model.weight.tolistSync(), [[1, 2]]);
  assert.deepEqual(dict.weight.tolistSync(), [[2, 3]]);
  assert.deepEqual(dict.bias.tolistSync(), [1]);
});
