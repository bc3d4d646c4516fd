/**
 * Elements of a tensor by strides, as of an array in memory.
 *
 * @module
 */
import { ShapeError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { checkCount, describeList } from "../../helpers/options.ts";
import { checkShape } from "../handle/axes.ts";
import { checkTensor, TensorBase } from "../handle/base.ts";
import type { IndexingTensor } from "./indexing.ts";
import type { PlaceTensor } from "./places.ts";
import { constantAxes } from "../handle/dims.ts";

/** The families that it is written in. */
export interface StridedTensor extends IndexingTensor, PlaceTensor {}
/** Tensors that are read by strides. */
export abstract class StridedTensor extends TensorBase {
  /**
   * Elements of this in row-major order, whatever its strides in memory are: element `[i, j, ...]` is number `storageOffset +
   * i stride[0] + j stride[1] + ...`, in shape `size`. Elements may occur several times, and then add up their gradients. It
   * is a copy.
   *
   * @throws {ShapeError} unless there is a stride for each size, and all of them are inside
   */
  asStrided(size: readonly number[], stride: readonly number[], storageOffset = 0): this {
    return this.take(this.strided("asStrided", size, stride, storageOffset));
  }

  /**
   * This with the elements of `src` written where {@linkcode asStrided} reads; `src` has the shape `size`. Of several to one
   * place the last stays.
   *
   * @throws {ShapeError} as that, and for another shape, {DTypeError} if the dtypes differ
   */
  asStridedScatter(src: this, size: readonly number[], stride: readonly number[], storageOffset = 0): this {
    const action = "asStridedScatter", places = this.strided(action, size, stride, storageOffset);
    if (!sameArray(checkTensor(action, "src", src).shape, places.shape)) {
      throw new ShapeError(action, { shapes: [src.shape], reason: `src must be [${places.shape.join(", ")}]` });
    }
    return this.put(places, src);
  }

  /** The numbers of elements by strides, in shape `size`. */
  private strided(action: string, size: readonly number[], stride: readonly number[], storageOffset: number): this {
    const shape = checkShape(action, size), count = this.numel();
    constantAxes(action, this.uop, this.ndim);
    if (!Array.isArray(stride) || stride.length !== shape.length) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: `stride must be a list of ${shape.length} numbers, not ${describeList(stride)}`,
      });
    }
    const steps = Array.from(stride, (n: unknown) => checkCount(action, "stride", n)); // of holes, too
    checkCount(action, "storageOffset", storageOffset);
    const last = shape.reduce((end, n, i) => end + (n - 1) * steps[i], storageOffset);
    if (!shape.includes(0) && last >= count) {
      throw new ShapeError(action, {
        shapes: [this.shape],
        reason: `it has ${count} elements, and size [${shape.join(", ")}] by strides [${steps.join(", ")}] from ` +
          `${storageOffset} reads number ${last}`,
      });
    }
    let places = (this.fromList(Int32Array.of(storageOffset)) as this).reshape(shape.map(() => 1)) as this;
    shape.forEach((n, axis) => {
      const along = this.fromList(Int32Array.from({ length: n }, (_, i) => i * steps[axis])) as this;
      places = places.add(along.reshape(shape.map((_, i) => i === axis ? n : 1))) as this;
    });
    return places;
  }
}
