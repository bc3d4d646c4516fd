/**
 * WGSL: the language of the WEBGPU device. One entry point `main`; buffer arguments are bindings 0, 1, ... of group 0, by
 * slot, and scalar arguments are words of a uniform buffer, the binding after them. Expressions are in wgsl_ops.ts.
 *
 * - WGSL stores nothing narrower than 32 bits (but f16): bool and 8- and 16-bit integers lie packed in words. A store of
 *   whole words is plain; any other changes its bits atomically, so that threads may own parts of a word.
 * - A buffer that is written only by vectors of one width is an array of these; narrower reads take lanes.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { DTypeError } from "../../helpers/errors.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { baseOf } from "../../uop/rewrite/walk.ts";
import type { LinearProgram } from "../renderer.ts";
import { isShared } from "../visitor.ts";
import { type CAddress, type CLanguage, type CWriter, identifier, unwrap } from "./cstyle.ts";
import { WIDE } from "./wgsl_int64.ts";
import { isPacked, isWide, LANES, literal, splat, type, WGSL_RULES } from "./wgsl_ops.ts";

/** How a buffer argument or kernel-local memory is declared. */
interface Memory {
  /** The dtype of an element. */
  readonly dtype: DType;
  /** Elements of an entry of the array: lanes of a vector, or the narrow elements of a word. */
  readonly width: number;
  readonly packed: boolean;
  /** Words that threads write parts of. */
  readonly atomic: boolean;
  /** Bools in words of their own, as threads that write neighbors at once need them on drivers that pack bools. */
  readonly flags: boolean;
  /** Declared in the module: functions may name it. */
  readonly isGlobal: boolean;
}

const memories = new WeakMap<LinearProgram, Map<UOp, Memory>>();

/** Chooses the form of each memory by its accesses. */
function chooseMemories(program: LinearProgram): Map<UOp, Memory> {
  const loads = new Map<UOp, Set<number>>(), stores = new Map<UOp, Set<number>>();
  for (const u of program.uops) {
    if (u.op !== Ops.LOAD && u.op !== Ops.STORE) continue;
    const base = baseOf(u.src[0]), widths = u.op === Ops.LOAD ? loads : stores;
    if (base.op !== Ops.PARAM && base.op !== Ops.LOCAL) continue;
    const set = widths.get(base) ?? new Set();
    widths.set(base, set.add(u.op === Ops.LOAD ? u.dtype.count : u.src[1].dtype.count));
  }
  const out = new Map<UOp, Memory>();
  for (const u of program.uops) {
    if (u.op !== Ops.PARAM && u.op !== Ops.LOCAL) continue;
    const dtype = u.dtype.scalar, isParam = u.op === Ops.PARAM, isGlobal = isParam || isShared(u);
    const written = stores.get(u) ?? new Set<number>();
    if (isParam && isPacked(dtype)) {
      const width = 32 / dtype.bits, atomic = [...written].some((n) => n % width !== 0);
      out.set(u, { dtype, width, packed: true, atomic, flags: false, isGlobal });
      continue;
    }
    const widest = Math.max(1, ...written, ...loads.get(u) ?? []);
    const flags = dtype.isBool && isGlobal;
    const alike = !flags && [...written].every((n) => n === widest) && (widest === 2 || widest === 4) && !isWide(dtype);
    out.set(u, { dtype, width: alike ? widest : 1, packed: false, atomic: false, flags, isGlobal });
  }
  return out;
}

function memoryOf(w: CWriter, base: UOp): Memory {
  return memories.get(w.program)!.get(base)!;
}

/** The type of the array that a memory is, `size` elements where it is not as long as its binding. */
function arrayType(w: CWriter, m: Memory, size?: number): string {
  const count = size === undefined ? "" : `, ${Math.ceil(size / m.width)}`;
  if (m.packed) return `array<${m.atomic ? "atomic<u32>" : "u32"}${count}>`;
  return `array<${m.flags ? "u32" : type(w, m.dtype.vec(m.width))}${count}>`;
}

/** `at` in entries of `width` elements. */
function entry(at: string, width: number): string {
  return width === 1 ? at : `(${at}) >> ${Math.log2(width)}u`;
}

/** The value of a load of `n` elements from packed words: the body of a function of `i`. */
function unpackBody(w: CWriter, m: Memory, name: string, n: number): string {
  const { bits, isUnsigned, isBool } = m.dtype, { width } = m;
  const unsigned = isUnsigned || isBool || m.dtype.isFloat, mask = `${2 ** bits - 1}u`;
  const word = (k: number): string => {
    const at = `${name}[(i >> ${Math.log2(width)}u)${k > 0 ? ` + ${k}` : ""}]`;
    return m.atomic ? `atomicLoad(&${at})` : at;
  };
  if (n % width === 0) {
    const lanes = Array.from({ length: n }, (_, l) => {
      const from = `w${Math.floor(l / width)}`, at = (l % width) * bits;
      return unsigned ? `(${from} >> ${at}u) & ${mask}` : `extractBits(bitcast<i32>(${from}), ${at}u, ${bits}u)`;
    });
    const words = Array.from({ length: n / width }, (_, k) => `let w${k} = ${word(k)};`).join(" ");
    const t = type(w, (unsigned ? dtypes.uint32 : dtypes.int32).vec(n));
    const value = `${t}(${lanes.join(", ")})`;
    return `${words} return ${isBool ? `${value} != ${splat(w, dtypes.uint32.vec(n), "0u")}` : value};`;
  }
  const at = `(u32(i) & ${width - 1}u) << ${Math.log2(bits)}u`;
  const value = unsigned
    ? `(${word(0)} >> (${at})) & ${mask}`
    : `extractBits(bitcast<i32>(${word(0)}), ${at}, ${bits}u)`;
  return `return ${isBool ? `(${value}) != 0u` : value};`;
}

/** The value of a load, in place: `at` may stand several times. */
function directLoad(w: CWriter, m: Memory, n: number, name: string, at: string): string {
  const lane = (l: number): string => {
    const i = l === 0 ? at : `(${at}) + ${l}`;
    if (m.flags) return `(${name}[${i}] != 0u)`;
    return m.width === 1 ? `${name}[${i}]` : `${name}[${entry(i, m.width)}][(${i}) & ${m.width - 1}]`;
  };
  if (n === m.width && n > 1) return `${name}[${entry(at, n)}]`;
  if (n === 1) return lane(0);
  return `${type(w, m.dtype.vec(n))}(${Array.from({ length: n }, (_, l) => lane(l)).join(", ")})`;
}

function load(w: CWriter, u: UOp, { base, name, at }: CAddress): string {
  const m = memoryOf(w, base), n = u.dtype.count;
  const simple = !m.packed && (n === m.width || !m.isGlobal);
  if (simple) return directLoad(w, m, n, name, at);
  const whole = m.packed && n > 1 && n % m.width !== 0;
  const call = `load_${name}${n > 1 && !whole ? `x${n}` : ""}`;
  const body = m.packed ? unpackBody(w, m, name, whole ? 1 : n) : `return ${directLoad(w, m, n, name, "i")};`;
  w.declare(call, `fn ${call}(i: i32) -> ${type(w, whole ? u.dtype.scalar : u.dtype)} { ${body} }`);
  if (!whole) return `${call}(${at})`;
  return `${type(w, u.dtype)}(${Array.from({ length: n }, (_, l) => `${call}((${at}) + ${l})`).join(", ")})`;
}

/** The bits of a narrow scalar as u32, those above its own undefined. */
function bitsOf(d: DType, text: string): string {
  return d.isUnsigned ? text : d.isBool ? `u32(${unwrap(text)})` : `bitcast<u32>(${unwrap(text)})`;
}

function packedStore(w: CWriter, m: Memory, d: DType, text: string, name: string, at: string): string {
  const { bits } = m.dtype, { width } = m, mask = 2 ** bits - 1, n = d.count;
  if (n % width === 0) {
    const lane = (l: number): string => {
      const x = `(${bitsOf(m.dtype, `x.${LANES[l]}`)} & ${mask}u)`;
      return l % width === 0 ? x : `(${x} << ${(l % width) * bits}u)`;
    };
    const words = Array.from({ length: n / width }, (_, k) => {
      const value = Array.from({ length: width }, (_, l) => lane(k * width + l)).join(" | ");
      const to = `${name}[(i >> ${Math.log2(width)}u)${k > 0 ? ` + ${k}` : ""}]`;
      return m.atomic ? `atomicStore(&${to}, ${value});` : `${to} = ${value};`;
    });
    const call = `store_${name}x${n}`;
    w.declare(call, `fn ${call}(i: i32, x: ${type(w, d)}) { ${words.join(" ")} }`);
    return `${call}(${at}, ${unwrap(text)});`;
  }
  const call = `store_${name}`, to = `${name}[i >> ${Math.log2(width)}u]`;
  w.declare(
    call,
    `fn ${call}(i: i32, x: ${type(w, d.scalar)}) { let s = (u32(i) & ${width - 1}u) << ${Math.log2(bits)}u; ` +
      `atomicAnd(&${to}, ~(${mask}u << s)); atomicOr(&${to}, (${bitsOf(m.dtype, "x")} & ${mask}u) << s); }`,
  );
  if (n === 1) return `${call}(${at}, ${unwrap(text)});`;
  const lanes = Array.from({ length: n }, (_, l) => `${call}((${at}) + ${l}, x.${LANES[l]});`).join(" ");
  return `{ let x = ${unwrap(text)}; ${lanes} }`;
}

function store(w: CWriter, value: UOp, text: string, { base, name, at }: CAddress): string {
  const m = memoryOf(w, base), d = value.dtype, n = d.count;
  if (m.packed) return packedStore(w, m, d, text, name, at);
  const word = (x: string): string => m.flags ? `u32(${x})` : x;
  if (n === m.width) return `${name}[${entry(at, n)}] = ${word(unwrap(text))};`;
  return `{ let x = ${unwrap(text)}; ${
    Array.from({ length: n }, (_, l) => `${name}[${l === 0 ? at : `(${at}) + ${l}`}] = ${word(`x.${LANES[l]}`)};`).join(
      " ",
    )
  } }`;
}

// ---- arguments ----

/** The word of the uniform buffer where each scalar argument begins, and the number of words. */
export function uniformWords(program: LinearProgram): { readonly at: readonly number[]; readonly words: number } {
  let words = 0;
  const at = program.vars.map(({ dtype }) => {
    if (isWide(dtype)) words += words % 2;
    words += isWide(dtype) ? 2 : 1;
    return words - (isWide(dtype) ? 2 : 1);
  });
  return { at, words: Math.ceil(words / 4) * 4 };
}

function argument(w: CWriter, d: DType, word: number): string {
  const at = (k: number): string => `vars[${k >> 2}].${LANES[k & 3]}`;
  if (isWide(d)) return `${WIDE}(${at(word)}, ${at(word + 1)})`;
  if (d.isBool) return `${at(word)} != 0u`;
  if (d.scalar === dtypes.float16) return `f16(bitcast<f32>(${at(word)}))`;
  return d.isUnsigned ? at(word) : `bitcast<${type(w, d)}>(${at(word)})`;
}

function open(w: CWriter, program: LinearProgram): string[] {
  const known = chooseMemories(program);
  memories.set(program, known);
  if (program.uops.some((u) => u.dtype.scalar === dtypes.float16)) w.declare("enable f16", "enable f16;");
  for (const u of program.uops) {
    if (u.op !== Ops.PARAM) continue;
    const { slot } = argOf(u, Ops.PARAM), { writes } = program.params[slot];
    w.declare(
      `b${slot}`,
      `@group(0) @binding(${slot}) var<storage, ${writes ? "read_write" : "read"}> b${slot}: ${
        arrayType(w, known.get(u)!)
      };`,
    );
  }
  const { at, words } = uniformWords(program);
  if (words > 0) {
    const binding = program.params.length;
    w.declare("vars", `@group(0) @binding(${binding}) var<uniform> vars: array<vec4<u32>, ${words / 4}>;`);
  }
  const size = program.grid?.size ?? [1, 1, 1];
  return [
    `@compute @workgroup_size(${size.join(", ")})\n` +
    "fn main(@builtin(workgroup_id) gid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>) {",
    ...program.vars.map((v, i) =>
      `let var_${identifier(argOf(v, Ops.VARIABLE).name)}: ${type(w, v.dtype)} = ${argument(w, v.dtype, at[i])};`
    ),
  ];
}

function local(w: CWriter, u: UOp, name: string): string | undefined {
  const { size } = argOf(u, Ops.LOCAL), text = `${name}: ${arrayType(w, memoryOf(w, u), size * u.dtype.count)};`;
  if (!isShared(u)) return `var ${text}`;
  w.declare(name, `var<workgroup> ${text}`);
}

/** WGSL, with f16 where the device has `shader-f16`. */
export const WGSL_LANGUAGE: CLanguage = {
  name: "WGSL",
  rules: WGSL_RULES,
  type,
  literal,
  load,
  store,
  convert: (_w, _value, text) => text,
  // both sides may be evaluated: a read outside of a buffer gives some value and touches nothing
  choose: (_w, _d, condition, a, b) => `select(${unwrap(b)}, ${unwrap(a)}, ${unwrap(condition)})`,
  open,
  loop(w, u, name, end) {
    if (isWide(u.dtype)) {
      throw new DTypeError("compile a kernel for WEBGPU with a loop over", {
        dtypes: [u.dtype],
        reason: "its indices exceed 32 bits, more than a binding of WebGPU holds",
      });
    }
    return `for (var ${name}: ${type(w, u.dtype)} = 0; ${name} < ${end}; ${name}++)`;
  },
  define: (type, name, text, changes) => `${changes ? "var" : "let"} ${name}: ${type} = ${text};`,
  local,
  special: (_w, u) => `i32(${argOf(u, Ops.SPECIAL)[0]}id.${LANES[Number(argOf(u, Ops.SPECIAL)[4])]})`,
  barrier: "workgroupBarrier();",
};
