/** Runs kernel ASTs through codegen on the JS device, under given opts and capabilities. */
import { assertEquals } from "@std/assert";
import { makeJsDevice } from "../../backends/js/js.ts";
import { toProgram } from "../../src/codegen/to_program.ts";
import { type Opt, parseOpts, withOpts } from "../../src/codegen/opt/opt.ts";
import { Buffer } from "../../src/device/buffer.ts";
import type { Device } from "../../src/device/device.ts";
import type { Launch } from "../../src/device/program.ts";
import type { DType } from "../../src/dtype/dtype.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { type Capabilities, type LinearProgram, SCALAR_CAPS } from "../../src/renderer/renderer.ts";
import type { ParamArg } from "../../src/uop/core/args.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { ArgumentError } from "../../src/helpers/errors.ts";
import { context } from "../../src/helpers/env.ts";
import { specLinear, verify } from "../../src/uop/core/spec.ts";
import { verifyLinear } from "./verify.ts";
import { toposort, type UOp } from "../../src/uop/core/uop.ts";
import { Random } from "../support/random.ts";

export type Data = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array | Uint16Array | Float16Array;

/** A CPU with vectors of 16 bytes and of 64 bytes, for the heuristic and the vector opts. */
export const CAPS: Record<"scalar" | "small" | "large", Partial<Capabilities>> = {
  scalar: {},
  small: {
    vectorBytes: 16,
    registers: 16,
    threads: 2,
    l1: 1 << 15,
    l2: 1 << 19,
    hasMulAcc: true,
    nativeOps: [Ops.SQRT, Ops.TRUNC],
    vectorLanes: (d) => d.bits === 32 || d.isBool ? 4 : 1,
  },
  large: {
    vectorBytes: 64,
    registers: 32,
    threads: 4,
    l1: 48 << 10,
    l2: 1 << 20,
    hasMulAcc: true,
    hasMaskedLoads: true,
    nativeOps: [Ops.SQRT],
    computeDTypes: SCALAR_CAPS.computeDTypes.filter((d) => d !== dtypes.float16 && d !== dtypes.bfloat16),
    storageDTypes: SCALAR_CAPS.storageDTypes.filter((d) => d !== dtypes.bfloat16),
    vectorLanes: (d) => 64 / Math.max(4, d.bits >> 3),
  },
};

/** "UPCAST:0:4 VECTOR:1:8 STAGE:1:loops=2" */
export function opts(text: string): Opt[] {
  const made = parseOpts(text);
  if (made === undefined) throw new Error(`no opts: ${text}`);
  return made;
}

const ARRAYS: Record<string, new (n: number) => Data> = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  uint32: Uint32Array,
  bool: Uint8Array,
  int8: Int8Array as unknown as new (n: number) => Data,
  uint8: Uint8Array,
  uint16: Uint16Array,
  bfloat16: Uint16Array,
  float16: Float16Array,
};

/** The buffers of a kernel by slot. */
export function paramsOf(ast: UOp): { dtype: DType; size: number }[] {
  const out: { dtype: DType; size: number }[] = [];
  for (const u of toposort(ast)) {
    if (u.op === Ops.PARAM) out[(u.arg as ParamArg).slot] = { dtype: u.dtype, size: (u.arg as ParamArg).size };
  }
  return out;
}

/** Compiles a kernel. `o` undefined: the heuristic chooses. */
export function compile(ast: UOp, o: readonly Opt[] | undefined, caps: Partial<Capabilities> = {}): LinearProgram {
  const device = makeJsDevice(caps);
  const program = toProgram(o === undefined ? ast : withOpts(ast, o), device.renderer);
  verifyLinear(program.uops, device.renderer.caps);
  return program;
}

/** Runs a kernel on copies of `data` (by slot) and returns all buffers after it. */
export function run(
  ast: UOp,
  data: readonly Data[],
  o: readonly Opt[] | undefined,
  caps: Partial<Capabilities> = {},
  vars: readonly number[] = [],
  linear: LinearProgram = compile(ast, o, caps),
): Data[] {
  const device = makeJsDevice(caps);
  return runOn(device, ast, data, device.compiler.compile([linear])[0], vars);
}

/** Runs a compiled kernel on copies of `data` (by slot) and returns all buffers after it. */
export function runOn(
  device: Device,
  ast: UOp,
  data: readonly Data[],
  program: Launch["program"],
  vars: readonly number[] = [],
): Data[] {
  const params = paramsOf(ast);
  const buffers = params.map((p, i) => {
    const b = new Buffer(device, p.dtype, p.size);
    b.copyIn(new Uint8Array(data[i].buffer, data[i].byteOffset, data[i].byteLength).slice());
    return b;
  });
  device.run([{ program, buffers, vars }]);
  return params.map((p, i) => {
    const out = new ARRAYS[p.dtype.name](p.size);
    buffers[i].copyOut(new Uint8Array(out.buffer as ArrayBuffer));
    buffers[i].free();
    return out;
  });
}

/** Ops whose results may differ in the last digits from one order or decomposition to another. */
const INEXACT: readonly Ops[] = [Ops.FDIV, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.COS, Ops.SQRT];

/**
 * Fails where buffers differ: whole numbers ever, floats unless the kernel divides or has a function (data of small
 * integers make sums exact in any order).
 */
export function expectSame(ast: UOp, got: readonly Data[], want: readonly Data[], what: string): void {
  const exact = !toposort(ast).some((u) => INEXACT.includes(u.op)), params = paramsOf(ast);
  got.forEach((g, slot) => {
    const tolerance = exact || !params[slot].dtype.isFloat ? 0 : 1e-4;
    for (let i = 0; i < g.length; i++) {
      const a = Number(g[i]), b = Number(want[slot][i]);
      if (a === b || Object.is(a, b) || Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b))) continue;
      throw new Error(`${what}: buffer ${slot}[${i}] is ${a}, not ${b}`);
    }
  });
}

/** How many nodes of a program are of an op. */
export function countOf(p: LinearProgram, op: Ops): number {
  return p.uops.filter((u) => u.op === op).length;
}

/**
 * The program of a kernel under opts, as the heuristic chooses where there is no text: its first result is, on small integers,
 * that of the kernel without opts.
 */
export function sameUnder(ast: UOp, text: string | undefined, caps: Partial<Capabilities>): LinearProgram {
  const o = text === undefined ? undefined : opts(text), data = integers(paramsOf(ast)), p = compile(ast, o, caps);
  const [want] = run(ast, data, [], {}), [got] = run(ast, data, o, caps, [], p);
  got.forEach((x, i) => assertEquals(x, want[i], `[${i}] under ${text ?? "the heuristic"}`));
  verify(p.uops, specLinear, "in a test");
  return p;
}

/** Compiles a kernel; undefined where its opts are not possible for it. */
export function possible(ast: UOp, o: readonly Opt[], caps: Partial<Capabilities>): LinearProgram | undefined {
  try {
    return compile(ast, o, caps);
  } catch (error) {
    if (error instanceof ArgumentError) return undefined;
    throw error;
  }
}

/** For how many kernels each set of opts was possible, by set and kind of device; and how many were tried. */
class Applied {
  readonly counts: Record<string, number> = {};
  tried = 0;

  /** The sets that were possible for fewer than `least` of `all` kernels; of what a filter left out nothing is known. */
  seldom(all: number, least: number): string[] {
    if (this.tried < all) return [];
    return Object.entries(this.counts).filter(([, n]) => n < least).map(([at, n]) => `${at}: ${n}`);
  }
}

/**
 * Runs a kernel as the heuristic chooses, without opts, and under each set of opts that is possible for it: the same values on
 * each kind of device as on the JS device without opts.
 */
function checkUnderOpts(
  ast: UOp,
  vars: readonly number[],
  sets: readonly string[],
  kinds: Readonly<Record<string, Partial<Capabilities>>>,
  applied: Applied,
): void {
  const data = integers(paramsOf(ast)), want = run(ast, data, [], {}, vars);
  applied.tried++;
  if (want[0].every((v, i) => v === data[0][i])) throw new Error("the kernel writes nothing");
  for (const [kind, caps] of Object.entries(kinds)) {
    expectSame(ast, run(ast, data, undefined, caps, vars), want, `heuristic on ${kind}`);
    expectSame(ast, context({ NOOPT: 1 }, () => run(ast, data, undefined, caps, vars)), want, `no opts on ${kind}`);
    for (const text of sets) {
      const o = opts(text), at = `${text} on ${kind}`, program = possible(ast, o, caps);
      applied.counts[at] = (applied.counts[at] ?? 0) + (program === undefined ? 0 : 1);
      if (program === undefined) continue;
      verify(program.uops, specLinear, at);
      expectSame(ast, run(ast, data, o, caps, vars, program), want, at);
    }
  }
}

/** Tests of {@linkcode checkUnderOpts} for all kernels, and that each set of opts was possible for some. */
export function testUnderOpts(
  what: string,
  kernels: Readonly<Record<string, UOp>>,
  varsOf: (name: string) => readonly number[],
  sets: readonly string[],
  kinds: Readonly<Record<string, Partial<Capabilities>>>,
): void {
  const applied = new Applied();
  for (const [name, ast] of Object.entries(kernels)) {
    Deno.test(`${what}: ${name} is the same under any opts`, () =>
      checkUnderOpts(ast, varsOf(name), sets, kinds, applied));
  }
  Deno.test(`${what}: each set of opts was possible for some kernels`, () => {
    assertEquals(applied.seldom(Object.keys(kernels).length, 5), []);
  });
}

/** Small integers as data, so that float sums are exact in any order. Deterministic. */
export function integers(params: readonly { dtype: DType; size: number }[], seed = 1): Data[] {
  const random = new Random(seed);
  return params.map(({ dtype, size }) => {
    const a = new ARRAYS[dtype.name](size);
    for (let i = 0; i < size; i++) {
      const v = random.int(-8, 8);
      a[i] = dtype === dtypes.bfloat16
        ? (new Uint32Array(new Float32Array([v]).buffer)[0] >>> 16)
        : dtype.isUnsigned
        ? v + 8
        : dtype.isBool
        ? v & 1
        : v;
    }
    return a;
  });
}
