/**
 * TypeScript to read: the row of the C family in which `explain` writes kernels, one element after the other. It computes
 * what a scalar machine would: float32 is rounded after each operation, integers wrap, 16-bit floats are widened where they
 * are loaded. A computed bool is a boolean; in memory it is a byte. Parentheses stand only where they are needed.
 *
 * @module
 */
import { arrayName, type DType, dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { argOf, type ConstValue, Int64 } from "../../uop/core/args.ts";
import { opName, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { throughAfter } from "../../uop/rewrite/walk.ts";
import { naturalExponent } from "../natural.ts";
import { type Capabilities, COMMON_DTYPES, type LinearProgram, SCALAR_CAPS } from "../renderer.ts";
import { type CLanguage, type CRule, CStyleRenderer, CWriter, functionRules, type KernelNames } from "./cstyle.ts";

/** What binds how strongly; what stands between spaces in an expression and is not here binds least. */
const STRENGTH: Readonly<Record<string, number>> = {
  "*": 13,
  "/": 13,
  "%": 13,
  "+": 12,
  "-": 12,
  "<<": 11,
  ">>": 11,
  ">>>": 11,
  "<": 10,
  "===": 9,
  "!==": 9,
  "&": 8,
  "^": 7,
  "|": 6,
  "&&": 5,
  "||": 4,
  "?": 3,
  ":": 3,
};
const CHOICE = 3;

/** The weakest operator of an expression outside of its parentheses; Infinity where there is none. */
function strengthOf(text: string): number {
  let depth = 0, weakest = Infinity;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === "(" || c === "[") depth++;
    else if (c === ")" || c === "]") depth--;
    if (depth < 0) return -Infinity; // the outermost parentheses are no pair
    if (depth > 0 || (c !== " " && c !== ",")) continue;
    if (c === ",") return 0;
    const end = text.indexOf(" ", i + 1), word = text.slice(i + 1, end < 0 ? undefined : end);
    if (end < 0) continue;
    weakest = Math.min(weakest, STRENGTH[word] ?? 1);
    i = end;
  }
  return weakest;
}

/** An expression without its parentheses, where all in them binds at least so strongly. */
function loose(text: string, least: number): string {
  if (!text.startsWith("(") || !text.endsWith(")")) return text;
  const inner = text.slice(1, -1);
  return strengthOf(inner) >= least && !inner.startsWith("-") ? inner : text;
}
/** As an argument, an index, or a whole expression. */
function alone(text: string): string {
  if (/^\(-[\w.]+\)$/.test(text)) return text.slice(1, -1);
  return loose(text, 2);
}

function join(a: string, operator: string, b: string): string {
  const strength = STRENGTH[operator], negative = operator === "+" ? /^\(-([\d.][\w.+-]*)\)$/.exec(b) : null;
  if (negative !== null) return join(a, "-", negative[1]);
  return `(${loose(a, strength)} ${operator} ${loose(b, strength + 1)})`;
}
function choice(condition: string, a: string, b: string): string {
  return `(${loose(condition, CHOICE + 1)} ? ${loose(a, CHOICE + 1)} : ${loose(b, CHOICE)})`;
}

/** The kernel's views of eight bytes, for what is bits. */
const VIEWS = ["f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16"] as const;
/** Names that kernels may use for themselves. */
export const TYPESCRIPT_WORDS: readonly string[] = ["bits", ...VIEWS];

function isBig(d: DType): boolean {
  return d.isInt && d.bits === 64;
}
/** The TypedArray that holds a dtype in a script. */
export function scriptArray(d: DType): string {
  return d === dtypes.float16 ? "Float16Array" : arrayName(d);
}

/** The view of the scratch bytes for a dtype. */
function viewOf(w: CWriter, d: DType): string {
  const kind = d === dtypes.bfloat16 || (d.isFloat && d.bits < 16) ? "u" : d.isBool ? "u" : d.kind[0];
  const name = `${kind}${d.bits}`;
  w.declare("bits", "const bits = new ArrayBuffer(8); // the same bytes as one kind of number and another");
  w.declare(name, `const ${name} = new ${viewArray(name)}(bits);`);
  return `${name}[0]`;
}
function viewArray(name: string): string {
  const bits = Number(name.slice(1)), kind = { f: "Float", i: "Int", u: "Uint" }[name[0]];
  return `${bits === 64 && name[0] !== "f" ? "Big" : ""}${kind}${bits}Array`;
}

/** The number that the 16 bits of a bfloat16 are, and the bits of a number, to nearest even. */
function bf16Value(w: CWriter, bits: string): string {
  return `(${viewOf(w, dtypes.uint32)} = ${bits} << 16, ${viewOf(w, dtypes.float32)})`;
}
function bf16Bits(w: CWriter, x: string): string {
  const u = viewOf(w, dtypes.uint32);
  return `(${viewOf(w, dtypes.float32)} = ${alone(x)}, ${u} + 32767 + (${u} >>> 16 & 1) >>> 16)`;
}

/** A number brought back into its dtype. */
function wrap(d: DType, text: string): string {
  if (d === dtypes.float32) return `Math.fround(${alone(text)})`;
  if (d === dtypes.float16) return `Math.f16round(${alone(text)})`;
  if (d.isFloat || d.isBool) return text;
  if (isBig(d)) return `BigInt.${d.isUnsigned ? "asUintN" : "asIntN"}(64, ${alone(text)})`;
  if (d === dtypes.int32) return join(text, "|", "0");
  if (d === dtypes.uint32) return join(text, ">>>", "0");
  if (d.isUnsigned) return join(text, "&", String(2 ** d.bits - 1));
  const by = String(32 - d.bits);
  return join(join(text, "<<", by), ">>", by);
}

/** True where integer arithmetic stays in its dtype, so that nothing wraps. */
function stays({ op, src: [a, b], dtype: d }: UOp): boolean {
  if (!d.isInt || d.bits > 32) return false;
  const [al, ah, bl, bh] = [vmin(a), vmax(a), vmin(b), vmax(b)];
  const ends = op === Ops.ADD
    ? [al + bl, ah + bh]
    : op === Ops.SUB
    ? [al - bh, ah - bl]
    : [al * bl, al * bh, ah * bl, ah * bh];
  const low = d.isUnsigned ? 0 : -(2 ** (d.bits - 1)), high = 2 ** (d.isUnsigned ? d.bits : d.bits - 1) - 1;
  return Math.min(...ends) >= low && Math.max(...ends) <= high;
}

function arithmetic(operator: string, onBool: (a: string, b: string) => string): CRule {
  return (w, u, [a, b]) => {
    const d = u.dtype;
    if (d.isBool) return onBool(a, b);
    if (u.op === Ops.MUL && d.isFloat && u.src[1].op === Ops.CONST) (w as TypeScriptWriter).factors.set(u, a);
    if (u.op === Ops.MUL && d.isInt && d.bits === 32 && !stays(u)) {
      const text = `Math.imul(${alone(a)}, ${alone(b)})`;
      return d.isUnsigned ? join(text, ">>>", "0") : text;
    }
    const text = join(a, operator, b);
    return d.isInt && stays(u) ? text : wrap(d, text);
  };
}
function logic(onBits: string, onBool: string): CRule {
  return (_w, u, [a, b]) => u.dtype.isBool ? join(a, onBool, b) : bitwise(u.dtype, join(a, onBits, b));
}
function bitwise(d: DType, text: string): string {
  return d === dtypes.uint32 || d === dtypes.uint64 ? wrap(d, text) : text;
}

/** `a`, or `!a`, where it is compared with a constant; undefined where neither operand is one. */
function ofBools(u: UOp, [a, b]: readonly string[], isEqual: boolean): string | undefined {
  const known = u.src.findIndex((s) => s.op === Ops.CONST);
  if (!u.src[0].dtype.isBool || known < 0) return undefined;
  const other = known === 0 ? b : a;
  return (u.src[known].value !== 0) === isEqual ? other : `!${other}`;
}
function equality(operator: string): CRule {
  return (_w, u, src) => ofBools(u, src, operator === "===") ?? join(src[0], operator, src[1]);
}

const max: CRule = (_w, u, [a, b]) => {
  if (u.dtype.isBool) return join(a, "||", b);
  if (isBig(u.dtype)) return choice(join(b, "<", a), a, b);
  return `Math.max(${alone(a)}, ${alone(b)})`;
};

function shift(operator: "<<" | ">>"): CRule {
  return (_w, u, [a, b]) => {
    const d = u.dtype, count = u.src[1];
    if (isBig(d)) {
      const n = isBig(count.dtype) ? join(b, "&", "63n") : `BigInt(${alone(b)})`;
      return wrap(d, join(a, operator, n));
    }
    const number = isBig(count.dtype) ? `Number(${alone(b)})` : b;
    const n = count.op === Ops.CONST ? number : join(number, "&", String(d.bits - 1));
    if (operator === ">>") return join(a, d.isUnsigned ? ">>>" : ">>", n);
    return d === dtypes.int32 ? join(a, "<<", n) : wrap(d, join(a, "<<", n));
  };
}

function division(operator: "/" | "%"): CRule {
  return (_w, u, [a, b]) => {
    const d = u.dtype, text = join(a, operator, b);
    if (isBig(d)) {
      const known = u.src[1].op === Ops.CONST && u.src[1].value !== 0;
      return known ? wrap(d, text) : choice(join(b, "===", "0n"), "0n", wrap(d, text));
    }
    if (operator === "%") return d.isFloat ? wrap(d, text) : u.src[1].op === Ops.CONST ? text : wrap(d, text);
    return d.isFloat ? wrap(d, `Math.trunc(${alone(text)})`) : wrap(d, text);
  };
}

/** Do numbers of a dtype fit into another without a change? */
function holds(to: DType, u: UOp): boolean {
  const from = u.dtype;
  if (to.isFloat) {
    if (from.isFloat) return from.bits <= to.bits && !(from === dtypes.bfloat16 && to === dtypes.float16);
    const most = 2 ** (to === dtypes.float64 ? 53 : to === dtypes.float32 ? 24 : to === dtypes.bfloat16 ? 8 : 11);
    return vmin(u) >= -most && vmax(u) <= most;
  }
  if (from.isFloat) return false;
  return vmin(u) >= (to.isUnsigned ? 0 : -(2 ** (to.bits - 1))) &&
    vmax(u) <= 2 ** (to.isUnsigned ? to.bits : to.bits - 1) - 1;
}

const cast: CRule = (w, u, [a]) => {
  const to = u.dtype, from = u.src[0].dtype;
  if (to === from) return a;
  if (to.isBool) return join(a, "!==", isBig(from) ? "0n" : "0");
  if (from.isBool) return isBig(to) ? choice(a, "1n", "0n") : choice(a, "1", "0");
  if (isBig(to)) {
    if (isBig(from)) return wrap(to, a);
    if (!from.isFloat) return wrap(to, `BigInt(${alone(a)})`);
    // what is no finite number has no integer
    return wrap(to, `BigInt(Math.trunc(Math.abs(${alone(a)}) < Infinity ? ${loose(a, CHOICE + 1)} : 0))`);
  }
  if (isBig(from)) {
    if (to.isFloat) return wrap(to, `Number(${alone(a)})`);
    return `Number(BigInt.${to.isUnsigned ? "asUintN" : "asIntN"}(${to.bits}, ${alone(a)}))`;
  }
  if (to === dtypes.bfloat16) return bf16Value(w, bf16Bits(w, a));
  return holds(to, u.src[0]) ? a : wrap(to, a);
};

const bitcast: CRule = (w, u, [a]) => {
  const to = u.dtype, from = u.src[0].dtype;
  if (to === from) return a;
  const bits = from === dtypes.bfloat16 ? bf16Bits(w, a) : alone(a);
  const made = `(${viewOf(w, from)} = ${bits}, ${viewOf(w, to)})`;
  return to === dtypes.bfloat16 ? bf16Value(w, made) : made;
};

/** Is it x, and 0 where x < 0 or x is 0? */
function isRelu({ dtype, src: [c, zero, x] }: UOp): boolean {
  if (!dtype.isFloat || !zero.isConst(0) || c.op !== Ops.OR) return false;
  const [less, equal] = c.src;
  return less.op === Ops.CMPLT && equal.op === Ops.CMPEQ &&
    [less, equal].every((s) => s.src[0] === x && s.src[1] === zero);
}

const power: CRule = (w, u, [a]) => {
  const y = (w as TypeScriptWriter).factors.get(u.src[0]);
  if (naturalExponent(u) === undefined || y === undefined || /^\w+$/.test(a)) return wrap(u.dtype, `(2 ** ${a})`);
  return wrap(u.dtype, `Math.exp(${alone(y)})`);
};

const rules: Record<number, CRule> = {
  [Ops.ADD]: arithmetic("+", (a, b) => join(a, "||", b)),
  [Ops.SUB]: arithmetic("-", (a, b) => join(a, "!==", b)),
  [Ops.MUL]: arithmetic("*", (a, b) => join(a, "&&", b)),
  [Ops.NEG]: (_w, u, [a]) => u.dtype.isBool ? a : u.dtype.isFloat ? `(-${a})` : wrap(u.dtype, `(-${a})`),
  [Ops.FDIV]: (_w, u, [a, b]) => wrap(u.dtype, join(a, "/", b)),
  [Ops.MAX]: max,
  [Ops.CDIV]: division("/"),
  [Ops.CMOD]: division("%"),
  [Ops.FLOORDIV]: division("/"), // only where proved to be the same
  [Ops.FLOORMOD]: division("%"),
  [Ops.CMPLT]: (_w, u, [a, b]) => u.src[0].dtype.isBool ? join(`!${a}`, "&&", b) : join(a, "<", b),
  [Ops.CMPNE]: equality("!=="),
  [Ops.CMPEQ]: equality("==="),
  [Ops.AND]: logic("&", "&&"),
  [Ops.OR]: logic("|", "||"),
  [Ops.XOR]: logic("^", "!=="),
  [Ops.SHL]: shift("<<"),
  [Ops.SHR]: shift(">>"),
  [Ops.WHERE]: (_w, u, [c, a, b]) => isRelu(u) ? `Math.max(${a}, ${alone(b)})` : choice(c, a, b),
  [Ops.CAST]: cast,
  [Ops.BITCAST]: bitcast,
  ...functionRules((name) => (_w, u, [a]) => u.dtype.isFloat ? wrap(u.dtype, `Math.${name}(${alone(a)})`) : a),
  [Ops.TRUNC]: (_w, u, [a]) => u.dtype.isFloat ? `Math.trunc(${alone(a)})` : a,
  [Ops.EXP2]: power,
};

function literal(d: DType, value: ConstValue): string {
  if (d.isBool) return value === 0 ? "false" : "true";
  if (isBig(d)) {
    const x = value instanceof Int64 ? value.toBigInt() : BigInt(Math.trunc(value));
    const text = `${d.isUnsigned ? BigInt.asUintN(64, x) : x}n`;
    return text.startsWith("-") ? `(${text})` : text;
  }
  const x = value instanceof Int64 ? Number(value.toBigInt()) : value;
  const rounded = d === dtypes.float32 ? Math.fround(x) : d === dtypes.uint32 ? x >>> 0 : x;
  const text = Object.is(rounded, -0) ? "-0" : String(rounded);
  return text.startsWith("-") ? `(${text})` : text;
}

/** The argument of an outermost Math.fround: an array of float32 rounds by itself. */
function unrounded(text: string): string {
  const m = /^Math\.fround\((.*)\)$/.exec(text);
  return m === null || strengthOf(m[1]) === -Infinity ? text : m[1];
}

/** TypeScript, as a row of the family. */
const TYPESCRIPT_LANGUAGE: CLanguage = {
  name: "TypeScript",
  rules,
  type: () => "",
  literal: (_w, d, value) => literal(d, value),
  load(w, u, { base, name, at }) {
    const text = `${name}[${element(at)}]`;
    if (u.dtype.isBool) return join(text, "!==", "0");
    return base.dtype === dtypes.bfloat16 ? bf16Value(w, text) : text;
  },
  store(w, value, text, { base, name, at }) {
    const d = value.dtype, place = `${name}[${element(at)}]`;
    if (d.isBool) return `${place} = ${alone(choice(text, "1", "0"))};`;
    if (base.dtype === dtypes.bfloat16) return `${place} = ${bf16Bits(w, text)};`;
    return `${place} = ${alone(d === dtypes.float32 ? unrounded(text) : text)};`;
  },
  convert: (_w, _value, text) => text,
  repeats: 32,
  choose: (_w, _d, condition, a, b) => choice(condition, a, b),
  open: () => ["{"],
  loop: (_w, u, name, end) => `for (let ${name} = ${isBig(u.dtype) ? "0n" : "0"}; ${name} < ${end}; ${name}++)`,
  local(_w, u, name) {
    return `const ${name} = new ${scriptArray(u.dtype)}(${argOf(u, Ops.LOCAL).size});`;
  },
  define: (_type, name, text, changes) => `${changes ? "let" : "const"} ${name} = ${alone(text)};`,
};

/** An index: arrays take numbers. */
function element(at: string): string {
  return /\d+n\b|BigInt/.test(at) ? `Number(${alone(at)})` : alone(at);
}

/** What the kernels of a script are lowered for: a scalar machine that has all functions; 16-bit floats lie in memory only. */
const TYPESCRIPT_CAPS: Capabilities = { ...SCALAR_CAPS, computeDTypes: COMMON_DTYPES };

/** Renders TypeScript, a block for each kernel. */
export const typescriptRenderer: CStyleRenderer = new CStyleRenderer(TYPESCRIPT_LANGUAGE, TYPESCRIPT_CAPS);

/** The writer: it remembers what was multiplied by a constant, for powers of e, and where accumulators are final. */
class TypeScriptWriter extends CWriter {
  readonly factors: Map<UOp, string> = new Map();
  /** By ACC, the position of its last STORE; by LOAD of one, its own. */
  private readonly places = new Map<UOp, number>();

  constructor(program: LinearProgram, names: KernelNames) {
    super(TYPESCRIPT_LANGUAGE, program, names);
    program.uops.forEach((u, i) => {
      if (u.op === Ops.LOAD) this.places.set(u, i);
      else if (u.op === Ops.STORE) this.places.set(throughAfter(u.src[0]), i);
    });
  }

  /** As it is called around the kernel. */
  protected override variable(u: UOp): string {
    return argOf(u, Ops.VARIABLE).name;
  }
  protected override readAcc(u: UOp, acc: UOp): string | undefined {
    return this.places.get(u)! > (this.places.get(acc) ?? -1) ? this.value(acc) : super.readAcc(u, acc);
  }
}

/** A kernel as statements, and the scratch memory that it needs. */
export interface ScriptKernel {
  /** Declarations by name, which kernels share. */
  readonly declarations: ReadonlyMap<string, string>;
  /** Lines without indentation around them; in braces where they declare anything. */
  readonly lines: readonly string[];
}

/** Writes a program with the names of its place. @throws {SpecError} for what has no statement in TypeScript */
export function writeScriptKernel(program: LinearProgram, names: KernelNames): ScriptKernel {
  for (const u of program.uops) {
    if (u.dtype.count > 1) throw new SpecError(`TypeScript has no vectors, and ${opName[u.op]} is one`);
  }
  const { declarations, body } = new TypeScriptWriter(program, names).write("");
  const lines = body.trimEnd().split("\n"), inner = lines.slice(1, -1);
  if (inner.some((line) => /^ {2}(?:const|let) /.test(line))) return { declarations, lines };
  return { declarations, lines: inner.map((line) => line.slice(2)) };
}
