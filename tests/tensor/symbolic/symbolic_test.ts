/** Sizes that are variables: every value gives what the number would, and one compilation serves all. */
import { deepStrictEqual as assertEquals, match, ok, strictEqual, throws } from "node:assert/strict";
import {
  ArgumentError,
  context,
  dtypes,
  grad,
  IndexError,
  jit,
  nn,
  ShapeError,
  Tensor,
  Variable,
} from "../../../mod.ts";
import { compileStats } from "../../../src/engine/compile_cache.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { evaluate } from "../../reference.ts";
import { registerSim } from "../../fixtures/sim.ts";
import { difference, toleranceOf } from "../../tolerance.ts";
import { onDevice } from "../../support/on_device.ts";

type Size = number | Tensor;
const MAX = 24;
const n = new Variable("n", 1, MAX);

/** Functions of tensors x [24, 6] and y [3, 24] and a size up to 24. */
const CASES: Record<string, (x: Tensor, y: Tensor, n: Size) => Tensor> = {
  slice: (x, _, n) => x.at([0, n]),
  "slice from": (x, _, n) => x.at([n instanceof Tensor ? n.sub(1) : n - 1, null]),
  "slice both ends": (x, _, n) => x.at([n instanceof Tensor ? n.sub(1) : n - 1, n], 2),
  shrink: (x, _, n) => x.shrink([[0, n], [1, 4]]),
  "shrink twice": (x, _, n) => x.at([0, n]).at(":", [1, 5]).mul(2),
  "pick": (x, _, n) => x.at(n instanceof Tensor ? n.sub(1) : n - 1),
  "elementwise": (x, y, n) => x.at([0, n]).mul(2).add(y.T.at([0, n], [0, 1])).exp(),
  "sum of all": (x, _, n) => x.at([0, n]).sum(),
  "sum of rows": (x, _, n) => x.at([0, n]).sum(1),
  "sum of columns": (x, _, n) => x.at([0, n]).sum(0),
  "prod and max": (x, _, n) => x.at([0, n]).max(0).add(x.at([0, n]).prod(0)),
  mean: (x, _, n) => x.at([0, n]).mean(0),
  "mean of all": (x, _, n) => x.at([0, n]).mean(),
  "var and std": (x, _, n) => x.at([0, n]).var(0, { correction: 0 }).add(x.at([0, n]).std(0, { correction: 0 })),
  softmax: (x, _, n) => x.at([0, n]).softmax(0),
  "log softmax": (x, _, n) => x.at([0, n]).logSoftmax(0),
  layernorm: (x, _, n) => x.at([0, n]).layernorm(1),
  "layernorm across": (x, _, n) => x.at([0, n]).layernorm(0),
  argmax: (x, _, n) => x.at([0, n]).argmax(0).cast("float32"),
  cumsum: (x, _, n) => x.at([0, n]).cumsum(1),
  flip: (x, _, n) => x.at([0, n]).flip(0),
  pad: (x, _, n) => x.at([0, n]).pad([[2, 3], [0, 1]]),
  "pad by": (x, _, n) => x.pad([[n, 1], null]).sum(1),
  "pad to": (x, _, n) => x.at([0, n]).pad([[0, n instanceof Tensor ? n.mul(-1).add(MAX) : MAX - n], null]),
  "matmul across": (x, y, n) => y.at(":", [0, n]).matmul(x.at([0, n])),
  "matmul along": (x, _, n) => x.at([0, n]).matmul(x.T.contiguous()),
  "outer": (x, y, n) => x.at([0, n]).matmul(y.at(":", [0, 6]).T),
  reshape: (x, _, n) => x.at([0, n]).reshape([n, 2, 3]).permute([1, 0, 2]),
  "join behind": (x, _, n) =>
    x.at([0, n]).reshape([n, 2, 3]).reshape([n instanceof Tensor ? n.mul(2) : n * 2, 3]).sum(1),
  expand: (x, _, n) => x.at([0, 1]).expand([n, 6]).add(1),
  "ones of a size": (_x, _y, n) => Tensor.ones([1, 2]).expand([n, 2]).sum(0),
  "realized between": (x, _, n) => x.at([0, n]).exp().contiguous().add(1).sum(1),
  "where": (x, y, n) => x.at([0, n], 0).gt(0).where(y.at(1, [0, n]), -1),
  attention: (x, _, n) => {
    const kv = x.at([0, n]).reshape([1, 1, n, 6]);
    return x.at([0, 4]).reshape([1, 1, 4, 6]).scaledDotProductAttention(kv, kv.add(1));
  },
  "causal attention": (x, _, n) => {
    const q = x.at([0, n]).reshape([1, 1, n, 6]);
    return q.scaledDotProductAttention(q, q, undefined, { isCausal: true });
  },
  embedding: (x, _, n) => x.at(Tensor.arange(MAX, undefined, undefined, { device: x.device }).at([0, n]).mul(5).mod(7)),
};

/** Those that WEBGPU runs too, where the adapter may be software. */
const ON_WEBGPU = ["slice from", "softmax", "pad by", "matmul along", "join behind", "attention"];

function operands(device: string): [Tensor, Tensor] {
  const values = (count: number, k: number) => Array.from({ length: count }, (_, i) => Math.sin(i * k + 1));
  const make = (shape: number[], k: number) =>
    new Tensor(values(shape[0] * shape[1], k), { dtype: "float32", device }).reshape(shape).realize();
  return [make([MAX, 6], 0.7), make([3, MAX], 1.3)];
}

registerSim(); // a large GPU in JavaScript

for (const device of await devicesHere()) {
  Deno.test(`symbolic ${device}: what a number gives, compiled once`, async (t) => {
    const [x, y] = operands(device);
    await onDevice(device, async () => {
      for (const [name, f] of Object.entries(CASES)) {
        if (device === "WEBGPU" && !ON_WEBGPU.includes(name)) continue;
        await t.step(name, async () => {
          let lowered = 0;
          for (const value of [7, 1, 2, 16, MAX]) {
            const want = f(x, y, value), wanted = await want.data() as Float32Array, before = compileStats.lowered;
            const got = f(x, y, n.bind(value));
            assertEquals(got.boundShape, want.shape);
            const bad = difference(await got.data() as Float32Array, wanted, toleranceOf("accumulate", dtypes.float32));
            strictEqual(bad, undefined, `${name} at ${value}: ${bad}`);
            if (value !== 7) lowered += compileStats.lowered - before;
          }
          strictEqual(lowered, 0);
        });
      }
    });
  });
}

Deno.test("symbolic: without optimization, checked by the tables of each stage", async () => {
  for (const device of ["JS", "WASM"]) {
    const [x, y] = operands(device);
    await context({ NOOPT: 1, SPEC: 1, SCACHE: 0 }, async () => {
      for (const [name, f] of Object.entries(CASES)) {
        for (const value of [3, MAX]) {
          const got = await f(x, y, n.bind(value)).data() as Float32Array;
          const bad = difference(
            got,
            await f(x, y, value).data() as Float32Array,
            toleranceOf("accumulate", dtypes.float32),
          );
          strictEqual(bad, undefined, `${name} at ${value}: ${bad}`);
        }
      }
    });
  }
});

Deno.test("symbolic: the oracle agrees", async () => {
  const [x, y] = operands("JS");
  for (const [name, f] of Object.entries(CASES)) {
    const got = f(x, y, n.bind(9)), want = evaluate(got.uop);
    assertEquals(want.shape, got.boundShape);
    const bad = difference(
      await got.data() as Float32Array,
      want.data as number[],
      toleranceOf("accumulate", dtypes.float32),
    );
    strictEqual(bad, undefined, `${name}: ${bad}`);
  }
});

Deno.test("symbolic: gradients", async () => {
  const [x, y] = operands("WASM");
  for (const [name, f] of Object.entries(CASES)) {
    if (["argmax", "embedding", "prod and max"].includes(name)) continue;
    const loss = (size: Size) => (x: Tensor, y: Tensor) => {
      const out = f(x, y, size);
      return out.mul(out).add(out).sum();
    };
    for (const value of [5, MAX]) {
      const at = { argnums: [0, 1] };
      const got = grad(loss(n.bind(value)), at)(x, y) as unknown as Tensor[];
      const want = grad(loss(value), at)(x, y) as unknown as Tensor[];
      for (let i = 0; i < 2; i++) {
        const bad = difference(
          await got[i].data() as Float32Array,
          await want[i].data() as Float32Array,
          toleranceOf("accumulate", dtypes.float32, true),
        );
        strictEqual(bad, undefined, `${name} at ${value}, argument ${i}: ${bad}`);
      }
    }
  }
});

Deno.test("symbolic: what shape, boundShape, symbolicShape and tolist say", async () => {
  const x = operands("WASM")[0].at([0, n.bind(3)]);
  assertEquals([x.shape, x.boundShape], [[MAX, 6], [3, 6]]);
  strictEqual(await (x.realize().symbolicShape[0] as Tensor).item(), 3);
  assertEquals(((await x.tolist()) as number[][]).map((r) => r.length), [6, 6, 6]);
  assertEquals(x.T.add(1).boundShape, [6, 3]);
  assertEquals(((await x.T.contiguous().tolist()) as number[][]).map((r) => r.length), [3, 3, 3, 3, 3, 3]);
  strictEqual(await x.at([0, 1], 0).item(), Math.fround(Math.sin(1)));
});

Deno.test("symbolic: errors name the variable and what it may be", () => {
  const [x] = operands("WASM"), m = new Variable("m", 0, 30), k = new Variable("k", 1, MAX);
  const fails = (
    f: () => unknown,
    text: RegExp,
    type: typeof ShapeError | typeof ArgumentError | typeof IndexError = ShapeError,
  ) =>
    throws(f, (e) => {
      ok(e instanceof type, String(e));
      match(e.message, text);
      return true;
    });
  fails(() => n.bind(25), /^Cannot bind n to 25: it takes integers from 1 to 24$/, ArgumentError);
  fails(() => x.shrink([[0, m.bind(3)], null]), /the stop m may be 30, and axis 0 has size 24/);
  fails(() => x.shrink([[n.bind(2).sub(5), 24], null]), /the start n \+ -5 may be -4/);
  fails(() => x.at([n.bind(2).sub(5), null]), /the end n \+ -5 of a slice is from -4 to 19/, IndexError);
  fails(() => x.shrink([[n.bind(1), k.bind(5)], null]), /there may be -23 elements/);
  fails(() => x.at([0, n.bind(2)]).add(x.at([0, k.bind(2)])), /axis 0 has the symbolic sizes n and k/);
  fails(() => x.at([0, n.bind(2)]).add(x.at([0, n.bind(3)])), /axis 0 has the symbolic sizes n and n/);
  fails(() => x.at([0, n.bind(4)]).shrink([[0, 3], null]), /axis 0 has the symbolic size n: it may be less than 3/);
  fails(() => x.reshape([n.bind(4), 6]), /axis 0 has size 24, not n; shrink it first/);
  fails(
    () => x.shrink([[0, x.sum().cast("int32")], null]),
    /is no size: it takes integers and bound variables/,
    ArgumentError,
  );
});

Deno.test("symbolic: windows along an axis of symbolic size are errors of the operation called", () => {
  const v = new Variable("v", 4, 8), x = Tensor.ones([1, 2, 8, 8]).realize().at(":", ":", ":", [0, v.bind(6)]);
  const kernel = (size: number) => Tensor.ones([3, 2, size, size]),
    index = Tensor.ones([1, 2, 8, 8], { dtype: "int32" });
  const calls: [RegExp, () => unknown][] = [
    [/^Cannot convolve shape /, () => x.conv2d(kernel(3))],
    [/^Cannot convolve shape /, () => x.conv2d(kernel(3), undefined, { padding: 1 })],
    [/^Cannot convolve shape /, () => x.conv2d(kernel(2), undefined, { stride: 2 })],
    [/^Cannot convolve \(transposed\) shape /, () => x.convTranspose2d(Tensor.ones([2, 3, 3, 3]))],
    [/^Cannot pool shape /, () => x.maxPool2d()],
    [/^Cannot pool shape /, () => x.maxPool2d([3, 3], { stride: 1, padding: 1 })],
    [/^Cannot average shape /, () => x.avgPool2d([3, 3], { stride: 1 })],
    [/^Cannot unpool shape /, () => x.maxUnpool2d(index.at(":", ":", ":", [0, v.bind(6)]))],
    [/^Cannot unflatten shape /, () => x.unflatten(3, [2, -1])],
    [/^Cannot rearrange shape /, () => x.rearrange("n c h (a b) -> n c h a b", { a: 2 })],
  ];
  for (const [start, call] of calls) {
    throws(call, (e) => {
      ok(e instanceof ShapeError, String(e));
      match(e.message, start);
      match(e.message, /shape \[1, 2, 8, v\]: axis 3 has the symbolic size v; .*padTo\(shape\)/);
      return true;
    });
  }
  strictEqual(x.conv2d(kernel(1)).boundShape[3], 6);
  strictEqual(x.avgPool2d([2, 1]).boundShape[3], 6);
});

Deno.test("symbolic: a variable without a value says so wherever a value is meant", () => {
  const k = new Variable("k", 0, 7), loose = k as unknown as Tensor, x = Tensor.ones([4]);
  const calls = [
    () => x.at(loose),
    () => x.at([0, loose]),
    () => x.setAt([loose], 1),
    () => x.add(loose),
    () => x.reshape([loose]),
    () => x.roll(loose),
    () => Tensor.zeros([loose]),
    () => Tensor.arange(loose),
    () => Tensor.full([2], loose),
    () => new Tensor(loose as never),
  ];
  for (const call of calls) throws(call, /^\w+: Cannot .*the variable k, not bound by k\.bind\(\.\.\.\)/);
});

/** A transformer of one kind of block, with a cache of keys and values. */
class Decoder {
  readonly layers: {
    q: nn.Linear;
    k: nn.Linear;
    v: nn.Linear;
    o: nn.Linear;
    up: nn.Linear;
    down: nn.Linear;
    n1: nn.RMSNorm;
    n2: nn.RMSNorm;
  }[];
  readonly caches: [Tensor, Tensor][];
  readonly embed: nn.Embedding;
  readonly head: nn.Linear;
  constructor(depth: number, readonly width: number, readonly heads: number, readonly context: number) {
    const linear = (a: number, b: number) => new nn.Linear(a, b, { bias: false });
    this.embed = new nn.Embedding(50, width);
    this.head = linear(width, 50);
    this.layers = Array.from({ length: depth }, () => ({
      q: linear(width, width),
      k: linear(width, width),
      v: linear(width, width),
      o: linear(width, width),
      up: linear(width, 2 * width),
      down: linear(2 * width, width),
      n1: new nn.RMSNorm(width),
      n2: new nn.RMSNorm(width),
    }));
    const cache = () => Tensor.zeros([1, heads, context, width / heads]).contiguous().realize();
    this.caches = this.layers.map(() => [cache(), cache()]);
  }
  /** Logits after a token at a position; at a number all is computed as for a prompt of that length. */
  step(token: Tensor, at: Size): Tensor {
    const { heads, width } = this, next: Size = typeof at === "number" ? at + 1 : at.add(1);
    const split = (t: Tensor) => t.reshape([1, 1, heads, width / heads]).transpose(1, 2);
    let h = this.embed.call(token.reshape([1, 1]));
    this.layers.forEach((l, i) => {
      const x = l.n1.call(h), [keys, values] = this.caches[i];
      keys.setAt([":", ":", [at, next]], split(l.k.call(x)));
      values.setAt([":", ":", [at, next]], split(l.v.call(x)));
      const all = (c: Tensor) => c.at(":", ":", [0, next]);
      const out = split(l.q.call(x)).scaledDotProductAttention(all(keys), all(values));
      h = h.add(l.o.call(out.transpose(1, 2).reshape([1, 1, width])));
      h = h.add(l.down.call(l.up.call(l.n2.call(h)).silu()));
    });
    return this.head.call(h).reshape([50]);
  }
}

for (const device of ["WASM", "CLANG"]) {
  Deno.test(`symbolic ${device}: 256 decode steps are one graph, compiled once whatever the depth`, async () => {
    if (!(await devicesHere()).includes(device)) return;
    await onDevice(device, async () => {
      Tensor.manualSeed(4);
      const pos = new Variable("pos", 0, 255), lowered: number[] = [];
      for (const depth of [1, 3]) {
        const model = new Decoder(depth, 32, 4, 256), eager = new Decoder(depth, 32, 4, 256);
        Object.assign(eager, { layers: model.layers, embed: model.embed, head: model.head });
        const step = jit((token: Tensor, at: Tensor) => model.step(token, at)), start = compileStats.lowered;
        let token = new Tensor([7], { dtype: "int32" }).realize(), after = 0;
        for (let i = 0; i < 256; i++) {
          const logits = step(token, pos.bind(i));
          if (i === 2) after = compileStats.lowered;
          else if (i > 2 && i !== 41) strictEqual(compileStats.lowered, after);
          if (i === 40 || i === 0) {
            const want = await eager.step(token, i).data() as Float32Array;
            const bad = difference(
              await logits.data() as Float32Array,
              want,
              toleranceOf("accumulate", dtypes.float32),
            );
            if (i === 0) strictEqual(bad, undefined, bad);
            after = compileStats.lowered;
          }
          token = logits.argmax(0).reshape([1]).cast("int32").realize();
          if (i === 40) after = compileStats.lowered;
        }
        assertEquals([step.stats.captures, step.stats.replays, step.stats.retraces], [1, 254, 0]);
        lowered.push(after - start);
      }
      ok(lowered[1] <= lowered[0], `${lowered} kernels lowered`);
    });
  });
}

Deno.test("symbolic: a replay gives results of the size that its variable says, and takes them as arguments", async () => {
  const [x] = operands("WASM"), f = jit((x: Tensor, n: Tensor) => x.at([0, n], 0).mul(2));
  const g = jit((t: Tensor) => t.add(1).sum());
  for (const value of [3, 5, 24, 1, 9]) {
    const y = f(x, n.bind(value)), data = await y.data() as Float32Array;
    assertEquals([y.boundShape, data.length], [[value], value]);
    const want = data.reduce((s, v) => s + v + 1, 0);
    ok(Math.abs(await g(y).item() - want) < 1e-4);
  }
  assertEquals([f.stats.captures, g.stats.captures], [1, 1]);
});
