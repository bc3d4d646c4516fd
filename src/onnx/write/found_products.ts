/**
 * Sums of products as MatMul: axes of the product are told apart by which operand has them and whether they are summed,
 * and both operands are brought into the order that MatMul takes. In: REDUCE of MUL; out: MatMul between moves, or Gemm
 * where it is a linear layer on rows.
 *
 * @module
 */
import { reduceOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import type { OnnxGraph, Value } from "./onnx_graph.ts";
import { isOne, product, type Shape } from "./traced_sizes.ts";
import { isSum, type Structure, unexpanded } from "./found_structures.ts";
import { shapesOf, type Trace } from "./trace.ts";

/** Axes of a product by what they are in it. */
interface Roles {
  readonly batch: readonly number[];
  readonly left: readonly number[];
  readonly right: readonly number[];
  readonly summed: readonly number[];
  readonly all: Shape;
}

/** The operands of a sum of products of floats, and what its axes are; undefined for all else. */
function factorsOf(t: Trace, u: UOp): { readonly a: UOp; readonly b: UOp; readonly roles: Roles } | undefined {
  if (!isSum(u) || u.src[0].op !== Ops.MUL || !u.dtype.isFloat) return undefined;
  const [a, b] = u.src[0].src.map(unexpanded), roles = rolesOf(t, u, a, b);
  return roles && { a, b, roles };
}

function rolesOf(t: Trace, u: UOp, a: UOp, b: UOp): Roles | undefined {
  const all = shapesOf(t.twins, u.src[0]), { axes } = reduceOf(u), ownA = shapeOf(a), ownB = shapeOf(b);
  if (ownA.length !== all.length || ownB.length !== all.length) return undefined;
  const roles = { batch: [] as number[], left: [] as number[], right: [] as number[], summed: [] as number[], all };
  for (let i = 0; i < all.length; i++) {
    if (isOne(all[i])) continue;
    const hasA = ownA[i] !== 1, hasB = ownB[i] !== 1, isSummed = axes.includes(i);
    if (isSummed ? !(hasA && hasB) : !hasA && !hasB) return undefined;
    (isSummed ? roles.summed : hasA && hasB ? roles.batch : hasA ? roles.left : roles.right).push(i);
  }
  return roles.summed.length === 0 || roles.left.length + roles.right.length === 0 ? undefined : roles;
}

/** An operand with the axes of `groups` in their order: those of a group as one, unless `keep` says otherwise. */
function arranged(g: OnnxGraph, v: Value, all: Shape, groups: readonly (readonly number[])[], keep: number): Value {
  const order = groups.flat(), own = order.toSorted((a, b) => a - b);
  const tight = g.reshape(v, own.map((a) => all[a])), turned = g.transpose(tight, order.map((a) => own.indexOf(a)));
  const shape = groups.flatMap((group, i) =>
    i < keep ? group.map((a) => all[a]) : [product(group.map((a) => all[a]), g.like)]
  );
  return g.reshape(turned, shape);
}

/** MatMul, where a node is a sum of products of operands that are not all of one form. */
export function findContraction(t: Trace, u: UOp): Structure | undefined {
  const found = factorsOf(t, u);
  if (found === undefined) return undefined;
  const { a, b, roles: { batch, left, right, summed, all } } = found;
  return {
    inputs: [a, b].map((node) => ({ node, shape: shapesOf(t.twins, node) })),
    write: (g, [x, y]) => {
      // without a batch all axes of the left operand stay as they are
      const isPlain = batch.length === 0 && left.length > 0;
      const l = arranged(g, x, all, [batch, left, summed], isPlain ? 2 : 1);
      const r = arranged(g, y, all, [batch, summed, right], 1),
        of = (axes: readonly number[]): Shape => axes.map((i) => all[i]);
      const rows = isPlain ? of(left) : [product(of(left), g.like)];
      const made = g.node("MatMul", [l, r], [...of(batch), ...rows, product(of(right), g.like)], u.dtype);
      const order = [...batch, ...left, ...right], sorted = order.toSorted((i, j) => i - j);
      return g.transpose(g.reshape(made, of(order)), sorted.map((i) => order.indexOf(i)));
    },
  };
}

/** Gemm: rows times a weight that lies turned, and a bias. */
export function findLinear(t: Trace, u: UOp): Structure | undefined {
  if (u.op !== Ops.ADD || u.src[0].op !== Ops.RESHAPE) return undefined;
  const bias = unexpanded(u.src[1]), shape = shapeOf(u);
  if (bias === u.src[1] || shape.length !== 2 || shapeOf(bias).join() !== `1,${shape[1]}`) return undefined;
  const found = factorsOf(t, u.src[0].src[0]);
  if (found === undefined) return undefined;
  const { a, b, roles: { batch, left, right, summed, all } } = found;
  if (batch.length > 0 || left.length !== 1 || right.length !== 1 || left[0] > right[0]) return undefined;
  const width = product(summed.map((i) => all[i]), all[0]), ownB = shapesOf(t.twins, b);
  if (!summed.every((i) => i > right[0])) return undefined;
  return {
    inputs: [
      { node: a, shape: [all[left[0]], width] },
      { node: b, shape: [all[right[0]], product(ownB.slice(right[0] + 1), width)] },
      { node: bias, shape: [all[right[0]]] },
    ],
    write: (g, values) => {
      const shape: Shape = [all[left[0]], all[right[0]]], [x, y, c] = values;
      const turned = g.turnedOf(y);
      return turned === undefined
        ? g.node("Gemm", [x, y, c], shape, u.dtype, { transB: 1 })
        : g.node("Gemm", [x, turned, c], shape, u.dtype);
    },
  };
}
