/**
 * What programs that realize values in between are made of: forms of leaves, and steps from a value and others to a new
 * one, in float64. What a step computes on its way is of its own (`own` scales it by a number that no other step has): equal expressions
 * are one node, of which a gradient would be one.
 *
 * @module
 */
import { Tensor } from "../../../mod.ts";
import type { Random } from "../../support/random.ts";

/** Another value of the program, and of those that fit where `isLike` says so; the step depends on it. */
export type Other = (isLike?: (t: Tensor) => boolean) => Tensor;
/** A step; it draws as much from `r` whatever was realized. */
export type Step = (r: Random, x: Tensor, other: Other) => Tensor;

/** Ends of a part of an axis. */
function part(r: Random, n: number): [number, number] {
  const begin = r.int(0, n - 1);
  return [begin, r.int(begin + 1, n)];
}

function isLike(a: Tensor, b: Tensor): boolean {
  return a.ndim === b.ndim && a.shape.every((n, i) => n === b.shape[i]);
}

/** `x` by a number of the step's own. */
function own(x: Tensor, step: number): Tensor {
  return x.mul(1 + step / 64);
}

/** A factor of the sizes, in another order of them. */
function otherShape(r: Random, x: Tensor): number[] {
  const n = x.numel(), divisors = Array.from({ length: n }, (_, i) => i + 1).filter((d) => n % d === 0);
  const first = r.pick(divisors);
  return r.below(2) === 0 ? [first, n / first] : [n / first, 1, first];
}

/** Steps by what they do. */
export const STEPS: readonly Step[] = [
  (r, x) => x.mul(r.pick([0.5, -1.5, 2])),
  (r, x) => x.add(r.pick([1, -0.25])),
  (_, x) => x.sin(),
  (_, x) => own(x, 3).mul(0.1).exp(),
  (_, x) => x.tanh(),
  (_, x) => x.relu(),
  (_, x) => own(x, 6).mul(x).add(1.5).abs().sqrt(),
  (_, x) => x.flatten(),
  (r, x) => x.unsqueeze(r.int(0, x.ndim)),
  (_, x) => x.squeeze(),
  (_, x) => x.permute(x.shape.map((_, i) => x.ndim - 1 - i)),
  (r, x) => {
    const n = r.int(2, 3), at = r.int(0, x.ndim);
    return x.unsqueeze(at).expand([...x.shape.slice(0, at), n, ...x.shape.slice(at)]);
  },
  (r, x) => x.shrink(x.shape.map((n) => part(r, n))),
  (r, x) =>
    x.ndim === 0 ? x : own(x, 13).at(new Tensor(Array.from({ length: r.int(1, 4) }, () => r.below(x.shape[0])))),
  (r, x) => x.ndim === 0 ? x : x.at(r.below(x.shape[0])),
  (r, x) => x.pad(x.shape.map(() => [r.int(0, 1), r.int(0, 2)] as [number, number])),
  (r, x) => x.ndim === 0 ? x : x.flip([r.below(x.ndim)]),
  (_, x, other) => x.ndim === 0 ? x : own(x, 17).cat([other((o) => isLike(o, x))], 0),
  (r, x) => x.ndim === 0 ? x : own(x, 18).sum(r.below(x.ndim)),
  (r, x) => x.ndim === 0 ? x : own(x, 19).mean(r.below(x.ndim), { keepdim: true }),
  (r, x) => x.ndim === 0 ? x : own(x, 20).softmax(r.below(x.ndim)),
  (r, x) => x.ndim === 0 ? x : own(x, 21).cumsum(r.below(x.ndim)),
  (_, x, other) => x.mul(other((o) => isLike(o, x))),
  (_, x, other) => x.add(own(other(), 23).sum()),
  (_, x, other) => x.sub(own(other(), 24).mean().tanh()),
  (_, x) => x.ndim === 2 ? own(x, 25).matmul(own(x, 26).transpose(0, 1)).mul(0.1) : own(x, 25).sum(),
  (_, x) => x.contiguous(),
  (_, x) => x.gt(0.1).where(x, own(x, 27).mul(0.3)),
  (r, x) => x.reshape(otherShape(r, x)),
  (_, x) => own(x, 29).cast("float32").cast("float64").sin(),
  (_, x) => x.contiguousBackward(),
  (r, x) => x.ndim < 2 ? x : x.transpose(r.below(x.ndim), r.below(x.ndim)),
  (r, x) => x.ndim === 0 ? x : x.at([r.below(x.shape[0]), x.shape[0], r.int(1, 2)]),
  (_, x, other) => x.add(own(x, 33).detach()).add(own(other(), 34).max()),
  (r, x) => x.ndim === 0 || x.shape[0] < 2 ? x : r.pick(x.chunk(2)),
  (_, x) => x.reshape([1, ...x.shape]).expand([2, ...x.shape]),
  (r, x) => x.unsqueeze(r.int(0, x.ndim)).permute([...new Array(x.ndim + 1).keys()].reverse()).flatten(),
];

/** Forms of a leaf of two axes: a list, flat memory in a shape, drawn, computed, a part of something. */
export const LEAVES: readonly ((r: Random, rows: number, columns: number) => Tensor)[] = [
  (r, n, m) =>
    new Tensor(Array.from({ length: n }, () => Array.from({ length: m }, () => r.int(-8, 8) / 4)), {
      dtype: "float64",
    }),
  (r, n, m) => new Tensor(Float64Array.from({ length: n * m }, () => r.int(-8, 8) / 4)).reshape([n, m]),
  (r, n, m) => {
    Tensor.manualSeed(r.below(1000));
    return Tensor.rand([n, m], { dtype: "float64" });
  },
  (_, n, m) => Tensor.arange(n * m, { dtype: "float64" }).reshape([n, m]).mul(0.1),
  (r, n, m) =>
    new Tensor(Float64Array.from({ length: n * m + 3 }, () => r.int(-8, 8) / 4)).at([2, 2 + n * m]).reshape([n, m]),
  (_, n, m) => Tensor.ones([m, n], { dtype: "float64" }).transpose(0, 1),
];
