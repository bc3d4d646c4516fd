/**
 * The WebAssembly binary format: LEB128, sections, opcodes, and a builder that puts functions together into a module.
 * In: bodies as bytes; out: module bytes. Follows the WebAssembly core specification 3.0 (binary format) with the
 * fixed-width SIMD, relaxed SIMD and threads instructions. Knows nothing of kernels.
 *
 * @module
 */

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
 * Instructions by their text name. A value below 0x100 is the opcode; above, the prefix byte is `value >> 16` and the
 * opcode after it, LEB128-encoded, is `value & 0xffff`.
 */
export const OPCODES = {
  "unreachable": 0x00,
  "block": 0x02,
  "loop": 0x03,
  "if": 0x04,
  "else": 0x05,
  "end": 0x0b,
  "br": 0x0c,
  "br_if": 0x0d,
  "return": 0x0f,
  "call": 0x10,
  "call_indirect": 0x11,
  "drop": 0x1a,
  "select": 0x1b,
  "select_t": 0x1c,
  "local.get": 0x20,
  "local.set": 0x21,
  "local.tee": 0x22,
  "global.get": 0x23,
  "i32.load": 0x28,
  "i64.load": 0x29,
  "f32.load": 0x2a,
  "f64.load": 0x2b,
  "i32.load8_s": 0x2c,
  "i32.load8_u": 0x2d,
  "i32.load16_s": 0x2e,
  "i32.load16_u": 0x2f,
  "i32.store": 0x36,
  "i64.store": 0x37,
  "f32.store": 0x38,
  "f64.store": 0x39,
  "i32.store8": 0x3a,
  "i32.store16": 0x3b,
  "i32.const": 0x41,
  "i64.const": 0x42,
  "f32.const": 0x43,
  "f64.const": 0x44,
  "i32.eqz": 0x45,
  "i32.eq": 0x46,
  "i32.ne": 0x47,
  "i32.lt_s": 0x48,
  "i32.lt_u": 0x49,
  "i32.gt_s": 0x4a,
  "i32.gt_u": 0x4b,
  "i32.ge_s": 0x4e,
  "i32.ge_u": 0x4f,
  "i64.eqz": 0x50,
  "i64.eq": 0x51,
  "i64.ne": 0x52,
  "i64.lt_s": 0x53,
  "i64.lt_u": 0x54,
  "i64.gt_s": 0x55,
  "i64.gt_u": 0x56,
  "f32.eq": 0x5b,
  "f32.ne": 0x5c,
  "f32.lt": 0x5d,
  "f64.eq": 0x61,
  "f64.ne": 0x62,
  "f64.lt": 0x63,
  "i32.add": 0x6a,
  "i32.sub": 0x6b,
  "i32.mul": 0x6c,
  "i32.div_s": 0x6d,
  "i32.div_u": 0x6e,
  "i32.rem_s": 0x6f,
  "i32.rem_u": 0x70,
  "i32.and": 0x71,
  "i32.or": 0x72,
  "i32.xor": 0x73,
  "i32.shl": 0x74,
  "i32.shr_s": 0x75,
  "i32.shr_u": 0x76,
  "i64.add": 0x7c,
  "i64.sub": 0x7d,
  "i64.mul": 0x7e,
  "i64.div_s": 0x7f,
  "i64.div_u": 0x80,
  "i64.rem_s": 0x81,
  "i64.rem_u": 0x82,
  "i64.and": 0x83,
  "i64.or": 0x84,
  "i64.xor": 0x85,
  "i64.shl": 0x86,
  "i64.shr_s": 0x87,
  "i64.shr_u": 0x88,
  "f32.neg": 0x8c,
  "f32.trunc": 0x8f,
  "f32.sqrt": 0x91,
  "f32.add": 0x92,
  "f32.sub": 0x93,
  "f32.mul": 0x94,
  "f32.div": 0x95,
  "f32.max": 0x97,
  "f64.neg": 0x9a,
  "f64.trunc": 0x9d,
  "f64.sqrt": 0x9f,
  "f64.add": 0xa0,
  "f64.sub": 0xa1,
  "f64.mul": 0xa2,
  "f64.div": 0xa3,
  "f64.max": 0xa5,
  "i32.wrap_i64": 0xa7,
  "i64.extend_i32_s": 0xac,
  "i64.extend_i32_u": 0xad,
  "f32.convert_i32_s": 0xb2,
  "f32.convert_i32_u": 0xb3,
  "f32.convert_i64_s": 0xb4,
  "f32.convert_i64_u": 0xb5,
  "f32.demote_f64": 0xb6,
  "f64.convert_i32_s": 0xb7,
  "f64.convert_i32_u": 0xb8,
  "f64.convert_i64_s": 0xb9,
  "f64.convert_i64_u": 0xba,
  "f64.promote_f32": 0xbb,
  "i32.reinterpret_f32": 0xbc,
  "i64.reinterpret_f64": 0xbd,
  "f32.reinterpret_i32": 0xbe,
  "f64.reinterpret_i64": 0xbf,
  "i32.extend8_s": 0xc0,
  "i32.extend16_s": 0xc1,
  "i32.trunc_sat_f32_s": 0xfc0000,
  "i32.trunc_sat_f32_u": 0xfc0001,
  "i32.trunc_sat_f64_s": 0xfc0002,
  "i32.trunc_sat_f64_u": 0xfc0003,
  "i64.trunc_sat_f32_s": 0xfc0004,
  "i64.trunc_sat_f32_u": 0xfc0005,
  "i64.trunc_sat_f64_s": 0xfc0006,
  "i64.trunc_sat_f64_u": 0xfc0007,
  "v128.load": 0xfd0000,
  "v128.load32_splat": 0xfd0009,
  "v128.store": 0xfd000b,
  "v128.const": 0xfd000c,
  "i32x4.splat": 0xfd0011,
  "f32x4.splat": 0xfd0013,
  "i32x4.extract_lane": 0xfd001b,
  "i32x4.replace_lane": 0xfd001c,
  "f32x4.extract_lane": 0xfd001f,
  "f32x4.replace_lane": 0xfd0020,
  "i32x4.eq": 0xfd0037,
  "i32x4.ne": 0xfd0038,
  "i32x4.lt_s": 0xfd0039,
  "i32x4.lt_u": 0xfd003a,
  "f32x4.eq": 0xfd0041,
  "f32x4.ne": 0xfd0042,
  "f32x4.lt": 0xfd0043,
  "v128.not": 0xfd004d,
  "v128.and": 0xfd004e,
  "v128.andnot": 0xfd004f,
  "v128.or": 0xfd0050,
  "v128.xor": 0xfd0051,
  "v128.bitselect": 0xfd0052,
  "v128.store64_lane": 0xfd005b,
  "v128.load32_zero": 0xfd005c,
  "v128.load64_zero": 0xfd005d,
  "i8x16.narrow_i16x8_s": 0xfd0065,
  "f32x4.trunc": 0xfd0069,
  "i16x8.narrow_i32x4_s": 0xfd0085,
  "i16x8.extend_low_i8x16_u": 0xfd0089,
  "i32x4.neg": 0xfd00a1,
  "i32x4.extend_low_i16x8_u": 0xfd00a9,
  "i32x4.shl": 0xfd00ab,
  "i32x4.shr_s": 0xfd00ac,
  "i32x4.shr_u": 0xfd00ad,
  "i32x4.add": 0xfd00ae,
  "i32x4.sub": 0xfd00b1,
  "i32x4.mul": 0xfd00b5,
  "i32x4.max_s": 0xfd00b8,
  "i32x4.max_u": 0xfd00b9,
  "f32x4.neg": 0xfd00e1,
  "f32x4.sqrt": 0xfd00e3,
  "f32x4.add": 0xfd00e4,
  "f32x4.sub": 0xfd00e5,
  "f32x4.mul": 0xfd00e6,
  "f32x4.div": 0xfd00e7,
  "f32x4.max": 0xfd00e9,
  "i32x4.trunc_sat_f32x4_s": 0xfd00f8,
  "i32x4.trunc_sat_f32x4_u": 0xfd00f9,
  "f32x4.convert_i32x4_s": 0xfd00fa,
  "f32x4.convert_i32x4_u": 0xfd00fb,
  "f32x4.relaxed_madd": 0xfd0105,
  "i32x4.relaxed_laneselect": 0xfd010b,
  "memory.atomic.notify": 0xfe0000,
  "memory.atomic.wait32": 0xfe0001,
  "i32.atomic.load": 0xfe0010,
  "i32.atomic.store": 0xfe0017,
  "i32.atomic.rmw.add": 0xfe001e,
  "i32.atomic.rmw.sub": 0xfe0025,
  "i32.atomic.rmw.and": 0xfe002c,
  "i32.atomic.rmw.cmpxchg": 0xfe0048,
} as const;

/** The text name of an instruction. */
export type Instr = keyof typeof OPCODES;

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
    scratch.setFloat32(0, x, true);
    for (let i = 0; i < 4; i++) this.u8(scratch.getUint8(i));
    return this;
  }

  /** Eight bytes of a double, little-endian. */
  f64(x: number): this {
    scratch.setFloat64(0, x, true);
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

/** What a module is made of. Functions are numbered in order; none are imported. */
export interface ModuleParts {
  readonly types: readonly FuncType[];
  readonly imports: readonly ImportItem[];
  readonly funcs: readonly FuncBody[];
  readonly exports: readonly { readonly name: string; readonly func: number }[];
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
  if (parts.exports.length > 0) {
    section(out, 7, (b) => {
      b.u32(parts.exports.length);
      for (const e of parts.exports) b.name(e.name).u8(0).u32(e.func);
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
