/**
 * Pools over as many windows as a size says, and dropout of channels. Names, parameters and defaults are PyTorch's.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { envNumber } from "../../helpers/env.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { checkCount, checkNumber, checkOptions } from "../../helpers/options.ts";
import { TensorBase } from "../handle/base.ts";
import { constantAxis } from "../handle/dims.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { drawUniform } from "../nodes/random.ts";
import { type ConvTensor, type PerAxis, perAxis } from "./conv.ts";
import type { CriterionTensor } from "../math/criteria.ts";

/** The families that it is written in. */
export interface PoolTensor extends ConvTensor, CriterionTensor {}
/** Tensors with adaptive pools. */
export abstract class PoolTensor extends TensorBase {
  /** Positions of an axis, given on the host. */
  protected picks(axis: number, places: readonly number[]): this {
    const index = this.fromList(Int32Array.from(places)) as this;
    return this.indexSelect(axis, index);
  }
  /** Numbers along an axis, given on the host. */
  protected listed(axis: number, values: readonly number[]): this {
    const list = this.fromList(Float64Array.from(values), this.dtype) as this;
    return list.cast(this.dtype).reshape(this.shape.map((_, i) => i === axis ? values.length : 1));
  }

  /** The sizes of the last axes: null keeps one. */
  private sizes(action: string, outputSize: unknown, rank?: number): number[] {
    const count = rank ?? (Array.isArray(outputSize) && outputSize.length || 2), shape = this.shape;
    if (count > shape.length) {
      throw new ShapeError(action, { shapes: [shape], reason: `it has fewer axes than the size, ${count}` });
    }
    const own = (n: unknown, i: number): unknown => n === null ? shape[shape.length - count + i] : n;
    const sizes = Array.isArray(outputSize) ? Array.from(outputSize, own) : outputSize;
    return perAxis(action, "outputSize", sizes, count, 0).map((n) => checkCount(action, "a size", n));
  }

  /**
   * Means over as many windows of the last axes as `outputSize` says, which cover them evenly; null keeps an axis, a number
   * stands for two.
   *
   * @throws {ShapeError} for more sizes than axes
   */
  adaptiveAvgPool2d(outputSize: PerAxis | readonly (number | null)[]): this {
    return this.averaged("adaptiveAvgPool2d", this.sizes("adaptiveAvgPool2d", outputSize));
  }
  /** {@linkcode adaptiveAvgPool2d} of one axis. @throws {ShapeError} */
  adaptiveAvgPool1d(outputSize: PerAxis): this {
    return this.averaged("adaptiveAvgPool1d", this.sizes("adaptiveAvgPool1d", outputSize, 1));
  }
  /** {@linkcode adaptiveAvgPool2d} of three axes. @throws {ShapeError} */
  adaptiveAvgPool3d(outputSize: PerAxis | readonly (number | null)[]): this {
    return this.averaged("adaptiveAvgPool3d", this.sizes("adaptiveAvgPool3d", outputSize, 3));
  }

  /** Means over windows that cover the last axes. */
  protected averaged(action: string, to: readonly number[]): this {
    const d = floatOf(this.dtype), first = this.ndim - to.length;
    if (this.shape.slice(first).includes(0)) {
      throw new ShapeError(action, { shapes: [this.shape], reason: "an axis is empty" });
    }
    let x = this.cast(promote(d, dtypes.float32));
    const sizes = this.shape.slice(first);
    if (extentsOf(this.uop) === null && to.every((out, i) => out > 0 && sizes[i] % out === 0)) {
      const parts = x.reshape([...this.shape.slice(0, first), ...to.flatMap((out, i) => [out, sizes[i] / out])]);
      return parts.mean(rangeOf(to.length).map((i) => first + 2 * i + 1)).cast(d);
    }
    to.forEach((out, i) => {
      const axis = first + i, n = x.shape[axis];
      if (out === 1 && extentsOf(x.uop)?.[axis] !== undefined) {
        x = x.mean(axis, { keepdim: true });
        return;
      }
      constantAxis(action, this.uop, axis);
      if (out === n) return;
      // windows begin at floor(k n / out) and end before ceil((k + 1) n / out)
      const start = rangeOf(out).map((k) => Math.floor(k * n / out)),
        end = rangeOf(out).map((k) => Math.ceil((k + 1) * n / out));
      const most = Math.max(...end.map((e, k) => e - start[k]), 0);
      const sum = rangeOf(most).reduce((total: this | undefined, j) => {
        const part = x.picks(axis, start.map((s, k) => Math.min(s + j, end[k] - 1)));
        const isIn = start.map((s, k) => s + j < end[k]);
        const own = isIn.every(Boolean) ? part : x.listed(axis, isIn.map(Number)).ne(0).where(part, 0) as this;
        return total === undefined ? own : total.add(own);
      }, undefined);
      x = sum === undefined ? x.picks(axis, []) : sum.div(x.listed(axis, end.map((e, k) => e - start[k])));
    });
    return x.cast(d);
  }

  /**
   * Maxima over as many windows of the last axes as `outputSize` says, which cover them evenly; null keeps an axis, a
   * number stands for two. With `returnIndices` their flat positions in these axes, too, as int32.
   *
   * @throws {ShapeError} for more sizes than axes
   */
  adaptiveMaxPool2d(
    outputSize: PerAxis | readonly (number | null)[],
    options: { readonly returnIndices: true },
  ): [values: this, indices: this];
  /** The values alone. */
  adaptiveMaxPool2d(
    outputSize: PerAxis | readonly (number | null)[],
    options?: { readonly returnIndices?: false },
  ): this;
  adaptiveMaxPool2d(
    outputSize: PerAxis | readonly (number | null)[],
    options: { readonly returnIndices?: boolean } = {},
  ): this | [this, this] {
    const action = "adaptiveMaxPool2d", { returnIndices = false } = checkOptions(action, options, ["returnIndices"]);
    const to = this.sizes(action, outputSize),
      rank = to.length,
      first = this.ndim - rank,
      from = this.shape.slice(first);
    if (from.includes(0)) throw new ShapeError(action, { shapes: [this.shape], reason: "an axis is empty" });
    // each window stands as many times as the longest is long: its last element again
    let x: this = this.wrap(this.uop);
    const kernel: number[] = [], places: number[][] = [];
    to.forEach((out, i) => {
      constantAxis(action, this.uop, first + i, "where it becomes 1, max(axis, { keepdim: true }) takes any");
      const n = from[i], start = rangeOf(out).map((k) => Math.floor(k * n / out));
      const end = rangeOf(out).map((k) => Math.ceil((k + 1) * n / out)),
        most = Math.max(...end.map((e, k) => e - start[k]), 1);
      const all = start.flatMap((s, k) => rangeOf(most).map((j) => Math.min(s + j, end[k] - 1)));
      if (all.length !== n || all.some((p, k) => p !== k)) x = x.picks(first + i, all);
      kernel.push(most);
      places.push(all);
    });
    if (!returnIndices) return x.maxPool2d(kernel);
    const [values, at] = x.maxPool2d(kernel, { returnIndices: true });
    let rest = at, flat: this | undefined, step = 1;
    for (let i = rank - 1; i >= 0; i--) {
      const own = rest.mod(places[i].length), list = this.fromList(Int32Array.from(places[i])) as this;
      rest = rest.floorDiv(places[i].length);
      const part = list.take(own).mul(step);
      flat = flat === undefined ? part : flat.add(part);
      step *= from[i];
    }
    return [values, flat!];
  }

  /** In training (inside `Tensor.train`): each channel `[N, C, ...]` is 0 with probability `p`, the others are scaled by 1 / (1 - p). */
  dropout2d(p = 0.5): this {
    checkNumber("dropout2d", "p", p);
    if (!(p >= 0 && p <= 1)) throw new ArgumentError("dropout2d", { reason: `p must lie in [0, 1], not ${p}` });
    if (p === 0 || envNumber("TRAINING") === 0) return this;
    const keep = this.wrap(drawUniform(this.shape.map((n, i) => i < 2 ? n : 1), dtypes.float32)).ge(p);
    return keep.where(p === 1 ? this : this.div(1 - p), 0) as this;
  }
}
