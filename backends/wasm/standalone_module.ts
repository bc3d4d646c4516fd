/**
 * Modules that need nothing beside them: they own their memory, and each function calls its kernels one after the other on
 * addresses that are fixed when the module is made. In: programs, and steps on places in memory; out: module bytes.
 *
 * @module
 */
import type {
  Standalone,
  StandaloneEntry,
  StandaloneScalar,
  StandaloneSpec,
  StandaloneStep,
} from "../../src/device/standalone.ts";
import { roundUp } from "../../src/helpers/math.ts";
import type { LinearProgram, Renderer } from "../../src/renderer/renderer.ts";
import { Bytes, EMPTY, encodeModule, type FuncBody, type FuncType, I32 } from "./encoder.ts";
import { WasmRenderer } from "./render.ts";
import { HEAP } from "./wasm_memory.ts";
import { KERNEL_TYPE } from "./wasm_runtime.ts";

/** Engines of which nothing but vectors of 128 bits is expected. */
const PORTABLE = { simd: true, relaxed: false, threads: false } as const;
const PAGE = 65536, ALIGN = 64;
/** The word that says where scratch memory is; before it lie zeros that are never written. */
const RECORD = 64;
/** Where tables of arguments begin. */
const TABLES = 128;
/** What one call of a kernel should take: the engine enters its optimized code when it is called again. */
const CALL_NS = 2e6;
const MEMORY_COPY = 0xfc000a;

const renderer = new WasmRenderer(1, PORTABLE, undefined, true);

/** Tables of addresses and scalars, one after the other from {@linkcode TABLES} on. */
class Tables {
  private readonly bytes: number[] = [];
  private readonly known = new Map<string, number>();

  /** A list of addresses. */
  addresses(list: readonly number[]): number {
    const key = list.join(), found = this.known.get(key);
    if (found !== undefined) return found;
    const at = this.room(4 * list.length);
    list.forEach((address, i) => {
      for (let k = 0; k < 4; k++) this.bytes[at - TABLES + 4 * i + k] = address >>> (8 * k) & 255;
    });
    this.known.set(key, at);
    return at;
  }
  /** Bytes that are zero in the beginning, at a multiple of 8. */
  room(nbytes: number): number {
    while (this.bytes.length % 8 !== 0) this.bytes.push(0);
    const at = this.bytes.length;
    for (let i = 0; i < nbytes; i++) this.bytes.push(0);
    return TABLES + at;
  }
  get data(): number[] {
    return this.bytes;
  }
}

/** Iterations of one call of a kernel, as many as take a while. */
function pieceOf(program: LinearProgram, kernel: ReturnType<WasmRenderer["kernel"]>): number {
  const cost = 200 + program.flops * 0.15 + program.bytes * 0.1;
  return kernel.setup ? kernel.iterations : Math.max(1, Math.floor(kernel.iterations * CALL_NS / cost));
}

/** Writes one scalar argument to its place. `at` is that of the counter and the seed. */
function putScalar(
  c: Bytes,
  to: number,
  scalar: StandaloneScalar,
  bits: number,
  at: { counter: number; seed: number },
): void {
  c.i32(to);
  if (scalar.kind === "variable") {
    c.i("local.get", scalar.position);
    if (bits === 64) c.i("i64.extend_i32_s");
  } else if (scalar.kind === "seed") {
    c.i32(at.seed).i("i64.load", 3, 0);
    if (scalar.word === 0) c.i("i64.const").s64(32n).i("i64.shr_u");
    if (bits < 64) c.i("i32.wrap_i64");
  } else {
    c.i32(at.counter).i("i64.load", 3, 0);
    if (scalar.kind === "counterHigh") c.i("i64.const").s64(32n).i("i64.shr_u");
    else if (scalar.offset !== 0) c.i("i64.const").s64(BigInt(scalar.offset)).i("i64.add");
    if (bits < 64) c.i("i32.wrap_i64");
  }
  if (bits === 64) c.i("i64.store", 3, 0);
  else c.i("i32.store", 2, 0);
}

function copy(c: Bytes, to: number, from: number, nbytes: number): void {
  c.i32(HEAP + to).i32(HEAP + from).i32(nbytes).op(MEMORY_COPY).u8(0).u8(0);
}

/** What the functions of a module share: kernels, tables of arguments, and where the counter and the seed are. */
interface Shared {
  readonly spec: StandaloneSpec;
  readonly kernels: readonly ReturnType<WasmRenderer["kernel"]>[];
  readonly tables: Tables;
  readonly at: { readonly counter: number; readonly seed: number };
}

/** The code of one function. */
function codeOf({ steps, variables, draws }: StandaloneEntry, { spec, kernels, tables, at }: Shared): Bytes {
  const run = new Bytes(1024), piece = variables.length; // the local after the parameters
  variables.forEach(({ min, max }, i) => {
    run.i("local.get", i).i32(min).i("i32.lt_s").i("local.get", i).i32(max).i("i32.gt_s").i("i32.or");
    run.i("if").u8(EMPTY).i32(1).i("return").i("end");
  });
  const call = (step: StandaloneStep & { kind: "kernel" }): void => {
    const kernel = kernels[step.program], program = spec.programs[step.program], { iterations } = kernel;
    const bufs = tables.addresses(step.places.map((p) => HEAP + p));
    const vars = step.scalars.length === 0 ? 0 : tables.room(8 * step.scalars.length);
    step.scalars.forEach((s, i) => putScalar(run, vars + 8 * i, s, program.vars[i].dtype.bits, at));
    const each = pieceOf(program, kernel);
    if (each >= iterations) {
      run.i32(bufs).i32(vars).i32(0).i32(iterations).i("call", step.program);
      return;
    }
    run.i32(0).i("local.set", piece).i("loop").u8(EMPTY);
    run.i32(bufs).i32(vars).i("local.get", piece);
    run.i("local.get", piece).i32(each).i("i32.add").i("local.tee", piece + 1);
    run.i32(iterations).i("local.get", piece + 1).i32(iterations).i("i32.lt_s").i("select").i("call", step.program);
    run.i("local.get", piece + 1).i("local.tee", piece).i32(iterations).i("i32.lt_s").i("br_if", 0).i("end");
  };
  for (const step of steps) {
    if (step.kind === "kernel") call(step);
    else copy(run, step.to, step.from, step.nbytes);
  }
  if (draws > 0) {
    run.i32(at.counter).i32(at.counter).i("i64.load", 3, 0);
    run.i("i64.const").s64(BigInt(draws)).i("i64.add").i("i64.store", 3, 0);
  }
  if (variables.length > 0) run.i32(0);
  return run;
}

/** Whether any kernel is given the counter or the seed of random numbers. */
function readsRandom(entries: readonly StandaloneEntry[]): boolean {
  return entries.some((e) =>
    e.steps.some((s) => s.kind === "kernel" && s.scalars.some(({ kind }) => kind !== "variable"))
  );
}

/** The module of a spec. @throws {CompileError} */
function moduleOf(spec: StandaloneSpec): Uint8Array<ArrayBuffer> {
  const kernels = spec.programs.map((p) => renderer.kernel(p)), tables = new Tables(), { entries } = spec;
  const scratch = HEAP + roundUp(spec.nbytes, ALIGN), most = kernels.reduce((n, k) => Math.max(n, k.scratch), 0);
  const hasDraws = entries.some((e) => e.draws > 0), hasRandom = hasDraws || readsRandom(entries);
  const at = hasRandom ? { counter: tables.room(8), seed: tables.room(8) } : { counter: 0, seed: 0 };
  const init = new Bytes(64);
  for (const c of spec.init) copy(init, c.to, c.from, c.nbytes);
  if (hasDraws) {
    init.i32(at.counter).i("i64.const").s64(spec.counter).i("i64.store", 3, 0);
    init.i32(at.seed).i("i64.const").s64(BigInt.asIntN(64, spec.seed)).i("i64.store", 3, 0);
  }
  const funcs: FuncBody[] = kernels.map(({ locals, code }) => ({ type: 0, locals, code }));
  entries.forEach((e, i) => {
    funcs.push({ type: 2 + i, locals: [I32, I32], code: codeOf(e, { spec, kernels, tables, at }).take() });
  });
  funcs.push({ type: 1, locals: [], code: init.take() });
  if (tables.data.length > HEAP - TABLES) throw new RangeError("The tables of a module exceed their room");
  const places = spec.exports.map((e) => ({ name: e.name, value: HEAP + e.place }));
  if (hasDraws) places.push({ name: "counter", value: at.counter }, { name: "seed", value: at.seed });
  const word = (x: number): number[] => [0, 8, 16, 24].map((s) => x >>> s & 255);
  return encodeModule({
    types: [
      KERNEL_TYPE,
      { params: [], results: [] },
      ...entries.map(({ variables }): FuncType => (
        { params: variables.map(() => I32), results: variables.length > 0 ? [I32] : [] }
      )),
    ],
    imports: [],
    memoryPages: Math.ceil((scratch + most) / PAGE),
    globals: [RECORD, ...places.map((p) => p.value)],
    funcs,
    exports: [
      { name: "memory", memory: 0 },
      ...places.map(({ name }, i) => ({ name, global: i + 1 })),
      { name: "init", func: kernels.length + entries.length },
      ...entries.map(({ name }, i) => ({ name, func: kernels.length + i })),
    ],
    data: [{ at: RECORD, bytes: word(scratch) }, { at: TABLES, bytes: tables.data }],
  }) as Uint8Array<ArrayBuffer>;
}

/** What the WASM backend offers to those who write programs down. */
export const wasmStandalone: Standalone = { renderer: renderer as Renderer, module: moduleOf };
