/**
 * From a linear program to a {@linkcode Kernel}: control flow, memory and accumulators; arithmetic is in `wasm_alu.ts`.
 *
 * @module
 */
import type { DType } from "../../src/dtype/dtype.ts";
import { CompileError } from "../../src/helpers/errors.ts";
import { roundUp } from "../../src/helpers/math.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { argOf, AxisKind, Int64 } from "../../src/uop/core/args.ts";
import { isAlu, opName, Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { throughAfter } from "../../src/uop/rewrite/walk.ts";
import { Builder, flatten, OFFSET_WINDOW } from "./build.ts";
import { F32, F64, I32, I64, type Instr, V128 } from "./encoder.ts";
import { BEGIN, BUFS, END, type Kernel, type Node, Variable, VARS } from "./ir.ts";
import { type AluOptions, extract, laneBits, lowerAlu, splat, valTypeOf, vectorize } from "./wasm_alu.ts";

/** Where a value in memory is: the least constant offset of its kin, so that they share one pointer. */
interface Site {
  readonly base: UOp;
  readonly terms: Map<UOp, number>;
  readonly constant: number;
  readonly key: string;
}

/** Outside an outermost loop, these forbid entering it in pieces. */
const PINNED: ReadonlySet<Ops> = new Set<Ops>([Ops.ACC, Ops.LOAD, Ops.STORE, Ops.ENDIF]);

/** Address of the thread's record (first word: its scratch memory), given to `lower` as a node. */
export type ThreadRecord = (b: Builder) => Node;

class Lowering {
  readonly b = new Builder();
  private readonly values = new Map<UOp, Node>();
  private readonly accs = new Map<UOp, Variable>();
  private readonly sites = new Map<UOp, Site>();
  private readonly least = new Map<string, number>();
  private readonly uses = new Map<UOp, UOp[]>();
  private readonly localOffset = new Map<UOp, number>();
  private readonly bufs: Node;
  private readonly vars: Node;
  private scratch = 0;
  private entry: UOp | undefined;
  private setup = false;

  constructor(readonly program: LinearProgram, readonly options: AluOptions, readonly record: ThreadRecord) {
    this.bufs = this.b.parameter(BUFS);
    this.vars = this.b.parameter(VARS);
  }

  run(): Kernel {
    this.scan();
    const parallel = this.entry !== undefined && kindOf(this.entry) === AxisKind.THREAD;
    const iterations = this.entry === undefined ? 1 : this.entry.src[0].value;
    for (const u of this.program.uops) this.step(u);
    return { items: this.b.finish(), iterations, parallel, setup: this.setup, scratch: this.scratch };
  }

  /** Users, addresses and the entry loop. */
  private scan(): void {
    let depth = 0, loops = 0, plain = true;
    let entry: UOp | undefined;
    const ids = new Map<UOp, number>();
    const idOf = (u: UOp): number => {
      let id = ids.get(u);
      if (id === undefined) ids.set(u, id = ids.size);
      return id;
    };
    for (const u of this.program.uops) {
      for (const s of u.src) {
        const list = this.uses.get(s);
        if (list === undefined) this.uses.set(s, [u]);
        else list.push(u);
      }
      if (u.op === Ops.INDEX) {
        const { terms, constant } = flatten(u.src[1]);
        const base = throughAfter(u.src[0]);
        const size = u.dtype.scalar.itemsize;
        let key = `${idOf(base)}`;
        for (const [t, c] of terms) key += ` ${idOf(t)}*${c * size}`;
        const bytes = constant * size;
        this.sites.set(u, { base, terms, constant: bytes, key });
        const known = this.least.get(key);
        if (known === undefined || bytes < known) this.least.set(key, bytes);
      } else if (u.op === Ops.RANGE) {
        if (depth === 0) {
          loops++;
          if (kindOf(u) === AxisKind.THREAD || kindOf(u) === AxisKind.LOOP) entry ??= u;
        }
        depth++;
      } else if (u.op === Ops.IF) depth++;
      else if (u.op === Ops.END || u.op === Ops.ENDIF) depth--;
      if (depth === 0 && PINNED.has(u.op)) plain = false;
    }
    this.setup = loops > 1;
    // an outermost LOOP may be entered in pieces too, where nothing else happens outside it
    if (entry !== undefined && entry.src[0].op === Ops.CONST && entry.src[0].value > 0) {
      if (kindOf(entry) === AxisKind.THREAD || (plain && loops === 1)) this.entry = entry;
    }
  }

  private value(u: UOp): Node {
    const n = this.values.get(u);
    if (n !== undefined) return n;
    if (u.op === Ops.CONST) return this.constant(u);
    throw new CompileError(`render ${this.program.name}`, { reason: `${opName[u.op]} is used before it is defined` });
  }

  private constant(u: UOp): Node {
    const d = u.dtype;
    const type = valTypeOf(d);
    if (type === V128) return this.b.splatBits(laneBits(d.scalar, u.value));
    if (type === I64) return this.b.constant(type, u.arg instanceof Int64 ? u.arg.toBigInt() : BigInt(u.value));
    return type === I32 ? this.b.i32(u.value) : this.b.constant(type, u.value);
  }

  private step(u: UOp): void {
    const { b } = this;
    switch (u.op) {
      case Ops.CONST:
      case Ops.PARAM:
      case Ops.INDEX:
      case Ops.SINK:
      case Ops.GROUP:
      case Ops.BARRIER:
        return;
      case Ops.VARIABLE: {
        const at = this.program.vars.indexOf(u) * 8;
        const d = u.dtype;
        this.values.set(u, b.argument(loadOf(d), valTypeOf(d), this.vars, at));
        return;
      }
      case Ops.LOCAL: {
        this.localOffset.set(u, this.scratch);
        this.scratch += roundUp(argOf(u, Ops.LOCAL).size * u.dtype.itemsize, 64);
        return;
      }
      case Ops.ACC: {
        const variable = new Variable(valTypeOf(u.dtype), false, String(u.arg));
        this.accs.set(u, variable);
        b.effect({ kind: "declare", variable });
        b.effect({ kind: "set", variable, value: this.value(u.src[0]) });
        return;
      }
      case Ops.RANGE:
        return this.range(u);
      case Ops.END:
      case Ops.ENDIF:
        b.close();
        return;
      case Ops.IF:
        b.openIf(this.value(u.src[0]));
        return;
      case Ops.LOAD:
        this.values.set(u, this.load(u));
        return;
      case Ops.STORE:
        return this.store(u);
      case Ops.AFTER:
        if (this.values.has(u.src[0]) || u.src[0].op === Ops.CONST) this.values.set(u, this.value(u.src[0]));
        return;
      case Ops.VECTORIZE:
        this.values.set(u, vectorize(b, u.dtype, u.src.map((s) => this.value(s))));
        return;
      case Ops.BROADCAST: {
        const x = this.value(u.src[0]);
        this.values.set(u, x.type === V128 ? x : splat(b, u.dtype, x));
        return;
      }
      case Ops.EXTRACT:
        this.values.set(u, extract(b, u.dtype, this.value(u.src[0]), u.arg as number));
        return;
      default:
        if (!isAlu(u.op)) {
          throw new CompileError(`render ${this.program.name}`, { reason: `${opName[u.op]} is unknown to WASM` });
        }
        this.values.set(
          u,
          lowerAlu(b, u.op, u.dtype, u.src.map((s) => s.dtype), u.src.map((s) => this.value(s)), this.options),
        );
    }
  }

  private range(u: UOp): void {
    const { b } = this;
    const type = valTypeOf(u.dtype);
    const name = `r${argOf(u, Ops.RANGE).id}`;
    if (u === this.entry) {
      let begin = b.parameter(BEGIN), end = b.parameter(END);
      if (type === I64) {
        begin = b.instr("i64.extend_i32_u", I64, [begin]);
        end = b.instr("i64.extend_i32_u", I64, [end]);
      }
      this.values.set(u, b.openLoop(type, begin, end, false, name));
      return;
    }
    const end = u.src[0];
    const guard = end.op !== Ops.CONST || end.value < 1;
    this.values.set(u, b.openLoop(type, b.constant(type, 0), this.value(end), guard, name));
  }

  /** Pointer and constant offset of an INDEX. */
  private address(at: UOp): [Node, number] {
    const { b } = this;
    const site = this.sites.get(at)!;
    const size = at.dtype.scalar.itemsize;
    let base: Node, constant = site.constant, shift = 0;
    const local = this.localOffset.get(site.base);
    if (local !== undefined) {
      base = b.argument("i32.load", I32, this.record(b), 0);
      shift = local;
    } else if (site.base.op === Ops.PARAM) {
      base = b.argument("i32.load", I32, this.bufs, 4 * argOf(site.base, Ops.PARAM).slot);
    } else {
      throw new CompileError(`render ${this.program.name}`, { reason: `INDEX of ${opName[site.base.op]}` });
    }
    // the least offset of those that share these terms goes into the pointer when it is negative or far
    const least = this.least.get(site.key)!;
    const window = Math.floor(constant / OFFSET_WINDOW) * OFFSET_WINDOW;
    const inPointer = constant - least < OFFSET_WINDOW ? (least < 0 || constant >= OFFSET_WINDOW ? least : 0) : window;
    constant -= inPointer;
    if (constant + shift < OFFSET_WINDOW) constant += shift;
    else base = b.sharedInstr("i32.add", I32, [base, b.i32(shift)]);
    if (inPointer !== 0) base = b.sharedInstr("i32.add", I32, [base, b.i32(inPointer)]);
    const terms: [Node, number][] = [];
    for (const [term, coefficient] of site.terms) {
      let node = this.value(term);
      if (node.type === I64) node = b.sharedInstr("i32.wrap_i64", I32, [node]);
      terms.push([node, coefficient * size | 0]);
    }
    return [b.pointer(base, terms), constant];
  }

  private load(u: UOp): Node {
    const { b } = this;
    const from = u.src[0];
    const acc = this.accs.get(from);
    if (acc !== undefined) return b.get(acc);
    const d = u.dtype;
    let gate = from.src.length > 2 ? this.value(from.src[2]) : undefined;
    let [pointer, offset] = this.address(from);
    let alt: Node | undefined;
    if (gate !== undefined) {
      if (u.src.length > 1 && !isZero(u.src[1])) alt = this.value(u.src[1]);
      else {
        // where the gate is false, read zeros instead: the first bytes of memory are never written
        if (offset > 0) pointer = b.sharedInstr("i32.add", I32, [pointer, b.i32(offset)]);
        pointer = b.instr("select", I32, [pointer, b.i32(0), gate]);
        offset = 0;
        gate = undefined;
      }
    }
    const users = this.uses.get(u);
    if (
      gate === undefined && d.count === 1 && d.bits === 32 && users !== undefined &&
      users.every((x) => x.op === Ops.BROADCAST && x.dtype.count === 4)
    ) return b.load("v128.load32_splat", V128, pointer, offset);
    if (d.count > 1 && d.isBool) {
      if (alt !== undefined) alt = narrowMask(b, d.count, alt);
      const packed = b.load(d.count === 4 ? "i32.load" : "i32.load16_u", I32, pointer, offset, gate, alt);
      return widenMask(b, packed);
    }
    return b.load(loadOf(d), valTypeOf(d), pointer, offset, gate, alt);
  }

  private store(u: UOp): void {
    const { b } = this;
    const [target, source] = u.src;
    let value = this.value(source);
    const acc = this.accs.get(target.op === Ops.AFTER ? target.src[0] : target);
    if (acc !== undefined) return b.effect({ kind: "set", variable: acc, value });
    const d = source.dtype;
    const [address, offset] = this.address(target);
    if (d.count > 1 && d.isBool) {
      value = narrowMask(b, d.count, value);
      return b.effect({
        kind: "store",
        op: d.count === 4 ? "i32.store" : "i32.store16",
        address,
        value,
        offset,
        lane: -1,
      });
    }
    const op = storeOf(d);
    b.effect({ kind: "store", op, address, value, offset, lane: op === "v128.store64_lane" ? 0 : -1 });
  }
}

/** Four (or two) mask lanes to bytes of 0 and 1 in an i32. */
function narrowMask(b: Builder, count: number, mask: Node): Node {
  const ones = b.instr("v128.and", V128, [mask, b.splatBits(1)]);
  const halves = b.instr("i16x8.narrow_i32x4_s", V128, [ones, ones]);
  const bytes = b.instr("i8x16.narrow_i16x8_s", V128, [halves, halves]);
  const word = b.instr("i32x4.extract_lane", I32, [bytes], 0);
  return count === 4 ? word : b.instr("i32.and", I32, [word, b.i32(0xffff)]);
}

/** Bytes of 0 and 1 in an i32 to mask lanes. */
function widenMask(b: Builder, packed: Node): Node {
  const bytes = b.instr("i32x4.splat", V128, [packed]);
  const halves = b.instr("i16x8.extend_low_i8x16_u", V128, [bytes]);
  const words = b.instr("i32x4.extend_low_i16x8_u", V128, [halves]);
  return b.instr("i32x4.ne", V128, [words, b.splatBits(0)]);
}

/** True for a constant whose bits are all zero. */
function isZero(u: UOp): boolean {
  return u.op === Ops.CONST && Object.is(u.arg, 0);
}

function kindOf(range: UOp): AxisKind {
  return argOf(range, Ops.RANGE).kind;
}

function loadOf(d: DType): Instr {
  const type = valTypeOf(d);
  if (type === V128) return d.count === 4 ? "v128.load" : "v128.load64_zero";
  if (type === I64) return "i64.load";
  if (type === F32) return "f32.load";
  if (type === F64) return "f64.load";
  if (d.bits === 32) return "i32.load";
  return `i32.load${d.bits}_${d.isUnsigned || d.isBool ? "u" : "s"}` as Instr;
}

function storeOf(d: DType): Instr {
  const type = valTypeOf(d);
  if (type === V128) return d.count === 4 ? "v128.store" : "v128.store64_lane";
  if (type === I64) return "i64.store";
  if (type === F32) return "f32.store";
  if (type === F64) return "f64.store";
  return d.bits === 32 ? "i32.store" : `i32.store${d.bits}` as Instr;
}

/** The kernel of a linear program. @throws {CompileError} for what must have been decomposed before */
export function lower(program: LinearProgram, options: AluOptions, record: ThreadRecord): Kernel {
  return new Lowering(program, options, record).run();
}
