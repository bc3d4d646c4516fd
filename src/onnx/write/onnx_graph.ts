/**
 * An ONNX graph that is being written: nodes, initializers, and the few operators that need more than a name. In: values
 * by name, with the shape that they have in each trace; out: nodes in order, equal ones once, and of moves that undo each
 * other none.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { codeOf } from "../wire/element_types.ts";
import {
  type DynamicAxis,
  type Expression,
  expressionOf,
  isFixed,
  isOne,
  sameShape,
  sameSize,
  type Shape,
  type Size,
} from "./traced_sizes.ts";

/** What an attribute of a written node may be. */
export type WrittenAttribute = number | readonly number[] | string | { readonly float: number };
/** A node. */
export interface WrittenNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly output: string;
  /** Outputs before it, which nothing reads. */
  readonly unread?: readonly string[];
  readonly attributes: Readonly<Record<string, WrittenAttribute>>;
}
/** A tensor that the file has. */
export interface Initializer {
  readonly name: string;
  readonly dtype: DType;
  readonly dims: readonly number[];
  readonly bytes: Uint8Array;
}
/** A value: its name, element type, and shape. */
export interface Value {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
}

/** The end of an axis, however long it is. */
const TO_END = 2n ** 63n - 1n;

/** A graph. */
export class OnnxGraph {
  readonly nodes: WrittenNode[] = [];
  readonly initializers: Map<string, Initializer> = new Map();
  private readonly known = new Map<string, Value>();
  /** Of what a Reshape or a Transpose gives: what it is of, and the order. */
  private readonly reshaped = new Map<string, Value>();
  private readonly transposed = new Map<string, { readonly of: Value; readonly order: readonly number[] }>();
  private readonly names = new Set<string>();
  private readonly counts = new Map<string, number>();

  /** @param like a fixed size: how many traces there are @param axes that are dynamic */
  constructor(readonly action: string, readonly like: Size, readonly axes: readonly DynamicAxis[]) {}

  /** A number in all traces. */
  fixed(n: number): Size {
    return this.like.map(() => n);
  }
  /** A name that nothing else has: `wanted`, or with a number behind it. */
  unique(wanted: string): string {
    let name = wanted;
    for (let i = this.counts.get(wanted) ?? 1; this.names.has(name); i++) {
      name = `${wanted}_${i}`;
      this.counts.set(wanted, i + 1);
    }
    this.names.add(name);
    return name;
  }

  /** A node; the same one where there is one. The value is its first output, or that behind `skipped` others. */
  node(
    op: string,
    inputs: readonly (Value | undefined)[],
    shape: Shape,
    dtype: DType,
    attributes: WrittenNode["attributes"] = {},
    skipped = 0,
  ): Value {
    const names = inputs.map((v) => v?.name ?? "");
    const key = `${op}(${names.join()})${JSON.stringify(attributes)}${dtype.name}`, found = this.known.get(key);
    if (found !== undefined) return found;
    const value = { name: this.unique(op.toLowerCase()), dtype, shape };
    this.known.set(key, value);
    const unread = Array.from({ length: skipped }, () => this.unique("unread"));
    this.nodes.push({ op, inputs: names, output: value.name, attributes, ...skipped > 0 ? { unread } : {} });
    return value;
  }
  /** A weight, or a constant that was computed. */
  initializer(name: string, dtype: DType, dims: readonly number[], bytes: Uint8Array): Value {
    const value = { name: this.unique(name), dtype, shape: dims.map((n) => this.fixed(n)) };
    this.initializers.set(value.name, { name: value.name, dtype, dims, bytes });
    return value;
  }
  /** Whole numbers, as those that decide on shapes are. */
  ints(values: readonly (number | bigint)[], rank: 0 | 1 = 1): Value {
    const key = `ints${rank} ${values.join()}`, found = this.known.get(key);
    if (found !== undefined) return found;
    const bytes = new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
    const made = this.initializer("shape", dtypes.int64, rank === 0 ? [] : [values.length], bytes);
    this.known.set(key, made);
    return made;
  }
  /** A scalar of a dtype, of bytes that are its. */
  scalar(dtype: DType, bytes: Uint8Array): Value {
    const key = `scalar ${dtype.name} ${bytes.join()}`, found = this.known.get(key);
    if (found !== undefined) return found;
    const made = this.initializer("constant", dtype, [], bytes);
    this.known.set(key, made);
    return made;
  }

  /** A size, as int64 of shape `[1]`. */
  private sizeValue(size: Size): Value {
    if (isFixed(size)) return this.ints([size[0]]);
    const one: Shape = [this.fixed(1)], found: Expression = expressionOf(this.action, size, this.axes);
    const of = (a: DynamicAxis): Value =>
      this.node("Shape", [{ name: a.input, dtype: dtypes.float32, shape: [] }], one, dtypes.int64, {
        start: a.axis,
        end: a.axis + 1,
      });
    const join = (op: string, a: Value, b: Value): Value => this.node(op, [a, b], one, dtypes.int64);
    const scaled = (factor: number, v: Value): Value => factor === 1 ? v : join("Mul", v, this.ints([factor]));
    const divided = (v: Value): Value => found.per === 1 ? v : join("Div", v, this.ints([found.per]));
    if (found.kind === "product") {
      return divided(scaled(found.constant, found.factors.map(of).reduce((a, b) => join("Mul", a, b))));
    }
    const sum = found.terms.map(([factor, a]) => scaled(factor, of(a))).reduce((a, b) => join("Add", a, b));
    return divided(found.constant === 0 ? sum : join("Add", sum, this.ints([found.constant])));
  }
  /** Sizes, as int64 of shape `[n]`. */
  sizes(shape: Shape): Value {
    if (shape.every(isFixed)) return this.ints(shape.map((n) => n[0]));
    const parts = shape.map((n) => this.sizeValue(n));
    if (parts.length === 1) return parts[0];
    return this.node("Concat", parts, [this.fixed(shape.length)], dtypes.int64, { axis: 0 });
  }
  /** A number that follows the dynamic axes as a size does, as a scalar of a dtype. */
  number(size: Size, dtype: DType): Value {
    const whole = this.node("Reshape", [this.sizeValue(size), this.ints([])], [], dtypes.int64);
    return this.cast(whole, dtype);
  }

  /** In another dtype. */
  cast(v: Value, dtype: DType): Value {
    return v.dtype === dtype ? v : this.node("Cast", [v], v.shape, dtype, { to: codeOf(dtype) });
  }
  /** Under another shape of as many elements. */
  reshape(v: Value, shape: Shape): Value {
    if (sameShape(v.shape, shape)) return v;
    const base = this.reshaped.get(v.name) ?? v;
    if (sameShape(base.shape, shape)) return base;
    const isEmpty = shape.some((n) => n.includes(0)),
      target = isEmpty ? this.sizes(shape) : this.target(base.shape, shape);
    const made = this.node("Reshape", [base, target], shape, v.dtype, isEmpty ? { allowzero: 1 } : {});
    this.reshaped.set(made.name, base);
    return made;
  }
  /** What Reshape is told: 0 stands for the size of that axis before, one −1 for what is left. */
  private target(from: Shape, to: Shape): Value {
    const isKept = (n: Size, i: number): boolean => i < from.length && sameSize(n, from[i]);
    const open = to.flatMap((n, i) => isFixed(n) || isKept(n, i) ? [] : [i]);
    if (open.length > 1) return this.sizes(to);
    return this.ints(to.map((n, i) => isFixed(n) ? n[0] : isKept(n, i) ? 0 : -1));
  }
  /** With axes in another order. */
  transpose(v: Value, order: readonly number[]): Value {
    const before = this.transposed.get(v.name), of = before?.of ?? v;
    const all = before === undefined ? order : order.map((a) => before.order[a]);
    if (all.every((a, i) => a === i)) return of;
    // axes of size 1 move for nothing
    const shape = all.map((a) => of.shape[a]), moved = all.filter((a) => !isOne(of.shape[a]));
    if (moved.every((a, i) => i === 0 || moved[i - 1] < a)) return this.reshape(of, shape);
    const made = this.node("Transpose", [of], shape, v.dtype, { perm: all });
    this.transposed.set(made.name, { of, order: all });
    return made;
  }
  /** The matrix whose transpose this is, if it is one. */
  turnedOf(v: Value): Value | undefined {
    const found = this.transposed.get(v.name);
    return found !== undefined && found.order.join() === "1,0" ? found.of : undefined;
  }
  /** With axes of size 1 repeated. */
  expand(v: Value, shape: Shape): Value {
    // an axis of one that is to be empty is cut: onnxruntime leaves its one element there
    const start = this.fixed(0), empty = shape.flatMap((n, axis) => n[0] === 0 && isOne(v.shape[axis]) ? [axis] : []);
    const x = this.slice(v, empty.map((axis) => ({ axis, start, stop: start })));
    return sameShape(x.shape, shape) ? x : this.node("Expand", [x, this.sizes(shape)], shape, v.dtype);
  }
  /** Parts of axes, from `starts` to `stops` in steps of 1, or all of an axis backward. */
  slice(
    v: Value,
    cuts: readonly { readonly axis: number; readonly start: Size; readonly stop: Size; readonly flip?: boolean }[],
  ): Value {
    if (cuts.length === 0) return v;
    const shape = v.shape.map((n, axis) => {
      const cut = cuts.find((c) => c.axis === axis);
      return cut === undefined || cut.flip ? n : cut.stop.map((s, i) => s - cut.start[i]);
    });
    const isToEnd = cuts.map((c) => sameSize(c.stop, v.shape[c.axis]));
    const starts = cuts.every((c) => isFixed(c.start))
      ? this.ints(cuts.map((c) => c.flip ? -1 : c.start[0]))
      : this.sizes(cuts.map((c) => c.start));
    const ends = cuts.every((c, i) => c.flip || isToEnd[i] || isFixed(c.stop))
      ? this.ints(cuts.map((c, i) => c.flip ? -TO_END : isToEnd[i] ? TO_END : c.stop[0]))
      : this.sizes(cuts.map((c) => c.stop));
    const steps = cuts.map((c) => c.flip ? -1 : 1);
    return this.node("Slice", [v, starts, ends, this.ints(cuts.map((c) => c.axis)), this.ints(steps)], shape, v.dtype);
  }
}
