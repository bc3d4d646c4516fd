/**
 * Operators that ONNX has whole and the tensor graph as sums of products, windows and comparisons. A guess of what a node
 * is, read from its form, is built again by the same method of tensors: nodes are interned, so that the same computation
 * is the same node, and a guess that is wrong is another one. In: a node; out: operands, and what to write.
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { argOf, reduceOf, type SkewArg } from "../../uop/core/args.ts";
import { reshape } from "../../uop/core/build_movement.ts";
import { isMovement, isSame, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { dtypes } from "../../dtype/dtype.ts";
import type { OnnxGraph, Value } from "./onnx_graph.ts";
import { isFixed, product, type Shape, type Size } from "./traced_sizes.ts";
import { shapesOf, type Trace } from "./trace.ts";

/** What an operator takes: a node, under a shape. */
export interface Operand {
  readonly node: UOp;
  readonly shape: Shape;
}
/** An operator that was found. What it writes has the elements of the node, in its order. */
export interface Structure {
  readonly inputs: readonly Operand[];
  write(g: OnnxGraph, inputs: readonly Value[]): Value;
}
type Guess = (t: Trace, u: UOp) => Structure | undefined;

/** What is below repetitions of axes. */
export function unexpanded(u: UOp): UOp {
  while (u.op === Ops.EXPAND) u = u.src[0];
  return u;
}
/** Whether it is a sum over axes. */
export function isSum(u: UOp): boolean {
  return u.op === Ops.REDUCE && reduceOf(u).op === Ops.ADD;
}
/** Whether a computation comes to `u`, under shapes and casts. */
function comesTo(build: () => Tensor, u: UOp): boolean {
  let v: UOp;
  try {
    v = build().uop;
  } catch {
    return false; // what was guessed cannot be
  }
  while (v !== u && (v.op === Ops.RESHAPE || v.op === Ops.CAST || isSame(v.op))) v = v.src[0];
  return v === u;
}
const tensorOf = (u: UOp): Tensor => new Tensor(u);
const whole = (t: Trace, node: UOp): Operand => ({ node, shape: shapesOf(t.twins, node) });

/** Softmax and its logarithm. */
const softmax: Guess = (t, u) => {
  const isLog = u.op === Ops.ADD, isWhole = u.op === Ops.FDIV;
  if (!isLog && !isWhole) return undefined;
  const shifted = isLog ? u.src[0] : u.src[0].src[0]?.src[0], x = shifted?.src[0];
  let sum: UOp | undefined = unexpanded(isLog ? u.src[1].src[0] ?? u : u.src[1]);
  for (let i = 0; i < 3 && sum !== undefined && sum.op !== Ops.REDUCE; i++) sum = sum.src[0];
  if (x === undefined || sum?.op !== Ops.REDUCE || !t.twins.has(x)) return undefined;
  const [axis, ...more] = reduceOf(sum).axes;
  if (more.length > 0 || shapeOf(x).length !== shapeOf(u).length) return undefined;
  if (!comesTo(() => isLog ? tensorOf(x).logSoftmax(axis) : tensorOf(x).softmax(axis), u)) return undefined;
  const op = isLog ? "LogSoftmax" : "Softmax";
  return {
    inputs: [whole(t, x)],
    write: (g, [v]) => g.node(op, [v], v.shape, v.dtype, { axis }),
  };
};

/** Numbers less their mean, over their deviation: the operand, the axes, and what is added to the variance. */
function normalized(t: Trace, u: UOp): { x: UOp; axes: readonly number[]; eps: number } | undefined {
  if (u.op !== Ops.MUL) return undefined;
  const x = u.src[0].src[0], deviation = unexpanded(u.src[1]).src[1]?.src[0], eps = deviation?.src[1];
  const sum = deviation?.src[0]?.src[0];
  if (x === undefined || eps?.op !== Ops.CONST || sum?.op !== Ops.REDUCE || !t.twins.has(x)) return undefined;
  if (x.dtype === dtypes.float64 && Math.fround(eps.value) !== eps.value) return undefined; // it is written as float32
  const { axes } = reduceOf(sum), shape = shapesOf(t.twins, x), rank = shape.length;
  if (!axes.every((a, i) => a === rank - axes.length + i && isFixed(shape[a]))) return undefined;
  if (!comesTo(() => tensorOf(x).layernorm([...axes], { eps: eps.value }), u)) return undefined;
  return { x, axes, eps: eps.value };
}

/** LayerNormalization, with a weight and a bias over the axes that are normalized, or without. */
const layerNorm: Guess = (t, u) => {
  const isAffine = u.op === Ops.ADD && u.src[0].op === Ops.MUL, scaled = isAffine ? u.src[0] : u;
  const found = normalized(t, isAffine ? scaled.src[0] : u);
  if (found === undefined) return undefined;
  const { x, axes, eps } = found, shape = shapesOf(t.twins, x), tail = axes.map((a) => shape[a]);
  const attributes = { axis: axes[0], epsilon: { float: eps } };
  if (!isAffine) {
    return {
      inputs: [whole(t, x)],
      write: (g, [v]) => {
        const ones = g.expand(g.reshape(g.cast(g.ints([1]), v.dtype), tail.map(() => g.fixed(1))), tail);
        return g.node("LayerNormalization", [v, ones], v.shape, v.dtype, attributes);
      },
    };
  }
  const weight = unexpanded(scaled.src[1]), bias = unexpanded(u.src[1]), of = axes.map((a) => shapeOf(x)[a]);
  const isOver = (w: UOp): boolean => {
    const s = shapeOf(w), own = s.slice(s.length - of.length);
    return s.length === shape.length && own.every((n, i) => n === of[i]) && prod(s) === prod(of);
  };
  if (!isOver(weight) || !isOver(bias)) return undefined;
  return {
    inputs: [whole(t, x), { node: weight, shape: tail }, { node: bias, shape: tail }],
    write: (g, values) => g.node("LayerNormalization", values, values[0].shape, values[0].dtype, attributes),
  };
};

/** How windows were made. */
interface Windows {
  /** What they are of: `[...lead, ...spatial]`, merged as it may be. */
  readonly x: UOp;
  readonly spatial: Shape;
  readonly stride: readonly number[];
  readonly dilation: readonly number[];
  readonly pads: readonly (readonly [number, number])[];
}

/** Every way in which windows below `u`, over the last `rank` axes after `lead` others, may have been made. */
function windowsBelow(t: Trace, u: UOp, lead: number, rank: number): Windows[] {
  const unskewed = new Map<number, SkewArg>(), last = Array.from({ length: rank }, (_, i) => lead + 2 * i);
  let q: UOp = u;
  for (; isMovement(q.op); q = q.src[0]) {
    if (q.op === Ops.UNSKEW) unskewed.set(argOf(q, Ops.UNSKEW).axis, argOf(q, Ops.UNSKEW));
    else if (q.op === Ops.RESHAPE && shapeOf(q).length === lead + 2 * rank && q.src[0].op !== Ops.PERMUTE) break;
  }
  if (!isMovement(q.op)) return [];
  const shifted = last.map((a) => unskewed.get(a)), shape = shapesOf(t.twins, q);
  if (shifted.some((s) => s === undefined) && unskewed.size > 0) return [];
  const stride = last.map((a, i) => shifted[i]?.stride ?? shape[a + 1][0]);
  const dilation = shifted.map((s) => s?.dilation ?? 1);
  const inside = last.map((a) => unskewed.size > 0 ? shape[a] : product([shape[a], shape[a + 1]], shape[a]));
  let pads: readonly (readonly [number, number])[] = last.map(() => [0, 0]);
  const found: Windows[] = [];
  let b = q.src[0];
  for (let i = 0; i < 5; i++) {
    const own = shapesOf(t.twins, b), isSpatial = own.length > rank;
    found.push({ x: b, spatial: inside, stride, dilation, pads });
    if (isSpatial) found.push({ x: b, spatial: own.slice(-rank), stride, dilation, pads });
    if (b.op === Ops.WHERE) b = b.src[1];
    if (b.op === Ops.PAD) {
      const more = argOf(b, Ops.PAD).pairs.slice(-rank);
      pads = pads.map(([before, after], i) => [before + more[i][0], after + more[i][1]]);
    } else if (b.op !== Ops.SHRINK && b.op !== Ops.RESHAPE) break;
    b = b.src[0];
  }
  return found.reverse(); // what pads most itself first
}
/** Paddings as ONNX lists them, and as methods of tensors do. */
const onnxPads = (pads: Windows["pads"]): number[] => [...pads.map(([a]) => a), ...pads.map(([, b]) => b)];
const methodPads = (pads: Windows["pads"]): number[] => [...pads].reverse().flat();

/** Convolutions: sums of products of windows with a weight. ONNX has none of integers. */
const conv: Guess = (t, u) => {
  if (!isSum(u) || u.src[0].op !== Ops.MUL || !u.dtype.isFloat) return undefined;
  const [left, right] = u.src[0].src, all = shapesOf(t.twins, u.src[0]), rank = (all.length - 4) / 2;
  const { axes } = reduceOf(u);
  if (!Number.isInteger(rank) || rank < 1 || axes.length !== rank + 1 || axes[0] !== 3 + rank) return undefined;
  const [n, groups, each] = all, channels = all[3 + rank], kernel = all.slice(4 + rank), core = unexpanded(right);
  const like = n, inputs = product([groups, channels], like), outputs = product([groups, each], like);
  const weightShape = [outputs, channels, ...kernel], group = groups[0];
  if (!weightShape.every(isFixed) || prod(shapeOf(core)) !== prod(weightShape.map((s) => s[0]))) return undefined;
  for (const w of windowsBelow(t, left, 3, rank)) {
    const shape = [n, inputs, ...w.spatial], sizes = shape.map((s) => s[0]);
    if (prod(shapeOf(w.x)) !== prod(sizes)) continue;
    const { stride, dilation } = w, options = { stride, dilation, padding: methodPads(w.pads), groups: group };
    const build = (): Tensor =>
      tensorOf(reshape(w.x, sizes)).conv2d(tensorOf(reshape(core, weightShape.map((s) => s[0]))), null, options);
    if (!comesTo(build, u)) continue;
    const given = {
      kernel_shape: kernel.map((k) => k[0]),
      strides: stride,
      dilations: dilation,
      pads: onnxPads(w.pads),
      group,
    };
    return {
      inputs: [{ node: w.x, shape }, { node: core, shape: weightShape }],
      write: (g, values) => g.node("Conv", values, [n, outputs, ...all.slice(3, 3 + rank)], u.dtype, given),
    };
  }
};

/** Convolutions to whose channels a bias is added. */
const convBias: Guess = (t, u) => {
  if (u.op !== Ops.ADD || u.src[0].op !== Ops.RESHAPE) return undefined;
  const bias = unexpanded(u.src[1]), found = bias === u.src[1] ? undefined : conv(t, u.src[0].src[0]);
  if (found === undefined) return undefined;
  const [weight] = found.inputs.slice(1), own = shapeOf(bias), shape = shapeOf(u);
  if (own.length !== shape.length || own.some((n, i) => n !== (i === 1 ? shape[1] : 1))) return undefined;
  return { ...found, inputs: [...found.inputs, { node: bias, shape: [weight.shape[0]] }] };
};

/** Maxima and means of windows. */
const pool: Guess = (t, u) => {
  const isMean = u.op === Ops.FDIV && u.src[0].op === Ops.RESHAPE && u.src[1].op === Ops.CONST;
  const r = isMean ? u.src[0].src[0] : u;
  if (r.op !== Ops.REDUCE || reduceOf(r).op !== (isMean ? Ops.ADD : Ops.MAX) || !r.dtype.isFloat) return undefined;
  const { axes } = reduceOf(r), all = shapesOf(t.twins, r.src[0]), rank = axes.length, lead = all.length - 2 * rank;
  if (lead < 0 || axes[0] !== lead + rank || !isMovement(r.src[0].op)) return undefined;
  const kernel = axes.map((a) => all[a][0]), front = all.slice(0, lead);
  for (const w of windowsBelow(t, r.src[0], lead, rank)) {
    const shape = [...front, ...w.spatial], sizes = shape.map((s) => s[0]);
    if (prod(shapeOf(w.x)) !== prod(sizes)) continue;
    const options = { stride: w.stride, dilation: w.dilation, padding: methodPads(w.pads) };
    const build = (): Tensor => {
      const x = tensorOf(reshape(w.x, sizes));
      return isMean ? x.avgPool2d(kernel, options) : x.maxPool2d(kernel, options);
    };
    if (!comesTo(build, u)) continue;
    const like = all[0], n = product(front.slice(0, -1), like), c = front[lead - 1] ?? product([], like);
    const given = { kernel_shape: kernel, strides: w.stride, dilations: w.dilation, pads: onnxPads(w.pads) };
    const out = [n, c, ...all.slice(lead, lead + rank)];
    return {
      inputs: [{ node: w.x, shape: [n, c, ...w.spatial] }],
      write: (g, [v]) =>
        isMean
          ? g.node("AveragePool", [v], out, v.dtype, { ...given, count_include_pad: 1 })
          : g.node("MaxPool", [v], out, v.dtype, given),
    };
  }
};

/** Concat: a choice, by position, of padded parts. */
const concat: Guess = (t, u) => {
  if (u.op !== Ops.WHERE) return undefined;
  const parts: UOp[] = [], stack = [u];
  let axis = -1;
  for (let v = stack.pop(); v !== undefined; v = stack.pop()) {
    if (v.op === Ops.WHERE) stack.push(v.src[2], v.src[1]);
    else if (v.op !== Ops.PAD) return undefined;
    else {
      axis = argOf(v, Ops.PAD).pairs.findIndex(([a, b]) => a + b > 0);
      parts.push(v.src[0]);
    }
  }
  if (!comesTo(() => Tensor.cat(parts.map(tensorOf), axis), u)) return undefined;
  const shape = shapesOf(t.twins, u);
  return {
    inputs: parts.map((p) => whole(t, p)),
    write: (g, values) => g.node("Concat", values, shape, u.dtype, { axis }),
  };
};

/** Sums up to each position. */
const cumSum: Guess = (t, u) => {
  if (!isSum(u) || u.src[0].op !== Ops.WHERE) return undefined;
  const core = unexpanded(u.src[0].src[2]), [a, ...more] = reduceOf(u).axes, axis = a - 1;
  if (more.length > 0 || axis < 0 || core.op !== Ops.RESHAPE || shapeOf(core)[axis] !== 1) return undefined;
  const shape = shapesOf(t.twins, core).filter((_, i) => i !== axis);
  if (!comesTo(() => tensorOf(reshape(core, shape.map((s) => s[0]))).cumsum(axis), u)) return undefined;
  return {
    inputs: [{ node: core, shape }],
    write: (g, [v]) => g.node("CumSum", [v, g.ints([axis], 0)], shape, u.dtype),
  };
};

/** The place of the largest. */
const argMax: Guess = (t, u) => {
  const places = u.op === Ops.ADD && u.src[0].op === Ops.MUL ? u.src[0].src[0] : u;
  const x = places.op === Ops.REDUCE ? places.src[0].src[0]?.src[0]?.src[0] : undefined;
  if (x === undefined || !t.twins.has(x) || !x.dtype.isFloat) return undefined;
  const [axis, ...more] = reduceOf(places).axes;
  if (more.length > 0 || !comesTo(() => tensorOf(x).argmax(axis), u)) return undefined;
  const shape = shapesOf(t.twins, u);
  return {
    inputs: [whole(t, x)],
    write: (g, [v]) => g.cast(g.node("ArgMax", [v], shape, dtypes.int64, { axis, keepdims: 1 }), u.dtype),
  };
};

/** Elements by their places: a sum of what stands where positions and places are equal. */
const gather: Guess = (t, u) => {
  if (!isSum(u) || u.src[0].op !== Ops.WHERE) return undefined;
  const [axis, ...more] = reduceOf(u).axes, [condition, values, zero] = u.src[0].src, equal = unexpanded(condition);
  if (more.length > 0 || equal.op !== Ops.CMPEQ || unexpanded(zero).op !== Ops.CONST || unexpanded(zero).arg !== 0) {
    return undefined;
  }
  const all = shapesOf(t.twins, u.src[0]), sides = equal.src.map(unexpanded), data = unexpanded(values);
  const isPosition = (v: UOp): boolean => {
    const base = v.op === Ops.RESHAPE ? v.src[0] : v;
    return base.op === Ops.IOTA && shapeOf(v).length === all.length && shapeOf(v)[axis] === all[axis][0];
  };
  const at = sides.findIndex(isPosition), index = sides[1 - at];
  if (at < 0 || !index.dtype.isInt || shapeOf(index).length !== all.length || shapeOf(data).length !== all.length) {
    return undefined;
  }
  const own = (v: UOp): number[] => shapeOf(v).flatMap((n, i) => n === 1 ? [] : [i]);
  const ofIndex = own(index), ofData = [...new Set([...own(data), axis])].sort((a, b) => a - b);
  if (ofIndex.includes(axis)) return undefined;
  const dataShape = ofData.map((a) => all[a]), extra = ofIndex.filter((a) => !ofData.includes(a));
  const inputs = [{ node: data, shape: dataShape }, { node: index, shape: ofIndex.map((a) => all[a]) }];
  const spot = ofData.indexOf(axis), isApart = extra.length === ofIndex.length;
  if (!isApart && extra.length > 1) return undefined;
  // axes of the result: those of the data, with those of the index alone where the axis was
  const axes = [...ofData.slice(0, spot), ...extra, ...ofData.slice(spot + 1)], sorted = axes.toSorted((a, b) => a - b);
  return {
    inputs,
    write: (g, [d, i]) => {
      const order = sorted.map((a) => axes.indexOf(a)), shape: Shape = axes.map((a) => all[a]);
      if (isApart) return g.transpose(g.node("Gather", [d, i], shape, d.dtype, { axis: spot }), order);
      const places = extra.length === 1 ? axes : axes.toSpliced(spot, 0, axis);
      const turned = g.transpose(i, places.filter((a) => ofIndex.includes(a)).map((a) => ofIndex.indexOf(a)));
      const narrow = g.reshape(turned, places.map((a) => ofIndex.includes(a) ? all[a] : g.fixed(1)));
      const full = g.expand(narrow, places.map((a): Size => a === axis ? g.fixed(1) : all[a]));
      const taken = g.node("GatherElements", [d, full], full.shape, d.dtype, { axis: spot });
      return g.transpose(g.reshape(taken, shape), order);
    },
  };
};

/** Means: sums over as many as there are. */
const mean: Guess = (t, u) => {
  if (u.op !== Ops.FDIV || u.src[1].op !== Ops.CONST) return undefined;
  const sum = u.src[0].op === Ops.RESHAPE ? u.src[0].src[0] : u.src[0];
  if (!isSum(sum) || !t.twins.has(sum.src[0])) return undefined;
  const { axes } = reduceOf(sum), all = shapesOf(t.twins, sum.src[0]), count = product(axes.map((a) => all[a]), all[0]);
  if (t.twins.get(u.src[1])!.some((c, i) => c.value !== count[i])) return undefined;
  const shape = shapesOf(t.twins, sum);
  return {
    inputs: [whole(t, sum.src[0])],
    write: (g, [v]) => g.node("ReduceMean", [v, g.ints(axes)], shape, v.dtype, { keepdims: 1 }),
  };
};

const GUESSES: readonly Guess[] = [softmax, layerNorm, convBias, conv, pool, mean, concat, cumSum, argMax, gather];

/** The operator that a node is, if it is one. */
export function findStructure(t: Trace, u: UOp): Structure | undefined {
  for (const guess of GUESSES) {
    const found = guess(t, u);
    if (found !== undefined) return found;
  }
}
