/**
 * Windows of the last axes as axes of their own, by movement ops alone: what convolutions and pooling are made of. The
 * scheduler turns them into index arithmetic.
 *
 * @module
 */
import { rangeOf } from "../../helpers/math.ts";
import { SkewArg } from "../../uop/core/args.ts";
import { expand, pad, permute, reshape, shrink, unskew } from "../../uop/core/build_movement.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** What is added before and after each axis. */
export type Pairs = readonly (readonly [number, number])[];

/** Pads the last axes; negative amounts cut off. */
export function padLast(x: UOp, pairs: Pairs): UOp {
  const shape = shapeOf(x), lead = shape.length - pairs.length;
  const all = [...new Array<[number, number]>(lead).fill([0, 0]), ...pairs];
  const cut = shrink(x, all.map(([a, b], i) => [Math.max(-a, 0), shape[i] - Math.max(-b, 0)] as const));
  return pad(cut, all.map(([a, b]) => [Math.max(a, 0), Math.max(b, 0)] as const));
}

/** Windows along an axis of size `n`. */
function windows(n: number, kernel: number, stride: number, dilation: number): number {
  return Math.floor((n - dilation * (kernel - 1) - 1) / stride) + 1;
}

/**
 * Windows as axes: the last `kernel.length` axes of `x` become `[...windows, ...kernel]`. Where windows do not overlap
 * this is a reshape; else each axis is repeated along its kernel axis and shifted (UNSKEW). The windows must fit at
 * least once.
 */
export function pool(x: UOp, kernel: readonly number[], stride: readonly number[], dilation: readonly number[]): UOp {
  const shape = shapeOf(x), rank = kernel.length, lead = shape.slice(0, shape.length - rank);
  const sizes = shape.slice(lead.length);
  const count = sizes.map((n, i) => windows(n, kernel[i], stride[i], dilation[i]));
  const front = rangeOf(lead.length), spatial = rangeOf(rank);
  const interleave = (first: (i: number) => number, second: (i: number) => number) => [
    ...lead,
    ...spatial.flatMap((i) => [first(i), second(i)]),
  ];
  const order = [
    ...front,
    ...spatial.map((i) => lead.length + 2 * i),
    ...spatial.map((i) => lead.length + 2 * i + 1),
  ];
  if (kernel.every((k, i) => k <= stride[i] && dilation[i] === 1)) {
    const used = spatial.map((i) => count[i] * stride[i]);
    let y = padLast(x, spatial.map((i) => [0, used[i] - sizes[i]] as const)); // adds or cuts what is left over
    y = reshape(y, interleave((i) => count[i], (i) => stride[i]));
    const whole = lead.map((n) => [0, n] as const);
    y = shrink(y, [...whole, ...spatial.flatMap((i) => [[0, count[i]] as const, [0, kernel[i]] as const])]);
    return permute(y, order);
  }
  let y = expand(reshape(x, interleave((i) => sizes[i], () => 1)), interleave((i) => sizes[i], (i) => kernel[i]));
  for (const i of spatial) {
    const axis = lead.length + 2 * i;
    y = unskew(y, new SkewArg(axis, axis + 1, stride[i], dilation[i], count[i]));
  }
  return permute(y, order);
}
