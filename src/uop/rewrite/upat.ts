/**
 * Patterns over nodes. A `UPat<C>` carries the names it captures as the type `C`, so a rule's callback is checked by the
 * compiler: `UPat.var("x").add(UPat.cvar("c"))` is a `UPat<{ x: UOp } & { c: UOp }>`. Patterns are data; matcher.ts
 * compiles them.
 *
 * The same name twice requires the same node. Commutative ops match both orders. A number stands for a constant of that
 * value in any dtype (0 also matches -0).
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import type { Arg } from "../core/args.ts";
import { Arithmetic } from "../core/arithmetic.ts";
import { opName, Ops } from "../core/ops.ts";
import type { UOp } from "../core/uop.ts";

/** Ops of a pattern that its text names, at most. */
const SHOWN_OPS = 6;

/** Filters of one pattern node; what is absent matches anything. */
export interface UPatOptions {
  /** Positional sources. Commutative ops try both orders unless `ordered`. */
  readonly src?: readonly UPat[];
  /** One pattern for every source (any number of them). */
  readonly everySrc?: UPat;
  /** `src` is a prefix: more sources may follow. */
  readonly allowAny?: boolean;
  /** Keep the order of `src` even where the op is commutative. */
  readonly ordered?: boolean;
  /** A scalar dtype matches any lane count, a vector dtype only itself. */
  readonly dtype?: DType | readonly DType[];
  /** Equal arg, as interning compares. */
  readonly arg?: Arg;
  /** A last test of the node alone. */
  readonly when?: (u: UOp) => boolean;
}

interface Fields extends UPatOptions {
  readonly ops?: readonly Ops[];
  readonly name?: string;
  /** Value of a CONST. */
  readonly value?: number;
  readonly alternatives?: readonly UPat[];
}

/** Captures of the patterns in a list, together. */
type CapturesOf<P> = P extends readonly [UPat<infer A>, ...infer R] ? A & CapturesOf<R> : unknown;

/** A pattern whose captures have the type `C`. */
export class UPat<C = unknown> extends Arithmetic<UPat<unknown>> {
  /** Type only: what a match binds. */
  declare readonly captured: C;
  /** Ops that match; undefined for any. */
  readonly ops: readonly Ops[] | undefined;
  /** Under which the node is captured. */
  readonly name: string | undefined;
  /** Of a constant. */
  readonly value: number | undefined;
  /** Patterns of which one must match. */
  readonly alternatives: readonly UPat[] | undefined;
  /** Of the sources, in order. */
  readonly src: readonly UPat[] | undefined;
  /** Of all sources alike. */
  readonly everySrc: UPat | undefined;
  /** Whether there may be more sources. */
  readonly allowAny: boolean;
  /** Whether operands match in this order alone, though the op commutes. */
  readonly ordered: boolean;
  /** One of these. */
  readonly dtypes: readonly DType[] | undefined;
  /** The node's, where there is one. */
  readonly arg: Arg;
  /** Whether `arg` must be equal. */
  readonly hasArg: boolean;
  /** What else must hold. */
  readonly when: ((u: UOp) => boolean) | undefined;
  private readonly fields: Fields;

  /** Internal: use the static builders. */
  constructor(fields: Fields) {
    super();
    this.fields = fields;
    this.ops = fields.ops;
    this.name = fields.name;
    this.value = fields.value;
    this.alternatives = fields.alternatives;
    this.src = fields.src;
    this.everySrc = fields.everySrc;
    this.allowAny = fields.allowAny ?? false;
    this.ordered = fields.ordered ?? false;
    this.dtypes = fields.dtype === undefined
      ? undefined
      : Array.isArray(fields.dtype)
      ? fields.dtype
      : [fields.dtype as DType];
    this.arg = fields.arg;
    this.hasArg = "arg" in fields;
    this.when = fields.when;
  }

  /** Any node, captured; of `dtype` where one is given. */
  static var<N extends string>(name: N, dtype?: DType | readonly DType[]): UPat<Record<N, UOp>> {
    return new UPat({ name, dtype });
  }
  /** Any constant, captured. */
  static cvar<N extends string>(name: N, dtype?: DType | readonly DType[]): UPat<Record<N, UOp>> {
    return new UPat({ name, dtype, ops: [Ops.CONST] });
  }
  /** The constant of this value. */
  static const(value: number, dtype?: DType | readonly DType[]): UPat {
    return new UPat({ ops: [Ops.CONST], value, dtype });
  }
  /** A node of this op, or of one of these. Captures of `src` are typed when it is written as a list. */
  static op<const S extends readonly UPat[] = [], E = unknown, N extends string = never>(
    op: Ops | readonly Ops[],
    options: UPatOptions & { readonly src?: S; readonly everySrc?: UPat<E>; readonly name?: N } = {},
  ): UPat<CapturesOf<S> & E & ([N] extends [never] ? unknown : Record<N, UOp>)> {
    return new UPat({ ...options, ops: typeof op === "number" ? [op] : op });
  }
  /** What any of these matches, tried in order. */
  static any<const P extends readonly UPat[]>(...alternatives: P): UPat<P[number]["captured"]> {
    return new UPat({ alternatives });
  }

  /** The same pattern, captured under `name`. */
  named<N extends string>(name: N): UPat<C & Record<N, UOp>> {
    return new UPat({ ...this.fields, name });
  }
  /** The same pattern with more filters. */
  with(options: UPatOptions): UPat<C> {
    return new UPat({ ...this.fields, ...options });
  }

  /** Matches an op of these sources. */
  override alu<B>(op: Ops, ...src: (UPat<B> | number)[]): UPat<C & B> {
    return new UPat({ ops: [op], src: [this as UPat, ...src.map((s) => typeof s === "number" ? UPat.const(s) : s)] });
  }
  /** Matches `cast`. */
  override cast(dtype?: DType): UPat<C> {
    return new UPat({ ops: [Ops.CAST], dtype, src: [this as UPat] });
  }
  /** Matches `bitcast`. */
  override bitcast(dtype?: DType): UPat<C> {
    return new UPat({ ops: [Ops.BITCAST], dtype, src: [this as UPat] });
  }
  /** Matches `add`. */
  override add<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.ADD, x);
  }
  /** Matches `mul`. */
  override mul<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.MUL, x);
  }
  /** Matches `sub`. */
  override sub<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.ADD, typeof x === "number" ? -x : x.mul(-1) as UPat<B>);
  }
  /** Matches `neg`. */
  override neg(): UPat<C> {
    return this.alu<unknown>(Ops.MUL, -1) as UPat<C>;
  }
  /** Matches `fdiv`. */
  override fdiv<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.FDIV, x);
  }
  /** Matches `max`. */
  override max<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.MAX, x);
  }
  /** Matches `floorDiv`. */
  override floorDiv<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.FLOORDIV, x);
  }
  /** Matches `floorMod`. */
  override floorMod<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.FLOORMOD, x);
  }
  /** Matches `cdiv`. */
  override cdiv<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.CDIV, x);
  }
  /** Matches `cmod`. */
  override cmod<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.CMOD, x);
  }
  /** Matches `lt`. */
  override lt<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.CMPLT, x);
  }
  /** Matches `ne`. */
  override ne<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.CMPNE, x);
  }
  /** Matches `eq`. */
  override eq<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.CMPEQ, x);
  }
  /** Matches `and`. */
  override and<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.AND, x);
  }
  /** Matches `or`. */
  override or<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.OR, x);
  }
  /** Matches `xor`. */
  override xor<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.XOR, x);
  }
  /** Matches `shl`. */
  override shl<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.SHL, x);
  }
  /** Matches `shr`. */
  override shr<B>(x: UPat<B> | number): UPat<C & B> {
    return this.alu(Ops.SHR, x);
  }
  /** Matches `where`. */
  override where<A, B>(a: UPat<A> | number, b: UPat<B> | number): UPat<C & A & B> {
    return this.alu<unknown>(Ops.WHERE, a as UPat, b as UPat) as UPat<C & A & B>;
  }
  /** Matches `exp2`. */
  override exp2(): UPat<C> {
    return this.alu<unknown>(Ops.EXP2) as UPat<C>;
  }
  /** Matches `log2`. */
  override log2(): UPat<C> {
    return this.alu<unknown>(Ops.LOG2) as UPat<C>;
  }
  /** Matches `sin`. */
  override sin(): UPat<C> {
    return this.alu<unknown>(Ops.SIN) as UPat<C>;
  }
  /** Matches `cos`. */
  override cos(): UPat<C> {
    return this.alu<unknown>(Ops.COS) as UPat<C>;
  }
  /** Matches `sqrt`. */
  override sqrt(): UPat<C> {
    return this.alu<unknown>(Ops.SQRT) as UPat<C>;
  }
  /** Matches `trunc`. */
  override trunc(): UPat<C> {
    return this.alu<unknown>(Ops.TRUNC) as UPat<C>;
  }

  /** As written: `ADD(x, CONST 0)`; of many ops the first. */
  override toString(): string {
    if (this.alternatives !== undefined) return `${this.name ?? ""}{${this.alternatives.join(" | ")}}`;
    const names = this.ops?.map((o) => opName[o]);
    const ops = names === undefined || names.length <= SHOWN_OPS
      ? names?.join("|")
      : `${names.slice(0, SHOWN_OPS).join("|")}|... (${names.length} ops)`;
    if (this.value !== undefined) return String(this.value);
    const inner = this.src?.map(String).join(", ") ?? (this.everySrc ? `every ${this.everySrc}` : undefined);
    const body = ops === undefined ? "" : inner === undefined ? ops : `${ops}(${inner}${this.allowAny ? ", ..." : ""})`;
    if (this.name === undefined) return body === "" ? "_" : body;
    return body === "" ? this.name : `${this.name}:${body}`;
  }
}
