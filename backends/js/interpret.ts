/**
 * Programs of the JS device without code from text, for pages whose policy forbids it (a `script-src` without
 * 'unsafe-eval'): each UOp becomes a closure that works on a frame of values, each loop one that runs a list of closures.
 * It computes, checks and counts exactly what codegen.ts writes; several times slower.
 *
 * @module
 */
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { CompileError, SpecError } from "../../src/helpers/errors.ts";
import { naturalExponent } from "../../src/renderer/natural.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { argOf, AxisKind, Int64 } from "../../src/uop/core/args.ts";
import { isAlu, opName, Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { throughAfter } from "../../src/uop/rewrite/walk.ts";
import { flopsOf, isBig, packedName } from "./codegen.ts";
import { isCollective } from "./grid.ts";
import * as rt from "./js_runtime.ts";
import type { Kernel } from "./js_runtime.ts";

type Value = number | bigint;
type Memory = { [at: number]: Value };
/** One launch: the lanes of all values, and what the kernel was given. */
interface Frame {
  readonly values: Value[];
  readonly bufs: readonly Memory[];
  readonly vars: readonly Value[];
  readonly locals: readonly Memory[];
  readonly begin: number;
  readonly end: number;
  readonly count: { read: number; written: number; flops: number };
}
type Step = (f: Frame) => void;
type Unary = (x: Value) => Value;

/** Numbers to where they belong: integers wrapped, floats rounded. As `wrap` of codegen.ts. */
function wrapper(d: DType): Unary {
  switch (d.scalar) {
    case dtypes.bool:
      return (x) => (x as number) & 1;
    case dtypes.int8:
      return (x) => (x as number) << 24 >> 24;
    case dtypes.uint8:
      return (x) => (x as number) & 255;
    case dtypes.int16:
      return (x) => (x as number) << 16 >> 16;
    case dtypes.uint16:
      return (x) => (x as number) & 65535;
    case dtypes.int32:
      return (x) => (x as number) | 0;
    case dtypes.uint32:
      return (x) => (x as number) >>> 0;
    case dtypes.int64:
      return (x) => BigInt.asIntN(64, x as bigint);
    case dtypes.uint64:
      return (x) => BigInt.asUintN(64, x as bigint);
    case dtypes.float16:
      return rt.f16round as Unary;
    case dtypes.bfloat16:
      return rt.bf16round as Unary;
    case dtypes.float32:
      return rt.fround as Unary;
    case dtypes.float64:
      return (x) => x;
  }
  throw new SpecError(`No JavaScript value for dtype ${d}`);
}

function constantOf(d: DType, value: number | Int64): Value {
  if (isBig(d)) {
    const x = value instanceof Int64 ? value.toBigInt() : BigInt(Math.trunc(value));
    return d.isUnsigned ? BigInt.asUintN(64, x) : BigInt.asIntN(64, x);
  }
  const x = value instanceof Int64 ? Number(value.toBigInt()) : value;
  return d.isFloat ? wrapper(d)(x) : x;
}

/** The value of what lies in memory as bits, and the bits of a value; themselves for dtypes that have an array. */
function decoder(d: DType): Unary {
  const name = packedName(d);
  return name === undefined ? (x) => x : (name === "f16" ? rt.f16value : rt.bf16value) as Unary;
}
function encoder(d: DType): Unary {
  const name = packedName(d);
  return name === undefined ? (x) => x : (name === "f16" ? rt.f16bits : rt.bf16bits) as Unary;
}

function cast(to: DType, from: DType): Unary {
  if (to.scalar === from.scalar) return (x) => x;
  if (to.isBool) return isBig(from) ? (x) => x !== 0n ? 1 : 0 : (x) => x !== 0 ? 1 : 0;
  const wrap = wrapper(to);
  if (isBig(to)) {
    if (from.isFloat) return (x) => wrap(rt.toBig(x as number));
    return isBig(from) ? wrap : (x) => wrap(BigInt(x));
  }
  if (!isBig(from)) return wrap;
  if (to.isFloat) return to.bits < 64 ? (x) => wrap(rt.oddBig(x as bigint)) : (x) => Number(x);
  const narrow = to.isUnsigned ? BigInt.asUintN : BigInt.asIntN;
  return (x) => Number(narrow(to.bits, x as bigint));
}

function bitView(d: DType): Memory {
  const kind = d.isFloat && packedName(d) === undefined ? "f" : d.isUnsigned || d.isBool || d.isFloat ? "u" : "i";
  return rt.bits[`${kind}${d.bits}` as keyof rt.BitViews];
}

function bitcast(to: DType, from: DType): Unary {
  if (to.scalar === from.scalar) return (x) => x;
  const put = bitView(from), take = bitView(to), encode = encoder(from), decode = decoder(to);
  return (x) => {
    put[0] = encode(x);
    return decode(take[0]);
  };
}

/** A shift's count, modulo the width, in the kind of number that the value has. */
function shiftCount(u: UOp): Unary {
  const mask = u.dtype.bits - 1, from = isBig(u.src[1].dtype);
  if (isBig(u.dtype)) return (b) => (from ? b as bigint : BigInt(b)) & BigInt(mask);
  return (b) => (from ? Number(BigInt.asUintN(32, b as bigint)) : b as number) & mask;
}

type Numeric = (a: number, b: number, c: number) => number;
type Wide = (a: bigint, b: bigint, c: bigint) => bigint;

/** Arithmetic before it is wrapped, of numbers and of 64-bit integers. */
const NUMERIC: Partial<Record<number, Numeric>> = {
  [Ops.LOG2]: Math.log2,
  [Ops.SIN]: Math.sin,
  [Ops.COS]: Math.cos,
  [Ops.SQRT]: Math.sqrt,
  [Ops.NEG]: (a) => -a,
  [Ops.ADD]: (a, b) => a + b,
  [Ops.SUB]: (a, b) => a - b,
  [Ops.FDIV]: (a, b) => a / b,
  [Ops.CDIV]: (a, b) => a / b,
  [Ops.CMOD]: (a, b) => a % b,
  [Ops.FLOORDIV]: (a, b) => Math.floor(a / b),
  [Ops.FLOORMOD]: (a, b) => a - Math.floor(a / b) * b,
  [Ops.AND]: (a, b) => a & b,
  [Ops.OR]: (a, b) => a | b,
  [Ops.XOR]: (a, b) => a ^ b,
};
const WIDE: Partial<Record<number, Wide>> = {
  [Ops.NEG]: (a) => -a,
  [Ops.ADD]: (a, b) => a + b,
  [Ops.SUB]: (a, b) => a - b,
  [Ops.MUL]: (a, b) => a * b,
  [Ops.MULACC]: (a, b, c) => a * b + c,
  [Ops.CDIV]: (a, b) => b === 0n ? 0n : a / b,
  [Ops.CMOD]: (a, b) => b === 0n ? 0n : a % b,
  [Ops.FLOORDIV]: rt.floorDivBig,
  [Ops.FLOORMOD]: rt.floorModBig,
  [Ops.AND]: (a, b) => a & b,
  [Ops.OR]: (a, b) => a | b,
  [Ops.XOR]: (a, b) => a ^ b,
};

type Alu = (a: Value, b: Value, c: Value) => Value;

/** One lane of an ALU op. */
function alu(u: UOp): Alu {
  const d = u.dtype, from = u.src[0].dtype, big = isBig(d), float = d.isFloat;
  switch (u.op) {
    case Ops.CAST:
      return cast(d, from);
    case Ops.BITCAST:
      return bitcast(d, from);
    case Ops.TRUNC:
      return float ? (a) => Math.trunc(a as number) : (a) => a;
    case Ops.MAX:
      return big ? (a, b) => a > b ? a : b : (a, b) => Math.max(a as number, b as number);
    case Ops.CMPLT:
      return (a, b) => a < b ? 1 : 0;
    case Ops.CMPNE:
      return (a, b) => a !== b ? 1 : 0;
    case Ops.CMPEQ:
      return (a, b) => a === b ? 1 : 0;
    case Ops.WHERE:
      return (a, b, c) => a ? b : c;
  }
  if (d.isBool) {
    if (u.op === Ops.NEG) return (a) => a;
    if (u.op === Ops.ADD) return (a, b) => (a as number) | (b as number);
    if (u.op === Ops.SUB) return (a, b) => (a as number) ^ (b as number);
  }
  const wrap = wrapper(d);
  if (u.op === Ops.SHL || u.op === Ops.SHR) {
    const count = shiftCount(u), left = u.op === Ops.SHL;
    if (big) {
      return (a, b) => wrap(left ? (a as bigint) << (count(b) as bigint) : (a as bigint) >> (count(b) as bigint));
    }
    if (left) return (a, b) => wrap((a as number) << (count(b) as number));
    if (d.isUnsigned) return (a, b) => wrap((a as number) >>> (count(b) as number));
    return (a, b) => wrap((a as number) >> (count(b) as number));
  }
  let f: Numeric | Wide | undefined = big ? WIDE[u.op] : NUMERIC[u.op];
  if (u.op === Ops.EXP2) f = naturalExponent(u) === undefined ? (a: number) => 2 ** a : Math.exp;
  else if (u.op === Ops.CDIV && float) f = rt.wholeQuotient;
  else if (u.op === Ops.MUL && !big) f = float ? (a: number, b: number) => a * b : Math.imul;
  else if (u.op === Ops.MULACC && !big) {
    f = float
      ? (a: number, b: number, c: number) => a * b + c
      : (a: number, b: number, c: number) => Math.imul(a, b) + c;
  }
  if (f === undefined) throw new SpecError(`The JS device cannot compute ${opName[u.op]}`);
  const compute = f as Alu;
  return (a, b, c) => wrap(compute(a, b, c));
}

function all(steps: readonly Step[]): Step {
  return (f) => {
    for (let i = 0; i < steps.length; i++) steps[i](f);
  };
}

/** Where an INDEX points: its memory, the slots of its position and gate. */
interface Address {
  readonly name: string;
  readonly memory: (f: Frame) => Memory;
  readonly dtype: DType;
  readonly at: number;
  readonly gate: number | undefined;
  readonly size: number;
  readonly isGlobal: boolean;
}

/** Turns one program into closures. `slots` gives the lanes of each value in the frame. */
class Interpreter {
  /** What a frame starts with: the constants. */
  readonly initial: Value[] = [];
  private readonly slots = new Map<UOp, readonly number[]>();
  /** The steps of the open blocks, and how each is closed. */
  private readonly blocks: { steps: Step[]; close: (body: Step) => Step }[] = [];
  private steps: Step[] = [];
  private specials = 0;

  constructor(private readonly program: LinearProgram) {}

  private open(close: (body: Step) => Step): void {
    this.blocks.push({ steps: this.steps, close });
    this.steps = [];
  }
  private close(): void {
    const body = all(this.steps), { steps, close } = this.blocks.pop()!;
    steps.push(close(body));
    this.steps = steps;
  }

  private make(u: UOp, count = u.dtype.count): readonly number[] {
    const made = Array.from({ length: count }, () => this.initial.push(0) - 1);
    this.slots.set(u, made);
    return made;
  }
  private lanes(u: UOp): readonly number[] {
    const known = this.slots.get(u);
    if (known !== undefined) return known;
    if (u.op !== Ops.CONST) {
      throw new SpecError(`${opName[u.op]} is used before it stands in the program ${this.program.name}`);
    }
    const slot = this.initial.push(constantOf(u.dtype, u.arg as number | Int64)) - 1;
    const lanes = new Array<number>(u.dtype.count).fill(slot);
    this.slots.set(u, lanes);
    return lanes;
  }

  private address(u: UOp): Address {
    u = throughAfter(u);
    if (u.op !== Ops.INDEX) throw new SpecError(`${opName[u.op]} is no address in the program ${this.program.name}`);
    const base = throughAfter(u.src[0]);
    const [at] = this.lanes(u.src[1]), gate = u.src.length > 2 ? this.lanes(u.src[2])[0] : undefined;
    if (base.op === Ops.PARAM) {
      const { slot, size } = argOf(base, Ops.PARAM);
      return { name: `b${slot}`, memory: (f) => f.bufs[slot], dtype: base.dtype, at, gate, size, isGlobal: true };
    }
    const { id, size } = argOf(base, Ops.LOCAL);
    return { name: `local${id}`, memory: (f) => f.locals[id], dtype: base.dtype, at, gate, size, isGlobal: false };
  }

  private copy(from: readonly number[], to: readonly number[]): void {
    this.steps.push(({ values }) => {
      for (let l = 0; l < to.length; l++) values[to[l]] = values[from[l]];
    });
  }

  private load(u: UOp): void {
    const from = u.src[0].op === Ops.AFTER && u.src[0].src[0].op === Ops.ACC ? u.src[0].src[0] : u.src[0];
    if (from.op === Ops.ACC) return this.copy(this.lanes(from), this.make(u));
    const { name, memory, dtype, at, gate, size, isGlobal } = this.address(from);
    const n = u.dtype.count, nbytes = isGlobal ? u.dtype.itemsize : 0, decode = decoder(dtype);
    const otherwise = u.src.length > 1 ? this.lanes(u.src[1]) : undefined, zero = constantOf(u.dtype, 0);
    const to = this.make(u);
    this.steps.push((f) => {
      const { values, count } = f;
      if (gate !== undefined && !values[gate]) {
        for (let l = 0; l < n; l++) values[to[l]] = otherwise === undefined ? zero : values[otherwise[l]];
        return;
      }
      const start = Number(values[at]), elements = memory(f);
      rt.check(start, n, size, name);
      count.read += nbytes;
      for (let l = 0; l < n; l++) values[to[l]] = decode(elements[start + l]);
    });
  }

  private store(u: UOp): void {
    const [to, value] = u.src;
    const target = to.op === Ops.AFTER && to.src[0].op === Ops.ACC ? to.src[0] : to;
    const from = this.lanes(value);
    if (target.op === Ops.ACC) return this.copy(from, this.lanes(target));
    const { name, memory, dtype, at, gate, size, isGlobal } = this.address(to);
    if (gate !== undefined) throw new SpecError(`A gated STORE in the program ${this.program.name}`);
    const n = from.length, nbytes = isGlobal ? value.dtype.itemsize : 0, encode = encoder(dtype);
    this.steps.push((f) => {
      const start = Number(f.values[at]), elements = memory(f);
      rt.check(start, n, size, name);
      f.count.written += nbytes;
      for (let l = 0; l < n; l++) elements[start + l] = encode(f.values[from[l]]);
    });
  }

  private range(u: UOp): void {
    const end = this.lanes(u.src[0])[0], [counter] = this.make(u), big = isBig(u.dtype);
    const thread = u.op === Ops.RANGE && argOf(u, Ops.RANGE).kind === AxisKind.THREAD;
    this.open((body) => (f) => {
      const { values } = f, last = thread ? f.end : Number(values[end]);
      for (let i = thread ? f.begin : 0; i < last; i++) {
        values[counter] = big ? BigInt(i) : i;
        body(f);
      }
    });
  }

  private compute(u: UOp): void {
    if (!isAlu(u.op)) throw new SpecError(`The JS device cannot run ${opName[u.op]}`);
    const natural = naturalExponent(u), f = alu(u);
    const [a, b = a, c = a] = (natural === undefined ? u.src : [natural]).map((s) => this.lanes(s));
    const to = this.make(u), flops = flopsOf(u);
    to.forEach((slot, l) => {
      const [x, y, z] = [a, b, c].map((lanes) => lanes.length > 1 ? lanes[l] : lanes[0]);
      this.steps.push(({ values }) => {
        values[slot] = f(values[x], values[y], values[z]);
      });
    });
    if (flops > 0) {
      this.steps.push(({ count }) => {
        count.flops += flops;
      });
    }
  }

  private visit(u: UOp): void {
    switch (u.op) {
      case Ops.CONST:
      case Ops.PARAM:
      case Ops.INDEX:
      case Ops.SINK:
      case Ops.GROUP:
      case Ops.TUPLE:
      case Ops.BARRIER:
      case Ops.LOCAL:
        return;
      case Ops.VARIABLE: {
        const position = this.program.vars.indexOf(u), [slot] = this.make(u);
        this.steps.push(({ values, vars }) => {
          values[slot] = vars[position];
        });
        return;
      }
      case Ops.SPECIAL:
        this.specials++;
        return this.range(u);
      case Ops.RANGE:
        return this.range(u);
      case Ops.IF: {
        const [gate] = this.lanes(u.src[0]);
        return this.open((body) => (f) => {
          if (f.values[gate]) body(f);
        });
      }
      case Ops.END:
      case Ops.ENDIF:
        return this.close();
      case Ops.ACC: {
        const from = this.lanes(u.src[0]);
        return this.copy(from, this.make(u));
      }
      case Ops.LOAD:
        return this.load(u);
      case Ops.STORE:
        return this.store(u);
      case Ops.AFTER:
        if (this.slots.has(u.src[0])) this.slots.set(u, this.slots.get(u.src[0])!);
        return;
      case Ops.VECTORIZE:
        this.slots.set(u, u.src.flatMap((s) => this.lanes(s)));
        return;
      case Ops.BROADCAST:
        this.slots.set(u, new Array<number>(u.dtype.count).fill(this.lanes(u.src[0])[0]));
        return;
      case Ops.EXTRACT:
        this.slots.set(u, [this.lanes(u.src[0])[u.arg as number]]);
        return;
    }
    this.compute(u);
  }

  build(): Step {
    for (const u of this.program.uops) this.visit(u);
    for (; this.specials > 0; this.specials--) this.close();
    return all(this.steps);
  }
}

/** A kernel that runs without code from text. @throws {CompileError} for groups of threads, of which only tests make devices */
export function interpretJs(program: LinearProgram): Kernel {
  if (isCollective(program)) {
    throw new CompileError(`compile kernel ${program.name} for JS`, {
      reason: "threads that work together take code from text, which the policy of this page forbids",
    });
  }
  const interpreter = new Interpreter(program), run = interpreter.build(), { initial } = interpreter;
  return (bufs, vars, begin, end, locals, count) => {
    const memory = { bufs: bufs as readonly Memory[], locals: locals as readonly Memory[] };
    run({ values: initial.slice(), vars, begin, end, count, ...memory });
  };
}
