/**
 * From a linear program to a JavaScript function body: one statement a lane of a UOp, nothing clever. Lanes of vectors
 * become separate locals. Each access is checked against the size of its buffer, so that the oracle finds what a real
 * device would silently get wrong.
 *
 * @module
 */
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { SpecError } from "../../src/helpers/errors.ts";
import { naturalExponent } from "../../src/renderer/natural.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import type { TensorCore } from "../../src/renderer/tensor_core_table.ts";
import { argOf, AxisKind, Int64, type LocalArg } from "../../src/uop/core/args.ts";
import { isAlu, opName, Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { throughAfter } from "../../src/uop/rewrite/walk.ts";
import { isCollective } from "./grid.ts";

/** True for dtypes whose values are bigint here. */
export function isBig(d: DType): boolean {
  return d.isInt && d.bits === 64;
}

/** Wraps an integer expression, or rounds a float expression, to `d`. `x` may lie outside the range of `d`. */
export function wrap(d: DType, x: string): string {
  switch (d.scalar) {
    case dtypes.bool:
      return `(${x} & 1)`;
    case dtypes.int8:
      return `(${x} << 24 >> 24)`;
    case dtypes.uint8:
      return `(${x} & 255)`;
    case dtypes.int16:
      return `(${x} << 16 >> 16)`;
    case dtypes.uint16:
      return `(${x} & 65535)`;
    case dtypes.int32:
      return `(${x} | 0)`;
    case dtypes.uint32:
      return `(${x} >>> 0)`;
    case dtypes.int64:
      return `BigInt.asIntN(64, ${x})`;
    case dtypes.uint64:
      return `BigInt.asUintN(64, ${x})`;
    case dtypes.float16:
      return `f16round(${x})`;
    case dtypes.bfloat16:
      return `bf16round(${x})`;
    case dtypes.float32:
      return `fround(${x})`;
    case dtypes.float64:
      return `(${x})`;
  }
  throw new SpecError(`No JavaScript value for dtype ${d}`);
}

/** A constant of dtype `d` as text. */
export function literal(d: DType, value: number | Int64): string {
  if (isBig(d)) {
    const x = value instanceof Int64 ? value.toBigInt() : BigInt(Math.trunc(value));
    return `${d.isUnsigned ? BigInt.asUintN(64, x) : BigInt.asIntN(64, x)}n`;
  }
  const x = value instanceof Int64 ? Number(value.toBigInt()) : value;
  if (x !== x) return "NaN";
  if (x === 0) return 1 / x < 0 && d.isFloat ? "(-0)" : "0";
  if (d.scalar === dtypes.float32) return `(${Math.fround(x)})`;
  if (d.scalar === dtypes.float16 || d.scalar === dtypes.bfloat16) return wrap(d, `(${x})`);
  return `(${x})`;
}

function cast(to: DType, from: DType, x: string): string {
  if (to.scalar === from.scalar) return x;
  if (to.isBool) return isBig(from) ? `(${x} !== 0n ? 1 : 0)` : `(${x} !== 0 ? 1 : 0)`;
  if (isBig(to)) {
    if (from.isFloat) return wrap(to, `toBig(${x})`);
    return wrap(to, isBig(from) ? x : `BigInt(${x})`);
  }
  if (isBig(from)) {
    if (to.isFloat) return wrap(to, to.bits < 64 ? `oddBig(${x})` : `Number(${x})`);
    return `Number(${to.isUnsigned ? `BigInt.asUintN(${to.bits}, ${x})` : `BigInt.asIntN(${to.bits}, ${x})`})`;
  }
  return wrap(to, x);
}

/** What the functions of a dtype that lies in memory as bits are called by; undefined for others. */
export function packedName(d: DType): string | undefined {
  return d.scalar === dtypes.bfloat16 ? "bf16" : d.scalar === dtypes.float16 ? "f16" : undefined;
}
/** The value of what was loaded, and what is stored of a value. */
function decoded(d: DType, x: string): string {
  const name = packedName(d);
  return name === undefined ? x : `${name}value(${x})`;
}
function encoded(d: DType, x: string): string {
  const name = packedName(d);
  return name === undefined ? x : `${name}bits(${x})`;
}

const BIT_VIEWS: Readonly<Record<number, string>> = { 8: "8", 16: "16", 32: "32", 64: "64" };

function bitView(d: DType): string {
  const size = BIT_VIEWS[d.bits];
  if (d.isFloat && packedName(d) === undefined) return `bits.f${size}`;
  return `bits.${d.isUnsigned || d.isBool || d.isFloat ? "u" : "i"}${size}`;
}

function bitcast(to: DType, from: DType, x: string): string {
  if (to.scalar === from.scalar) return x;
  return decoded(to, `(${bitView(from)}[0] = ${encoded(from, x)}, ${bitView(to)}[0])`);
}

/** The expression of one lane of an ALU op. */
function alu(u: UOp, a: string, b: string, c: string): string {
  const d = u.dtype, s = u.src[0].dtype, big = isBig(d), float = d.isFloat;
  switch (u.op) {
    case Ops.CAST:
      return cast(d, s, a);
    case Ops.BITCAST:
      return bitcast(d, s, a);
    case Ops.EXP2:
      return wrap(d, naturalExponent(u) === undefined ? `2 ** ${a}` : `Math.exp(${a})`);
    case Ops.LOG2:
      return wrap(d, `Math.log2(${a})`);
    case Ops.SIN:
      return wrap(d, `Math.sin(${a})`);
    case Ops.COS:
      return wrap(d, `Math.cos(${a})`);
    case Ops.SQRT:
      return wrap(d, `Math.sqrt(${a})`);
    case Ops.TRUNC:
      return float ? `Math.trunc(${a})` : a;
    case Ops.NEG:
      return d.isBool ? a : wrap(d, `(-${a})`);
    case Ops.ADD:
      return wrap(d, d.isBool ? `(${a} | ${b})` : `(${a} + ${b})`);
    case Ops.SUB:
      return d.isBool ? `(${a} ^ ${b})` : wrap(d, `(${a} - ${b})`);
    case Ops.MUL:
      return wrap(d, float || big ? `(${a} * ${b})` : `Math.imul(${a}, ${b})`);
    case Ops.MULACC:
      return wrap(d, float || big ? `(${a} * ${b} + ${c})` : `(Math.imul(${a}, ${b}) + ${c})`);
    case Ops.FDIV:
      return wrap(d, `(${a} / ${b})`);
    case Ops.MAX:
      return big ? `(${a} > ${b} ? ${a} : ${b})` : `Math.max(${a}, ${b})`;
    case Ops.CDIV:
      if (float) return wrap(d, `wholeQuotient(${a}, ${b})`);
      return big ? `(${b} === 0n ? 0n : ${wrap(d, `(${a} / ${b})`)})` : wrap(d, `(${a} / ${b})`);
    case Ops.CMOD:
      return big ? `(${b} === 0n ? 0n : ${wrap(d, `(${a} % ${b})`)})` : wrap(d, `(${a} % ${b})`);
    case Ops.FLOORDIV:
      return big ? `floorDivBig(${a}, ${b})` : wrap(d, `Math.floor(${a} / ${b})`);
    case Ops.FLOORMOD:
      return big ? `floorModBig(${a}, ${b})` : wrap(d, `(${a} - Math.floor(${a} / ${b}) * ${b})`);
    case Ops.CMPLT:
      return `(${a} < ${b} ? 1 : 0)`;
    case Ops.CMPNE:
      return `(${a} !== ${b} ? 1 : 0)`;
    case Ops.CMPEQ:
      return `(${a} === ${b} ? 1 : 0)`;
    case Ops.AND:
      return wrap(d, `(${a} & ${b})`);
    case Ops.OR:
      return wrap(d, `(${a} | ${b})`);
    case Ops.XOR:
      return wrap(d, `(${a} ^ ${b})`);
    case Ops.SHL:
      return wrap(d, `(${a} << ${shiftCount(u, b)})`);
    case Ops.SHR:
      return wrap(d, d.isUnsigned && !big ? `(${a} >>> ${shiftCount(u, b)})` : `(${a} >> ${shiftCount(u, b)})`);
    case Ops.WHERE:
      return `(${a} ? ${b} : ${c})`;
  }
  throw new SpecError(`The JS device cannot compute ${opName[u.op]}`);
}

/** The count of a shift, modulo the width, in the kind of number that the value has. */
function shiftCount(u: UOp, b: string): string {
  const mask = u.dtype.bits - 1, from = isBig(u.src[1].dtype), to = isBig(u.dtype);
  if (to) return `(${from ? b : `BigInt(${b})`} & ${mask}n)`;
  return `(${from ? `Number(BigInt.asUintN(32, ${b}))` : b} & ${mask})`;
}

const FLOPS: Partial<Record<number, number>> = {
  [Ops.ADD]: 1,
  [Ops.SUB]: 1,
  [Ops.MUL]: 1,
  [Ops.FDIV]: 1,
  [Ops.MAX]: 1,
  [Ops.NEG]: 1,
  [Ops.EXP2]: 1,
  [Ops.LOG2]: 1,
  [Ops.SIN]: 1,
  [Ops.COS]: 1,
  [Ops.SQRT]: 1,
  [Ops.MULACC]: 2,
};

const ARRAYS: readonly (readonly [DType, string])[] = [
  [dtypes.bool, "Uint8Array"],
  [dtypes.int8, "Int8Array"],
  [dtypes.uint8, "Uint8Array"],
  [dtypes.int16, "Int16Array"],
  [dtypes.uint16, "Uint16Array"],
  [dtypes.int32, "Int32Array"],
  [dtypes.uint32, "Uint32Array"],
  [dtypes.int64, "BigInt64Array"],
  [dtypes.uint64, "BigUint64Array"],
  [dtypes.float16, "Uint16Array"],
  [dtypes.bfloat16, "Uint16Array"],
  [dtypes.float32, "Float32Array"],
  [dtypes.float64, "Float64Array"],
];

/** Floating-point operations of an ALU op, over its lanes. */
export function flopsOf(u: UOp): number {
  return u.dtype.isFloat ? (FLOPS[u.op] ?? 0) * u.dtype.count : 0;
}

/** The name of the TypedArray that holds `d` in memory. */
export function arrayName(d: DType): string {
  return ARRAYS.find(([x]) => x === d.scalar)![1];
}

/** Writes one program. Statements go to `lines`; `names` gives the lanes of each value. */
class Writer {
  private readonly lines: string[] = [];
  private readonly names = new Map<UOp, readonly string[]>();
  private depth = 1;
  private next = 0;
  private specials = 0;
  private read = 0;
  private written = 0;
  private flops = 0;
  private sites = 0;
  /** True where the threads of a group work together: the body is that of a generator. */
  private readonly collective: boolean;

  constructor(private readonly program: LinearProgram) {
    this.collective = isCollective(program);
  }

  private line(text: string): void {
    this.lines.push("  ".repeat(this.depth) + text);
  }

  /** Adds what the straight-line code since the last flush counts. */
  private flush(): void {
    if (this.read > 0) this.line(`count.read += ${this.read};`);
    if (this.written > 0) this.line(`count.written += ${this.written};`);
    if (this.flops > 0) this.line(`count.flops += ${this.flops};`);
    this.read = this.written = this.flops = 0;
  }

  private open(head: string): void {
    this.flush();
    this.line(`${head} {`);
    this.depth++;
  }
  private close(): void {
    this.flush();
    this.depth--;
    this.line("}");
  }

  private lanes(u: UOp): readonly string[] {
    const known = this.names.get(u);
    if (known !== undefined) return known;
    if (u.op === Ops.CONST) {
      const lanes = new Array<string>(u.dtype.count).fill(literal(u.dtype, u.arg as number | Int64));
      this.names.set(u, lanes);
      return lanes;
    }
    throw new SpecError(`${opName[u.op]} is used before it stands in the program ${this.program.name}`);
  }

  private define(u: UOp, lanes: readonly string[], keyword = "const"): void {
    const id = this.next++;
    const names = lanes.map((_, l) => `v${id}${lanes.length > 1 ? `_${l}` : ""}`);
    lanes.forEach((text, l) => this.line(`${keyword} ${names[l]} = ${text};`));
    this.names.set(u, names);
  }

  /** Base, index text and dtype of an INDEX; follows AFTER. */
  private address(u: UOp): { base: UOp; name: string; at: string; gate: string | undefined; size: number } {
    u = throughAfter(u);
    if (u.op !== Ops.INDEX) throw new SpecError(`${opName[u.op]} is no address in the program ${this.program.name}`);
    const base = throughAfter(u.src[0]);
    const at = this.lanes(u.src[1])[0];
    const size = base.op === Ops.PARAM ? argOf(base, Ops.PARAM).size : argOf(base, Ops.LOCAL).size;
    return {
      base,
      name: base.op === Ops.PARAM ? `b${argOf(base, Ops.PARAM).slot}` : `local${argOf(base, Ops.LOCAL).id}`,
      at: isBig(u.src[1].dtype) ? `Number(${at})` : at,
      gate: u.src.length > 2 ? this.lanes(u.src[2])[0] : undefined,
      size,
    };
  }

  /** The checks of one access: bounds; on grids also alignment, and races where the memory is shared. */
  private check(base: UOp, name: string, at: string, n: number, size: number, how: "Read" | "Write"): string {
    const inside = `check(${at}, ${n}, ${size}, "${name}")`;
    const aligned = this.program.grid !== undefined && n > 1 ? `; aligned(${at}, ${n}, "${name}")` : "";
    if (!this.collective || !isShared(base)) return inside + aligned;
    return `${inside}${aligned}; watch${name}.on${how}(${at}, ${n}, me.me, me.epoch)`;
  }

  /** The threads of the warp, or of the group, meet here. */
  private meet(group: boolean): void {
    this.line(`yield { site: ${this.sites++}, group: ${group} };`);
  }

  /** The ops at which threads work together; false for others. */
  private together(u: UOp): boolean {
    switch (u.op) {
      case Ops.BARRIER:
        this.meet(true);
        return true;
      case Ops.SHUFFLE: {
        this.line(`me.offer([${this.lanes(u.src[0]).join(", ")}]);`);
        this.meet(false);
        const from = `me.from(me.lane ^ ${u.arg as number})`;
        this.define(u, Array.from({ length: u.dtype.count }, (_, l) => `${from}[${l}]`));
        return true;
      }
      case Ops.WMMA: {
        const [a, b, c] = u.src.map((s) => this.lanes(s).join(", "));
        this.line(`me.offer([[${a}], [${b}]]);`);
        this.meet(false);
        const { m, n, k, lanes } = u.arg as TensorCore, id = `w${this.next++}`;
        this.line(`const ${id} = multiply(cores[${this.coreOf(u.arg as TensorCore)}], me, [${c}]);`);
        this.flops += 2 * m * n * k / lanes;
        this.names.set(u, Array.from({ length: u.dtype.count }, (_, l) => `${id}[${l}]`));
        return true;
      }
      case Ops.LDMATRIX: {
        const { base, name, at, size } = this.address(u.src[0]);
        this.line(`check(${at}, 8, ${size}, "${name}"); aligned(${at}, 8, "${name}"); me.offer(${at});`);
        this.meet(false);
        const id = `m${this.next++}`;
        this.line(`const ${id} = matrixElements(me, ${u.arg === "trans"});`);
        this.line(`for (const x of ${id}) watch${name}.onRead(x, 1, me.me, me.epoch);`);
        const decode = (x: string) => decoded(base.dtype, x);
        this.define(u, Array.from({ length: 8 }, (_, l) => decode(`${name}[${id}[${l}]]`)));
        return true;
      }
      case Ops.ASYNC_COPY: {
        const to = this.address(u.src[0]), from = this.address(u.src[1]);
        const n = (u.arg as number) / to.base.dtype.itemsize;
        const gate = u.src.length > 2 ? this.lanes(u.src[2])[0] : from.gate;
        this.line(`check(${to.at}, ${n}, ${to.size}, "${to.name}"); aligned(${to.at}, ${n}, "${to.name}");`);
        this.line(`watch${to.name}.onWrite(${to.at}, ${n}, me.me, me.epoch);`);
        const read =
          `check(${from.at}, ${n}, ${from.size}, "${from.name}"); aligned(${from.at}, ${n}, "${from.name}"); ` +
          `count.read += ${u.arg as number}; me.start(() => { for (let i = 0; i < ${n}; i++) ` +
          `${to.name}[${to.at} + i] = ${from.name}[${from.at} + i]; });`;
        if (gate === undefined) this.line(read);
        else this.line(`if (${gate}) { ${read} } else me.start(() => ${to.name}.fill(0, ${to.at}, ${to.at} + ${n}));`);
        return true;
      }
      case Ops.ASYNC_COMMIT:
        this.line("me.commit();");
        return true;
      case Ops.ASYNC_WAIT:
        this.line(`me.wait(${u.arg as number});`);
        return true;
      case Ops.SPECIAL:
        this.names.set(u, [u.arg as string]);
        return true;
      case Ops.LOCAL: {
        const { id, size, scope } = argOf(u, Ops.LOCAL);
        const n = size * u.dtype.count;
        if (scope === "shared") this.line(`const local${id} = locals[${id}], watchlocal${id} = watches[${id}];`);
        else this.line(`const local${id} = new ${arrayName(u.dtype)}(${n});`);
        return true;
      }
    }
    return false;
  }

  private coreOf(core: TensorCore): number {
    return coresOf(this.program).findIndex((c) => c.same(core));
  }

  private load(u: UOp): void {
    const from = u.src[0].op === Ops.AFTER && u.src[0].src[0].op === Ops.ACC ? u.src[0].src[0] : u.src[0];
    if (from.op === Ops.ACC) return this.define(u, this.lanes(from));
    const { base, name, at, gate, size } = this.address(from);
    const n = u.dtype.count, global = base.op === Ops.PARAM, nbytes = u.dtype.itemsize;
    const decode = (x: string) => decoded(base.dtype, x);
    const check = this.check(base, name, at, n, size, "Read");
    if (gate === undefined) {
      this.line(`${check};`);
      if (global) this.read += nbytes;
      return this.define(u, Array.from({ length: n }, (_, l) => decode(`${name}[${at}${l ? ` + ${l}` : ""}]`)));
    }
    const zero = literal(u.dtype, 0);
    const alt = u.src.length > 1 ? this.lanes(u.src[1]) : new Array<string>(n).fill(zero);
    this.define(u, alt, "let");
    const names = this.names.get(u)!;
    this.line(`if (${gate}) {`);
    this.line(`  ${check};`);
    if (global) this.line(`  count.read += ${nbytes};`);
    names.forEach((v, l) => this.line(`  ${v} = ${decode(`${name}[${at}${l ? ` + ${l}` : ""}]`)};`));
    this.line("}");
  }

  private store(u: UOp): void {
    const [to, value] = u.src;
    const target = to.op === Ops.AFTER && to.src[0].op === Ops.ACC ? to.src[0] : to;
    const lanes = this.lanes(value);
    if (target.op === Ops.ACC) {
      this.lanes(target).forEach((name, l) => this.line(`${name} = ${lanes[l]};`));
      return;
    }
    const { base, name, at, gate, size } = this.address(to);
    if (gate !== undefined) throw new SpecError(`A gated STORE in the program ${this.program.name}`);
    const encode = (x: string) => encoded(base.dtype, x);
    this.line(`${this.check(base, name, at, lanes.length, size, "Write")};`);
    lanes.forEach((x, l) => this.line(`${name}[${at}${l ? ` + ${l}` : ""}] = ${encode(x)};`));
    if (base.op === Ops.PARAM) this.written += value.dtype.itemsize;
  }

  private visit(u: UOp): void {
    if (this.collective && this.together(u)) return;
    switch (u.op) {
      case Ops.CONST:
      case Ops.PARAM:
      case Ops.INDEX:
      case Ops.SINK:
      case Ops.GROUP:
      case Ops.TUPLE:
      case Ops.BARRIER:
        return;
      case Ops.VARIABLE:
        this.names.set(u, [`vars[${this.program.vars.indexOf(u)}]`]);
        return;
      case Ops.RANGE: {
        const id = `r${this.next++}`, big = isBig(u.dtype), end = this.lanes(u.src[0])[0];
        const thread = argOf(u, Ops.RANGE).kind === AxisKind.THREAD;
        this.names.set(u, [id]);
        const from = thread ? (big ? "BigInt(begin)" : "begin") : big ? "0n" : "0";
        return this.open(
          `for (let ${id} = ${from}; ${id} < ${thread ? (big ? "BigInt(end)" : "end") : end}; ${id}++)`,
        );
      }
      case Ops.SPECIAL: {
        const id = `r${this.next++}`;
        this.names.set(u, [id]);
        this.specials++;
        return this.open(`for (let ${id} = 0; ${id} < ${this.lanes(u.src[0])[0]}; ${id}++)`);
      }
      case Ops.IF:
        return this.open(`if (${this.lanes(u.src[0])[0]})`);
      case Ops.END:
      case Ops.ENDIF:
        return this.close();
      case Ops.ACC:
        return this.define(u, this.lanes(u.src[0]), "let");
      case Ops.LOCAL:
        this.line(`const local${argOf(u, Ops.LOCAL).id} = locals[${argOf(u, Ops.LOCAL).id}];`);
        return;
      case Ops.LOAD:
        return this.load(u);
      case Ops.STORE:
        return this.store(u);
      case Ops.AFTER:
        if (this.names.has(u.src[0])) this.names.set(u, this.names.get(u.src[0])!);
        return;
      case Ops.VECTORIZE:
        this.names.set(u, u.src.flatMap((s) => this.lanes(s)));
        return;
      case Ops.BROADCAST:
        this.names.set(u, new Array<string>(u.dtype.count).fill(this.lanes(u.src[0])[0]));
        return;
      case Ops.EXTRACT:
        this.names.set(u, [this.lanes(u.src[0])[u.arg as number]]);
        return;
    }
    if (!isAlu(u.op)) throw new SpecError(`The JS device cannot run ${opName[u.op]}`);
    const natural = naturalExponent(u);
    const [a, b, c] = (natural === undefined ? u.src : [natural]).map((s) => this.lanes(s));
    this.flops += flopsOf(u);
    const lane = (x: readonly string[] | undefined, l: number) => x === undefined ? "" : x.length > 1 ? x[l] : x[0];
    this.define(u, Array.from({ length: u.dtype.count }, (_, l) => alu(u, lane(a, l), lane(b, l), lane(c, l))));
  }

  write(): string {
    if (this.collective) this.line("const [gidx0, gidx1, gidx2] = group, [lidx0, lidx1, lidx2] = thread;");
    for (const p of this.program.params) if (p !== undefined) this.line(`const b${p.slot} = bufs[${p.slot}];`);
    for (const u of this.program.uops) this.visit(u);
    for (; this.specials > 0; this.specials--) this.close();
    this.flush();
    return this.lines.join("\n");
  }
}

function isShared(base: UOp): boolean {
  return base.op === Ops.LOCAL && argOf(base, Ops.LOCAL).scope === "shared";
}

/** The matrix units that a program uses. */
export function coresOf(program: LinearProgram): TensorCore[] {
  const cores: TensorCore[] = [];
  for (const u of program.uops) {
    if (u.op !== Ops.WMMA) continue;
    const core = u.arg as TensorCore;
    if (!cores.some((c) => c.same(core))) cores.push(core);
  }
  return cores;
}

/**
 * The body of `(bufs, vars, begin, end, locals, count) => void`; where threads work together, of the generator that one
 * thread is, `function* (bufs, vars, locals, count, watches, cores, group, thread, me)`.
 */
export function renderJs(program: LinearProgram): string {
  return new Writer(program).write();
}

/** Arrays of the kernel itself, by id. */
export function localsOf(program: LinearProgram): LocalArg[] {
  return program.uops.filter((u) => u.op === Ops.LOCAL).map((u) => argOf(u, Ops.LOCAL));
}

/** The dtype of the LOCAL with this id. */
export function localDType(program: LinearProgram, id: number): DType {
  return program.uops.find((u) => u.op === Ops.LOCAL && argOf(u, Ops.LOCAL).id === id)!.dtype;
}
