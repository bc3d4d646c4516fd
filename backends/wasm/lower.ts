/**
 * From a linear program to a {@linkcode Kernel}: control flow, memory and accumulators; arithmetic is in `wasm_alu.ts`.
 *
 * @module
 */
import type { DType } from "../../src/dtype/dtype.ts";
import { roundUp } from "../../src/helpers/math.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { LinearVisitor, type Place } from "../../src/renderer/visitor.ts";
import { argOf, AxisKind, Int64 } from "../../src/uop/core/args.ts";
import { isAlu, Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { indexForm, type Linear } from "../../src/uop/algebra/linear_form.ts";
import { throughAfter } from "../../src/uop/rewrite/walk.ts";
import { Builder, OFFSET_WINDOW, prefixOf } from "./build.ts";
import { I32, I64, type Instr, V128 } from "./encoder.ts";
import { BEGIN, BUFS, END, type Kernel, type Node, Variable, VARS } from "./wasm_ir.ts";
import { type AluOptions, extract, laneBits, lanes, lowerAlu, splat, valTypeOf, vectorize } from "./wasm_alu.ts";

/** Where a value in memory is: the least constant offset of its kin, so that they share one pointer. */
interface Site {
  readonly base: UOp;
  readonly form: Readonly<Linear>;
  readonly constant: number;
  readonly key: string;
}

/** Outside an outermost loop, these forbid entering it in pieces. */
const PINNED: ReadonlySet<Ops> = new Set<Ops>([Ops.ACC, Ops.LOAD, Ops.STORE, Ops.ENDIF]);

/** Address of the thread's record (first word: its scratch memory), given to `lower` as a node. */
export type ThreadRecord = (b: Builder) => Node;

class Lowering extends LinearVisitor<Node> {
  readonly b = new Builder();
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

  constructor(program: LinearProgram, readonly options: AluOptions, readonly record: ThreadRecord) {
    super(program, "WASM");
    this.bufs = this.b.parameter(BUFS);
    this.vars = this.b.parameter(VARS);
  }

  /** Do calls do parts of the THREAD loops? Not where another loop comes first, which each call would do. */
  private get parallel(): boolean {
    return this.entry !== undefined && kindOf(this.entry) === AxisKind.THREAD;
  }

  run(): Kernel {
    this.scan();
    const { parallel } = this;
    const iterations = this.entry === undefined ? 1 : parallel ? this.program.threads : this.entry.src[0].value;
    this.walk();
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
        const form = indexForm(u.src[1]);
        const base = throughAfter(u.src[0]);
        const size = u.dtype.scalar.itemsize;
        let key = `${idOf(base)}`;
        form.factors.forEach((f, i) => key += ` ${idOf(f)}*${form.coefs[i] * size}`);
        const bytes = form.constant * size;
        this.sites.set(u, { base, form, constant: bytes, key });
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

  protected constant(u: UOp): Node {
    const type = valTypeOf(u.dtype);
    if (type === V128) return this.b.splatBits(laneBits(u.dtype.scalar, u.value));
    if (type === I64) return this.b.constant(type, u.arg instanceof Int64 ? u.arg.toBigInt() : BigInt(u.value));
    return type === I32 ? this.b.i32(u.value) : this.b.constant(type, u.value);
  }
  protected param(): undefined {}
  protected variable(u: UOp): Node {
    return this.b.argument(loadOf(u.dtype), valTypeOf(u.dtype), this.vars, this.program.vars.indexOf(u) * 8);
  }
  protected local(u: UOp): undefined {
    this.localOffset.set(u, this.scratch);
    this.scratch += roundUp(argOf(u, Ops.LOCAL).size * u.dtype.itemsize, 64);
  }

  protected acc(u: UOp): undefined {
    const variable = new Variable(valTypeOf(u.dtype), false, String(u.arg));
    this.accs.set(u, variable);
    this.b.effect({ kind: "declare", variable });
    this.writeAcc(u, u.src[0]);
  }
  protected readAcc(_u: UOp, acc: UOp): Node {
    return this.b.get(this.accs.get(acc)!);
  }
  protected writeAcc(acc: UOp, value: UOp): void {
    this.b.effect({ kind: "set", variable: this.accs.get(acc)!, value: this.value(value) });
  }

  protected enterLoop(u: UOp): Node {
    const { b } = this,
      type = valTypeOf(u.dtype),
      { id, kind, first } = argOf(u, Ops.RANGE),
      name = `r${id}`,
      end = u.src[0];
    if (u === this.entry || (this.parallel && kind === AxisKind.THREAD)) {
      const wide = (x: Node): Node => type === I64 ? b.instr("i64.extend_i32_u", I64, [x]) : x;
      const begin = b.parameter(BEGIN), until = b.parameter(END), last = first + end.value;
      const isPart = kind === AxisKind.THREAD && end.value < this.program.threads;
      if (!isPart) return b.openLoop(type, wide(begin), wide(until), false, name);
      // a part of what is shared: what the call asks for of it, counted from its first iteration
      const within = (x: Node): Node => {
        const up = b.instr("select", I32, [x, b.i32(first), b.instr("i32.gt_s", I32, [x, b.i32(first)])]);
        const at = b.instr("select", I32, [up, b.i32(last), b.instr("i32.lt_s", I32, [up, b.i32(last)])]);
        return wide(b.instr("i32.sub", I32, [at, b.i32(first)]));
      };
      return b.openLoop(type, within(begin), within(until), true, name);
    }
    const guard = end.op !== Ops.CONST || end.value < 1;
    return b.openLoop(type, b.constant(type, 0), this.value(end), guard, name);
  }
  protected leaveLoop(): void {
    this.b.close();
  }
  protected enterIf(u: UOp): void {
    this.b.openIf(this.value(u.src[0]));
  }
  protected leaveIf(): void {
    this.b.close();
  }

  protected compute(u: UOp): Node {
    const { b } = this, src = u.src.map((s) => this.value(s));
    if (u.op === Ops.VECTORIZE) return vectorize(b, u.dtype, src);
    if (u.op === Ops.BROADCAST) return src[0].type === V128 ? src[0] : splat(b, u.dtype, src[0]);
    if (u.op === Ops.EXTRACT) return extract(b, u.dtype, src[0], argOf(u, Ops.EXTRACT));
    if (u.op === Ops.LANES) return lanes(b, src[0], src[1], u.src[0].dtype.count, argOf(u, Ops.LANES).axes);
    if (!isAlu(u.op)) return this.unknown(u);
    return lowerAlu(b, u.op, u.dtype, u.src.map((s) => s.dtype), src, this.options);
  }

  /** Pointer and constant offset of an INDEX. */
  private address({ at }: Place): [Node, number] {
    const { b } = this, site = this.sites.get(at)!, size = at.dtype.scalar.itemsize;
    let base: Node, constant = site.constant, shift = 0;
    const local = this.localOffset.get(site.base);
    if (local !== undefined) {
      base = b.argument("i32.load", I32, this.record(b), 0);
      shift = local;
    } else base = b.argument("i32.load", I32, this.bufs, 4 * argOf(site.base, Ops.PARAM).slot);
    // the least offset of those that share these terms goes into the pointer when it is negative or far
    const least = this.least.get(site.key)!;
    const window = Math.floor(constant / OFFSET_WINDOW) * OFFSET_WINDOW;
    const inPointer = constant - least < OFFSET_WINDOW ? (least < 0 || constant >= OFFSET_WINDOW ? least : 0) : window;
    constant -= inPointer;
    if (constant + shift < OFFSET_WINDOW) constant += shift;
    else base = b.sharedInstr("i32.add", I32, [base, b.i32(shift)]);
    if (inPointer !== 0) base = b.sharedInstr("i32.add", I32, [base, b.i32(inPointer)]);
    const { factors, coefs } = site.form;
    const terms = factors.map((f, i): [Node, number] => {
      let node = this.value(f.op === Ops.CAST && !this.values.has(f) ? f.src[0] : f); // the form may have cast it
      if (node.type === I64) node = b.sharedInstr("i32.wrap_i64", I32, [node]);
      return [node, coefs[i] * size | 0];
    });
    return [b.pointer(base, terms), constant];
  }

  protected load(u: UOp, place: Place): Node {
    const { b } = this, d = u.dtype;
    let gate = place.gate === undefined ? undefined : this.value(place.gate);
    let [pointer, offset] = this.address(place);
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

  protected store(source: UOp, place: Place): void {
    const { b } = this, d = source.dtype;
    const value = this.value(source), [address, offset] = this.address(place);
    if (d.count > 1 && d.isBool) {
      const op = d.count === 4 ? "i32.store" : "i32.store16";
      return b.effect({ kind: "store", op, address, value: narrowMask(b, d.count, value), offset, lane: -1 });
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

/** The instruction that loads or stores a value of `d`; a narrow integer is extended by its sign. */
function memoryOp(what: "load" | "store", d: DType, half: Instr, narrow: string): Instr {
  const type = valTypeOf(d);
  if (type === V128) return d.count === 4 ? `v128.${what}` : half;
  if (type !== I32 || d.bits === 32) return `${prefixOf(type)}.${what}`;
  return `i32.${what}${d.bits}${narrow}` as Instr;
}
function loadOf(d: DType): Instr {
  return memoryOp("load", d, "v128.load64_zero", d.isUnsigned || d.isBool ? "_u" : "_s");
}
function storeOf(d: DType): Instr {
  return memoryOp("store", d, "v128.store64_lane", "");
}

/** The kernel of a linear program. @throws {CompileError} for what must have been decomposed before */
export function lower(program: LinearProgram, options: AluOptions, record: ThreadRecord): Kernel {
  return new Lowering(program, options, record).run();
}
