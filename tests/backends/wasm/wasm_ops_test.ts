/** WASM: every op, dtype and vector width, and what programs are made of, against the JS device. */
import { assert, assertEquals } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { type LinearProgram, programOf } from "../../../src/renderer/renderer.ts";
import { AccArg, AxisKind, Int64, LocalArg } from "../../../src/uop/core/args.ts";
import { opName, Ops } from "../../../src/uop/core/ops.ts";
import { constant, index, int, load, param, range, store, type UOp, uop, variable } from "../../../src/uop/core/uop.ts";
import { arrayOf, device, elementwise, js, Lines, random, run, sample, viewOf } from "./wasm_harness.ts";

const { bool, float32: f32, float64: f64, int32: i32, int64: i64, uint32: u32, uint64: u64 } = dtypes;
const { LOOP, REDUCE, THREAD } = AxisKind;
const INTS = [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, i32, u32, i64, u64];
const FLOATS = [f32, f64];

const N = 96;
/** Every op, dtype and vector width against the JS device. */
function differential(op: Ops, to: (d: DType) => DType, ins: (d: DType) => DType[], over: readonly DType[]): void {
  for (const d of over) {
    for (const lanes of [1, 2, 4]) {
      const types = ins(d), out = to(d);
      if (lanes > 1 && [out, ...types].some((t) => device.renderer.caps.vectorLanes(t) < lanes)) continue;
      const name = `${opName[op]}_${types.map(String).join("_")}_${out}x${lanes}`;
      const linear = elementwise(name, out, types, N, lanes, (x) => uop(op, out.vec(lanes), x));
      const data = [new Uint8Array(N * out.itemsize), ...types.map((t, s) => sample(t, N, s))];
      if (op === Ops.SHL || op === Ops.SHR) {
        data[2] = arrayOf(types[1], Array.from({ length: N }, (_, i) => i % types[1].bits));
      }
      const got = run(device, linear, data), want = run(js, linear, data);
      assertEquals(viewOf(out, got), viewOf(out, want), name);
    }
  }
}
const same = (d: DType) => d, two = (d: DType) => [d, d], toBool = () => bool;
const ALL = [bool, ...INTS, ...FLOATS];
for (const op of [Ops.ADD, Ops.MUL, Ops.MAX, Ops.SUB]) {
  Deno.test(`wasm: ${opName[op]}`, () => differential(op, same, two, op === Ops.SUB ? [...INTS, ...FLOATS] : ALL));
}
for (const op of [Ops.AND, Ops.OR, Ops.XOR]) {
  Deno.test(`wasm: ${opName[op]}`, () => differential(op, same, two, [bool, ...INTS]));
}
for (const op of [Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD, Ops.SHL, Ops.SHR]) {
  Deno.test(`wasm: ${opName[op]}`, () => differential(op, same, two, INTS));
}
for (const op of [Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ]) {
  Deno.test(`wasm: ${opName[op]}`, () => differential(op, toBool, two, ALL));
}
for (const op of [Ops.SQRT, Ops.TRUNC, Ops.NEG]) {
  Deno.test(`wasm: ${opName[op]}`, () =>
    differential(op, same, (d) => [d], op === Ops.NEG ? [...INTS, ...FLOATS] : FLOATS));
}
Deno.test("wasm: FDIV", () => differential(Ops.FDIV, same, two, FLOATS));
Deno.test("wasm: WHERE", () => differential(Ops.WHERE, same, (d) => [bool, d, d], ALL));
Deno.test("wasm: MULACC of ints", () => differential(Ops.MULACC, same, (d) => [d, d, d], [i32, u32, i64, dtypes.int8]));

for (const to of ALL) {
  Deno.test(`wasm: CAST to ${to}`, () => {
    for (const from of ALL) {
      if (from === to) continue;
      for (const lanes of [1, 4]) {
        if (lanes > 1 && [from, to].some((t) => device.renderer.caps.vectorLanes(t) < lanes)) continue;
        const name = `cast_${from}_${to}x${lanes}`;
        const linear = elementwise(name, to, [from], N, lanes, ([x]) => x.cast(to.vec(lanes)));
        let values = sample(from, N, 0);
        // outside the range of the integer any result will do: keep to what every device agrees on
        if (from.isFloat && to.isInt) {
          const limit = to.bits === 64 ? 2 ** 52 : to.bits === 32 && !to.isUnsigned ? 2 ** 31 - 200 : 2 ** 31 - 200;
          values = arrayOf(
            from,
            Array.from({ length: N }, (_, i) => (random() - 0.5) * 2 * Math.min(limit, 10 ** (i % 14))),
          );
        }
        const data = [new Uint8Array(N * to.itemsize), values];
        assertEquals(viewOf(to, run(device, linear, data)), viewOf(to, run(js, linear, data)), name);
      }
    }
  });
}

Deno.test("wasm: float to int saturates or wraps, never traps", () => {
  for (const to of INTS) {
    for (const from of FLOATS) {
      const linear = elementwise(`wild_${from}_${to}`, to, [from], 16, 1, ([x]) => x.cast(to));
      run(device, linear, [new Uint8Array(16 * to.itemsize), sample(from, 16, 0)]);
    }
  }
});

Deno.test("wasm: BITCAST", () => {
  for (const [a, b] of [[f32, i32], [i32, f32], [f32, u32], [f64, i64], [u64, f64], [dtypes.int8, dtypes.uint8]]) {
    const linear = elementwise(`bits_${a}_${b}`, b, [a], 16, 1, ([x]) => x.bitcast(b));
    const data = [new Uint8Array(16 * b.itemsize), sample(a, 16, 0)];
    assertEquals(run(device, linear, data), data[1]);
  }
});

Deno.test("wasm: constants", () => {
  for (
    const [d, value, want] of [
      [f32, NaN, NaN],
      [f32, -0, -0],
      [f32, -Infinity, -Infinity],
      [f64, 0.1, 0.1],
      [u32, 4294967295, 4294967295],
      [dtypes.int8, -128, -128],
      [i64, new Int64(-2147483648, 5), -(2n ** 63n) + 5n],
      [u64, new Int64(-1, -1), 2n ** 64n - 1n],
      [bool, 1, 1],
    ] as const
  ) {
    for (const lanes of d.bits === 32 || d.isBool ? [1, 4] : [1]) {
      const linear = elementwise(`const_${d}`, d, [], 4, lanes, () => constant(value, d.vec(lanes)));
      const got = viewOf(d, run(device, linear, [new Uint8Array(4 * d.itemsize)]));
      assertEquals(Array.from(got as ArrayLike<unknown>), [want, want, want, want], `${d} ${value}`);
    }
  }
});

Deno.test("wasm: lanes", () => {
  // out = [in[3], in[1] + 1, 7, in[0]], and a mask made of scalars
  const l = new Lines();
  const v = uop(Ops.LOAD, i32.vec(4), [index(param(1, i32, 4), int(0))]);
  const lane = (k: number) => uop(Ops.EXTRACT, i32, [v], k);
  const made = uop(Ops.VECTORIZE, i32.vec(4), [lane(3), lane(1).add(1), int(7), lane(0)]);
  const mask = uop(Ops.VECTORIZE, bool.vec(4), [lane(0).lt(0), lane(1).lt(9), constant(1, bool), constant(0, bool)]);
  const other = uop(Ops.BROADCAST, i32.vec(4), [lane(2)]);
  const picked = mask.where(made, other);
  l.add(store(index(param(0, i32, 4), int(0)), picked));
  const got = run(device, programOf("lanes", l.list), [new Uint8Array(16), arrayOf(i32, [1, 2, 30, 4])]);
  assertEquals(viewOf(i32, got), Int32Array.of(30, 3, 7, 30) as never);
});

Deno.test("wasm: uniform and varying shifts of vectors", () => {
  const by = (x: UOp) =>
    uop(Ops.BROADCAST, i32.vec(4), [load(index(param(2, i32, 1), int(0)))]).alu(Ops.ADD, x.constLike(0));
  for (const f of [(x: UOp) => x.shl(3), (x: UOp) => x.shr(1), (x: UOp) => x.shl(by(x))]) {
    const l = new Lines();
    const x = uop(Ops.LOAD, i32.vec(4), [index(param(1, i32, 4), int(0))]);
    l.add(param(2, i32, 1));
    l.add(store(index(param(0, i32, 4), int(0)), f(x)));
    const data = [new Uint8Array(16), arrayOf(i32, [-5, 9, 1 << 30, 0]), arrayOf(i32, [5])];
    assertEquals(run(device, programOf("shifts", l.list), data), run(js, programOf("shifts", l.list), data));
  }
});

Deno.test("wasm: relaxed MULACC is close to a product and a sum", () => {
  assertEquals(device.renderer.caps.hasMulAcc, device.info()["relaxed simd"]);
  const linear = elementwise("mulacc", f32, [f32, f32, f32], 8, 4, (x) => uop(Ops.MULACC, f32.vec(4), x));
  const xs = [0.1, 0.2, 0.3, 4, 5, -6, 7e10, -0.5];
  const got = run(device, linear, [new Uint8Array(32), ...[xs, xs, xs].map((v) => arrayOf(f32, v))]);
  xs.forEach((x, i) => {
    const g = (viewOf(f32, got) as unknown as number[])[i];
    assert(Math.abs(g - (x * x + x)) <= 1e-6 * Math.abs(x * x + x));
  });
});

Deno.test("wasm: a read of an accumulator is not moved past its set", () => {
  // acc = i; old = acc; acc = old * 2; out[i] = old + acc * 100
  const l = new Lines(), i = l.add(range(4, 0, LOOP));
  const acc = l.add(uop(Ops.ACC, i32, [i], new AccArg(0)));
  const old = l.add(uop(Ops.LOAD, i32, [acc, i]));
  const set = l.add(store(acc, old.mul(2)));
  const now = l.add(uop(Ops.LOAD, i32, [acc, set]));
  l.add(store(index(param(0, i32, 4), i), old.add(now.mul(100))));
  l.end(i);
  assertEquals(
    viewOf(i32, run(device, programOf("order", l.list), [new Uint8Array(16)])),
    Int32Array.of(0, 201, 402, 603) as never,
  );
});

Deno.test("wasm: a load is not moved past a store", () => {
  // swap: out[0], out[1] = out[1], out[0]
  const l = new Lines(), p = param(0, i32, 2);
  const a = l.add(load(index(p, int(0)))), b = l.add(load(index(p, int(1))));
  l.add(store(index(p, int(0)), b));
  l.add(store(index(p, int(1)), a));
  assertEquals(
    viewOf(i32, run(device, programOf("swap", l.list), [arrayOf(i32, [1, 2])])),
    Int32Array.of(2, 1) as never,
  );
});

Deno.test("wasm: gated loads touch nothing, IF, negative and far offsets", () => {
  // out[i] = i in [2, 6) ? a[i - 2] : -1, by a gate; out[i + 300000] the same by IF
  const far = 300000, n = 8, l = new Lines();
  const out = param(0, f32, far + n), a = param(1, f32, 4);
  const i = l.add(range(n, 0, LOOP));
  const gate = i.lt(6).and(i.lt(2).alu(Ops.CMPNE, 1));
  const x = l.add(load(index(a, i.add(-2), gate), constant(-1, f32)));
  l.add(store(index(out, i), x));
  const cond = l.add(uop(Ops.IF, dtypes.void, [gate]));
  const y = l.add(load(index(a, i.add(-2))));
  l.add(store(index(out, i.add(far)), y));
  l.list.push(uop(Ops.ENDIF, dtypes.void, [cond]));
  l.end(i);
  const got = viewOf(
    f32,
    run(device, programOf("gates", l.list), [new Uint8Array((far + n) * 4), arrayOf(f32, [1, 2, 3, 4])]),
  );
  assertEquals(Array.from(got.subarray(0, n) as ArrayLike<unknown>), [-1, -1, 1, 2, 3, 4, -1, -1]);
  assertEquals(Array.from(got.subarray(far) as ArrayLike<unknown>), [0, 0, 1, 2, 3, 4, 0, 0]);
});

Deno.test("wasm: kernel-local arrays, of each thread", () => {
  // out[t, i] = (reverse of a[t, :])[i], through a LOCAL, after some arithmetic
  const rows = 64, cols = 40, l = new Lines();
  const out = param(0, f32, rows * cols), a = param(1, f32, rows * cols);
  const local = l.add(uop(Ops.LOCAL, f32, [], new LocalArg(0, cols, "thread")));
  l.add(uop(Ops.LOCAL, f32, [], new LocalArg(1, 3, "thread")));
  const t = l.add(range(rows, 0, THREAD));
  const i = l.add(range(cols, 1, LOOP));
  const write = l.add(store(index(local, i), l.add(load(index(a, t.mul(cols).add(i))))));
  l.end(i);
  const j = l.add(range(cols, 2, LOOP));
  const read = load(index(uop(Ops.AFTER, f32, [local, write]), j.mul(-1).add(cols - 1)));
  l.add(store(index(out, t.mul(cols).add(j)), l.add(read)));
  l.end(j);
  l.end(t);
  const values = Array.from({ length: rows * cols }, (_, k) => k);
  const linear: LinearProgram = { ...programOf("locals", l.list), flops: 1e7 };
  const got = viewOf(f32, run(device, linear, [new Uint8Array(rows * cols * 4), arrayOf(f32, values)]));
  assertEquals(
    Array.from(got as ArrayLike<unknown>),
    values.map((_, k) => Math.floor(k / cols) * cols + cols - 1 - k % cols),
  );
});

Deno.test("wasm: variables, symbolic and 64-bit loops", () => {
  // out[i] = x + i for i < n, n may be 0
  const n = variable("n", 0, 10), x = variable("x", -100, 100, f32), big = variable("big", 0, 1, i64);
  const l = new Lines(), out = param(0, f32, 10);
  for (const v of [n, x, big]) l.add(v);
  const i = l.add(range(n, 0, LOOP));
  l.add(store(index(out, i), i.cast(f32).add(x).add(big.cast(f32))));
  l.end(i);
  const linear = programOf("symbolic", l.list);
  assertEquals(linear.vars, [big, n, x]);
  for (const count of [0, 3, 10]) {
    const got = viewOf(f32, run(device, linear, [new Uint8Array(40)], [2n ** 33n, count, 1.5]));
    const want = Float32Array.from(
      { length: 10 },
      (_, k) => k < count ? Math.fround(Math.fround(k + 1.5) + 2 ** 33) : 0,
    );
    assertEquals(got, want as never);
  }
  for (const kind of [LOOP, THREAD]) {
    const w = new Lines(), r = w.add(range(constant(5, i64), 0, kind));
    w.add(store(index(param(0, i64, 5), r), r.mul(3)));
    w.end(r);
    assertEquals(
      viewOf(i64, run(device, programOf("wide", w.list), [new Uint8Array(40)])),
      BigInt64Array.of(0n, 3n, 6n, 9n, 12n),
    );
  }
});

Deno.test("wasm: parts of what threads share, and a THREAD loop behind another loop, are done once", () => {
  const n = 1000, cut = 300;
  for (const type of [i32, i64]) {
    for (const isBehind of [false, true]) {
      const l = new Lines(),
        out = param(0, i32, n),
        add = (from: number, size: number, first: number, kind: AxisKind) => {
          const r = l.add(range(constant(size, type), l.list.length, kind, 0, first));
          l.add(store(index(out, r.add(from)), r.cast(i32).add(from + 1)));
          l.end(r);
        };
      if (isBehind) add(0, cut, 0, LOOP);
      else add(0, cut, 0, THREAD);
      add(cut, n - cut, isBehind ? 0 : cut, THREAD);
      // work for both threads
      const linear = programOf("parts", l.list, 1e9, 0);
      assertEquals(linear.threads, isBehind ? n - cut : n);
      for (const on of [device, js]) {
        assertEquals(
          [...viewOf(i32, run(on, linear, [new Uint8Array(4 * n)]))],
          Array.from({ length: n }, (_, k) => k + 1),
        );
      }
    }
  }
});

Deno.test("wasm: many sums of many terms agree with JS", () => {
  // random trees over loads, loop counters and accumulators, to try locals and the operand stack
  for (let trial = 0; trial < 40; trial++) {
    const l = new Lines(), rows = 5, cols = 6;
    const out = param(0, i32, rows * 2), a = param(1, i32, rows * cols), b = param(2, i32, cols);
    const i = l.add(range(rows, 0, trial & 1 ? THREAD : LOOP));
    const k = range(cols, 1, REDUCE);
    const acc = l.add(uop(Ops.ACC, i32, [int(trial), k], new AccArg(0)));
    const acc1 = l.add(uop(Ops.ACC, i32, [i, k], new AccArg(1)));
    l.add(k);
    const pool = [i, k, int(3), l.add(load(index(a, i.mul(cols).add(k)))), l.add(load(index(b, k)))];
    pool.push(l.add(uop(Ops.LOAD, i32, [acc, k])), l.add(uop(Ops.LOAD, i32, [acc1, k])));
    const pick = () => pool[Math.floor(random() * pool.length)];
    for (let s = 0; s < 20; s++) {
      const x = pick(), y = pick();
      const made = [x.add(y), x.mul(y), x.xor(y), x.max(y), x.lt(y).where(x, y), x.cdiv(y), x.add(7)];
      pool.push(l.add(made[Math.floor(random() * made.length)]));
    }
    const s0 = l.add(store(acc, pick())), s1 = l.add(store(acc1, pick().add(pick())));
    l.end(k);
    const r0 = l.add(uop(Ops.LOAD, i32, [acc, s0])), r1 = l.add(uop(Ops.LOAD, i32, [acc1, s1]));
    l.add(store(index(out, i.mul(2)), r0));
    l.add(store(index(out, i.mul(2).add(1)), r1.add(i)));
    l.end(i);
    const linear = programOf(`tree${trial}`, l.list);
    const data = [new Uint8Array(rows * 8), sample(i32, rows * cols, 0), sample(i32, cols, 1)];
    assertEquals(viewOf(i32, run(device, linear, data)), viewOf(i32, run(js, linear, data)), `trial ${trial}`);
  }
});
