/**
 * The WebAssembly binary format: LEB128, sections, opcodes, and a builder that puts functions together into a module.
 * In: bodies as bytes; out: module bytes. Follows the WebAssembly core specification 3.0 (binary format) with the
 * fixed-width SIMD, relaxed SIMD and threads instructions. Knows nothing of kernels.
 *
 * @module
 */
import { f32Bits, f64Bits } from "../../src/dtype/convert.ts";

/** Value types by their byte. */
export const I32 = 0x7f, I64 = 0x7e, F32 = 0x7d, F64 = 0x7c, V128 = 0x7b;
/** A value type: {@linkcode I32}, {@linkcode I64}, {@linkcode F32}, {@linkcode F64} or {@linkcode V128}. */
export type ValType = 0x7f | 0x7e | 0x7d | 0x7c | 0x7b;
/** "i32", "v128", ... */
export function valTypeName(t: ValType): string {
  return t === I32 ? "i32" : t === I64 ? "i64" : t === F32 ? "f32" : t === F64 ? "f64" : "v128";
}
/** The block type of a block without a result. */
export const EMPTY = 0x40;

/**
 * Instructions by the opcode of the first, each one more than the one before. A value below 0x100 is the opcode; above, the
 * prefix byte is `value >> 16` and the opcode after it, LEB128-encoded, is `value & 0xffff`.
 */
const RUNS = [
  [0x00, "unreachable nop block loop if else"],
  [0x0b, "end br br_if br_table return call call_indirect"],
  [0x1a, "drop select select_t"],
  [0x20, "local.get local.set local.tee global.get"],
  [0x28, "i32.load i64.load f32.load f64.load i32.load8_s i32.load8_u i32.load16_s i32.load16_u"],
  [0x36, "i32.store i64.store f32.store f64.store i32.store8 i32.store16"],
  [0x41, "i32.const i64.const f32.const f64.const"],
  [0x45, "i32.eqz i32.eq i32.ne i32.lt_s i32.lt_u i32.gt_s i32.gt_u i32.le_s i32.le_u i32.ge_s i32.ge_u"],
  [0x50, "i64.eqz i64.eq i64.ne i64.lt_s i64.lt_u i64.gt_s i64.gt_u"],
  [0x5b, "f32.eq f32.ne f32.lt"],
  [0x61, "f64.eq f64.ne f64.lt"],
  [0x6a, "i32.add i32.sub i32.mul i32.div_s i32.div_u i32.rem_s i32.rem_u i32.and i32.or i32.xor"],
  [0x74, "i32.shl i32.shr_s i32.shr_u"],
  [0x7c, "i64.add i64.sub i64.mul i64.div_s i64.div_u i64.rem_s i64.rem_u i64.and i64.or i64.xor"],
  [0x86, "i64.shl i64.shr_s i64.shr_u"],
  [
    0x8b,
    "f32.abs f32.neg f32.ceil f32.floor f32.trunc f32.nearest f32.sqrt f32.add f32.sub f32.mul f32.div f32.min f32.max",
  ],
  [
    0x99,
    "f64.abs f64.neg f64.ceil f64.floor f64.trunc f64.nearest f64.sqrt f64.add f64.sub f64.mul f64.div f64.min f64.max",
  ],
  [0xa7, "i32.wrap_i64"],
  [0xac, "i64.extend_i32_s i64.extend_i32_u"],
  [0xb2, "f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s f32.convert_i64_u f32.demote_f64"],
  [0xb7, "f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32"],
  [
    0xbc,
    "i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64 i32.extend8_s i32.extend16_s",
  ],
  [0xfc0000, "i32.trunc_sat_f32_s i32.trunc_sat_f32_u i32.trunc_sat_f64_s i32.trunc_sat_f64_u"],
  [0xfc0004, "i64.trunc_sat_f32_s i64.trunc_sat_f32_u i64.trunc_sat_f64_s i64.trunc_sat_f64_u"],
  [0xfd0000, "v128.load"],
  [0xfd0003, "v128.load16x4_s v128.load16x4_u"],
  [0xfd0009, "v128.load32_splat v128.load64_splat v128.store v128.const i8x16.shuffle"],
  [0xfd0011, "i32x4.splat i64x2.splat f32x4.splat"],
  [
    0xfd001b,
    "i32x4.extract_lane i32x4.replace_lane i64x2.extract_lane i64x2.replace_lane f32x4.extract_lane f32x4.replace_lane",
  ],
  [0xfd0037, "i32x4.eq i32x4.ne i32x4.lt_s i32x4.lt_u"],
  [0xfd0041, "f32x4.eq f32x4.ne f32x4.lt"],
  [0xfd004d, "v128.not v128.and v128.andnot v128.or v128.xor v128.bitselect"],
  [0xfd005b, "v128.store64_lane v128.load32_zero v128.load64_zero"],
  [0xfd0065, "i8x16.narrow_i16x8_s i8x16.narrow_i16x8_u f32x4.ceil f32x4.floor f32x4.trunc"],
  [0xfd0085, "i16x8.narrow_i32x4_s i16x8.narrow_i32x4_u"],
  [0xfd0087, "i16x8.extend_low_i8x16_s i16x8.extend_high_i8x16_s i16x8.extend_low_i8x16_u"],
  [0xfd00a0, "i32x4.abs i32x4.neg"],
  [0xfd008b, "i16x8.shl i16x8.shr_s i16x8.shr_u"],
  [0xfd00a7, "i32x4.extend_low_i16x8_s i32x4.extend_high_i16x8_s i32x4.extend_low_i16x8_u i32x4.extend_high_i16x8_u"],
  [0xfd00ab, "i32x4.shl i32x4.shr_s i32x4.shr_u i32x4.add"],
  [0xfd00b1, "i32x4.sub"],
  [0xfd00b5, "i32x4.mul i32x4.min_s i32x4.min_u i32x4.max_s i32x4.max_u"],
  [0xfd00e0, "f32x4.abs f32x4.neg"],
  [0xfd00e3, "f32x4.sqrt f32x4.add f32x4.sub f32x4.mul f32x4.div f32x4.min f32x4.max"],
  [0xfd00f8, "i32x4.trunc_sat_f32x4_s i32x4.trunc_sat_f32x4_u f32x4.convert_i32x4_s f32x4.convert_i32x4_u"],
  [0xfd00ba, "i32x4.dot_i16x8_s"],
  [0xfd0105, "f32x4.relaxed_madd"],
  [0xfd010b, "i32x4.relaxed_laneselect"],
  [0xfe0000, "memory.atomic.notify memory.atomic.wait32"],
  [0xfe0010, "i32.atomic.load"],
  [0xfe0017, "i32.atomic.store"],
  [0xfe001e, "i32.atomic.rmw.add"],
  [0xfe0025, "i32.atomic.rmw.sub"],
  [0xfe002c, "i32.atomic.rmw.and"],
  [0xfe0048, "i32.atomic.rmw.cmpxchg"],
] as const;

type Words<S extends string> = S extends `${infer First} ${infer Rest}` ? First | Words<Rest> : S;
/** The text name of an instruction. */
export type Instr = Words<(typeof RUNS)[number][1]>;

/** The code of each instruction, as {@linkcode RUNS} has it. */
export const OPCODES: Readonly<Record<Instr, number>> = Object.fromEntries(
  RUNS.flatMap(([first, names]) => names.split(" ").map((name, i) => [name, first + i])),
) as Record<Instr, number>;

const scratch = new DataView(new ArrayBuffer(8));

/** A growing byte string with the encodings of the format. Methods return `this`, so that instructions chain. */
export class Bytes {
  private data: Uint8Array;
  length = 0;

  constructor(capacity = 256) {
    this.data = new Uint8Array(capacity);
  }

  private room(n: number): void {
    if (this.length + n <= this.data.length) return;
    const grown = new Uint8Array(Math.max(this.data.length * 2, this.length + n));
    grown.set(this.data.subarray(0, this.length));
    this.data = grown;
  }

  /** One byte. */
  u8(x: number): this {
    this.room(1);
    this.data[this.length++] = x;
    return this;
  }

  /** Unsigned LEB128 of a 32-bit value. */
  u32(x: number): this {
    this.room(5);
    x = x >>> 0;
    while (x >= 0x80) {
      this.data[this.length++] = (x & 0x7f) | 0x80;
      x >>>= 7;
    }
    this.data[this.length++] = x;
    return this;
  }

  /** Signed LEB128 of a 32-bit value. */
  s32(x: number): this {
    this.room(5);
    x |= 0;
    for (;;) {
      const low = x & 0x7f;
      x >>= 7;
      if ((x === 0 && (low & 0x40) === 0) || (x === -1 && (low & 0x40) !== 0)) {
        this.data[this.length++] = low;
        return this;
      }
      this.data[this.length++] = low | 0x80;
    }
  }

  /** Signed LEB128 of a 64-bit value. */
  s64(x: bigint): this {
    const small = Number(x);
    if ((small | 0) === small) return this.s32(small);
    x = BigInt.asIntN(64, x);
    for (;;) {
      const low = Number(x & 0x7fn);
      x >>= 7n;
      if ((x === 0n && (low & 0x40) === 0) || (x === -1n && (low & 0x40) !== 0)) return this.u8(low);
      this.u8(low | 0x80);
    }
  }

  /** Four bytes of a float, little-endian. */
  f32(x: number): this {
    scratch.setUint32(0, f32Bits(x), true);
    for (let i = 0; i < 4; i++) this.u8(scratch.getUint8(i));
    return this;
  }

  /** Eight bytes of a double, little-endian. */
  f64(x: number): this {
    scratch.setBigInt64(0, f64Bits(x), true);
    for (let i = 0; i < 8; i++) this.u8(scratch.getUint8(i));
    return this;
  }

  /** Raw bytes. */
  raw(bytes: Uint8Array | readonly number[]): this {
    this.room(bytes.length);
    this.data.set(bytes, this.length);
    this.length += bytes.length;
    return this;
  }

  /** Bytes after their count. */
  sized(bytes: Uint8Array | readonly number[]): this {
    return this.u32(bytes.length).raw(bytes);
  }

  /** A name (ASCII). */
  name(text: string): this {
    return this.sized(Array.from(text, (c) => c.charCodeAt(0)));
  }

  /** An opcode with its prefix, if it has one. */
  op(code: number): this {
    return code < 0x100 ? this.u8(code) : this.u8(code >> 16).u32(code & 0xffff);
  }

  /** An instruction by name, with immediates that are unsigned LEB128 (indices, depths, block types below 0x80). */
  i(name: Instr, ...immediates: number[]): this {
    this.op(OPCODES[name]);
    for (const x of immediates) this.u32(x);
    return this;
  }

  /** An `i32.const`. */
  i32(x: number): this {
    return this.u8(0x41).s32(x);
  }

  /** A copy of the bytes so far. */
  take(): Uint8Array {
    return this.data.slice(0, this.length);
  }
}

/** A function type. */
export interface FuncType {
  readonly params: readonly ValType[];
  readonly results: readonly ValType[];
}

/** A function: the index of its type, its locals after the parameters, and its instructions without the last `end`. */
export interface FuncBody {
  readonly type: number;
  readonly locals: readonly ValType[];
  readonly code: Uint8Array;
}

/** An imported item. All imports come from module "e". */
export type ImportItem =
  | { readonly kind: "memory"; readonly name: string; readonly maximum: number; readonly shared: boolean }
  | { readonly kind: "table"; readonly name: string }
  | { readonly kind: "global"; readonly name: string; readonly type: ValType };

/** An exported item: the number of a function, a memory or a global. */
export type ExportItem =
  & { readonly name: string }
  & (
    | { readonly func: number }
    | { readonly memory: number }
    | { readonly global: number }
  );

/** What a module is made of. Functions are numbered in order; none are imported. */
export interface ModuleParts {
  readonly types: readonly FuncType[];
  readonly imports: readonly ImportItem[];
  readonly funcs: readonly FuncBody[];
  readonly exports: readonly ExportItem[];
  /** A memory of its own with so many pages; none where absent. */
  readonly memoryPages?: number;
  /** Constants of type i32; an imported global comes before them. */
  readonly globals?: readonly number[];
  /** What memory holds in the beginning. */
  readonly data?: readonly { readonly at: number; readonly bytes: readonly number[] }[];
  /** Where in the imported table the functions go, function 0 first; undefined for nowhere. */
  readonly tableBase?: number;
}

function section(out: Bytes, id: number, write: (b: Bytes) => void): void {
  const b = new Bytes();
  write(b);
  out.u8(id).sized(b.take());
}

/** Module bytes of `parts`. */
export function encodeModule(parts: ModuleParts): Uint8Array {
  const out = new Bytes(1024).raw([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  section(out, 1, (b) => {
    b.u32(parts.types.length);
    for (const t of parts.types) b.u8(0x60).sized(t.params).sized(t.results);
  });
  if (parts.imports.length > 0) {
    section(out, 2, (b) => {
      b.u32(parts.imports.length);
      for (const item of parts.imports) {
        b.name("e").name(item.name);
        if (item.kind === "memory") b.u8(2).u8(item.shared ? 3 : 1).u32(1).u32(item.maximum);
        else if (item.kind === "table") b.u8(1).u8(0x70).u8(0).u32(1);
        else b.u8(3).u8(item.type).u8(0);
      }
    });
  }
  section(out, 3, (b) => {
    b.u32(parts.funcs.length);
    for (const f of parts.funcs) b.u32(f.type);
  });
  const { memoryPages, globals = [], data = [] } = parts;
  if (memoryPages !== undefined) section(out, 5, (b) => b.u32(1).u8(0).u32(memoryPages));
  if (globals.length > 0) {
    section(out, 6, (b) => {
      b.u32(globals.length);
      for (const value of globals) b.u8(I32).u8(0).i32(value).i("end");
    });
  }
  if (parts.exports.length > 0) {
    section(out, 7, (b) => {
      b.u32(parts.exports.length);
      for (const e of parts.exports) {
        b.name(e.name);
        if ("func" in e) b.u8(0).u32(e.func);
        else if ("memory" in e) b.u8(2).u32(e.memory);
        else b.u8(3).u32(e.global);
      }
    });
  }
  if (parts.tableBase !== undefined && parts.funcs.length > 0) {
    section(out, 9, (b) => {
      b.u32(1).u32(0).i32(parts.tableBase!).i("end").u32(parts.funcs.length);
      for (let i = 0; i < parts.funcs.length; i++) b.u32(i);
    });
  }
  section(out, 10, (b) => {
    b.u32(parts.funcs.length);
    for (const f of parts.funcs) b.sized(encodeBody(f));
  });
  if (data.length > 0) {
    section(out, 11, (b) => {
      b.u32(data.length);
      for (const { at, bytes } of data) b.u32(0).i32(at).i("end").sized(bytes);
    });
  }
  return out.take();
}

function encodeBody(f: FuncBody): Uint8Array {
  const groups: [number, ValType][] = [];
  for (const t of f.locals) {
    const last = groups[groups.length - 1];
    if (last !== undefined && last[1] === t) last[0]++;
    else groups.push([1, t]);
  }
  const b = new Bytes(f.code.length + 16).u32(groups.length);
  for (const [n, t] of groups) b.u32(n).u8(t);
  return b.raw(f.code).i("end").take();
}
