/**
 * The graph of ONNX that a traced function is: operators that ONNX has whole where the tensor graph has them, one node for
 * one node elsewhere. Repetitions of axes write nothing, since operators broadcast; what does not depend on the inputs is
 * computed before. In: a trace; out: nodes and initializers, and the names of the outputs.
 *
 * @module
 */
import { bufferOf } from "../../device/buffer.ts";
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { writeScalar } from "../../dtype/convert.ts";
import type { WeightNames } from "../../export/export_names.ts";
import { ExportError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { bytesOfTensors } from "../../state/source.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { argOf, Int64, reduceOf } from "../../uop/core/args.ts";
import { mergingAll } from "../../uop/core/build_movement.ts";
import { isAlu, isSame, opName, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { codeOf } from "../wire/element_types.ts";
import { findContraction, findLinear } from "./found_products.ts";
import { lowerElementwise } from "./write_elements.ts";
import { findFunction, type FoundFunction } from "./found_functions.ts";
import { OnnxGraph, type Value } from "./onnx_graph.ts";
import { isFixed, isOne, sameShape, type Shape } from "./traced_sizes.ts";
import { findOrder } from "./found_order.ts";
import { findScatter } from "./found_scatters.ts";
import { findStructure, type Structure } from "./found_structures.ts";
import { shapesOf, type Trace } from "./trace.ts";

/** Constants of so many elements are computed before, however small what they are computed from is. */
const FOLDED = 1 << 16;

/** How a node is written. */
type Plan =
  | { readonly kind: "structure"; readonly found: Structure; readonly needs: readonly UOp[] }
  | { readonly kind: "function"; readonly found: FoundFunction; readonly needs: readonly UOp[] }
  | { readonly kind: "constant"; readonly needs: readonly UOp[] }
  | { readonly kind: "node"; readonly needs: readonly UOp[] };

/** What became of a function. */
export interface Lowered {
  readonly graph: OnnxGraph;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
}

/** Lowers a trace. @throws {ExportError} naming an op without a form in ONNX */
export async function lower(action: string, t: Trace, weights: WeightNames): Promise<Lowered> {
  const lowering = new Lowering(action, t, weights);
  // before anything is realized: nodes are found again by being the same, as views are of what is traced
  mergingAll(() => lowering.plan());
  await lowering.compute();
  return lowering.write();
}

class Lowering {
  private readonly plans = new Map<UOp, Plan>();
  private readonly order: UOp[] = [];
  private readonly values = new Map<UOp, Value>();
  private readonly data = new Map<UOp, Uint8Array>();
  private readonly given: Set<UOp>;
  private readonly open: ReadonlySet<UOp>;
  private readonly g: OnnxGraph;

  constructor(private readonly action: string, private readonly t: Trace, private readonly weights: WeightNames) {
    const traces = t.axes.length === 0 ? 1 : t.axes.length + 2;
    this.g = new OnnxGraph(action, new Array<number>(traces).fill(1), t.axes);
    this.given = new Set(t.inputs.map((i) => i.node));
    // what depends on inputs, or on sizes that are dynamic
    const open = new Set<UOp>();
    for (const u of toposort(t.outputs.map((o) => o.node))) {
      const all = t.twins.get(u)!;
      if (this.given.has(u) || all.some((v) => v !== u) || u.src.some((s) => open.has(s))) open.add(u);
    }
    this.open = open;
  }

  /** Decides how each node that is needed is written, operands before what is of them. */
  plan(): void {
    const stack: [UOp, number][] = this.t.outputs.map((o): [UOp, number] => [o.node, 0]).reverse();
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const [u, next] = top;
      let plan = this.plans.get(u);
      if (plan !== undefined && next === 0) {
        stack.pop();
        continue;
      }
      if (plan === undefined) this.plans.set(u, plan = this.planOf(u));
      if (next < plan.needs.length) {
        top[1]++;
        if (!this.plans.has(plan.needs[next])) stack.push([plan.needs[next], 0]);
      } else {
        this.order.push(u);
        stack.pop();
      }
    }
  }
  private planOf(u: UOp): Plan {
    if (this.isFolded(u)) return { kind: "constant", needs: [] };
    if (this.given.has(u) || u.src.length === 0) return { kind: "node", needs: [] };
    const isKnown = (c: UOp): boolean => this.t.twins.get(c)?.every((v) => v === c) ?? true;
    // a value whose gradient is given may be a function as a whole
    const whole = u.op === Ops.CHECKPOINT ? findFunction(u, isKnown) : undefined;
    if (whole !== undefined) return { kind: "function", found: whole, needs: whole.inputs };
    if (u.op === Ops.CHECKPOINT || isSame(u.op)) return { kind: "node", needs: [u.src[0]] };
    if (WHAT[u.op] !== undefined) throw this.refused(u, WHAT[u.op]);
    const found = findOrder(this.t, u) ?? findLinear(this.t, u) ?? findStructure(this.t, u) ??
      findScatter(this.t, u) ?? findContraction(this.t, u);
    if (found !== undefined) return { kind: "structure", found, needs: found.inputs.map((i) => i.node) };
    const fn = isAlu(u.op) ? findFunction(u, isKnown) : undefined;
    if (fn !== undefined) return { kind: "function", found: fn, needs: fn.inputs };
    return { kind: "node", needs: u.src };
  }
  /** Whether a node is computed before: it is the same for all inputs, and no larger than what it is computed from. */
  private isFolded(u: UOp): boolean {
    if (this.open.has(u) || u.src.length === 0 && u.op !== Ops.IOTA || u.dtype.isComplex) return false;
    if (u.op === Ops.RESHAPE || u.op === Ops.EXPAND || u.op === Ops.PERMUTE || isSame(u.op)) return false;
    const buffers = toposort(u).filter((v) => v.op === Ops.BUFFER);
    const from = buffers.reduce((n, v) => n + argOf(v, Ops.BUFFER).storage.size, 0);
    return prod(shapeOf(u)) <= Math.max(FOLDED, from);
  }
  /** Computes what does not depend on the inputs, and reads weights. */
  async compute(): Promise<void> {
    const wanted = this.order.filter((u) => {
      const isWeight = u.op === Ops.BUFFER && !this.given.has(u);
      return this.plans.get(u)!.kind === "constant" || isWeight;
    });
    // at once: numbers that were given as lists are sent once
    const bytes = bytesOfTensors(wanted.map((u) => new Tensor(u).contiguous()));
    for (const [i, u] of wanted.entries()) this.data.set(u, await bytes[i]());
  }

  write(): Lowered {
    const { g, t } = this;
    for (const name of [...t.inputs, ...t.outputs].map((p) => p.name)) g.unique(name);
    const inputs = t.inputs.map(({ name, node, shape }): Value => ({ name, dtype: node.dtype, shape }));
    t.inputs.forEach(({ node }, i) => {
      if (t.twins.has(node)) this.values.set(node, g.reshape(inputs[i], this.shapeOf(node)));
    });
    for (const u of this.order) if (!this.values.has(u)) this.values.set(u, this.valueOf(u));
    const outputs = t.outputs.map(({ node, name }) => {
      const value = this.full(node), made = { ...value, name };
      g.nodes.push({ op: "Identity", inputs: [value.name], output: name, attributes: {} });
      return made;
    });
    return { graph: g, inputs, outputs };
  }

  private refused(u: UOp, what: string): ExportError {
    const at = u.line === undefined ? "" : `, made at ${String(u.line)}`;
    return new ExportError(this.action, {
      reason: `ONNX has no form for ${opName[u.op]} of ${u.dtype.name}${at}: it is ${what}`,
    });
  }
  private shapeOf(u: UOp): Shape {
    return shapesOf(this.t.twins, u);
  }
  /** A node's value, with axes of size 1 where it only repeats. */
  private narrow(u: UOp): Value {
    return this.values.get(u)!;
  }
  /** A node's value, with all its elements. */
  private full(u: UOp): Value {
    const v = this.narrow(u), shape = this.shapeOf(u);
    return this.g.expand(
      v.shape.length === shape.length ? v : this.g.reshape(v, shape.map(() => this.g.fixed(1))),
      shape,
    );
  }

  private valueOf(u: UOp): Value {
    const plan = this.plans.get(u)!, { g } = this;
    if (codeOf(u.dtype) === 0 || u.dtype.isComplex) throw this.refused(u, "of an element type without operators there");
    if (plan.kind === "constant") return this.constantOf(u, this.shapeOf(u).map((n) => n[0]), this.data.get(u)!);
    if (plan.kind === "function") {
      const values = plan.found.inputs.map((i) => this.narrow(i));
      return g.node(plan.found.op, values, this.broadcast(values), u.dtype, plan.found.attributes);
    }
    if (plan.kind === "structure") {
      const values = plan.found.inputs.map((i) => g.reshape(this.full(i.node), i.shape));
      return g.reshape(plan.found.write(g, values), this.shapeOf(u));
    }
    return this.nodeOf(u);
  }

  /** The shape that operands broadcast to. */
  private broadcast(values: readonly Value[]): Shape {
    const rank = Math.max(...values.map((v) => v.shape.length));
    return Array.from({ length: rank }, (_, i) => {
      const sizes = values.map((v) => v.shape.at(i - rank)).filter((n) => n !== undefined);
      return sizes.find((n) => !isOne(n)) ?? this.g.fixed(1);
    });
  }

  /** Numbers, without the axes along which they are all alike. */
  private constantOf(u: UOp, dims: readonly number[], bytes: Uint8Array): Value {
    const { itemsize } = u.dtype, out = [...dims];
    let data = bytes;
    for (let axis = 0; axis < out.length; axis++) {
      if (out[axis] < 2) continue;
      const block = prod(out.slice(axis + 1)) * itemsize, count = prod(out.slice(0, axis)), n = out[axis];
      const row = (i: number): Uint8Array => data.subarray(i * n * block, (i + 1) * n * block);
      const isAlike = (i: number): boolean => row(i).every((x, k, all) => x === all[k % block]);
      if (!Array.from({ length: count }, (_, i) => i).every(isAlike)) continue;
      const kept = new Uint8Array(count * block);
      for (let i = 0; i < count; i++) kept.set(row(i).subarray(0, block), i * block);
      data = kept;
      out[axis] = 1;
    }
    return this.g.initializer("constant", u.dtype, out, data);
  }

  private nodeOf(u: UOp): Value {
    const { g } = this;
    if (isAlu(u.op)) {
      return lowerElementwise(g, u, u.src.map((s) => this.narrow(s)), (v) => this.broadcast(v)) ??
        this.fail(u, "bits of numbers under another type");
    }
    if (isSame(u.op) || u.op === Ops.EXPAND) return this.narrow(u.src[0]);
    switch (u.op) {
      case Ops.BUFFER:
        return this.weightOf(u);
      case Ops.CONST:
        return this.scalarOf(u);
      case Ops.IOTA: {
        const n = this.shapeOf(u)[0], of = (x: number): Value => g.cast(g.ints([x], 0), u.dtype);
        return g.node("Range", [of(0), g.number(n, u.dtype), of(1)], [n], u.dtype);
      }
      case Ops.RESHAPE:
        return this.reshaped(u);
      case Ops.PERMUTE: {
        const { axes } = argOf(u, Ops.PERMUTE);
        return g.transpose(this.narrow(u.src[0]), axes);
      }
      case Ops.PAD:
        return this.padded(u);
      case Ops.SHRINK:
      case Ops.FLIP:
        return this.cut(u);
      case Ops.WINDOW:
        return this.windowed(u);
      case Ops.UNSKEW:
        return this.unskewed(u);
      case Ops.SKEW:
        return this.skewed(u);
      case Ops.REDUCE:
        return this.reduced(u);
    }
    return this.fail(u, "no operation on tensors");
  }
  private fail(u: UOp, what: string): never {
    throw this.refused(u, what);
  }

  private scalarOf(u: UOp): Value {
    const all = this.t.twins.get(u)!, { g } = this;
    if (all.every((v) => v === u)) return g.scalar(u.dtype, constantBytes(u));
    return g.number(all.map((v) => v.value), u.dtype);
  }

  private weightOf(u: UOp): Value {
    const { storage } = argOf(u, Ops.BUFFER), buffer = bufferOf(storage);
    const known = buffer === undefined ? undefined : this.weights.get(buffer.base);
    const isWhole = known !== undefined && prod(known.shape) === storage.size;
    const v = this.g.initializer(
      known?.name ?? "weight",
      u.dtype,
      isWhole ? known.shape : this.guessedShape(u),
      this.data.get(u)!,
    );
    return this.g.reshape(v, this.shapeOf(u));
  }
  /** The shape under which memory is read first, without axes of size 1. */
  private guessedShape(u: UOp): readonly number[] {
    const user = this.order.find((v) => v.op === Ops.RESHAPE && v.src[0] === u && !this.open.has(v));
    return user === undefined ? shapeOf(u) : shapeOf(user).filter((n) => n !== 1);
  }

  private reshaped(u: UOp): Value {
    const { g } = this, [x] = u.src, v = this.narrow(x), from = this.shapeOf(x), to = this.shapeOf(u);
    const isBig = (n: Shape[number]): boolean => !isOne(n);
    // where only axes of size 1 come or go, repetitions stay what they are
    if (v.shape.length === from.length && sameShape(from.filter(isBig), to.filter(isBig))) {
      const own = v.shape.filter((_, i) => isBig(from[i]));
      let next = 0;
      return g.reshape(v, to.map((n) => isBig(n) ? own[next++] : g.fixed(1)));
    }
    return g.reshape(this.full(x), to);
  }

  private padded(u: UOp): Value {
    const { g } = this, { pairs } = argOf(u, Ops.PAD), all = this.t.twins.get(u)!.map((v) => argOf(v, Ops.PAD).pairs);
    if (pairs.every(([a, b]) => a + b === 0)) return this.narrow(u.src[0]);
    const shape = this.shapeOf(u), before = pairs.map((_, i) => all.map((p) => p[i][0]));
    const after = pairs.map((_, i) => all.map((p) => p[i][1])), amounts = [...before, ...after];
    const isBool = u.dtype.isBool, x = isBool ? g.cast(this.full(u.src[0]), dtypes.uint8) : this.full(u.src[0]);
    const made = g.node("Pad", [x, g.sizes(amounts)], shape, x.dtype);
    return isBool ? g.cast(made, u.dtype) : made;
  }

  private cut(u: UOp): Value {
    const { g } = this, v = this.narrow(u.src[0]), from = this.shapeOf(u.src[0]);
    const x = v.shape.length === from.length ? v : this.full(u.src[0]);
    if (u.op === Ops.FLIP) {
      const { axes } = argOf(u, Ops.FLIP), n = (axis: number) => x.shape[axis];
      const cuts = axes.filter((axis) => !isOne(n(axis))).map((axis) => ({
        axis,
        start: g.fixed(0),
        stop: n(axis),
        flip: true,
      }));
      return g.slice(x, cuts);
    }
    const all = this.t.twins.get(u)!.map((w) => argOf(w, Ops.PAD).pairs);
    const cuts = from.flatMap((n, axis) => {
      const start = all.map((p) => p[axis][0]), stop = all.map((p) => p[axis][1]);
      const isWhole = start.every((s) => s === 0) && stop.every((s, i) => s === n[i]);
      return isWhole || isOne(x.shape[axis]) && stop[0] > start[0] ? [] : [{ axis, start, stop }];
    });
    return g.slice(x, cuts);
  }

  /** So many elements of an axis, from where a number says, and zero where there are none. */
  private windowed(u: UOp): Value {
    const { g } = this, { axis, capacity } = argOf(u, Ops.WINDOW), x = this.full(u.src[0]), [n] = x.shape[axis];
    const all = this.t.twins.get(u)!, isPlain = all.every((v) => v.src[2].isConst(capacity)) && isFixed(x.shape[axis]);
    if (!isPlain) this.fail(u, "a symbolic size: take plain sizes, and name axes by `dynamic`");
    const shape = this.shapeOf(u), places = Array.from({ length: capacity }, (_, i) => i);
    const at = g.node(
      "Add",
      [g.cast(this.narrow(u.src[1]), dtypes.int64), g.ints(places)],
      [g.fixed(capacity)],
      dtypes.int64,
    );
    const bound = (op: string, limit: number): Value => g.node(op, [at, g.ints([limit], 0)], at.shape, dtypes.bool);
    const inside = g.node("And", [bound("Greater", -1), bound("Less", n)], at.shape, dtypes.bool);
    const safe = g.node("Where", [inside, at, g.ints([0], 0)], at.shape, dtypes.int64);
    const taken = g.node("Gather", [x, safe], shape, u.dtype, { axis });
    const mask = g.reshape(inside, shape.map((_, i) => g.fixed(i === axis ? capacity : 1)));
    const zero = g.scalar(u.dtype, new Uint8Array(u.dtype.itemsize));
    return g.node("Where", [mask, taken, zero], shape, u.dtype);
  }

  /** Windows of an axis: elements by their places, the axis and its kernel axis beside each other, then in their order. */
  private unskewed(u: UOp): Value {
    const { g } = this, { axis, kernelAxis, stride, dilation } = argOf(u, Ops.UNSKEW), shape = this.shapeOf(u);
    const v = this.narrow(u.src[0]), index = this.places(u, (o, k) => o * stride + k * dilation);
    if (v.shape.length === shape.length && isOne(v.shape[kernelAxis]) && !isOne(v.shape[axis])) {
      const rest = v.shape.map((_, i) => i).filter((i) => i !== kernelAxis), spot = rest.indexOf(axis);
      const taken = rest.flatMap((i) => i === axis ? [shape[axis], shape[kernelAxis]] : [v.shape[i]]);
      const axes = rest.flatMap((i) => i === axis ? [axis, kernelAxis] : [i]);
      const made = g.node("Gather", [g.reshape(v, rest.map((i) => v.shape[i])), index], taken, u.dtype, { axis: spot });
      return g.transpose(made, shape.map((_, i) => axes.indexOf(i)));
    }
    return this.takenAt(u, this.full(u.src[0]), index);
  }
  /** Windows back at their places: elements by their places, and zero, which is put behind the last, where there is none. */
  private skewed(u: UOp): Value {
    const { g } = this, { axis, stride, dilation } = argOf(u, Ops.UNSKEW), x = this.full(u.src[0]), [n] = x.shape[axis];
    const index = this.places(u, (i, k) => {
      const at = (i - k * dilation) / stride;
      return Number.isInteger(at) && at >= 0 && at < n ? at : n;
    });
    const shape = x.shape.map((s, i) => i === axis ? g.fixed(n + 1) : s), rank = shape.length;
    const amounts = Array.from({ length: 2 * rank }, (_, i) => i === rank + axis ? 1 : 0);
    return this.takenAt(u, g.node("Pad", [x, g.ints(amounts)], shape, x.dtype), index);
  }
  /** Where the elements of an axis are from, by position and by the kernel's: int64 of these two axes. */
  private places(u: UOp, at: (i: number, k: number) => number): Value {
    const { axis, kernelAxis } = argOf(u, Ops.UNSKEW),
      shape = this.shapeOf(u),
      sizes = [shape[axis], shape[kernelAxis]];
    if (!sizes.every(isFixed) || !isFixed(this.shapeOf(u.src[0])[axis])) this.fail(u, "windows along a dynamic axis");
    const [[size], [kernel]] = sizes;
    const places = Array.from({ length: size * kernel }, (_, i) => at(Math.floor(i / kernel), i % kernel));
    const bytes = new Uint8Array(BigInt64Array.from(places, BigInt).buffer);
    return this.g.initializer("places", dtypes.int64, [size, kernel], bytes);
  }
  /** Elements along the axis of a skew, at `index` of its two axes. */
  private takenAt(u: UOp, x: Value, index: Value): Value {
    const { g } = this, { axis, kernelAxis } = argOf(u, Ops.UNSKEW), shape = this.shapeOf(u);
    const turned = axis < kernelAxis ? index : g.transpose(index, [1, 0]);
    const wide = g.reshape(turned, shape.map((n, i) => i === axis || i === kernelAxis ? n : g.fixed(1)));
    return g.node("GatherElements", [x, g.expand(wide, shape)], shape, u.dtype, { axis });
  }

  private reduced(u: UOp): Value {
    const { g } = this, { op, axes } = reduceOf(u), [x] = u.src, isMax = op === Ops.MAX;
    const v = isMax && this.narrow(x).shape.length === shapeOf(x).length ? this.narrow(x) : this.full(x);
    const shape = v.shape.map((n, i) => axes.includes(i) ? g.fixed(1) : n);
    // sums and products of uint64 are those of int64, but which one is larger is not
    const wide = isMax && v.dtype === dtypes.uint64 ? v.dtype : countable(v.dtype);
    const name = isMax ? "ReduceMax" : op === Ops.ADD ? "ReduceSum" : "ReduceProd";
    const made = g.node(name, [g.cast(v, wide), g.ints(axes)], shape, wide, { keepdims: 1 });
    return g.cast(made, u.dtype);
  }
}

/** The dtype in which numbers are reduced: ONNX sums no bools and no small integers. */
function countable(dtype: DType): DType {
  if (dtype.isFloat || dtype === dtypes.int64 || dtype === dtypes.int32) return dtype;
  return dtype.isUnsigned && dtype.itemsize >= 4 ? dtypes.int64 : dtypes.int32;
}

/** Why there is no form, by op. */
const WHAT: Readonly<Record<number, string>> = {
  [Ops.AFTER]: "memory that is written in place: compute a new tensor, by where() or cat()",
  [Ops.CUSTOM]: "a kernel of your own: compute it by methods of tensors",
  [Ops.COMPLEX]: "complex numbers: give their parts, by viewAsReal()",
  [Ops.BIND]: "a variable: take a tensor of rank 0 as an argument",
};

/** The bytes of a constant. */
function constantBytes(u: UOp): Uint8Array {
  const bytes = new Uint8Array(u.dtype.itemsize), { arg } = u;
  writeScalar(new DataView(bytes.buffer), 0, u.dtype, arg instanceof Int64 ? arg.toBigInt() : arg as number);
  return bytes;
}
