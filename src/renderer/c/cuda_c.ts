/**
 * CUDA C: the language of the CUDA device where its compiler (NVRTC) is found. No header is needed.
 *
 * Every kernel has one signature: `extern "C" __global__ void NAME(buffers by slot..., variables in order...)`. LOCALs of
 * scope shared lie in one dynamic block, whose size is `sharedBytesOf(program)`. Arithmetic is scalar (lanes.ts); vectors
 * are what one memory instruction moves. float16 and bfloat16 values are their bits. Products are fused with sums only
 * where the program says MULACC: compile with `--fmad=false`.
 *
 * @module
 */
import { f32ToBf16Bits } from "../../dtype/convert.ts";
import { f16Bits } from "../../dtype/float16.ts";
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { argOf, type ConstValue } from "../../uop/core/args.ts";
import { FUNCTION_OPS, Ops } from "../../uop/core/ops.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import {
  inLanes,
  isPacked,
  lanesOfWord,
  residentGroups,
  ROUNDED,
  SHARED_ALIGN,
  sharedLayout,
  threadsOf,
  wordsOf,
} from "../lanes.ts";
import { type Capabilities, type GridCaps, type LinearProgram, mapNumber } from "../renderer.ts";
import { readsShared, unitOf } from "../tensor_core_table.ts";
import { C_LANGUAGE } from "./c.ts";
import { cudaNames, floatLiteral, integerLiteral } from "./c_types.ts";
import {
  type CAddress,
  type CLanguage,
  type CRule,
  type CSource,
  type CStatement,
  CStyleRenderer,
  type CWriter,
  functionRules,
  identifier,
  unwrap,
} from "./cstyle.ts";
import { copyBox, HELPERS, matrixUnit, TENSOR_MAP, waitCopies } from "./cuda_helpers.ts";
import { unitFunction, unitProduct, unitStatement } from "./cuda_units.ts";

const { float16, bfloat16, float32, float64 } = dtypes;

function isSmall(d: DType): boolean {
  return d.isFloat && d.bits === 16;
}

/** The name of a type of locals. */
function type(_w: CWriter, d: DType): string {
  if (d.count === 1) return cudaNames[d.id];
  if (!isPacked(d)) {
    if (d.itemsize > 16) throw new SpecError(`CUDA C has no vector ${d}`);
    const prefix = d.isFloat ? cudaNames[d.id] : `${d.isUnsigned ? "u" : ""}${d.bits === 64 ? "longlong" : "int"}`;
    return `${prefix}${d.count}`;
  }
  if (d.itemsize < 4) return "unsigned short";
  return d.itemsize === 4 ? "unsigned" : `uint${wordsOf(d)}`;
}

/** The type of a buffer's elements: a bool is a byte. */
function memoryType(d: DType): string {
  return d.isBool ? "unsigned char" : cudaNames[d.id];
}

/** A vector from its components; the component itself where that is all. */
function build(w: CWriter, d: DType, components: readonly string[]): string {
  return components.length === 1 ? components[0] : `make_${type(w, d)}(${components.join(", ")})`;
}

/** The bits of a constant of 8 or 16 bits. */
function smallBits(d: DType, value: ConstValue): number {
  const x = value as number;
  if (d === float16) return f16Bits(x);
  if (d === bfloat16) return f32ToBf16Bits(x);
  return x & (d.bits === 8 ? 0xff : 0xffff);
}

function scalarLiteral(d: DType, value: ConstValue): string {
  if (isSmall(d)) return `((unsigned short)${smallBits(d, value)})`;
  if (!d.isFloat) return integerLiteral(d, value);
  const x = value as number;
  if (Number.isFinite(d === float32 ? Math.fround(x) : x)) return floatLiteral(d, x);
  if (d === float32) return `__int_as_float(${x !== x ? "0x7fc00000" : x > 0 ? "0x7f800000" : "0xff800000"})`;
  return `__longlong_as_double(${x !== x ? "0x7ff8" : x > 0 ? "0x7ff0" : "0xfff0"}000000000000ll)`;
}

function literal(w: CWriter, d: DType, value: ConstValue): string {
  const s = d.scalar;
  if (d.count === 1) return scalarLiteral(s, value);
  if (!isPacked(d)) return build(w, d, new Array<string>(d.count).fill(scalarLiteral(s, value)));
  const lanes = Math.min(d.count, lanesOfWord(s)), bits = smallBits(s, value);
  let word = 0;
  for (let l = 0; l < lanes; l++) word |= bits << (l * s.bits);
  return build(w, d, new Array<string>(wordsOf(d)).fill(`${word >>> 0}u`));
}

/** Calls a function of cuda_helpers.ts. */
function call(w: CWriter, name: string, ...args: readonly string[]): string {
  w.declare(name, HELPERS[name]);
  return `${name}(${args.map(unwrap).join(", ")})`;
}

/** The float32 value of a scalar of any dtype. */
function toFloat(w: CWriter, d: DType, x: string): string {
  if (d === float32) return x;
  if (d === float16) return call(w, "f16_to_f32", x);
  return d === bfloat16 ? call(w, "bf16_to_f32", x) : `((float)${x})`;
}

function isModern(w: CWriter): boolean {
  return (w.language as CudaLanguage).arch >= 80;
}

/** The float32 `x` rounded. */
function round(w: CWriter, d: DType, x: string): string {
  if (d === float16) return call(w, "f32_to_f16", x);
  return call(w, isModern(w) ? "f32_to_bf16" : "f32_to_bf16_bits", x);
}

/** Scalars of 16-bit floats are computed in float32. */
function widened(rule: CRule): CRule {
  return (w, u, src) => {
    if (!u.src.some((s) => isSmall(s.dtype))) return rule(w, u, src);
    const d = isSmall(u.dtype) ? float32 : u.dtype;
    const wide = uop(u.op, d, u.src.map((s) => isSmall(s.dtype) ? s.cast(float32) : s), u.arg);
    const text = rule(w, wide, u.src.map((s, i) => isSmall(s.dtype) ? toFloat(w, s.dtype, src[i]) : src[i]));
    return isSmall(u.dtype) ? round(w, u.dtype, text) : text;
  };
}

const cast: CRule = (w, u, [a]) => {
  const d = u.dtype, f = u.src[0].dtype;
  if (d.count > 1) return call(w, pair(w, d.scalar), a);
  if (u.arg === ROUNDED) return isModern(w) ? call(w, "round_bf16", a) : toFloat(w, bfloat16, round(w, bfloat16, a));
  if (d === f) return a;
  if (d.isBool) return isSmall(f) ? `((${a} & 0x7fff) != 0)` : `(${a} != 0)`;
  if (isSmall(d)) return round(w, d, toFloat(w, f, a));
  const x = isSmall(f) ? toFloat(w, f, a) : a;
  if (d === float32 && isSmall(f)) return x;
  if (!f.isFloat || d.isFloat) return `((${cudaNames[d.id]})${x})`;
  // out of range: modulo 2^bits, as far as the next wider integer reaches
  if (d.bits < 32) return `((${cudaNames[d.id]})(int)${x})`;
  if (d === dtypes.uint32) return `((unsigned)(long long)${x})`;
  if (d === dtypes.uint64) return call(w, f === float64 ? "f64_to_u64" : "f32_to_u64", x);
  return `((${cudaNames[d.id]})${x})`;
};

/** The function that rounds two floats at once. */
function pair(w: CWriter, d: DType): string {
  const name = d === float16 ? "f32x2_to_f16x2" : "f32x2_to_bf16x2";
  if (isModern(w)) return name;
  const each = d === float16 ? "f32_to_f16" : "f32_to_bf16_bits";
  w.declare(each, HELPERS[each]);
  return `${name}_each`;
}

const bitcast: CRule = (_w, u, [a]) => {
  const d = u.dtype, f = u.src[0].dtype;
  if (d === f) return a;
  if (d === float32) return f.isUnsigned ? `__uint_as_float(${unwrap(a)})` : `__int_as_float(${unwrap(a)})`;
  if (d === float64) return `__longlong_as_double(${f.isUnsigned ? `(long long)${a}` : unwrap(a)})`;
  if (f === float32) return d.isUnsigned ? `__float_as_uint(${unwrap(a)})` : `__float_as_int(${unwrap(a)})`;
  if (f === float64) {
    const bits = `__double_as_longlong(${unwrap(a)})`;
    return d.isUnsigned ? `((unsigned long long)${bits})` : bits;
  }
  return d.isBool ? `(${a} != 0)` : `((${cudaNames[d.id]})${a})`;
};

const max: CRule = (w, u, [a, b]) => {
  const d = u.dtype;
  if (d.isBool) return `(${a} | ${b})`;
  if (d === float32) return call(w, isModern(w) ? "max_f32" : "max_f32_select", a, b);
  if (d === float64) return call(w, "max_f64", a, b);
  if (d.bits >= 32) return `max(${unwrap(a)}, ${unwrap(b)})`;
  return `((${cudaNames[d.id]})max((int)${a}, (int)${b}))`;
};

/** A function of float32 and float64. */
function fn(single: string, double: string): CRule {
  return (_w, u, src) =>
    u.dtype.isFloat ? `${u.dtype === float64 ? double : single}(${src.map(unwrap).join(", ")})` : src[0];
}

/** Codegen keeps divisors from 0 and quotients in range; small operands are ints. */
function division(operator: "/" | "%"): CRule {
  return (_w, u, [a, b]) =>
    u.dtype.bits < 32 ? `((${cudaNames[u.dtype.id]})(${a} ${operator} ${b}))` : `(${a} ${operator} ${b})`;
}

/** The text of word `i` of a packed vector. */
function wordText(d: DType, text: string, i: number): string {
  return wordsOf(d) === 1 ? text : `${/^\w+$/.test(text) ? text : `(${text})`}.${"xyzw"[i]}`;
}

const extract: CRule = (_w, u, [a]) => {
  const from = u.src[0].dtype, l = argOf(u, Ops.EXTRACT), d = u.dtype;
  if (d.count > 1) return wordText(from, a, l);
  if (!isPacked(from)) return `${/^\w+$/.test(a) ? a : `(${a})`}.${"xyzw"[l]}`;
  const lanes = lanesOfWord(d), word = wordText(from, a, Math.floor(l / lanes)), shift = l % lanes * d.bits;
  const bits = shift === 0 ? word : `(${word} >> ${shift})`;
  return d.isBool ? `((${bits} & 255) != 0)` : `((${cudaNames[d.id]})${bits})`;
};

const vectorize: CRule = (w, u, src) => {
  const d = u.dtype;
  if (!isPacked(d) || u.src[0].dtype.count > 1) return build(w, d, src);
  const bits = d.bits === 8 ? "unsigned char" : "unsigned short";
  const lanes = src.map((s, l) => {
    const lane = d.isUnsigned || isSmall(d) ? `(unsigned)${s}` : `(unsigned)(${bits})${s}`;
    return l === 0 ? lane : `${lane} << ${l * d.bits}`;
  });
  return d.itemsize < 4 ? `((unsigned short)(${lanes.join(" | ")}))` : `(${lanes.join(" | ")})`;
};

const rules: Record<number, CRule> = {
  ...C_LANGUAGE.rules,
  [Ops.MAX]: max,
  [Ops.CDIV]: division("/"),
  [Ops.CMOD]: division("%"),
  [Ops.FLOORDIV]: division("/"), // of unsigned integers only
  [Ops.FLOORMOD]: division("%"),
  ...functionRules((name) => fn(`${name}f`, name)),
  [Ops.EXP2]: (w, u, src) => {
    if (u.arg === "flush" && u.dtype === float32) return call(w, "exp2_flush", src[0]);
    return (u.arg === "e" ? fn("expf", "exp") : fn("exp2f", "exp2"))(w, u, src);
  },
  [Ops.FDIV]: (w, u, src) => {
    if (u.arg === "rounded" && u.dtype === float32) return call(w, "divide_rounded", ...src);
    if (u.arg === "reciprocal" && u.dtype === float32) return call(w, "divide_reciprocal", ...src);
    return C_LANGUAGE.rules[Ops.FDIV](w, u, src);
  },
};
rules[Ops.TENSOR_MAP] = (w, u) => `(unsigned long long)&map${mapNumber(w.program, u)}`;
const mulAcc = rules[Ops.MULACC];
rules[Ops.MULACC] = (w, u, src) => u.dtype.isFloat ? fn("fmaf", "fma")(w, u, src) : mulAcc(w, u, src);
for (
  const op of [
    ...[Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.MULACC, Ops.FDIV, Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ],
    ...FUNCTION_OPS,
  ]
) rules[op] = widened(rules[op]);
Object.assign(rules, { [Ops.CAST]: cast, [Ops.BITCAST]: bitcast, [Ops.EXTRACT]: extract, [Ops.VECTORIZE]: vectorize });

/** The text of a shuffle of the lanes of a warp. */
const shuffle: CStatement = (w, u, [a], name) => {
  const d = u.dtype, exchange = `__shfl_xor_sync(0xffffffffu, ${d.bits < 32 ? `(int)${a}` : unwrap(a)}, ${u.arg})`;
  return `${type(w, d)} ${name} = ${
    d.isBool ? `${exchange} != 0` : d.bits < 32 ? `(${type(w, d)})${exchange}` : exchange
  };`;
};

const statements: Record<number, CStatement> = {
  [Ops.SHUFFLE]: shuffle,
  [Ops.ASYNC_COPY]: (w, u, [to, from, gate]) =>
    `${call(w, `copy_async_${u.arg}`, to, from, gate === undefined ? `${u.arg}` : `${gate} ? ${u.arg} : 0`)};`,
  [Ops.ASYNC_COMMIT]: (w) => `${call(w, "commit_copies")};`,
  [Ops.ASYNC_WAIT]: (w, u) => {
    const name = `wait_copies_${u.arg}`;
    w.declare(name, waitCopies(name, argOf(u, Ops.ASYNC_WAIT)));
    return `${name}();`;
  },
  [Ops.ASYNC_BOX]: (w, _u, [to, barrier, gate, map, ...position]) => {
    const name = `copy_box_${position.length}`;
    w.declare(name, copyBox(name, position.length));
    return `if (${unwrap(gate)}) ${name}(${[to, barrier, map, ...position].map(unwrap).join(", ")});`;
  },
  [Ops.MBARRIER]: (w, u, [at, second]) => {
    if (u.arg === "wait") return `${call(w, "wait_barrier", at, second)};`;
    const text = u.arg === "init" ? call(w, "init_barrier", at) : call(w, "expect_bytes", at, `${u.arg}`);
    return `if (${unwrap(second)}) ${text};`;
  },
  [Ops.LDMATRIX]: (w, u, [at], name) =>
    `uint4 ${name} = ${call(w, u.arg === "trans" ? "ldmatrix_trans" : "ldmatrix", at)};`,
  [Ops.WMMA]: (w, u, src, name) => {
    const unit = unitOf(u);
    if (readsShared(u)) {
      const at = u.src.length - unit.sums - 1, adds = u.src[at].value === 1, name = unitFunction(unit, adds);
      w.declare(name, unitProduct(unit, adds));
      return `${name}(${src.filter((_, i) => i !== at).map(unwrap).join(", ")});`;
    }
    const helper = `mma_${unit.name}_${unit.input}`;
    w.declare(helper, matrixUnit(helper, unit));
    return `${type(w, u.dtype)} ${name} = ${helper}(${src.map(unwrap).join(", ")});`;
  },
};

statements[Ops.UNIT] = (_w, u, src) => unitStatement(u, src);

function load(w: CWriter, u: UOp, { name, at }: CAddress): string {
  const d = u.dtype;
  if (d.count > 1) return `(*(const ${type(w, d)} *)&${name}[${at}])`;
  return d.isBool ? `(${name}[${at}] != 0)` : `${name}[${at}]`;
}

function store(w: CWriter, value: UOp, text: string, { name, at }: CAddress): string {
  const d = value.dtype;
  return d.count > 1 ? `*(${type(w, d)} *)&${name}[${at}] = ${unwrap(text)};` : `${name}[${at}] = ${unwrap(text)};`;
}

function open(w: CWriter, program: LinearProgram, symbol: string): string[] {
  const args: string[] = [];
  for (let slot = 0; slot < program.params.length; slot++) {
    const p = program.params[slot];
    if (p === undefined) args.push(`const void *b${slot}`);
    else args.push(`${p.writes ? "" : "const "}${memoryType(p.dtype)} *__restrict__ b${slot}`);
  }
  for (const v of program.vars) {
    args.push(`const ${cudaNames[v.dtype.id]} var_${identifier(argOf(v, Ops.VARIABLE).name)}`);
  }
  program.maps?.forEach((_, i) => {
    w.declare("tensor_map", TENSOR_MAP);
    args.push(`const __grid_constant__ tensor_map map${i}`);
  });
  const resident = residentGroups(program, (w.language as CudaLanguage).grid);
  const bounds = `${threadsOf(program)}${resident === undefined ? "" : `, ${resident}`}`;
  const lines = [
    `extern "C" __global__ void __launch_bounds__(${bounds}) ${symbol}(${args.join(", ")}) {`,
  ];
  const { nbytes, align } = sharedLayout(program);
  if (nbytes > 0) lines.push(`extern __shared__ __align__(${align}) unsigned char ${sharedName(align)}[];`);
  return lines;
}

/** Declarations of one name in a module have one alignment. */
function sharedName(align: number): string {
  return align > SHARED_ALIGN ? `shared${align}` : "shared";
}

function local(w: CWriter, u: UOp, name: string): string {
  const { scope, size } = argOf(u, Ops.LOCAL), t = memoryType(u.dtype.scalar);
  if (scope === "shared") {
    const { at, align } = sharedLayout(w.program);
    return `${t} *const ${name} = (${t} *)(${sharedName(align)} + ${at.get(u)});`;
  }
  return `__align__(16) ${t} ${name}[${size * u.dtype.count}];`;
}

function special(_w: CWriter, u: UOp): string {
  const name = argOf(u, Ops.SPECIAL);
  return `(int)${name.startsWith("g") ? "blockIdx" : "threadIdx"}.${"xyz"[Number(name[4])]}`;
}

/** CUDA C for the instructions of one architecture. */
export interface CudaLanguage extends CLanguage {
  /** 80 for sm_80. */
  readonly arch: number;
  /** The limits of a multiprocessor; undefined where no program has threads. */
  readonly grid: GridCaps | undefined;
}

/** CUDA C for `arch` (80 for sm_80): bfloat16 and NaN-propagating maxima are instructions from 80 on. */
function cudaLanguage(arch: number, grid: GridCaps | undefined): CudaLanguage {
  return {
    name: "CUDA C",
    arch,
    grid,
    rules,
    statements,
    type,
    literal,
    load,
    store,
    convert: (_w, _value, text) => text,
    choose: (_w, _d, condition, a, b) => `(${condition} ? ${a} : ${b})`,
    open,
    loop: (w, u, name, end) => `_Pragma("unroll 1") for (${type(w, u.dtype)} ${name} = 0; ${name} < ${end}; ${name}++)`,
    local,
    special,
    barrier: "__syncthreads();",
  };
}

/** Writes CUDA C for NVRTC or nvcc; both need `--fmad=false`. */
export class CudaRenderer extends CStyleRenderer {
  /** @param arch 80 for sm_80 */
  constructor(caps: Capabilities, arch: number = 80) {
    super(cudaLanguage(arch, caps.grid), caps);
  }
  override parts(program: LinearProgram, symbol: string): CSource {
    return super.parts(inLanes(program), symbol);
  }
}
