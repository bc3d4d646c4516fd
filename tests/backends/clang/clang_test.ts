import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { clangBackend } from "../../../backends/clang/clang.ts";
import { makeJsDevice } from "../../../backends/js/js.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import type { Device } from "../../../src/device/device.ts";
import type { Launch } from "../../../src/device/program.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { type LinearProgram, programOf } from "../../../src/renderer/renderer.ts";
import { AccArg, AxisKind, type ParamArg, StageArg } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import {
  constant,
  index,
  int,
  load,
  param,
  range,
  sink,
  store,
  toposort,
  type UOp,
  uop,
  variable,
} from "../../../src/uop/core/uop.ts";
import { addThreadVector, KERNEL_FIXTURES } from "../../fixtures/kernels.ts";
import { bufferOf, cacheFolder, compileOne, floats, ignore, openAt, test } from "./clang_harness.ts";
import { optimized } from "../../fixtures/optimized.ts";

const device = ignore ? makeJsDevice() : openAt(cacheFolder);
const js = makeJsDevice();
const f32 = dtypes.float32, zero = int(0);

for (const k of KERNEL_FIXTURES) {
  if (k.linear === undefined) continue;
  test(k.name, () => {
    const inputs = k.sizes.slice(1).map((n, s) => Float32Array.from({ length: n }, (_, i) => (i * (s + 3)) % 7 - 2));
    const arrays = [new Float32Array(k.sizes[0]).fill(99), ...inputs];
    const buffers = arrays.map((x) => bufferOf(device, f32, x));
    device.run([{ program: compileOne(device, programOf(k.name, k.linear!)), buffers, vars: [] }]);
    assertEquals(floats(buffers[0]), k.expected(inputs));
    buffers.forEach((b) => b.free());
  });
}

test("kept rows beyond what a stack holds are taken from the heap", () => {
  for (const [n, isLarge] of [[1 << 15, false], [1 << 19, true]] as const) {
    const i = range(n, 0, AxisKind.LOOP), k = range(n, 1, AxisKind.LOOP);
    const row = uop(Ops.STAGE, f32, [load(index(param(1, f32, n), k)), k], new StageArg(0, "thread"));
    const backward = store(index(param(0, f32, n), i), load(index(row, int(n - 1).sub(i))));
    const linear = toProgram(sink([backward]), device.renderer);
    assertEquals((device.renderer.render(linear) as string).includes("__builtin_malloc("), isLarge);
    const data = Float32Array.from({ length: n }, (_, x) => x);
    const buffers = [bufferOf(device, f32, new Float32Array(n)), bufferOf(device, f32, data)];
    for (let times = 0; times < 3; times++) device.run([{ program: compileOne(device, linear), buffers, vars: [] }]);
    const got = floats(buffers[0]);
    assert(got.every((v, x) => v === n - 1 - x));
    buffers.forEach((b) => b.free());
  }
});

test("under SPEC=1 memory ends at a page without access, at any size", () => {
  const guarded = context({ SPEC: 1, CACHEDIR: cacheFolder, THREADS: 1 }, () => clangBackend.open(0));
  try {
    const { allocator } = guarded;
    for (const n of [1, 3, 64, 4095, 4096, 4097, 70_000]) {
      const block = allocator.alloc(n) as { readonly address: bigint };
      assertEquals((block.address + BigInt(n)) % 4096n, 0n);
      const bytes = Uint8Array.from({ length: n }, (_, i) => i);
      allocator.copyIn(block, 0, bytes);
      const got = new Uint8Array(n);
      allocator.copyOut!(got, block, 0);
      assert(got.every((v, i) => v === bytes[i]));
      allocator.free(block, n, undefined, false);
    }
  } finally {
    guarded.close();
  }
});

// ---- every op in every dtype, beside the oracle ----

const INTS = [
  dtypes.int8,
  dtypes.uint8,
  dtypes.int16,
  dtypes.uint16,
  dtypes.int32,
  dtypes.uint32,
  dtypes.int64,
  dtypes.uint64,
];
const FLOATS = [dtypes.float32, dtypes.float64];
const LANES = 16;

/** Sixteen values that matter in a dtype. */
function values(d: DType, seed: number): ArrayBuffer {
  const edge = [0, 1, -1, 2, 3, -3, 7, 100, 127, -128, 255, 1000, 32767, -32768, 5, -7];
  const odd = [0, -0, 1, -1, NaN, Infinity, -Infinity, 0.5, -0.5, 2.75, -2.75, 100.25, 127, 3, 1e-3, 7];
  const at = (i: number) => (d.isFloat ? odd : edge)[(i * (2 * seed + 1) + seed) % LANES];
  const out = new DataView(new ArrayBuffer(LANES * d.itemsize));
  for (let i = 0; i < LANES; i++) {
    const o = i * d.itemsize, x = at(i);
    if (d === dtypes.float64) out.setFloat64(o, x, true);
    else if (d === f32) out.setFloat32(o, x, true);
    else if (d === dtypes.float16) out.setFloat16(o, x, true);
    else if (d.isBool) out.setUint8(o, x & 1);
    else if (d.bits === 64) out.setBigInt64(o, BigInt(x) * (x > 100 ? 1n << 40n : 1n), true);
    else if (d.bits === 32) out.setInt32(o, x > 100 ? x * 2 ** 16 : x, true);
    else if (d.bits === 16) out.setInt16(o, x, true);
    else out.setInt8(o, x);
  }
  return out.buffer;
}

interface Case {
  readonly name: string;
  readonly inputs: readonly DType[];
  readonly make: (x: UOp[]) => UOp;
}

const op = (o: Ops) => (x: UOp[]): UOp =>
  o === Ops.CMPLT || o === Ops.CMPNE || o === Ops.CMPEQ
    ? uop(o, dtypes.bool.vec(x[0].dtype.count), x)
    : uop(o, o === Ops.WHERE ? x[1].dtype : x[0].dtype, x);
const cases: Case[] = [];
const named = (o: Ops) => (Object.keys(Ops) as (keyof typeof Ops)[]).find((k) => Ops[k] === o);
for (const d of [...INTS, ...FLOATS]) {
  const both = [Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ];
  const ints = [Ops.CDIV, Ops.CMOD, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR];
  for (const o of [...both, ...(d.isFloat ? [Ops.FDIV] : ints)]) {
    cases.push({ name: `${named(o)} ${d}`, inputs: [d, d], make: op(o) });
  }
  for (const o of d.isFloat ? [Ops.NEG, Ops.SQRT, Ops.TRUNC] : [Ops.NEG]) {
    cases.push({ name: `${named(o)} ${d}`, inputs: [d], make: op(o) });
  }
  const c3 = (x: UOp) => constant(3, x.dtype);
  cases.push(
    { name: `WHERE ${d}`, inputs: [dtypes.bool, d, d], make: op(Ops.WHERE) },
    { name: `MULACC ${d}`, inputs: d.isFloat ? [d, d, d] : [d, d, d], make: op(Ops.MULACC) },
    { name: `max with a constant ${d}`, inputs: [d], make: ([x]) => x.alu(Ops.MAX, c3(x)) },
    { name: `constant first ${d}`, inputs: [d], make: ([x]) => c3(x).alu(Ops.MAX, x) },
    { name: `select by comparison ${d}`, inputs: [d, d], make: ([x, y]) => op(Ops.CMPLT)([x, y]).where(x, c3(x)) },
  );
  if (!d.isFloat) {
    cases.push(
      { name: `divide by 3 ${d}`, inputs: [d], make: ([x]) => x.alu(Ops.CDIV, c3(x)) },
      { name: `modulo 3 ${d}`, inputs: [d], make: ([x]) => x.alu(Ops.CMOD, c3(x)) },
      { name: `shift by 3 ${d}`, inputs: [d], make: ([x]) => x.alu(Ops.SHL, c3(x)).alu(Ops.SHR, c3(x)) },
    );
  }
  for (const t of [dtypes.bool, ...INTS, ...FLOATS, dtypes.float16]) {
    if (d.isFloat && t.isInt) continue; // out of range is not defined; below with values in range
    cases.push({ name: `${d} to ${t}`, inputs: [d], make: ([x]) => x.cast(t.vec(x.dtype.count)) });
  }
}
for (const t of [dtypes.bool, ...INTS, ...FLOATS]) {
  const small = (x: UOp) => op(Ops.CMPLT)([x, constant(120, x.dtype)]).where(x, constant(9, x.dtype));
  const positive = (x: UOp) => op(Ops.CMPLT)([constant(0, x.dtype), x]).where(x, constant(2.5, x.dtype));
  cases.push({
    name: `float32 in range to ${t}`,
    inputs: [f32],
    make: ([x]) => positive(small(x)).cast(t.vec(x.dtype.count)),
  });
  cases.push({ name: `bool to ${t}`, inputs: [dtypes.bool], make: ([x]) => x.cast(t.vec(x.dtype.count)) });
}
for (const o of [Ops.AND, Ops.OR, Ops.XOR, Ops.CMPNE, Ops.CMPEQ, Ops.CMPLT, Ops.ADD, Ops.MUL, Ops.MAX]) {
  cases.push({ name: `${named(o)} bool`, inputs: [dtypes.bool, dtypes.bool], make: op(o) });
}
const not = (x: UOp) => op(Ops.CMPNE)([x, constant(1, x.dtype)]);
cases.push(
  { name: "float16 to float32", inputs: [dtypes.float16], make: ([x]) => x.cast(f32.vec(x.dtype.count)) },
  { name: "not", inputs: [dtypes.bool], make: ([x]) => not(x) },
  {
    name: "masks of three widths",
    inputs: [f32, dtypes.float64, dtypes.bool, dtypes.int8],
    make: ([x, y, b, i]) => {
      const lt = (a: UOp) => op(Ops.CMPLT)([a, constant(2, a.dtype)]);
      const m = op(Ops.AND)([lt(x), op(Ops.OR)([lt(y), op(Ops.XOR)([b, not(lt(i))])])]);
      return m.where(x, constant(-1, x.dtype));
    },
  },
  {
    name: "where of masks",
    inputs: [f32, f32, dtypes.bool],
    make: ([x, y, b]) => b.where(op(Ops.CMPLT)([x, y]), not(b)),
  },
  { name: "bits of float32", inputs: [f32], make: ([x]) => x.bitcast(dtypes.uint32.vec(x.dtype.count)) },
  { name: "float32 of bits", inputs: [dtypes.int32], make: ([x]) => x.bitcast(f32.vec(x.dtype.count)) },
  { name: "infinity", inputs: [f32], make: ([x]) => x.add(constant(-Infinity, x.dtype)) },
  { name: "NaN", inputs: [f32], make: ([x]) => x.mul(constant(NaN, x.dtype)) },
  { name: "minus zero", inputs: [f32], make: ([x]) => x.add(constant(-0, x.dtype)) },
  { name: "smallest", inputs: [dtypes.int64], make: ([x]) => x.add(constant(-(2 ** 63), x.dtype)) },
);

/** The case on all sixteen values, `lanes` at a time. */
function linearOf(c: Case, lanes: number, at: number): LinearProgram {
  const i = range(LANES / lanes, 0, AxisKind.LOOP), idx = i.mul(lanes);
  const xs = c.inputs.map((d, s) => uop(Ops.LOAD, d.vec(lanes), [index(param(s + 1, d, LANES), idx)]));
  const value = c.make(xs), write = store(index(param(0, value.dtype.scalar, LANES), idx), value);
  const body = toposort(write), leaves = body.filter((u) => u.op === Ops.PARAM || u.op === Ops.CONST);
  const rest = body.filter((u) => !leaves.includes(u) && u !== i);
  return programOf(`case${at}_${lanes}`, [...leaves, i, ...rest, uop(Ops.END, dtypes.void, [i])]);
}

/** NaNs are alike whatever their bits. */
function canonical(d: DType, bytes: Uint8Array): unknown[] {
  const b = bytes.buffer;
  if (d === f32) return [...new Float32Array(b)];
  if (d === dtypes.float64) return [...new Float64Array(b)];
  return d === dtypes.float16 ? [...new Float16Array(b)] : [...bytes];
}

const widths = [1, 4, 16];
const programs = cases.flatMap((c, at) => widths.map((lanes) => linearOf(c, lanes, at)));
let compiled: ReturnType<Device["compiler"]["compile"]> | undefined;
cases.forEach((c, at) => {
  test(c.name, () => {
    compiled ??= device.compiler.compile(programs);
    widths.forEach((lanes, w) => {
      const linear = programs[at * widths.length + w], d = linear.params[0].dtype;
      const results = [device, js].map((on) => {
        const program = on === js ? compileOne(js, linear) : compiled![at * widths.length + w];
        const inputs = c.inputs.map((x, s) => bufferOf(on, x, new Uint8Array(values(x, s))));
        const out = new Buffer(on, d, LANES);
        on.run([{ program, buffers: [out, ...inputs], vars: [] }]);
        const bytes = out.copyOut(new Uint8Array(out.nbytes));
        [out, ...inputs].forEach((b) => b.free());
        return canonical(d, bytes);
      });
      if (c.name.startsWith("MULACC float")) { // one rounding or two
        results[0].forEach((x, i) => {
          if (Number.isFinite(x)) assertAlmostEquals(x as number, results[1][i] as number, 1e-3);
        });
      } else assertEquals(results[0], results[1], `${lanes} lanes\n${compiled![at * widths.length + w].source}`);
    });
  });
});

// ---- order, gates, accumulators ----

test("a value read before a store keeps what it was", () => {
  // (a[0], a[1]) becomes (a[1], a[0]): both loads stand before both stores and are used once
  const a = param(0, f32, 2), x = load(index(a, int(0))), y = load(index(a, int(1)));
  const uops = [a, int(0), int(1), x.src[0], x, y.src[0], y, store(index(a, int(0)), y), store(index(a, int(1)), x)];
  const buffer = bufferOf(device, f32, Float32Array.of(1, 2));
  device.run([{ program: compileOne(device, programOf("swap", uops)), buffers: [buffer], vars: [] }]);
  assertEquals(floats(buffer), [2, 1]);
});

test("accumulators of masks, and IF", () => {
  // out[0] = any(a < 0) as lanes, written only where n > 2
  const n = variable("n", 0, 10), b4 = dtypes.bool.vec(4), v4 = f32.vec(4);
  const out = param(0, dtypes.bool, 4), a = param(1, f32, 16), k = range(4, 0, AxisKind.REDUCE);
  const acc = uop(Ops.ACC, b4, [constant(0, b4), k], new AccArg(0));
  const x = uop(Ops.LOAD, v4, [index(a, k.mul(4))]), c = uop(Ops.CMPLT, b4, [x, constant(0, v4)]);
  const before = uop(Ops.LOAD, b4, [acc, k]), next = uop(Ops.OR, b4, [before, c]), set = store(acc, next);
  const after = uop(Ops.LOAD, b4, [acc, set]), condition = int(2).lt(n), branch = uop(Ops.IF, dtypes.void, [condition]);
  const uops = [
    ...[out, a, n, int(4), int(2), zero, constant(0, b4), constant(0, v4), acc, k, k.mul(4), x.src[0], x, c],
    ...[before, next, set, uop(Ops.END, dtypes.void, [k]), after, condition, branch],
    ...[index(out, zero), store(index(out, zero), after), uop(Ops.ENDIF, dtypes.void, [branch])],
  ];
  const program = compileOne(device, programOf("any", uops));
  const data = new Float32Array(16);
  data[5] = -1;
  data[11] = -2;
  const buffers = [bufferOf(device, dtypes.bool, new Uint8Array(4).fill(7)), bufferOf(device, f32, data)];
  const read = () => [...buffers[0].copyOut(new Uint8Array(4))];
  device.run([{ program, buffers, vars: [2] }]);
  assertEquals(read(), [7, 7, 7, 7]);
  device.run([{ program, buffers, vars: [3] }]);
  assertEquals(read(), [0, 1, 0, 1]);
});

test("variables of every width", () => {
  const kinds = [f32, dtypes.int64, dtypes.float64, dtypes.int8, dtypes.uint32];
  const vars = kinds.map((d, i) => variable(`v${i}`, -(2 ** 31), 2 ** 31, d)), out = param(0, dtypes.float64, 5);
  const uops = [
    out,
    ...vars,
    ...vars.flatMap((v, i) => {
      const x = v.cast(dtypes.float64);
      return [int(i), ...(x === v ? [] : [x]), index(out, int(i)), store(index(out, int(i)), x)];
    }),
  ];
  const buffer = new Buffer(device, dtypes.float64, 5);
  const program = compileOne(device, programOf("vars", uops));
  device.run([{ program, buffers: [buffer], vars: [0.5, -(2n ** 40n), -1.25, -3, 4e9] }]);
  const got = new Float64Array(buffer.copyOut(new Uint8Array(40)).buffer);
  assertEquals([...got], [0.5, -(2 ** 40), -1.25, -3, 4e9]);
});

test("a gate hides what cannot be read, vectors too", () => {
  const v4 = f32.vec(4), i = range(3, 0, AxisKind.LOOP), a = param(1, f32, 8), out = param(0, f32, 12);
  const at = i.mul(1 << 20), gate = i.lt(1), x = uop(Ops.LOAD, v4, [index(a, at, gate), constant(5, v4)]);
  const to = index(out, i.mul(4));
  const uops = [
    ...[out, a, int(3), int(1 << 20), int(1), int(4), constant(5, v4), i, at, gate, index(a, at, gate), x],
    ...[i.mul(4), to, store(to, x), uop(Ops.END, dtypes.void, [i])],
  ];
  const buffers = [new Buffer(device, f32, 12), bufferOf(device, f32, Float32Array.of(1, 2, 3, 4, 0, 0, 0, 0))];
  device.run([{ program: compileOne(device, programOf("gate", uops)), buffers, vars: [] }]);
  assertEquals(floats(buffers[0]), [1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5]);
});

// ---- threads and graphs ----

test("a graph replays with other buffers and values", () => {
  const n = variable("n", 0, 100), out = param(0, f32, 4), a = param(1, f32, 4), i = range(4, 0, AxisKind.LOOP);
  const x = load(index(a, i)), f = n.cast(f32), y = x.mul(f);
  const uops = [
    ...[out, a, n, int(4), f, i, index(a, i), x, y, index(out, i), store(index(out, i), y)],
    uop(Ops.END, dtypes.void, [i]),
  ];
  const program = compileOne(device, programOf("scale", uops));
  const of = (...v: number[]) => bufferOf(device, f32, Float32Array.from(v));
  const [p, q, r] = [of(1, 2, 3, 4), of(0, 0, 0, 0), of(0, 0, 0, 0)];
  const graph = device.graph([
    { program, buffers: [q, p], vars: [2] },
    { program, buffers: [r, q], vars: [3] },
  ]);
  graph.run();
  assertEquals(floats(r), [6, 12, 18, 24]);
  graph.setBuffer(0, 1, of(10, 20, 30, 40));
  graph.setVar(1, 0, 5);
  graph.run();
  assertEquals(floats(r), [100, 200, 300, 400]);
  const view = of(9, 9, 9, 9, 1, 1, 1, 1).view(16, 4);
  graph.setBuffer(0, 1, view);
  graph.run();
  assertEquals(floats(r), [10, 10, 10, 10]);
  graph.dispose();
});

test("a thousand parallel kernels in one batch, in order", () => {
  const chunks = 64, k = addThreadVector(chunks), n = chunks * 8;
  const program = compileOne(device, programOf("threads", k.linear!));
  const one = bufferOf(device, f32, new Float32Array(n).fill(1));
  const [a, b] = [0, 0].map(() => bufferOf(device, f32, new Float32Array(n)));
  const launches = Array.from({ length: 1000 }, (_, i): Launch => ({
    program,
    buffers: i % 2 === 0 ? [b, a, one] : [a, b, one],
    vars: [],
  }));
  const graph = device.graph(launches);
  for (let round = 1; round <= 3; round++) {
    graph.run();
    assertEquals(floats(a), new Array(n).fill(round * 1000));
  }
  graph.dispose();
});

test("kernels of any number of chunks in turns, with pauses in which workers fall asleep", async () => {
  const made = Array.from({ length: 14 }, (_, i) => i + 1).map((chunks) => {
    const n = chunks * 8, program = compileOne(device, programOf(`threads_${chunks}`, addThreadVector(chunks).linear!));
    const [a, b] = [0, 0].map(() => bufferOf(device, f32, new Float32Array(n)));
    return { n, program, a, b, one: bufferOf(device, f32, new Float32Array(n).fill(1)) };
  });
  for (let round = 1; round <= 5; round++) {
    device.run(made.flatMap(({ program, a, b, one }): Launch[] => [
      { program, buffers: [b, a, one], vars: [] },
      { program, buffers: [a, b, one], vars: [] },
    ]));
    for (const { n, a } of made) assertEquals(floats(a), new Array(n).fill(round * 2), `${n / 8} chunks`);
    await new Promise((done) => setTimeout(done, round % 2 * 3));
  }
});

// ---- the register tile ----

/** out[6, 64] += a[6, K] b[K, 64] as codegen writes it: 24 vector accumulators. */
function tileProgram(K: number): LinearProgram {
  const v16 = f32.vec(16), rows = 6, columns = 4;
  const out = param(0, f32, rows * 64), a = param(1, f32, rows * K), b = param(2, f32, K * 64);
  const k = range(K, 0, AxisKind.REDUCE), none = constant(0, v16), row = k.mul(64);
  const uops: UOp[] = [out, a, b, int(K), int(64), none];
  const accs: UOp[] = [];
  for (let t = 0; t < rows * columns; t++) accs.push(uop(Ops.ACC, v16, [none, k], new AccArg(t)));
  uops.push(...accs, k, row);
  const bs: UOp[] = [], as: UOp[] = [], stores: UOp[] = [];
  for (let c = 0; c < columns; c++) {
    const at = row.add(c * 16), x = uop(Ops.LOAD, v16, [index(b, at)]);
    uops.push(int(c * 16), at, x.src[0], x);
    bs.push(x);
  }
  for (let r = 0; r < rows; r++) {
    const at = k.add(r * K), x = load(index(a, at)), wide = uop(Ops.BROADCAST, v16, [x]);
    uops.push(int(r * K), at, index(a, at), x, wide);
    as.push(wide);
  }
  for (let t = 0; t < accs.length; t++) {
    const before = uop(Ops.LOAD, v16, [accs[t], k]);
    const next = uop(Ops.MULACC, v16, [as[Math.floor(t / columns)], bs[t % columns], before]);
    stores.push(store(accs[t], next));
    uops.push(before, next, stores[t]);
  }
  uops.push(uop(Ops.END, dtypes.void, [k]));
  for (let t = 0; t < accs.length; t++) {
    const after = uop(Ops.LOAD, v16, [accs[t], stores[t]]), at = int(t * 16);
    uops.push(after, at, index(out, at), store(index(out, at), after));
  }
  const seen = new Set<UOp>();
  return programOf("tile", uops.filter((u) => !seen.has(u) && seen.add(u)));
}

test("a register tile of a matmul", () => {
  const K = 37, program = compileOne(device, tileProgram(K));
  const a = Float32Array.from({ length: 6 * K }, (_, i) => i % 5 - 2);
  const b = Float32Array.from({ length: K * 64 }, (_, i) => i % 7 - 3);
  const buffers = [new Buffer(device, f32, 6 * 64), bufferOf(device, f32, a), bufferOf(device, f32, b)];
  device.run([{ program, buffers, vars: [] }]);
  const want = Array.from({ length: 6 * 64 }, (_, i) => {
    let s = 0;
    for (let k = 0; k < K; k++) s += a[Math.floor(i / 64) * K + k] * b[k * 64 + i % 64];
    return s;
  });
  assertEquals(floats(buffers[0]), want);
  buffers.forEach((x) => x.free());
});

test("a maximum where a comparison holds is not taken to be what it is there", () => {
  // a helper with one call, in one arm of a choice: scalar, so that the choice is a branch
  for (const [low, high] of [[0, 16], [-5, 7]]) {
    const i = range(4, 0, AxisKind.LOOP), x = load(index(param(1, dtypes.int32, 4), i));
    const held = x.lt(high).where(x.max(low), constant(high, dtypes.int32));
    const ast = sink([store(index(param(0, dtypes.int32, 4), i), held)]);
    const program = compileOne(device, context({ NOOPT: 1 }, () => toProgram(ast, device.renderer)));
    const given = Int32Array.of(100, 5, -9, high), bytes = new Uint8Array(16);
    const buffers = [new Int32Array(4), given].map((v) => bufferOf(device, dtypes.int32, v));
    device.run([{ program, buffers, vars: [] }]);
    buffers[0].copyOut(bytes);
    assertEquals([...new Int32Array(bytes.buffer)], [...given].map((v) => Math.min(Math.max(v, low), high)));
  }
});

test(
  "results that the caches would not keep go past them, line by line where lines begin, and are there",
  optimized(() => {
    const { caps, ...renderer } = device.renderer;
    const wide = {
      ...renderer,
      render: (p: LinearProgram) => device.renderer.render(p),
      caps: { ...caps, vectorBytes: 64, vectorLanes: (d: DType) => 64 / Math.max(4, d.bits >> 3), streamedBytes: 1 },
    };
    for (const [rows, columns, isTurned] of [[3, 64, false], [5, 49, false], [40, 49, true], [64, 64, true]] as const) {
      const n = rows * columns, x = Float32Array.from({ length: n }, (_, i) => i % 97 - 40);
      const r = range(rows, 0, AxisKind.LOOP), c = range(columns, 1, AxisKind.LOOP), inner = r.mul(columns).add(c);
      const at = isTurned ? c.mul(rows).add(r) : inner,
        value = load(index(param(1, f32, n), inner)).add(constant(1, f32));
      const program = toProgram(sink([store(index(param(0, f32, n), at), value)]), wide);
      assert(program.streams);
      const compiled = compileOne(device, program);
      assertStringIncludes(compiled.source, "STREAM(");
      assertStringIncludes(compiled.source, "FENCE();");
      const buffers = [bufferOf(device, f32, new Float32Array(n)), bufferOf(device, f32, x)];
      device.run([{ program: compiled, buffers, vars: [] }]);
      const want = Array.from({ length: n }, (_, i) => x[isTurned ? i % rows * columns + Math.floor(i / rows) : i] + 1);
      assertEquals(floats(buffers[0]), want);
    }
    // what is read too is in the caches
    const i = range(256, 0, AxisKind.LOOP), own = index(param(0, f32, 256), i);
    const inPlace = toProgram(sink([store(own, load(own).add(constant(1, f32)))]), wide);
    assert(!compileOne(device, inPlace).source.includes("STREAM("));
    const small = toProgram(sink([store(own, load(index(param(1, f32, 256), i)))]), device.renderer);
    assert(!compileOne(device, small).source.includes("STREAM("));
  }),
);

test(
  "what is asked for ahead of a product reads past the end of nothing",
  optimized(() => {
    const rows = 37, n = 1024, x = Float32Array.from({ length: rows * n }, (_, i) => i % 13 - 6);
    const r = range(rows, 0, AxisKind.LOOP), k = range(n, 1, AxisKind.REDUCE);
    const product = load(index(param(1, f32, rows * n), r.mul(n).add(k))).mul(load(index(param(2, f32, n), k)));
    const ast = sink([store(index(param(0, f32, rows), r), reduce(opCarrier(Ops.ADD, f32), [product], [k]))]);
    const compiled = compileOne(device, toProgram(ast, device.renderer));
    if (device.renderer.caps.vectorBytes > 0) assertStringIncludes(compiled.source, "AHEAD(");
    const v = Float32Array.from({ length: n }, (_, i) => i % 5);
    const buffers = [new Float32Array(rows), x, v].map((a) => bufferOf(device, f32, a));
    device.run([{ program: compiled, buffers, vars: [] }]);
    const want = Array.from({ length: rows }, (_, i) => v.reduce((s, y, k) => s + y * x[i * n + k], 0));
    assertEquals(floats(buffers[0]), want);
  }),
);

Deno.test({
  name: "clang: the register tile stays in registers",
  ignore: ignore || device.info().vectorBits !== 512,
  fn: async () => {
    const { source } = compileOne(device, tileProgram(256)), file = `${cacheFolder}/tile.c`;
    await Deno.writeTextFile(file, source);
    const flags = "-O2 -march=native -ffp-contract=fast -fno-math-errno -fno-trapping-math -mprefer-vector-width=512";
    const { stdout } = await new Deno.Command(String(device.info().compiler), {
      args: [...flags.split(" "), "-w", "-S", "-o", "-", file],
    }).output();
    const text = new TextDecoder().decode(stdout), fma = text.split("\n").filter((l) => /vfmadd.*zmm/.test(l));
    assert(fma.length >= 24, "512-bit FMAs");
    const spills = text.split("\n").filter((l) => /zmm/.test(l) && /\(%r[sb]p\)/.test(l));
    // gcc 12 keeps two of the 24 accumulators in memory: each is read, multiplied into and written there once a step
    const isGcc = !String(device.info().compiler).includes("clang");
    assert(spills.length <= (isGcc ? 6 : 0), spills.join("\n"));
  },
});

test("gcc does too, where it is there", () => {
  const folder = Deno.makeTempDirSync({ dir: cacheFolder });
  context({ CC: "gcc" }, () => {
    if (clangBackend.unavailable() !== undefined) return;
    const on = openAt(folder), list = programs.filter((_, i) => i % 31 === 0);
    const made = on.compiler.compile(list);
    list.forEach((linear, i) => {
      const results = ([[on, made[i]], [device, compileOne(device, linear)]] as const).map(([where, program]) => {
        const buffers = linear.params.map((p) => bufferOf(where, p.dtype, new Uint8Array(values(p.dtype, p.slot))));
        where.run([{ program, buffers, vars: [] }]);
        return canonical(linear.params[0].dtype, buffers[0].copyOut(new Uint8Array(buffers[0].nbytes)));
      });
      assertEquals(results[0], results[1], made[i].source);
    });
    on.close();
  });
});

test("reports what it runs on", () => {
  const info = device.info();
  assertEquals(info.threads, 3);
  assert(String(info.compiler).startsWith("/") && Number(info.vectorBits) >= 128);
  assert((param(0, f32, 1).arg as ParamArg).size === 1 && device.renderer.caps.vectorLanes(f32) >= 4);
});

for (const op of [Ops.CDIV, Ops.CMOD]) {
  test(`vectors of integers are divided as scalars are: ${op === Ops.CDIV ? "quotients" : "remainders"}`, () => {
    for (
      const d of [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32]
    ) {
      const low = d.isUnsigned ? 0 : -(2 ** (d.bits - 1)), high = low + 2 ** d.bits - 1;
      const edges = [
        low,
        low + 1,
        low + 7,
        high,
        high - 1,
        high / 3 | 0,
        0,
        1,
        2,
        3,
        d.isUnsigned ? 5 : -1,
        d.isUnsigned ? 6 : -2,
      ];
      const pairs = edges.flatMap((a) => edges.map((b) => [a, b])), n = pairs.length, i = range(n, 0, AxisKind.LOOP);
      const [a, b] = [1, 2].map((slot) => load(index(param(slot, d, n), i)));
      const ast = sink([store(index(param(0, d, n), i), uop(op, d, [a, b]))]);
      const views = [0, 1].map((k) => {
        const bytes = new DataView(new ArrayBuffer(n * d.itemsize));
        pairs.forEach((p, at) => {
          if (d.bits === 8) bytes.setInt8(at, p[k]);
          else if (d.bits === 16) bytes.setInt16(2 * at, p[k], true);
          else bytes.setInt32(4 * at, p[k], true);
        });
        return bytes;
      });
      const results = [device, js].map((on) => {
        const buffers = [new DataView(new ArrayBuffer(n * d.itemsize)), ...views].map((v) => bufferOf(on, d, v));
        const program = context({ NOOPT: 0 }, () => toProgram(ast, on.renderer));
        if (on === device) assert(program.uops.some((u) => u.op === op && u.dtype.count > 1), `${d} has no vectors`);
        on.run([{ program: compileOne(on, program), buffers, vars: [] }]);
        return [...buffers[0].copyOut(new Uint8Array(n * d.itemsize))];
      });
      assertEquals(results[0], results[1], `${d}`);
    }
  });
}
