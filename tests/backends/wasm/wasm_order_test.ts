/** WASM: in which order a straight line is written, and what it loads as one: values beside JS, and what the listing has. */
import { assert, assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { type LinearProgram, programOf } from "../../../src/renderer/renderer.ts";
import { AccArg, AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, index, load, param, range, store, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { Random } from "../../support/random.ts";
import { arrayOf, compile, device, js, Lines, run, sample, viewOf } from "./wasm_harness.ts";

const { float32: f32, int32: i32, uint8: u8, int8: i8, int16: i16, uint16: u16 } = dtypes;
const { LOOP, REDUCE } = AxisKind;

const wide = i32.vec(4);
const vectorAt = (p: UOp, at: UOp | number): UOp =>
  uop(Ops.LOAD, wide, [index(p, typeof at === "number" ? int(at) : at)]);
const int = (x: number): UOp => constant(x, i32);

/** `count` accumulators, and what makes a body long: products, narrow numbers, gates, accumulators that are read again. */
function randomLine(seed: number): LinearProgram {
  const draw = new Random(seed), rows = 3, cols = 4, size = 80, count = draw.int(1, 8);
  const l = new Lines(), out = param(0, i32, rows * count * 4), a = param(1, i32, size), b = param(2, u8, size);
  const i = l.add(range(rows, 0, LOOP)), k = range(cols, 1, REDUCE);
  const accs = Array.from(
    { length: count },
    (_, n) => l.add(uop(Ops.ACC, wide, [l.add(uop(Ops.BROADCAST, wide, [i.add(n)])), k], new AccArg(n))),
  );
  l.add(k);
  l.add(vectorAt(a, 0));
  l.add(load(index(b, int(0))));
  const operands = Array.from({ length: draw.int(2, 40) }, (): UOp => {
    const at = draw.pick([k, i, k.mul(4), i.add(k)]).add(draw.below(40));
    if (draw.below(4) === 0) {
      const from = at.add(draw.below(8)), step = draw.pick([1, 1, 1, 2]);
      const lanes = [0, 1, 2, 3].map((n) => l.add(load(index(b, from.add(n * step)))).cast(i32));
      return l.add(uop(Ops.VECTORIZE, wide, lanes));
    }
    if (draw.below(4) > 0) return l.add(vectorAt(a, at));
    const gate = draw.pick([i, k]).lt(draw.below(4)), other = l.add(uop(Ops.BROADCAST, wide, [i.mul(7)]));
    return l.add(uop(Ops.LOAD, wide, [index(a, at, gate), ...draw.below(2) === 0 ? [] : [other]]));
  });
  const last = new Map<UOp, UOp>();
  const step = (acc: UOp, others: readonly UOp[]): void => {
    const from = draw.below(8) > 0 ? acc : draw.pick(others);
    let sum = l.add(uop(Ops.LOAD, wide, [from, last.get(from) ?? k]));
    for (let n = draw.int(0, 6); n > 0; n--) {
      const x = draw.pick(operands), y = draw.pick(operands);
      sum = draw.below(3) > 0 ? sum.add(x.mul(y)) : draw.below(2) > 0 ? sum.xor(x) : sum.max(y);
    }
    last.set(acc, l.add(store(acc, l.add(sum))));
  };
  for (let n = draw.int(0, 30); n > 0; n--) step(draw.pick(accs), accs);
  accs.forEach((acc, n) => step(acc, accs.slice(n))); // what is set last is read by nothing inside of the loop
  l.end(k);
  accs.forEach((acc, n) => {
    const end = l.add(uop(Ops.LOAD, wide, [acc, last.get(acc) ?? k]));
    l.add(store(index(out, i.mul(4 * count).add(4 * n)), end));
  });
  l.end(i);
  return programOf(`line${seed}`, l.list);
}

Deno.test("wasm: long straight lines of several accumulators agree with JS", () => {
  for (let seed = 1; seed <= 150; seed++) {
    const linear = randomLine(seed), size = linear.params[0].size;
    const data = [new Uint8Array(4 * size), sample(i32, 80, 0), sample(u8, 80, 0)];
    assertEquals(viewOf(i32, run(device, linear, data)), viewOf(i32, run(js, linear, data)), `seed ${seed}`);
  }
});

Deno.test("wasm: values of accumulators that are used twice, again and again, are written once", () => {
  const l = new Lines(), k = range(3, 0, REDUCE), acc = l.add(uop(Ops.ACC, i32, [int(1), k], new AccArg(0)));
  l.add(k);
  let x = l.add(uop(Ops.LOAD, i32, [acc, k]));
  for (let i = 0; i < 60; i++) x = l.add(x.xor(int(i)).add(x)); // 2^60 ways from the last to the first
  const set = l.add(store(acc, x));
  l.end(k);
  l.add(store(index(param(0, i32, 1), int(0)), l.add(uop(Ops.LOAD, i32, [acc, set]))));
  const linear = programOf("twice", l.list), data = [new Uint8Array(4)];
  assertEquals(viewOf(i32, run(device, linear, data)), viewOf(i32, run(js, linear, data)));
});

Deno.test("wasm: an unrolled body keeps few vectors alive", () => {
  // sums[r][c] += x[r][t] * w[c][t] of nine taps t: 6 accumulators, 45 operands
  const l = new Lines(), of = f32.vec(4), x = param(1, f32, 27 * 4 * 8), w = param(2, f32, 18 * 8);
  const zero = l.add(uop(Ops.BROADCAST, of, [constant(0, f32)]));
  const k = range(8, 0, REDUCE), taps = Array.from({ length: 9 }, (_, t) => t);
  const accs = Array.from(
    { length: 6 },
    (_, n) => l.add(uop(Ops.ACC, of, [zero, k], new AccArg(n))),
  );
  l.add(k);
  const xs = [0, 1, 2].map((r) =>
    taps.map((t) => l.add(uop(Ops.LOAD, of, [index(x, k.mul(108).add(4 * (9 * r + t)))])))
  );
  const ws = [0, 1].map((c) =>
    taps.map((t) => l.add(uop(Ops.BROADCAST, of, [l.add(load(index(w, k.mul(18).add(9 * c + t))))])))
  );
  const sets = accs.map((acc, n) => {
    let sum = l.add(uop(Ops.LOAD, of, [acc, k]));
    for (const t of taps) sum = l.add(sum.add(xs[n % 3][t].mul(ws[n % 2 ^ (n > 2 ? 1 : 0)][t])));
    return l.add(store(acc, sum));
  });
  l.end(k);
  accs.forEach((acc, n) => {
    l.add(store(index(param(0, f32, 24), int(4 * n)), l.add(uop(Ops.LOAD, of, [acc, sets[n]]))));
  });
  const linear = programOf("taps", l.list), { source } = compile(device, linear);
  const vectors = [...source.matchAll(/\(local \$\d+ v128\)/g)].length;
  assert(vectors > 6 && vectors <= 20, `${vectors} vectors have locals`);
  const data = [
    new Uint8Array(96),
    arrayOf(f32, Array.from({ length: 864 }, (_, i) => i % 13 - 6)),
    arrayOf(f32, Array.from({ length: 144 }, (_, i) => i % 7 - 3)),
  ];
  assertEquals(viewOf(f32, run(device, linear, data)), viewOf(f32, run(js, linear, data)));
});

Deno.test("wasm: four narrow integers that lie together are one load", () => {
  for (
    const [d, name] of [[u8, "load32_zero"], [i8, "load32_zero"], [u16, "load16x4_u"], [i16, "load16x4_s"]] as const
  ) {
    for (const to of [i32, f32]) {
      const l = new Lines(), i = l.add(range(6, 0, LOOP)), from = param(1, d, 24), out = param(0, to, 24);
      const lanes = [0, 1, 2, 3].map((n) => l.add(load(index(from, i.mul(4).add(n)))).cast(to));
      l.add(store(index(out, i.mul(4)), l.add(uop(Ops.VECTORIZE, to.vec(4), lanes))));
      l.end(i);
      const linear = programOf(`narrow_${d}_${to}`, l.list), { source } = compile(device, linear);
      assert(source.includes(`v128.${name}`) && !/i32\.load(8|16)/.test(source), source);
      const data = [new Uint8Array(96), arrayOf(d, Array.from({ length: 24 }, (_, i) => i * 6151 - 70_000))];
      assertEquals(viewOf(to, run(device, linear, data)), viewOf(to, run(js, linear, data)), linear.name);
    }
  }
});

Deno.test("wasm: narrow integers are loaded before what writes them", () => {
  // x = p[0..3]; p[1] = 9; out = x
  const l = new Lines(), p = param(1, u8, 8);
  const lanes = [0, 1, 2, 3].map((n) => l.add(load(index(p, int(n)))).cast(i32));
  l.add(store(index(p, int(1)), constant(9, u8)));
  l.add(store(index(param(0, i32, 4), int(0)), l.add(uop(Ops.VECTORIZE, wide, lanes))));
  const data = [new Uint8Array(16), arrayOf(u8, [5, 6, 7, 8, 1, 1, 1, 1])];
  assertEquals([...viewOf(i32, run(device, programOf("before", l.list), data))], [5, 6, 7, 8]);
});
