/**
 * The programs of the documents that this library grew from, with the outcomes they promise: values on every device that
 * opens here, and what the scheduler makes of them (on NULL too, which compiles and runs nothing).
 */
import { assert, assertAlmostEquals, assertClose, assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  BufferCopy,
  CompiledKernel,
  GlobalCounters,
  nn,
  schedule,
  StaleReadError,
  state,
  Tensor,
  type View,
  viewOf,
} from "../../mod.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { toposort, type UOp } from "../../src/uop/core/uop.ts";
import { devicesHere } from "../fixtures/devices.ts";
import { onDevice } from "../support/on_device.ts";

const devices = await devicesHere("WEBGPU", "CUDA");

/** One test a device, which is the default one meanwhile. */
function each(name: string, fn: (device: string) => void | Promise<void>, on: readonly string[] = devices): void {
  for (const device of on) {
    Deno.test(`source programs ${device}: ${name}`, async () => {
      await onDevice(device, () => fn(device));
    });
  }
}

/** The names of the kernels that realizing `ts` takes. */
function kernels(...ts: Tensor[]): string[] {
  return schedule(ts).flatMap(({ runner }) => runner instanceof CompiledKernel ? [runner.name] : []);
}

/** The line of the caller in this file. */
function here(): number {
  const frames = new Error().stack!.split("\n").filter((l) => l.includes("source_programs_test.ts"));
  return Number(/:(\d+):\d+\)?$/.exec(frames[1])![1]);
}
/** The line of "path:line:column". */
function lineOf(text: string): number {
  assertMatch(text, /source_programs_test\.ts:\d+:\d+$/);
  return Number(text.split(":").at(-2));
}

async function floats(t: Tensor): Promise<number[]> {
  return Array.from(await t.data() as ArrayLike<number>);
}
const close = (got: unknown, want: unknown, tolerance = 1e-6): void => assertClose(got, want, tolerance);

// ---- [1, 2, 3] + 2

each("[1, 2, 3] + 2", async () => {
  assertEquals(await new Tensor([1, 2, 3]).add(2).tolist(), [3, 4, 5]);
});

each("[1, 2, 3] + 2 is a copy in, one kernel STORE(ADD(LOAD, CONST)) and a copy out", (device) => {
  const items = schedule([new Tensor([1, 2, 3]).add(2).to("JS")]);
  const steps = items.map(({ runner }) =>
    runner instanceof BufferCopy ? `${runner.to} <- ${runner.from} ${runner.nbytes}` : runner.kind
  );
  const copies = device === "JS" ? [] : [`${device} <- JS 12`, `JS <- ${device} 12`];
  assertEquals(steps, device === "JS" ? ["CompiledKernel"] : [copies[0], "CompiledKernel", copies[1]]);
  const { runner, bufs } = items.find((i) => i.runner instanceof CompiledKernel)!;
  const { ast } = runner as CompiledKernel;
  assertEquals(ast.op, Ops.SINK);
  assertEquals(ast.src.length, 1);
  const [store] = ast.src, value = store.src[1];
  assertEquals([store.op, value.op], [Ops.STORE, Ops.ADD]);
  assertEquals(value.src.map((u: UOp) => u.op), [Ops.LOAD, Ops.CONST]);
  assertEquals(value.src[1].value, 2);
  assertEquals(toposort(ast).filter((u) => u.op === Ops.RANGE).map((u) => u.src[0].value), [3]);
  assertEquals(bufs.map((b) => [b.dtype.name, b.size, b.device.name]), [["int32", 3, device], ["int32", 3, device]]);
}, [...devices, "NULL"]);

each("DEBUG=4 shows the tree of that kernel and its source", async (device) => {
  const mod = JSON.stringify(new URL("../../mod.ts", import.meta.url).href);
  const script = `import { Tensor } from ${mod}; console.log(await new Tensor([1, 2, 3]).add(2).tolist());`;
  const child = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", `data:application/typescript,${encodeURIComponent(script)}`],
    env: { DEBUG: "4", DEV: device, NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const out = new TextDecoder().decode(child.stdout), text = out + new TextDecoder().decode(child.stderr);
  assertEquals(child.code, 0, text);
  assertMatch(out, /\[ 3, 4, 5 \]/);
  assertMatch(text, /E_3/);
  for (const op of ["SINK", "STORE", "INDEX", "LOAD", "ADD", "RANGE", "PARAM"]) {
    assertMatch(text, new RegExp(`^.*\\b${op}\\b`, "m"));
  }
  assertMatch(text, /\bCONST\s+int32\s+2\b/);
  assertMatch(
    text,
    { CLANG: /void E_3\w*\(/, WASM: /i32\.add|i32x4\.add|\(module|func/, JS: /\+ \(?2\b/ }[device]!,
  );
});

// ---- padding and constants

each("[2, 2, 2] padded left by 2", async () => {
  assertEquals(await new Tensor([2, 2, 2]).pad([2, 0]).tolist(), [0, 0, 2, 2, 2]);
  assertEquals(await new Tensor([2, 2, 2]).pad([[2, 0]]).tolist(), [0, 0, 2, 2, 2]);
  assertEquals(kernels(new Tensor([2, 2, 2]).pad([2, 0])).length, 1);
});

each("arange(0.5, 2, 0.2) + 1.5", async () => {
  const t = Tensor.arange(0.5, 2, 0.2).add(1.5);
  assertEquals(t.shape, [8]);
  assert(kernels(t).length <= 1);
  close(await floats(t), [2, 2.2, 2.4, 2.6, 2.8, 3, 3.2, 3.4]);
});

each("ones * 15 + ones * 30 takes no kernel", async () => {
  const t = Tensor.ones([10]).mul(15).add(Tensor.ones([10]).mul(30));
  assertEquals(kernels(t), []);
  const before = GlobalCounters.kernelCount;
  assertEquals(await t.tolist(), new Array(10).fill(45));
  assertEquals(GlobalCounters.kernelCount - before, 0);
});

/** As NumPy: what the op makes of the data, of a padding zero, and the sums of both orders. */
const UNSAFE: [name: string, op: (t: Tensor) => Tensor, one: (x: number) => number][] = [
  ["reciprocal", (t) => t.reciprocal(), (x) => 1 / x],
  ["exp2", (t) => t.exp2(), (x) => 2 ** x],
  ["log2", (t) => t.log2(), Math.log2],
];
const ROWS = [[1, 2, 4], [8, 0.5, 16]];
for (const [name, op, one] of UNSAFE) {
  each(`${name}, pad and sum give what NumPy gives`, async () => {
    const x = new Tensor(ROWS).realize();
    const after = op(x).pad([[1, 0], [0, 2]]), before = op(x.pad([[1, 0], [0, 2]]));
    const mapped = ROWS.map((r) => [...r.map(one), 0, 0]), padded = [[0, 0, 0], ...ROWS].map((r) => [...r, 0, 0]);
    const total = (rows: number[][]) => rows.map((r) => r.reduce((a, b) => a + b));
    assertEquals(kernels(after.sum(1)).length, 1);
    close(await floats(after.sum(1)), [0, ...total(mapped)]);
    close(await floats(after.sum()), [total([total(mapped)])[0]]);
    close(await floats(before.sum(1)), total(padded.map((r) => r.map(one))));
  });
}

each("integer division, pad and sum give what NumPy gives", async () => {
  const a = new Tensor([7, 8, -9, 10]).realize(), b = new Tensor([2, 3, 2, 4]).realize();
  const q = a.floorDiv(b).pad([1, 2]); // 3, 2, -5, 2: nothing is divided by a padding zero
  assertEquals(kernels(q.sum()).length, 1);
  assertEquals(await q.tolist(), [0, 3, 2, -5, 2, 0, 0]);
  assertEquals(await q.sum().item(), 2);
  assertEquals(await a.pad([1, 2]).floorDiv(b.pad([1, 2], { value: 1 })).sum().item(), 2);
  assertEquals(await a.div(b, { roundingMode: "trunc" }).pad([1, 2]).sum().item(), 3);
  // what reads the padding after the division: each padding element adds 1
  assertEquals(await q.add(1).sum().item(), 9);
});

// ---- reductions

each("dot of [1, 2] and [3, 4] is one kernel r_2", async () => {
  const t = new Tensor([1, 2]).dot(new Tensor([3, 4]));
  assertEquals(kernels(t), ["r_2"]);
  assertEquals(await t.item(), 11);
}, devices);
each("dot compiles to one kernel r_2", () => {
  assertEquals(kernels(new Tensor([1, 2]).dot(new Tensor([3, 4]))), ["r_2"]);
}, ["NULL"]);

each("var of [1, 2, 3, 4]", async () => {
  assertAlmostEquals(Number(await new Tensor([1, 2, 3, 4]).var().item()), 1.6666666, 1e-6);
});

each("the sum of a realized 2048 x 2048 is one kernel", async () => {
  const x = new Tensor(Float32Array.from({ length: 2048 * 2048 }, (_, i) => i % 7 - 2)).reshape([2048, 2048]);
  x.realize();
  const t = x.sum(), n = 2048 * 2048, rest = n % 7;
  assertEquals(kernels(t).length, 1);
  const before = GlobalCounters.kernelCount;
  const want = (n - rest) / 7 * 7 + [0, -2, -3, -3, -2, 0, 3][rest];
  assertEquals(await t.item(), want);
  assertEquals(GlobalCounters.kernelCount - before, 1);
});

// ---- assignment

const ZEROS: [name: string, make: () => Tensor][] = [
  ["zeros", () => Tensor.zeros([10])],
  ["contiguous zeros", () => Tensor.zeros([10]).contiguous()],
  ["realized zeros", () => Tensor.zeros([10]).contiguous().realize()],
  ["zeros of int32", () => Tensor.zeros([10], { dtype: "int32" })],
];
for (const [name, make] of ZEROS) {
  each(`ten t.setAt([i], i) on ${name}`, async () => {
    const t = make(), before = GlobalCounters.kernelCount;
    for (let i = 0; i < 10; i++) t.setAt([i], i);
    assertEquals(GlobalCounters.kernelCount, before, "setAt ran something");
    assertEquals(await t.tolist(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
}

each("a lazy read in the schedule of an assignment sees the old value", async () => {
  const a = new Tensor([1, 2, 3]).realize(), b = a.add(1);
  a.assign([0, 0, 0]);
  Tensor.realize([a, b]);
  assertEquals([await a.tolist(), await b.tolist()], [[0, 0, 0], [2, 3, 4]]);
});

each("a lazy read before the assignment ran sees the old value", async () => {
  const a = new Tensor([1, 2, 3]).realize(), b = a.add(1);
  a.assign([0, 0, 0]);
  assertEquals(await b.tolist(), [2, 3, 4]);
  assertEquals(await a.tolist(), [0, 0, 0]);
});

each("a lazy read after the assignment ran throws StaleReadError naming both lines", () => {
  const a = new Tensor([1, 2, 3]).realize(), b = a.add(1);
  const writeLine = here() + 1;
  a.assign([0, 0, 0]);
  a.realize();
  const readLine = here() + 1;
  const error = assertThrows(() => b.realize(), StaleReadError) as StaleReadError;
  assertEquals([lineOf(error.writtenAt), lineOf(error.readAt)], [writeLine, readLine]);
  assert(error.message.includes(error.writtenAt) && error.message.includes(error.readAt));
});

each("so does one after setAt", () => {
  const a = new Tensor([1, 2, 3]).realize(), b = a.mul(2);
  const writeLine = here() + 1;
  a.setAt([1], 5).realize();
  const error = assertThrows(() => b.realize(), StaleReadError) as StaleReadError;
  assertEquals(lineOf(error.writtenAt), writeLine);
});

each("assignments that read what the other overwrites are simultaneous", async () => {
  const a = new Tensor([1, 2]).realize(), b = new Tensor([3, 4]).realize();
  const oldA = a.flip([0]), oldB = b.flip([0]);
  a.assign(oldB);
  b.assign(oldA);
  Tensor.realize([a, b]);
  assertEquals([await a.tolist(), await b.tolist()], [[4, 3], [2, 1]]);
});

each("opt.step(), then the loss is that before the step", async () => {
  const w = new Tensor([[1, -2], [0.5, 3]], { requiresGrad: true });
  const x = new Tensor([[1, 2], [3, 4]]), opt = new nn.optim.SGD([w], { lr: 0.1 });
  await Tensor.train(async () => {
    const loss = x.matmul(w).square().mean().backward();
    opt.step();
    assertAlmostEquals(Number(await loss.item()), (4 + 16 + 25 + 36) / 4, 1e-5);
    // d loss / d w = x^T (x w) / 2
    close(await floats(w), [1 - 0.1 * 8.5, -2 - 0.1 * 11, 0.5 - 0.1 * 12, 3 - 0.1 * 16], 1e-5);
  });
  assertEquals(state.getParameters({ w }), [w]);
});

// ---- movement

each("eight movement ops cost no kernel beyond their consumer", async () => {
  const data = Float32Array.from({ length: 24 }, (_, i) => i);
  const x = new Tensor(data).reshape([4, 6]).realize();
  const moved = (t: Tensor): Tensor =>
    t.pad([[1, 1], [0, 2]]).permute([1, 0]).flip([0]).shrink([[1, 7], [0, 5]]).reshape([5, 6]).permute([1, 0])
      .reshape([3, 10]).flip([1]);
  assertEquals(kernels(moved(x).add(1)).length, 1);
  assertEquals(kernels(moved(x).sum(1)).length, 1);
  assertEquals(await moved(x).tolist(), [
    [0, 21, 16, 11, 0, 20, 15, 10, 5, 0],
    [7, 2, 0, 23, 0, 1, 0, 22, 17, 0],
    [19, 14, 9, 4, 0, 13, 8, 3, 0, 0],
  ]);
});

const VIEWS: [name: string, make: (t: Tensor) => Tensor, want: View | undefined][] = [
  ["the tensor", (t) => t, { shape: [4, 6], strides: [6, 1], offset: 0, mask: undefined }],
  ["permute", (t) => t.permute([1, 0]), { shape: [6, 4], strides: [1, 6], offset: 0, mask: undefined }],
  ["flip", (t) => t.flip([0, 1]), { shape: [4, 6], strides: [-6, -1], offset: 23, mask: undefined }],
  ["shrink", (t) => t.shrink([[1, 3], [2, 4]]), { shape: [2, 2], strides: [6, 1], offset: 8, mask: undefined }],
  ["at", (t) => t.at(1, [1, null, 2]), { shape: [3], strides: [2], offset: 7, mask: undefined }],
  ["reshape", (t) => t.reshape([2, 2, 6]), { shape: [2, 2, 6], strides: [12, 6, 1], offset: 0, mask: undefined }],
  ["expand", (t) => t.unsqueeze(0).expand([3, 4, 6]), {
    shape: [3, 4, 6],
    strides: [0, 6, 1],
    offset: 0,
    mask: undefined,
  }],
  ["pad", (t) => t.pad([[1, 0], [0, 1]]), { shape: [5, 7], strides: [6, 1], offset: -6, mask: [[1, 5], [0, 6]] }],
  ["pad, flip, permute, shrink", (t) => t.pad([[1, 1], [0, 0]]).flip([0]).permute([1, 0]).shrink([[1, 3], [0, 5]]), {
    shape: [2, 5],
    strides: [1, -6],
    offset: 25,
    mask: [[0, 2], [1, 5]],
  }],
  ["a transposed row", (t) => t.permute([1, 0]).reshape([24]), undefined],
  ["a value", (t) => t.add(1), undefined],
];
each("viewOf shows shape, strides, offset and mask where one view suffices", async () => {
  const data = Array.from({ length: 24 }, (_, i) => i), t = new Tensor(data).reshape([4, 6]).realize();
  for (const [name, make, want] of VIEWS) {
    const made = make(t), view = viewOf(made);
    assertEquals(view, want, name);
    if (view === undefined) continue;
    // the view, applied by hand, gives the values
    const { shape, strides, offset, mask } = view, values: number[] = [];
    const walk = (at: number[]): void => {
      if (at.length < shape.length) { for (let i = 0; i < shape[at.length]; i++) walk([...at, i]); }
      else {
        const inside = at.every((x, d) => mask === undefined || (x >= mask[d][0] && x < mask[d][1]));
        values.push(inside ? data[at.reduce((s, x, d) => s + x * strides[d], offset)] : 0);
      }
    };
    walk([]);
    assertEquals(await floats(made), values, name);
  }
});
