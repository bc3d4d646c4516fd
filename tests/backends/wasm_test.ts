import { assert, assertEquals, assertThrows } from "@std/assert";
import { jsBackend } from "../../backends/js/js.ts";
import { wasmBackend, WasmDevice } from "../../backends/wasm/device.ts";
import { Bytes } from "../../backends/wasm/encoder.ts";
import { Buffer } from "../../src/device/buffer.ts";
import type { Device } from "../../src/device/device.ts";
import type { Program } from "../../src/device/program.ts";
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { context } from "../../src/helpers/env.ts";
import { CompileError, DeviceError, OutOfMemoryError } from "../../src/helpers/errors.ts";
import { type LinearProgram, programOf } from "../../src/renderer/renderer.ts";
import { AccArg, AxisKind, Int64, LocalArg } from "../../src/uop/args.ts";
import { opName, Ops } from "../../src/uop/ops.ts";
import { constant, index, int, load, param, range, store, type UOp, uop, variable } from "../../src/uop/uop.ts";
import { addKernel, addThreadVector, KERNEL_FIXTURES } from "../fixtures/kernels.ts";

const device = context({ THREADS: 2 }, () => wasmBackend.open(0)) as WasmDevice;
const single = context({ THREADS: 1 }, () => wasmBackend.open(1)) as WasmDevice;
const js = jsBackend.open(0);
// helpers start lazily: here, so that no test seems to leak them
device.pool.start();

const { f32, f64, i32, u32, i64, u64, bool } = {
  f32: dtypes.float32,
  f64: dtypes.float64,
  i32: dtypes.int32,
  u32: dtypes.uint32,
  i64: dtypes.int64,
  u64: dtypes.uint64,
  bool: dtypes.bool,
};
const { LOOP, REDUCE, THREAD } = AxisKind;

type View = Uint8Array | BigInt64Array;
function viewOf(d: DType, bytes: Uint8Array): View {
  const name = d.isFloat
    ? `Float${d.bits}Array`
    : `${d.bits === 64 ? "Big" : ""}${d.kind === "int" ? "Int" : "Uint"}${d.bits}Array`;
  const Class = (globalThis as unknown as Record<string, new (b: ArrayBufferLike) => View>)[name];
  return new Class(bytes.buffer);
}
function arrayOf(d: DType, values: readonly (number | bigint)[]): Uint8Array {
  const bytes = new Uint8Array(values.length * d.itemsize), view = viewOf(d, bytes);
  values.forEach((v, i) =>
    (view as unknown as (number | bigint)[])[i] = d.isInt && d.bits === 64 ? BigInt(v) : Number(v)
  );
  return bytes;
}

function compile(on: Device, linear: LinearProgram): Program {
  if (on === device || on === single) {
    const bytes = device.renderer.render(linear) as Uint8Array<ArrayBuffer>;
    assert(WebAssembly.validate(bytes), `${linear.name} does not validate`);
  }
  return on.compiler.compile([linear])[0];
}

/** Runs a program once; buffers by slot as bytes, slot 0 is read back. */
function run(
  on: Device,
  linear: LinearProgram,
  data: readonly Uint8Array[],
  vars: (number | bigint)[] = [],
): Uint8Array {
  const program = compile(on, linear);
  const buffers = data.map((bytes, s) => {
    const d = linear.params[s].dtype;
    return new Buffer(on, d, bytes.length / d.itemsize).copyIn(bytes);
  });
  on.run([{ program, buffers, vars }]);
  const out = buffers[0].copyOut(new Uint8Array(data[0].length));
  buffers.forEach((b) => b.free());
  return out;
}

const DEVICE_URL = new URL("../../backends/wasm/device.ts", import.meta.url).href;

/** Runs a script in a process of its own: its output, exit code, and when it ended. */
async function evaluate(script: string): Promise<{ text: string; code: number; done: number }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-check", script],
    env: { NO_COLOR: "1" },
  }).output();
  const done = Date.now(), decode = (b: Uint8Array) => new TextDecoder().decode(b).trim();
  return { text: decode(stdout) + decode(stderr), code, done };
}

/** An ordered list: sources first, effects in the order of `add`. */
class Lines {
  readonly list: UOp[] = [];
  private readonly seen = new Set<UOp>();
  add(u: UOp): UOp {
    if (this.seen.has(u)) return u;
    this.seen.add(u);
    // an accumulator stands before its loops
    for (const s of u.op === Ops.ACC ? u.src.slice(0, 1) : u.src) this.add(s);
    this.list.push(u);
    return u;
  }
  end(r: UOp): void {
    this.list.push(uop(Ops.END, dtypes.void, [r]));
  }
}

/** out[i] = f(in1[i], in2[i], ...) over n elements, `lanes` at a time. */
function elementwise(
  name: string,
  out: DType,
  ins: readonly DType[],
  n: number,
  lanes: number,
  f: (x: UOp[]) => UOp,
): LinearProgram {
  const l = new Lines();
  const i = l.add(range(n / lanes, 0, LOOP));
  const at = i.mul(lanes);
  const values = ins.map((d, s) => l.add(uop(Ops.LOAD, d.vec(lanes), [index(param(s + 1, d, n), at)])));
  l.add(store(index(param(0, out, n), at), f(values)));
  l.end(i);
  return programOf(name, l.list);
}

Deno.test("wasm: LEB128", () => {
  for (
    const [bytes, want] of [
      [new Bytes().u32(0), [0]],
      [new Bytes().u32(624485), [0xe5, 0x8e, 0x26]],
      [new Bytes().u32(-1), [0xff, 0xff, 0xff, 0xff, 0x0f]],
      [new Bytes().s32(63), [0x3f]],
      [new Bytes().s32(64), [0xc0, 0]],
      [new Bytes().s32(-64), [0x40]],
      [new Bytes().s32(-123456), [0xc0, 0xbb, 0x78]],
      [new Bytes().s64(-1n), [0x7f]],
      [new Bytes().s64(2n ** 40n), [0x80, 0x80, 0x80, 0x80, 0x80, 0x20]],
    ] as const
  ) assertEquals([...bytes.take()], [...want]);
});

for (const on of [device, single]) {
  for (const k of KERNEL_FIXTURES) {
    if (k.linear === undefined) continue;
    Deno.test(`wasm: ${on.name} ${k.name}`, () => {
      const inputs = k.sizes.slice(1).map((n, s) => Float32Array.from({ length: n }, (_, i) => (i * (s + 3)) % 7 - 2));
      const out = new Float32Array(k.sizes[0]).fill(99);
      const got = run(on, programOf(k.name, k.linear!), [out, ...inputs].map((x) => new Uint8Array(x.buffer)));
      assertEquals([...new Float32Array(got.buffer)], k.expected(inputs));
    });
  }
}

const INTS = [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, i32, u32, i64, u64];
const FLOATS = [f32, f64];
const SPECIAL = [0, -0, 1, -1, 0.5, -2.5, 3.75, 1e10, -1e10, Infinity, -Infinity, NaN, 127.6, -128.4, 65535, 1e-40];
let seed = 12345;
function random(): number {
  seed = Math.imul(seed, 1664525) + 1013904223 | 0;
  return (seed >>> 0) / 2 ** 32;
}
function sample(d: DType, n: number, salt: number): Uint8Array {
  const values = Array.from({ length: n }, (_, i): number | bigint => {
    if (d.isBool) return (i >> salt) & 1;
    if (d.isFloat) return salt === 0 ? SPECIAL[i % SPECIAL.length] : SPECIAL[(i * 7 + (i >> 4)) % SPECIAL.length];
    const small = (i >> (salt * 2)) % 5 - 2;
    if (i % 3 === 0) return small;
    const r = random() * 2 ** 53;
    return d.bits === 64 ? BigInt(Math.floor(r)) * 2654435761n * (i & 1 ? 1n : -1n) : Math.floor(r / 2 ** (i % 53));
  });
  return arrayOf(d, values);
}

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
      run(device, linear, [new Uint8Array(16 * to.itemsize), arrayOf(from, SPECIAL)]);
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

Deno.test("wasm: a batch is one module, and known kernels are not compiled again", () => {
  const kernels = [addKernel(11), addKernel(12), addThreadVector(5)].map((k) => programOf(k.name, k.linear!));
  const { kernels: k0, modules: m0 } = device.info();
  const first = device.compiler.compile([...kernels, kernels[0]]);
  assertEquals(device.info().kernels, k0 as number + 3);
  assertEquals(device.info().modules, m0 as number + 1);
  assert(first[0] === first[3]);
  device.compiler.compile([programOf("renamed", addKernel(11).linear!), ...kernels]);
  assertEquals(device.info().modules, m0 as number + 1);
  assert(first[0].source.includes("f32.add"));
});

/** out[i] += i for a vector of `n`, in `n / 64` shared chunks. */
function addIndex(n: number): LinearProgram {
  const l = new Lines(), p = param(0, i32, n);
  const t = l.add(range(n / 64, 0, THREAD)), j = l.add(range(64, 1, LOOP)), at = t.mul(64).add(j);
  l.add(store(index(p, at), l.add(load(index(p, at))).add(at)));
  l.end(j);
  l.end(t);
  return programOf("addIndex", l.list, n * 10, n * 8);
}

function waitForHelpers(): void {
  for (let i = 0; i < 200 && device.pool.ready === 0; i++) Atomics.wait(device.memory.i32, 8, 0, 10);
  assert(device.pool.ready > 0, "no helper came");
}

Deno.test("wasm: threads share launches, in order", () => {
  waitForHelpers();
  const n = 1 << 16;
  const program = compile(device, addIndex(n));
  const buffer = new Buffer(device, i32, n).copyIn(new Uint8Array(n * 4));
  for (let round = 0; round < 20; round++) {
    device.run(Array.from({ length: 10 }, () => ({ program, buffers: [buffer], vars: [] })));
  }
  const got = new Int32Array(buffer.copyOut(new Uint8Array(n * 4)).buffer);
  for (let i = 0; i < n; i++) if (got[i] !== 200 * i) throw new Error(`element ${i} is ${got[i]}`);
  buffer.free();
});

Deno.test("wasm: a graph replays with patched buffers and variables", () => {
  const l = new Lines(), x = variable("x", 0, 1e6), out = param(0, i32, 4), a = param(1, i32, 4);
  l.add(x);
  const i = l.add(range(4, 0, LOOP));
  l.add(store(index(out, i), l.add(load(index(a, i))).mul(2).add(x)));
  l.end(i);
  const program = compile(device, programOf("graph", l.list));
  const make = (values: number[]) => new Buffer(device, i32, 4).copyIn(arrayOf(i32, values));
  const a0 = make([1, 2, 3, 4]), a1 = make([5, 6, 7, 8]), mid = make([0, 0, 0, 0]), end = make([0, 0, 0, 0]);
  const graph = device.graph([
    { program, buffers: [mid, a0], vars: [1] },
    { program, buffers: [end, mid], vars: [0] },
  ]);
  const read = () => Array.from(new Int32Array(end.copyOut(new Uint8Array(16)).buffer));
  graph.run();
  assertEquals(read(), [6, 10, 14, 18]);
  graph.setBuffer(0, 1, a1);
  graph.setVar(1, 0, 100);
  graph.run();
  assertEquals(read(), [122, 126, 130, 134]);
  // a view of a buffer
  const two = new Buffer(device, i32, 8).copyIn(arrayOf(i32, [0, 0, 0, 0, 1, 1, 1, 1]));
  graph.setBuffer(0, 1, two.view(16, 4));
  graph.run();
  assertEquals(read(), [106, 106, 106, 106]);
  graph.dispose();
  graph.dispose();
  assertThrows(() => graph.run(), DeviceError, "it was disposed");
});

Deno.test("wasm: memory grows while graphs and helpers live, and blocks are reused", () => {
  waitForHelpers();
  const n = 1 << 14;
  const program = compile(device, addIndex(n));
  const buffer = new Buffer(device, i32, n).copyIn(new Uint8Array(n * 4));
  const graph = device.graph([{ program, buffers: [buffer], vars: [] }]);
  graph.run();
  const before = device.memory.nbytes;
  const large = new Buffer(device, f32, 1 << 24);
  large.copyIn(new Uint8Array(large.nbytes).fill(1));
  assert(device.memory.nbytes > before);
  graph.run();
  // a kernel compiled after the growth, on memory that came with it, also reaches the helpers
  const top = large.view((1 << 26) - n * 4, n, i32);
  top.copyIn(new Uint8Array(n * 4));
  const later = compile(device, { ...addIndex(n), name: "later" });
  for (let i = 0; i < 50; i++) device.run([{ program: later, buffers: [top], vars: [] }]);
  const got = new Int32Array(top.copyOut(new Uint8Array(n * 4)).buffer);
  for (let i = 0; i < n; i++) assertEquals(got[i], 50 * i);
  assertEquals(new Int32Array(buffer.copyOut(new Uint8Array(n * 4)).buffer)[n - 1], 2 * (n - 1));
  large.free();
  device.allocator.drop();
  const size = device.memory.nbytes;
  for (let i = 0; i < 10; i++) {
    const b = new Buffer(device, f32, 1 << 22);
    b.copyIn(new Uint8Array(4));
    b.free();
    device.allocator.drop();
  }
  assertEquals(device.memory.nbytes, size);
});

Deno.test("wasm: the allocator merges neighbors and reports what does not fit", () => {
  const { memory } = single;
  const blocks = Array.from({ length: 8 }, () => memory.alloc(1000));
  for (const b of blocks) assertEquals(b.address % 64, 0);
  for (const i of [1, 3, 2, 5, 7, 6, 4, 0]) memory.free(blocks[i]);
  const whole = memory.alloc(8 * 1024);
  assertEquals(whole.address, blocks[0].address);
  memory.free(whole);
  const error = assertThrows(() => new Buffer(single, f32, 2 ** 31).memory, OutOfMemoryError) as OutOfMemoryError;
  assertEquals([error.device, error.nbytes], ["WASM:1", 2 ** 33]);
});

Deno.test("wasm: what cannot be rendered is a CompileError", () => {
  const linear = elementwise("sine", f32, [f32], 4, 1, ([x]) => x.sin());
  assertThrows(() => device.compiler.compile([linear]), CompileError, "SIN");
  const half = elementwise("half", dtypes.float16, [dtypes.float16], 4, 1, ([x]) => x);
  assertThrows(() => device.compiler.compile([half]), CompileError, "float16");
});

Deno.test("wasm: a trap is a DeviceError, and the device works on", () => {
  // far outside of memory
  const l = new Lines(), p = param(0, i32, 64);
  const t = l.add(range(64, 0, THREAD));
  l.add(store(index(p, t.mul(1 << 24).add(1 << 29)), t));
  l.end(t);
  const linear = programOf("wild", l.list, 1e9, 0);
  const buffer = new Buffer(device, i32, 64);
  for (let i = 0; i < 3; i++) {
    assertThrows(
      () => device.run([{ program: compile(device, linear), buffers: [buffer], vars: [] }]),
      DeviceError,
      "wild",
    );
  }
  const k = addKernel(10);
  const got = run(device, programOf(k.name, k.linear!), k.sizes.map((n) => arrayOf(f32, new Array<number>(n).fill(2))));
  assertEquals(Array.from(viewOf(f32, got) as ArrayLike<unknown>), new Array(10).fill(4));
});

for (
  const [name, f] of [
    ["without shared memory", { simd: true, relaxed: true, threads: false }],
    ["without relaxed SIMD", { simd: true, relaxed: false, threads: true }],
    ["without SIMD", { simd: false, relaxed: false, threads: false }],
  ] as const
) {
  const plain = new WasmDevice("WASM:2", f);
  Deno.test(`wasm: ${name}`, () => {
    const { caps } = plain.renderer;
    assertEquals([caps.hasMulAcc, caps.vectorLanes(f32)], [f.relaxed, f.simd ? 4 : 1]);
    if (!f.threads) assertEquals(plain.info().threads, 1);
    const lanes = caps.vectorLanes(f32);
    const linear = elementwise("plain", f32, [f32, f32], 8, lanes, ([x, y]) => x.lt(y).where(x.mul(y), y));
    const data = [new Uint8Array(32), sample(f32, 8, 0), sample(f32, 8, 1)];
    assert(WebAssembly.validate(plain.renderer.render(linear) as Uint8Array<ArrayBuffer>));
    assertEquals(run(plain, linear, data), run(js, linear, data));
  });
}

Deno.test("wasm: web Workers help, and end when idle", async () => {
  const { code, text } = await evaluate(`
    globalThis.process = undefined;
    const { WasmDevice } = await import("${DEVICE_URL}");
    const device = new WasmDevice("WASM");
    device.pool.webIdle = 1e8;
    device.pool.start();
    for (let i = 0; i < 300 && device.pool.ready === 0; i++) Atomics.wait(device.memory.i32, 8, 0, 10);
    const came = device.pool.ready;
    for (let i = 0; i < 300 && device.pool.ready > 0; i++) await new Promise((r) => setTimeout(r, 10));
    console.log(device.pool.helpers, came, device.pool.ready);`);
  assertEquals(code, 0, text);
  const [helpers, came, left] = text.split(" ").map(Number);
  assert(came === helpers && left === 0, text);
});

Deno.test("wasm: the process ends promptly with helpers parked", async () => {
  const { text, done } = await evaluate(`
    const { wasmBackend } = await import("${DEVICE_URL}");
    const device = wasmBackend.open(0);
    device.pool.start();
    if (device.pool.helpers > 0) for (let i = 0; i < 300 && device.pool.ready === 0; i++) {
      Atomics.wait(device.memory.i32, 8, 0, 10);
    }
    console.log(device.pool.ready, Date.now());`);
  assert(/^\d+ \d+$/.test(text), text);
  const [ready, last] = text.split(" ").map(Number);
  assert(ready > 0 || navigator.hardwareConcurrency === 1);
  assert(done - last < 200, `took ${done - last} ms to end`);
});
