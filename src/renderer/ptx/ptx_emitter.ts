/**
 * Lines of PTX and typed virtual registers: what instruction selection writes to. In go dtypes and values, out comes the
 * body of a kernel with its register declarations.
 *
 * A register class a dtype: predicates for bool; 32 bits for integers up to int32 (8- and 16-bit ones are kept sign- or
 * zero-extended); 16 bits for float16 and bfloat16.
 *
 * @module
 */
import { f32Bits, f32ToBf16Bits, f64Bits } from "../../dtype/convert.ts";
import { f16Bits } from "../../dtype/float16.ts";
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { type ConstValue, Int64 } from "../../uop/core/args.ts";

/** The classes of registers, by the type that declares them. */
export const RegisterClass = { pred: "p", b16: "h", b32: "r", b64: "rd", f32: "f", f64: "fd" } as const;
/** One of {@linkcode RegisterClass}. */
export type RegisterClass = keyof typeof RegisterClass;

/** The class that holds a scalar. */
export function classOf(d: DType): RegisterClass {
  if (d.isBool) return "pred";
  if (d.isFloat) return d.bits === 16 ? "b16" : d.bits === 32 ? "f32" : "f64";
  return d.bits === 64 ? "b64" : "b32";
}

/** The type by which instructions compute in a scalar: "s32", "u64", "f32". */
export function typeOf(d: DType): string {
  if (d.isFloat) return `f${d.bits}`;
  return `${d.isUnsigned || d.isBool ? "u" : "s"}${Math.max(32, d.bits)}`;
}

/** The type of a scalar in memory: "s8", "u16", "b16", "f32". */
export function memoryTypeOf(d: DType): string {
  if (d.isFloat) return d.bits === 16 ? "b16" : `f${d.bits}`;
  return `${d.isUnsigned || d.isBool ? "u" : "s"}${d.bits}`;
}

/** 16 bits of a float16 or bfloat16 constant. */
function smallFloat(d: DType, x: number): string {
  return `0x${(d === dtypes.float16 ? f16Bits(x) : f32ToBf16Bits(x)).toString(16).padStart(4, "0")}`;
}

/** A constant as an operand. */
export function literalOf(d: DType, value: ConstValue): string {
  if (d.isFloat) {
    const x = value as number;
    if (d.bits === 16) return smallFloat(d, x);
    if (d.bits === 32) return `0f${f32Bits(x).toString(16).toUpperCase().padStart(8, "0")}`;
    return `0d${BigInt.asUintN(64, f64Bits(x)).toString(16).toUpperCase().padStart(16, "0")}`;
  }
  const x = value instanceof Int64 ? value.toBigInt() : BigInt(Math.trunc(value));
  if (d.bits === 64) return `0x${BigInt.asUintN(64, x).toString(16)}`;
  return `${d === dtypes.uint32 ? BigInt.asUintN(32, x) : x}`;
}

/** A kernel's body in the making. */
export class Emitter {
  private readonly lines: string[] = [];
  private readonly counts = new Map<RegisterClass, number>();
  /** What was computed once and holds in the open scopes, by what it is. */
  private readonly known: Map<string, readonly string[]>[] = [new Map()];
  private labels = 0;

  /** @param arch 80 for sm_80 */
  constructor(readonly arch: number) {}

  /** A fresh register. */
  register(c: RegisterClass): string {
    const n = this.counts.get(c) ?? 0;
    this.counts.set(c, n + 1);
    return `%${RegisterClass[c]}${n}`;
  }
  /** Writes an instruction. */
  line(text: string): void {
    this.lines.push(`  ${text};`);
  }
  /** Writes an instruction that gives a value: `head` is all before its operands. */
  op(c: RegisterClass, head: string, ...operands: readonly string[]): string {
    const r = this.register(c);
    this.line(`${head} ${[r, ...operands].join(", ")}`);
    return r;
  }
  /** A fresh label. */
  label(): string {
    return `$L${this.labels++}`;
  }
  /** Writes a label. */
  place(label: string): void {
    this.lines.push(`${label}:`);
  }

  /** Opens a scope, whose values are unknown after it. */
  enter(): void {
    this.known.push(new Map());
  }
  /** Closes the innermost scope. */
  leave(): void {
    this.known.pop();
  }
  /** The registers known by a key, if there are some. */
  find(key: string): readonly string[] | undefined {
    for (const m of this.known) {
      const r = m.get(key);
      if (r !== undefined) return r;
    }
    return undefined;
  }
  /** Registers that `make` gives, made once in a scope and those within it. */
  once(key: string, make: () => readonly string[]): readonly string[] {
    const known = this.find(key);
    if (known !== undefined) return known;
    const made = make();
    this.known[this.known.length - 1].set(key, made);
    return made;
  }

  /** Declarations, then the lines. */
  body(): string {
    const declarations = [...this.counts].map(([c, n]) => `  .reg .${c} %${RegisterClass[c]}<${n}>;`);
    return [...declarations, ...this.lines].join("\n");
  }
}
