/**
 * Scalars that change: from the second value on they are arguments of the kernel, in every float dtype, those included
 * that a device only stores, and in int32. Each value gives what it gives alone, and -0 is not 0.
 */
import { assertEquals } from "@std/assert";
import { context, jit, Tensor } from "../../../mod.ts";
import { compileStats } from "../../../src/engine/compile_cache.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { Random } from "../../support/random.ts";

const DTYPES = ["float16", "bfloat16", "fp8e4m3", "fp8e5m2", "float32"];
const VALUES = [0.5, 0.25, 3, 0.75, 1.5];

const OPS: Readonly<Record<string, (x: Tensor, c: number) => Tensor>> = {
  add: (x, c) => x.add(c),
  mul: (x, c) => x.mul(c),
  div: (x, c) => x.div(c),
  maximum: (x, c) => x.maximum(c),
  lt: (x, c) => x.lt(c),
  where: (x, c) => x.gt(2).where(x, c),
  maskedFill: (x, c) => x.maskedFill(x.gt(2), c),
  clamp: (x, c) => x.clamp(0, c),
  "mul and sum": (x, c) => x.mul(c).sum(),
  full: (x, c) => Tensor.full([3], c, { dtype: x.dtype, device: x.device }).contiguous(),
  "full, cast": (x, c) => Tensor.full([4], c / 3, { device: x.device }).cast(x.dtype).add(x),
  setAt: (x, c) => x.clone().setAt([1], c),
};

for (const device of await devicesHere()) {
  for (const dtype of DTYPES) {
    if (device === "WEBGPU" && dtype.startsWith("fp8")) continue; // the same emulation, and slow to compile there
    Deno.test(`scalar variants ${device}: ${dtype}`, async () => {
      const x = new Tensor([1, 2, 3, 4], { device }).cast(dtype).realize();
      const step = jit((t: Tensor, c: number) => t.mul(c).add(c));
      for (const [name, f] of Object.entries({ ...OPS, jit: (t: Tensor, c: number) => step(t, c) })) {
        for (const c of VALUES) {
          const alone = await context({ SCACHE: 0 }, () => (OPS[name]?.(x, c) ?? x.mul(c).add(c)).realize()).tolist();
          assertEquals(await f(x, c).tolist(), alone, `${name} of ${c}`);
        }
      }
    });
  }
}

/** What takes a whole number; `x` is int32 [4]. */
const WHOLE: Readonly<Record<string, (x: Tensor, c: number) => Tensor>> = {
  add: (x, c) => x.add(c),
  mul: (x, c) => x.mul(c),
  mod: (x, c) => x.mod(c),
  fmod: (x, c) => x.fmod(c),
  floorDiv: (x, c) => x.floorDiv(c),
  div: (x, c) => x.div(c),
  eq: (x, c) => x.eq(c),
  lt: (x, c) => x.lt(c),
  clamp: (x, c) => x.clamp(c - 5, c),
  where: (x, c) => x.gt(2).where(c, x),
  bitwiseXor: (x, c) => x.bitwiseXor(c),
  rshift: (x, c) => x.rshift(c & 7),
  "mul and sum": (x, c) => x.mul(c).sum(),
  "a mask of positions": (x, c) => Tensor.arange(4).to(x.device).ge(c).where(x, 0),
  "positions from a number on": (x, c) => Tensor.arange(9).to(x.device).add(c).mul(3).at([2, 7]),
  "positions that are read": (x, c) => x.at(Tensor.arange(6).to(x.device).add(c).mod(4)),
  "positions that are written": (x, c) => x.clone().setAt([x.add(c).mod(4)], c),
  "positions divided": (x, c) => Tensor.arange(24).to(x.device).floorDiv(c).reshape([4, 6]).sum(1).add(x),
  "a triangle": (x, c) => x.expand([4, 4]).tril(c % 4).sum(1),
};
const WHOLES = [3, 7, -4, 2, 1000, -9, 0, 1];

for (const device of await devicesHere()) {
  Deno.test(`scalar variants ${device}: whole numbers`, async () => {
    const x = new Tensor([1, 2, -3, 40], { device }).realize();
    for (const [name, f] of Object.entries(WHOLE)) {
      const before = compileStats.lowered, [first, ...others] = WHOLES.slice(0, 6);
      await f(x, first).data();
      await f(x, others[0]).data();
      const after = compileStats.lowered;
      for (const c of others) await f(x, c).data();
      if (name === "mul" || name === "eq") {
        assertEquals([after - before <= 2, compileStats.lowered], [true, after], name);
      }
      // each value alone is a kernel of its own, which takes a compiler its time
      for (const c of device === "JS" || device === "WASM" ? WHOLES : WHOLES.slice(2, 4)) {
        if (c === 0 && /mod|iv/.test(name)) continue;
        const alone = await context({ SCACHE: 0 }, () => f(x, c).realize()).tolist();
        assertEquals(await f(x, c).tolist(), alone, `${name} of ${c}`);
      }
    }
  });
}

/** A random function of an int32 tensor [6] and numbers; each use of `next` is a number of its own. */
function randomOfNumbers(r: Random): (x: Tensor, next: () => number) => Tensor {
  type Step = (x: Tensor, y: Tensor, next: () => number) => Tensor;
  const steps: readonly Step[] = [
    (x, y, next) => x.add(y.mul(next())),
    (x, _, next) => x.floorDiv(next()),
    (x, y, next) => x.mod(next()).sub(y),
    (x, y, next) => x.lt(next()).where(y, x.add(next())),
    (x, _, next) => x.bitwiseAnd(next()).add(next()),
    (x, _, next) => x.at(Tensor.arange(6).to(x.device).mul(next()).add(next()).mod(6)),
    (x, _, next) => Tensor.arange(6).to(x.device).add(next()).mul(x).clamp(-1e6, 1e6),
    (x, y, next) => x.expand([6, 6]).triu(next() % 6).sum(0).add(y),
    (x, _, next) => x.cumsum(0).add(next()).contiguous(),
    (x, _, next) => x.clone().setAt([x.add(next()).mod(6)], next()),
    (x, y, next) => x.maximum(y.add(next())).rshift(next() & 3),
    (x, y, next) => x.eq(next()).bitwiseOr(y.gt(next())).cast("int32").add(x),
  ];
  const chosen = Array.from({ length: r.int(1, 5) }, () => r.pick(steps));
  return (x, next) => {
    let y = x;
    for (const step of chosen) [x, y] = [step(x, y, next), x];
    return x;
  };
}

for (const [device, count] of [["JS", 60], ["WASM", 40]] as const) {
  Deno.test(`scalar variants ${device}: random functions of whole numbers`, async () => {
    const r = new Random(13);
    for (let i = 0; i < count; i++) {
      const f = randomOfNumbers(r),
        x = new Tensor(Array.from({ length: 6 }, () => r.int(-50, 50)), { device }).realize();
      for (let draw = 0; draw < 4; draw++) {
        const seed = r.int(0, 1 << 30),
          numbers = (): () => number => {
            const own = new Random(seed);
            return () => own.pick([2, 3, 5, 7, 8, 11, 64, 100, -2, -3, -17]);
          };
        const alone = await context({ SCACHE: 0 }, () => f(x, numbers()).realize()).tolist();
        assertEquals(await f(x, numbers()).tolist(), alone, `function ${i}, draw ${draw}`);
      }
    }
  });
}

Deno.test("scalar variants JS: of two constants of which one is no argument each stays where it is", async () => {
  const x = new Tensor([0.5, -3], { device: "JS" }).realize(), values = [1, 2.5, 0, -1, 7.5];
  for (const a of values) {
    for (const b of values) assertEquals(await x.gt(0).where(a, b).tolist(), [a, b], `${a} and ${b}`);
  }
});
