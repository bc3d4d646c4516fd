/**
 * C with vector extensions, for clang (ext_vector_type) and gcc (vector_size): the language of the CLANG device.
 *
 * Every kernel has one signature: `void NAME(void **bufs, const unsigned long long *vars, int begin, int end)`; a THREAD
 * loop runs from begin to end. A bool vector is a mask: an integer vector of lanes 0 and -1 whose lanes are as wide as
 * what was compared (`notes` keeps the bits); it is converted where another width is needed, and compilers fold that.
 * Signed arithmetic that may leave its range goes through unsigned types, so that it wraps; index arithmetic, which
 * interval analysis proves in range, is signed, and kept in 64 bits from the loops on: the compiler would widen it itself,
 * but its proofs that it may take most of its time.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { baseOf } from "../../uop/rewrite/walk.ts";
import { type Capabilities, COMMON_DTYPES, type LinearProgram, SCALAR_CAPS, threadBounds } from "../renderer.ts";
import { LOAD_MASKED, PRELUDE, READ_AHEAD, STREAM } from "./c_prelude.ts";
import {
  type CAddress,
  type CLanguage,
  type CRule,
  type CWriter,
  functionRules,
  identifier,
  staysInRange,
  unwrap,
} from "./cstyle.ts";
import {
  commonBits,
  isMask,
  isPowerOfTwo,
  isVector,
  literal,
  mask,
  maskBits,
  maskType,
  memoryType,
  scalarType,
  shortName,
  splat,
  type,
  vectorType,
  WIDE,
  widenLike,
  wrappingType,
} from "./c_types.ts";
import { readsInOrder } from "./read_ahead.ts";

/** Integer arithmetic that wraps; `write` gets the texts of the operands. */
function wrapping(w: CWriter, u: UOp, src: readonly string[], write: (src: readonly string[]) => string): string {
  const d = u.dtype;
  if (d.isFloat || (d.isUnsigned && (d.bits >= 32 || isVector(d)))) return write(src);
  if (!isVector(d) && d.bits >= 32 && u.op !== Ops.SHL && staysInRange(u)) {
    widenLike(w, u, u.src);
    return write(src);
  }
  const unsigned = wrappingType(w, d);
  return `((${type(w, d)})${write(src.map((s) => `(${unsigned})${s}`))})`;
}

function binary(operator: string): CRule {
  return (_w, _u, [a, b]) => `(${a} ${operator} ${b})`;
}
function arithmetic(operator: string, onBool: string): CRule {
  return (w, u, src) =>
    u.dtype.isBool ? logic(onBool)(w, u, src) : wrapping(w, u, src, ([a, b]) => `(${a} ${operator} ${b})`);
}

/** AND, OR and XOR of bools, masks and integers. */
function logic(operator: string): CRule {
  return (w, u, [a, b]) => {
    if (isMask(u.dtype)) {
      const bits = commonBits(w, u.src);
      w.notes.set(u, bits);
      return `(${mask(w, u.src[0], a, bits)} ${operator} ${mask(w, u.src[1], b, bits)})`;
    }
    widenLike(w, u, u.src);
    return `(${a} ${operator} ${b})`;
  };
}

function compare(operator: string, onMasks: (a: string, b: string) => string): CRule {
  return (w, u, [a, b]) => {
    if (!isVector(u.dtype)) return `(${a} ${operator} ${b})`;
    if (u.src[0].dtype.isBool) {
      const bits = commonBits(w, u.src);
      w.notes.set(u, bits);
      return onMasks(mask(w, u.src[0], a, bits), mask(w, u.src[1], b, bits));
    }
    const bits = u.src[0].dtype.bits;
    w.notes.set(u, bits);
    return `((${maskType(w, bits, u.dtype.count)})(${a} ${operator} ${b}))`;
  };
}

/** `m ? a : b` a lane, with a mask of the lanes' width. */
function select(w: CWriter, d: DType, m: string, a: string, b: string): string {
  return `SELECT(${type(w, d)}, ${maskType(w, d.bits, d.count)}, ${m}, ${a}, ${b})`;
}

const where: CRule = (w, u, [c, a, b]) => {
  const d = u.dtype;
  if (!isVector(u.src[0].dtype)) {
    widenLike(w, u, u.src.slice(1));
    return `(${c} ? ${a} : ${b})`;
  }
  if (!d.isBool) return select(w, d, mask(w, u.src[0], c, d.bits), a, b);
  const bits = commonBits(w, u.src), m = mask(w, u.src[0], c, bits), t = maskType(w, bits, d.count);
  w.notes.set(u, bits);
  return `SELECT(${t}, ${t}, ${m}, ${mask(w, u.src[1], a, bits)}, ${mask(w, u.src[2], b, bits)})`;
};

function helper(w: CWriter, d: DType, name: string, args: string, body: string): string {
  const t = type(w, d), full = `${name}_${shortName(d)}${isVector(d) ? `x${d.count}` : ""}`;
  w.declare("prelude", PRELUDE);
  w.declare(full, `INLINE ${t} ${full}(${args.split(" ").map((a) => `${t} ${a}`).join(", ")}) { ${body} }`);
  return full;
}

/** The larger; NaN if either is. x86's max gives its second operand where one is NaN, and compilers know. */
const max: CRule = (w, u, [a, b]) => {
  const d = u.dtype;
  if (d.isBool) return logic("|")(w, u, [a, b]);
  const t = type(w, d);
  const pick = (c: string, x: string, y: string) =>
    isVector(d) ? select(w, d, `(${maskType(w, d.bits, d.count)})(${c})`, x, y) : `${c} ? ${x} : ${y}`;
  if (!d.isFloat) return `${helper(w, d, "max", "a b", `return ${pick("a > b", "a", "b")};`)}(${a}, ${b})`;
  const known = u.src.findIndex((s) => s.op === Ops.CONST && !Number.isNaN(s.value));
  if (known >= 0) { // only the other one can be NaN
    const name = helper(w, d, "maxc", "a c", `return ${pick("c > a", "c", "a")};`);
    return known === 0 ? `${name}(${b}, ${a})` : `${name}(${a}, ${b})`;
  }
  return `${
    helper(w, d, "max", "a b", `${t} m = ${pick("a > b", "a", "b")}; return ${pick("a != a", "a", "m")};`)
  }(${a}, ${b})`;
};

/** Division toward zero that never traps: x / 0 is 0, and the smallest integer divided by -1 wraps. */
function division(operator: "/" | "%"): CRule {
  return (w, u, [a, b]) => {
    const d = u.dtype, s = d.scalar, divisor = u.src[1];
    if (divisor.op === Ops.CONST && divisor.value !== 0 && divisor.value !== -1) {
      widenLike(w, u, u.src);
      return isVector(d) || s.bits >= 32 ? `(${a} ${operator} ${b})` : `((${type(w, d)})(${a} ${operator} ${b}))`;
    }
    if (isVector(d) && s.bits <= 32) return `${vectorDivision(w, d, operator)}(${a}, ${b})`;
    const minusOne = operator === "%" ? "0" : wrapNegate(w, s, "a");
    const text = `return b == 0 ? 0 : ${s.isUnsigned ? "" : `b == -1 ? ${minusOne} : `}a ${operator} b;`;
    const name = helper(w, s, operator === "/" ? "cdiv" : "cmod", "a b", text);
    return isVector(d) ? perLane(w, d, name, "a b", `${name}(a[i], b[i])`, `${a}, ${b}`) : `${name}(${a}, ${b})`;
  };
}

/**
 * A function that divides vectors of integers: by floats that hold twice their bits, so that a quotient that is no integer
 * never rounds to one. Where the divisor is 0 or -1, floats divide by 1.
 */
function vectorDivision(w: CWriter, d: DType, operator: "/" | "%"): string {
  const wide = (d.bits <= 16 ? dtypes.float32 : dtypes.float64).vec(d.count), t = type(w, d), f = type(w, wide);
  const is = (value: string): string => `(${maskType(w, d.bits, d.count)})(b == ${splat(w, d, value)})`;
  const isSpecial = d.isUnsigned ? is("0") : `(${is("0")} | ${is("-1")})`;
  const convert = (x: string): string => `__builtin_convertvector(${x}, ${f})`;
  const quotient = `__builtin_convertvector(${convert("a")} / ${convert("c")}, ${t})`;
  const body = `${t} c = ${select(w, d, isSpecial, splat(w, d, "1"), "b")}; ${t} q = ${quotient};`;
  const u = wrappingType(w, d), unsigned = (x: string): string => `(${u})${x}`;
  if (operator === "%") {
    return helper(
      w,
      d,
      "cmod",
      "a b",
      `${body} return (${t})(${unsigned("a")} - ${unsigned("q")} * ${unsigned("c")});`,
    );
  }
  const negated = `(${t})((${u}){} - ${unsigned("a")})`, zero = select(w, d, is("0"), splat(w, d, "0"), "q");
  return helper(
    w,
    d,
    "cdiv",
    "a b",
    `${body} ${d.isUnsigned ? "" : `q = ${select(w, d, is("-1"), negated, "q")}; `}return ${zero};`,
  );
}

function wrapNegate(w: CWriter, s: DType, x: string): string {
  return `(${type(w, s)})(0 - (${wrappingType(w, s)})${x})`;
}

/** Calls a helper that computes `each` of lanes `a[i]`. */
function perLane(w: CWriter, d: DType, name: string, args: string, each: string, actual: string): string {
  const t = type(w, d);
  const full = `${name.replace(/_\w+$/, "")}`;
  return `${
    helper(w, d, full, args, `${t} r; for (int i = 0; i < ${d.count}; i++) r[i] = ${each}; return r;`)
  }(${actual})`;
}

/** A float function: a builtin for scalars and, where the compiler has it, for vectors; else lane by lane. */
function builtin(name: string): CRule {
  return (w, u, [a]) => {
    const d = u.dtype, scalar = `__builtin_${name}${d.bits === 32 ? "f" : ""}`;
    if (!d.isFloat) return a;
    if (!isVector(d)) return `${scalar}(${a})`;
    const macro = name.toUpperCase();
    w.declare("prelude", PRELUDE);
    const t = type(w, d), full = `${name}_${shortName(d)}x${d.count}`;
    const lanes = `${t} r; for (int i = 0; i < ${d.count}; i++) r[i] = ${scalar}(a[i]); return r;`;
    w.declare(
      full,
      `#if __has_builtin(__builtin_elementwise_${name})\n#define ${macro}_${t}(x) __builtin_elementwise_${name}(x)\n` +
        `#else\nINLINE ${t} ${full}(${t} a) { ${lanes} }\n#define ${macro}_${t}(x) ${full}(x)\n#endif`,
    );
    return `${macro}_${t}(${a})`;
  };
}

const cast: CRule = (w, u, [a]) => {
  const d = u.dtype, from = u.src[0], f = from.dtype;
  if (!isVector(d)) return d.isBool ? `(${a} != 0)` : `((${type(w, d)})${a})`;
  if (isMask(d)) {
    if (f.isBool) {
      w.notes.set(u, maskBits(w, from) || 8);
      return mask(w, from, a, maskBits(w, from) || 8);
    }
    w.notes.set(u, f.bits);
    return `((${maskType(w, f.bits, d.count)})(${a} != 0))`;
  }
  if (!f.isBool) return `__builtin_convertvector(${a}, ${type(w, d)})`;
  const ones = `(${mask(w, from, a, d.bits)} & 1)`;
  return d.isFloat ? `__builtin_convertvector(${ones}, ${type(w, d)})` : `((${type(w, d)})${ones})`;
};

const bitcast: CRule = (w, u, [a]) => {
  const d = u.dtype, f = u.src[0].dtype;
  if (isVector(d)) return `((${type(w, d)})${a})`;
  if (!d.isFloat && !f.isFloat) return `((${type(w, d)})${a})`;
  const name = `bits_${shortName(f)}_${shortName(d)}`, t = type(w, d);
  w.declare("prelude", PRELUDE);
  w.declare(
    name,
    `INLINE ${t} ${name}(${type(w, f)} x) { ${t} r; __builtin_memcpy(&r, &x, sizeof r); return r; }`,
  );
  return `${name}(${a})`;
};

const shift = (operator: string): CRule => (w, u, [a, b]) => {
  const d = u.dtype, count = u.src[1];
  const inRange = count.op === Ops.CONST && count.value >= 0 && count.value < d.bits;
  const n = inRange ? b : isVector(d) ? `(${b} & ${d.bits - 1})` : `((int)${b} & ${d.bits - 1})`;
  if (operator === "<<") {
    if (isVector(d)) return wrapping(w, u, [a, n], ([x, y]) => `(${x} << ${y})`);
    return wrapping(w, u, [a], ([x]) => `(${x} << ${n})`);
  }
  widenLike(w, u, u.src.slice(0, 1));
  return d.bits < 32 && !isVector(d) ? `((${type(w, d)})(${a} >> ${n}))` : `(${a} >> ${n})`;
};

const vectorize: CRule = (w, u, src) => {
  if (!isMask(u.dtype)) return `((${type(w, u.dtype)}){${src.join(", ")}})`;
  w.notes.set(u, 8);
  return `((${maskType(w, 8, u.dtype.count)}){${src.map((s) => `-${s}`).join(", ")}})`;
};

const broadcast: CRule = (w, u, [a]) => {
  if (!isMask(u.dtype)) return splat(w, u.dtype, a);
  w.notes.set(u, 8);
  return `SPLAT(${maskType(w, 8, u.dtype.count)}, signed char, -${a})`;
};

const extract: CRule = (_w, u, [a]) => {
  const lane = `${/^\w+$/.test(a) ? a : `(${a})`}[${u.arg}]`;
  return u.dtype.isBool ? `(${lane} != 0)` : lane;
};

/** Lanes of two vectors: a shuffle, by a function a pattern, so that both are written once. */
const lanes: CRule = (w, u, [a, b]) => {
  const { axes } = argOf(u, Ops.LANES), from = u.src[0].dtype, n = from.count, t = type(w, u.dtype), x = type(w, from);
  const at = axes.map((l) => l.toString(36)).join(n > 18 ? "_" : "");
  const full = `lanes_${shortName(u.dtype)}x${n}_${at}`;
  w.declare("prelude", PRELUDE);
  const each = axes.map((l) => l < n ? `a[${l}]` : `b[${l - n}]`).join(", ");
  w.declare(
    full,
    `#if __has_builtin(__builtin_shufflevector)\n` +
      `INLINE ${t} ${full}(${x} a, ${x} b) { return __builtin_shufflevector(a, b, ${axes.join(", ")}); }\n` +
      `#else\nINLINE ${t} ${full}(${x} a, ${x} b) { return (${t}){${each}}; }\n#endif`,
  );
  return `${full}(${a}, ${b})`;
};

/**
 * Four products of bytes and what they are added to: an instruction of VNNI, or pairs of products of 16 bits. clang and gcc
 * call these by names of their own.
 */
const dot: CRule = (w, u, [a, b, c]) => {
  const { count } = u.dtype, bits = 32 * count, t = type(w, u.dtype);
  const bytes = (x: string, i: number): string => `((${x} >> ${8 * i}) & 255)`;
  const signed = (x: string, i: number): string => `((${x} << ${24 - 8 * i}) >> 24)`;
  const each = [0, 1, 2, 3].map((i) => `${bytes("a", i)} * ${signed("b", i)}`).join(" + ");
  /** The first of these whose builtin and instructions there are, or else the last. */
  const choose = (head: string, ways: readonly (readonly [string, string, string])[], plain: string): string => {
    const test = (name: string, macros: string): string => `__has_builtin(${name}) && (${macros})`;
    return ways.map(([name, macros, body], i) =>
      `#${i === 0 ? "if" : "elif"} ${test(name, macros)}\n${head} { ${body} }\n`
    ).join("") + `#else\n${head} { ${plain} }\n#endif`;
  };
  const hasVnni = (bits: number): string =>
    bits === 512
      ? "defined(__AVX512VNNI__)"
      : "defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__)";
  const vnniNames = (bits: number) => [`__builtin_ia32_vpdpbusd${bits}`, `__builtin_ia32_vpdpbusd_v${bits / 32}si`];
  w.declare("prelude", PRELUDE);
  if (!isVector(u.dtype)) {
    const x4 = vectorType(w, dtypes.int32.vec(4)), wide = (x: string): string => `(${x4}){${x}}`;
    const ways = vnniNames(128).map((name) =>
      [name, hasVnni(128), `return ((${x4})${name}(${wide("c")}, ${wide("a")}, ${wide("b")}))[0];`] as const
    );
    const plain = "int r = 0; for (int i = 0; i < 32; i += 8) r += (a >> i & 255) * (signed char)(b >> i); " +
      "return (int)((unsigned)c + (unsigned)r);";
    w.declare("dot", choose("INLINE int dot(int a, int b, int c)", ways, plain));
    return `dot(${a}, ${b}, ${c})`;
  }
  const name = `dot_x${count}`, head = `INLINE ${t} ${name}(${t} a, ${t} b, ${t} c)`;
  if (bits < 128) w.declare(name, `${head} { return c + ${each}; }`);
  else {
    const h = vectorType(w, dtypes.int16.vec(2 * count)), uh = wrappingType(w, dtypes.int16.vec(2 * count));
    const half = (x: string): string => `(${h})((${uh})((${h})${x} << 8)) >> 8`;
    const madd = `__builtin_ia32_pmaddwd${bits}`, hasMadd = bits < 512 ? "1" : "defined(__AVX512BW__)";
    const pairs = (name: string, more: string) => {
      const of = (x: string, y: string): string => `(${t})${name}(${x}, ${y}${more})`;
      const [low, high] = [of(`(${h})a & 255`, half("b")), of(`(${h})((${uh})a >> 8)`, `(${h})b >> 8`)];
      return [name, hasMadd, `return c + ${low} + ${high};`] as const;
    };
    const ways = [
      ...vnniNames(bits).map((name) => [name, hasVnni(bits), `return (${t})${name}(c, a, b);`] as const),
      pairs(madd, ""),
      ...bits < 512 ? [] : [pairs(`${madd}_mask`, `, (${t}){0}, (unsigned short)-1`)],
    ];
    w.declare(name, choose(head, ways, `return c + ${each};`));
  }
  return `${name}(${a}, ${b}, ${c})`;
};

const rules: Record<number, CRule> = {
  [Ops.ADD]: arithmetic("+", "|"),
  [Ops.SUB]: arithmetic("-", "^"),
  [Ops.MUL]: arithmetic("*", "&"),
  [Ops.NEG]: (w, u, src) => u.dtype.isBool ? src[0] : wrapping(w, u, src, ([a]) => `(-${a})`),
  [Ops.MULACC]: (w, u, src) => wrapping(w, u, src, ([a, b, c]) => `(${a} * ${b} + ${c})`),
  [Ops.DOT]: dot,
  [Ops.FDIV]: binary("/"),
  [Ops.MAX]: max,
  [Ops.CDIV]: division("/"),
  [Ops.CMOD]: division("%"),
  [Ops.FLOORDIV]: division("/"), // only where proved to be the same
  [Ops.FLOORMOD]: division("%"),
  [Ops.CMPLT]: compare("<", (a, b) => `(~${a} & ${b})`),
  [Ops.CMPNE]: compare("!=", (a, b) => `(${a} ^ ${b})`),
  [Ops.CMPEQ]: compare("==", (a, b) => `(~(${a} ^ ${b}))`),
  [Ops.AND]: logic("&"),
  [Ops.OR]: logic("|"),
  [Ops.XOR]: logic("^"),
  [Ops.SHL]: shift("<<"),
  [Ops.SHR]: shift(">>"),
  [Ops.WHERE]: where,
  [Ops.CAST]: cast,
  [Ops.BITCAST]: bitcast,
  ...functionRules(builtin),
  [Ops.VECTORIZE]: vectorize,
  [Ops.BROADCAST]: broadcast,
  [Ops.EXTRACT]: extract,
  [Ops.LANES]: lanes,
};

const inOrderOf = new WeakMap<LinearProgram, ReadonlyMap<UOp, number>>();

/** The LOADs of {@linkcode readsInOrder}. */
function inOrder(program: LinearProgram): ReadonlyMap<UOp, number> {
  let loads = inOrderOf.get(program);
  if (loads === undefined) inOrderOf.set(program, loads = readsInOrder(program));
  return loads;
}

/** Words of bytes, which begin anywhere. */
function words(w: CWriter, u: UOp, place: string): string {
  const t = type(w, u.dtype), name = `${shortName(u.dtype)}x${u.dtype.count}_w`;
  w.declare("prelude", PRELUDE);
  w.declare(name, `typedef ${t} ${name} __attribute__((aligned(1), may_alias));`);
  const ahead = inOrder(w.program).get(u);
  if (ahead === undefined) return `(*(const ${name} *)${place})`;
  w.declare("AHEAD", READ_AHEAD);
  return `(PREFETCH(${place}, ${ahead}), *(const ${name} *)${place})`;
}

function load(w: CWriter, u: UOp, { base, name, at, mask }: CAddress): string {
  const d = u.dtype, n = d.count;
  if (d.itemsize > n * base.dtype.itemsize) return words(w, u, `&${name}[${at}]`);
  if (n === 1) return d.isBool ? `(${name}[${at}] != 0)` : `${name}[${at}]`;
  const from = (d.isBool ? dtypes.int8 : base.dtype.scalar).vec(n), t = vectorType(w, from);
  let text: string;
  if (mask !== undefined) {
    w.declare("LOAD_MASKED", LOAD_MASKED);
    text = `((${t})LOAD_MASKED${n}(&${name}[${at}], ${mask}))`;
  } else if (isPowerOfTwo(n) && inOrder(w.program).has(u)) {
    w.declare("AHEAD", READ_AHEAD);
    text = `AHEAD(${t}, &${name}[${at}], ${inOrder(w.program).get(u)})`;
  } else if (isPowerOfTwo(n)) text = `(*(const ${t}_u *)&${name}[${at}])`;
  else text = `((${t}){${Array.from({ length: n }, (_, l) => `(&${name}[${at}])[${l}]`).join(", ")}})`;
  if (!d.isBool) return text;
  w.notes.set(u, 8);
  return `((${t})(${text} != 0))`;
}

/** Bytes of a line of the caches: what is written past them is written by whole lines. */
const LINE = 64;

/** Does a program write `base` past the caches: does it not read it too? */
function isStreamed({ streams, params }: LinearProgram, base: UOp): boolean {
  return streams === true && base.op === Ops.PARAM && !params[argOf(base, Ops.PARAM).slot].reads;
}

function store(w: CWriter, value: UOp, text: string, { base, name, at }: CAddress): string {
  const d = value.dtype, n = d.count;
  if (n > 1 && d.itemsize === LINE && !d.isBool && isStreamed(w.program, base)) {
    w.declare("STREAM", STREAM);
    return `STREAM(${type(w, d)}, &${name}[${at}], ${unwrap(text)});`;
  }
  if (n === 1) return `${name}[${at}] = ${unwrap(text)};`;
  const t = type(w, d), x = d.isBool ? `${mask(w, value, text, 8)} & 1` : unwrap(text);
  if (isPowerOfTwo(n)) return `*(${t}_u *)&${name}[${at}] = ${x};`;
  return `{ ${t} x = ${x}; for (int l = 0; l < ${n}; l++) (&${name}[${at}])[l] = x[l]; }`;
}

/** Bytes of LOCALs that a function has on the stack, at most: threads of the host have 2 MB, half of it in use. */
const STACK_BYTES = 1 << 18;
/** Bytes that LOCALs are aligned to. */
const ALIGN = 64;

/** Where LOCALs lie in memory that is taken for a run, and how much that is. */
interface Heap {
  readonly at: ReadonlyMap<UOp, number>;
  readonly nbytes: number;
}
const heaps = new WeakMap<LinearProgram, Heap>();

/** The LOCALs that have no room on the stack. */
function heapOf(program: LinearProgram): Heap {
  const known = heaps.get(program), at = new Map<UOp, number>();
  if (known !== undefined) return known;
  let nbytes = 0, stack = 0;
  for (const u of program.uops) {
    if (u.op !== Ops.LOCAL || at.has(u)) continue;
    const size = Math.ceil(argOf(u, Ops.LOCAL).size * u.dtype.itemsize / ALIGN) * ALIGN;
    if (stack + size <= STACK_BYTES) stack += size;
    else {
      at.set(u, nbytes);
      nbytes += size;
    }
  }
  heaps.set(program, { at, nbytes });
  return { at, nbytes };
}

function open(w: CWriter, program: LinearProgram, symbol: string): string[] {
  noteLoops(w, program.uops);
  const lines = [`void ${symbol}(void **bufs, const unsigned long long *vars, int begin, int end) {`];
  for (const p of program.params) {
    if (p === undefined) continue;
    lines.push(`${p.writes ? "" : "const "}${memoryType(p.dtype)} *restrict b${p.slot} = bufs[${p.slot}];`);
  }
  program.vars.forEach((v, i) => {
    const name = identifier(argOf(v, Ops.VARIABLE).name);
    lines.push(`const ${scalarType(v.dtype)} var_${name} = *(const ${memoryType(v.dtype)} *)(vars + ${i});`);
  });
  const { nbytes } = heapOf(program);
  if (nbytes > 0) {
    lines.push(
      `char *taken = __builtin_malloc(${nbytes + ALIGN - 1});`,
      "if (!taken) __builtin_trap();",
      `char *heap = taken + (-(unsigned long long)taken & ${ALIGN - 1});`,
    );
  }
  return lines;
}

function calls({ name, params }: LinearProgram, symbol: string): string {
  const given = params.map((p) => `bufs[${p.slot}]`).join(", ");
  return `void ${symbol}(void **bufs, const unsigned long long *vars, int begin, int end) {\n  ${name}(${given});\n}\n`;
}

/** A loop over lanes becomes one access under a mask where the processor has such; gcc ignores what is asked of clang. */
function lanesPragma(n: string): string {
  return `_Pragma("clang loop vectorize(enable) vectorize_width(${n}) interleave(disable) unroll(disable)") `;
}

/** A loop around others that adds nothing up: the copies that pay are made before, and others cost most of a compiler's time. */
const ROLLED = `_Pragma("clang loop unroll(disable)") `;
/** A loop that stores element by element what was computed in lanes: it is one since its elements lie apart. */
const BY_ELEMENT = `_Pragma("clang loop vectorize(disable)") `;
/** What `notes` holds for a loop until it is written: it has accumulators that change, loops, reads of LOCALs, STOREs to buffers. */
const SUMS = 1, LOOPS = 2, KEPT = 4, STORES = 8;

/** Notes what the compiler is told of loops. */
export function noteLoops(w: CWriter, uops: readonly UOp[]): void {
  const open: UOp[] = [];
  const note = (u: UOp, what: number): void => void w.notes.set(u, (w.notes.get(u) ?? 0) | what);
  for (const u of uops) {
    if (u.op === Ops.END) open.pop();
    if (open.length > 0) {
      const inner = open[open.length - 1], isElement = u.op === Ops.LOAD ? u.dtype.count === 1 : u.op === Ops.STORE;
      if (u.op === Ops.RANGE) note(inner, LOOPS);
      else if (u.op === Ops.STORE && u.src[0].op === Ops.ACC) {
        for (let i = open.length - 1; i >= 0 && ((w.notes.get(open[i]) ?? 0) & SUMS) === 0; i--) note(open[i], SUMS);
      } else if (isElement && u.src[0].op === Ops.INDEX) {
        const base = baseOf(u.src[0]).op;
        if (u.op === Ops.LOAD && base === Ops.LOCAL) note(inner, KEPT);
        else if (u.op === Ops.STORE && base === Ops.PARAM) note(inner, STORES);
      }
    }
    if (u.op === Ops.RANGE) open.push(u);
  }
}

/** What the compiler is told of a loop with these notes. */
function loopPragma(what: number): string {
  if ((what & SUMS) !== 0) return "";
  if ((what & LOOPS) !== 0) return ROLLED;
  return (what & KEPT) !== 0 && (what & STORES) !== 0 ? BY_ELEMENT : "";
}

function loop(w: CWriter, u: UOp, name: string, end: string): string {
  const { kind } = argOf(u, Ops.RANGE), bounds = kind === AxisKind.THREAD ? threadBounds(w.program, u) : ["0", end];
  const pragma = kind === AxisKind.VECTOR ? lanesPragma(end) : loopPragma(w.notes.get(u) ?? 0);
  // lanes are compared with bounds: in 32 bits as many fit a register as there are values
  if (u.dtype === dtypes.int32 && kind !== AxisKind.VECTOR) w.notes.set(u, WIDE);
  else w.notes.delete(u);
  return `${pragma}for (${type(w, u.dtype, w.notes.get(u))} ${name} = ${bounds[0]}; ${name} < ${bounds[1]}; ${name}++)`;
}

/** What C with vectors of so many bytes can do; the processor's numbers are a scalar machine's. */
export function vectorCaps(vectorBytes: number, hasFloat16: boolean): Capabilities {
  return {
    ...SCALAR_CAPS,
    vectorBytes,
    nativeOps: [Ops.SQRT, Ops.TRUNC],
    computeDTypes: COMMON_DTYPES,
    storageDTypes: hasFloat16 ? [...COMMON_DTYPES, dtypes.float16] : COMMON_DTYPES,
    // lanes of 8 and 16 bits are as many as those of 32, so that casts between them keep one register
    vectorLanes: (d) => vectorBytes / Math.max(4, d.bits >> 3),
  };
}

/** C with vector extensions. */
export const C_LANGUAGE: CLanguage = {
  name: "C",
  rules,
  type,
  literal,
  load,
  store,
  convert(w, value, text, target) {
    if (!isMask(target.dtype)) return text;
    w.notes.set(target, 8);
    return mask(w, value, text, 8);
  },
  // gcc takes an unaligned vector for another type than the vector
  choose: (w, d, condition, a, b) => `(${condition} ? ${d.count > 1 ? `(${w.type(d)})` : ""}${a} : ${b})`,
  open,
  calls,
  loop,
  local(w, u, name) {
    const type = memoryType(u.dtype.scalar), at = heapOf(w.program).at.get(u);
    if (at !== undefined) return `${type} *${name} = (${type} *)(heap + ${at});`;
    return `${type} ${name}[${argOf(u, Ops.LOCAL).size * u.dtype.count}] __attribute__((aligned(${ALIGN})));`;
  },
  close: (program, w) => [
    ...(w.declarations.has("STREAM") ? ["FENCE();"] : []),
    ...(heapOf(program).nbytes > 0 ? ["__builtin_free(taken);"] : []),
  ],
};
