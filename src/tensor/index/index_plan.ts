/**
 * What indices mean: numbers, null, "...", ":", slices, tensors. In: what `at` and `setAt` were given, and a shape. Out: a
 * cut of each axis, and the tensors that gather; indexing.ts makes nodes of that.
 *
 * @module
 */
import { IndexError } from "../../helpers/errors.ts";
import { rangeOf, sameArray } from "../../helpers/math.ts";
import { TensorBase } from "../handle/base.ts";
import { describeIndex } from "./symbolic_index.ts";

/** What is kept of one axis: positions start, start + step, ..., `count` of them, maybe backward. */
export interface Cut {
  readonly start: number;
  readonly count: number;
  readonly step: number;
  readonly backward: boolean;
}

/** Indices understood: a cut for each axis, the shape after dropping and adding axes, and the tensors among them. */
export interface Plan {
  readonly cuts: readonly Cut[];
  /** Shape of the basic view. */
  readonly shape: readonly number[];
  /** Index tensors (or masks), by axis of that shape. */
  readonly tensors: readonly { readonly axis: number; readonly index: TensorBase }[];
}

function cutSlice(action: string, slice: readonly unknown[], n: number, axis: number): Cut {
  const ok = slice.length >= 1 && slice.length <= 3 &&
    slice.every((x) => x === null || x === undefined || Number.isInteger(x));
  if (!ok) {
    throw new IndexError(action, {
      axis,
      reason: `${describeIndex(slice)} is no slice [start, stop] or [start, stop, step] of integers and null; ` +
        "pass lists of positions as an integer tensor",
    });
  }
  const [start, stop, by] = slice as (number | null | undefined)[];
  const step = by ?? 1;
  if (step === 0) throw new IndexError(action, { axis, reason: `the step of ${describeIndex(slice)} is 0` });
  const clamp = (x: number, low: number, high: number) => Math.min(Math.max(x < 0 ? x + n : x, low), high);
  if (step > 0) {
    const from = clamp(start ?? 0, 0, n), to = clamp(stop ?? n, 0, n);
    return { start: from, count: Math.max(0, Math.ceil((to - from) / step)), step, backward: false };
  }
  const from = start === null || start === undefined ? n - 1 : clamp(start, -1, n - 1);
  const to = stop === null || stop === undefined ? -1 : clamp(stop, -1, n - 1);
  const count = Math.max(0, Math.ceil((from - to) / -step));
  return { start: count === 0 ? 0 : from + (count - 1) * step, count, step: -step, backward: true };
}

/** How to read what a mask from `axis` on chooses of a tensor of this shape. */
function chosenBy(mask: TensorBase, axis: number, shape: readonly number[]): string {
  if (mask.ndim === 0 || mask.ndim >= shape.length) return "`await t.maskedSelect(m)`";
  const read = (places: readonly string[]) =>
    `\`t.at(${[...new Array<string>(axis).fill('":"'), ...places].join(", ")})\``;
  if (mask.ndim === 1) return read(["(await m.nonzero()).flatten()"]);
  return `${read(rangeOf(mask.ndim).map((i) => `p.at(":", ${i})`))} with \`p = await m.nonzero()\``;
}

/** Indices of a tensor of some shape, understood; boolean tensors only where `masks` may be. @throws {IndexError} */
export function parseIndices(
  action: string,
  indices: readonly unknown[],
  shape: readonly number[],
  masks: boolean,
): Plan {
  let used = 0, dots = 0;
  for (const x of indices) {
    if (x === "...") dots++;
    else if (x instanceof TensorBase) used += x.dtype.isBool && masks ? Math.max(x.ndim, 1) : 1;
    else if (x !== null) used++;
  }
  if (dots > 1) throw new IndexError(action, { reason: `only one "..." may be given` });
  if (used > shape.length) {
    throw new IndexError(action, { reason: `${used} indices for a tensor of shape [${shape.join(", ")}]` });
  }
  const cuts: Cut[] = [], out: number[] = [], tensors: { axis: number; index: TensorBase }[] = [];
  const whole = (n: number): Cut => ({ start: 0, count: n, step: 1, backward: false });
  const keep = (count: number) => {
    for (let i = 0; i < count; i++) {
      const n = shape[cuts.length];
      cuts.push(whole(n));
      out.push(n);
    }
  };
  for (const x of dots === 0 ? [...indices, "..."] : indices) {
    const axis = cuts.length, n = shape[axis];
    if (x === null) out.push(1);
    else if (x === "...") keep(shape.length - used);
    else if (x === ":") keep(1);
    else if (typeof x === "number" || typeof x === "bigint") {
      const i = Number(x);
      if (!Number.isInteger(i) || i < -n || i >= n) {
        throw new IndexError(action, {
          axis,
          reason: Number.isInteger(i) ? `index ${i} is out of range for axis ${axis} of size ${n}` : `${i} is no index`,
        });
      }
      cuts.push({ start: i < 0 ? i + n : i, count: 1, step: 1, backward: false });
    } else if (x instanceof TensorBase) {
      if (x.dtype.isBool) {
        if (!masks) {
          throw new IndexError(action, {
            axis,
            reason: `a boolean tensor selects a number of elements that is not known yet; use ${
              chosenBy(x, axis, shape)
            }`,
          });
        }
        const part = shape.slice(axis, axis + x.ndim);
        if (x.ndim === 0 || !sameArray(x.shape, part)) {
          throw new IndexError(action, {
            axis,
            reason: `a mask of shape [${x.shape.join(", ")}] does not fit axes of sizes [${part.join(", ")}]`,
          });
        }
      } else if (!x.dtype.isInt) {
        throw new IndexError(action, { axis, reason: `an index tensor must have an integer dtype, not ${x.dtype}` });
      }
      tensors.push({ axis: out.length, index: x });
      keep(x.dtype.isBool ? x.ndim : 1);
    } else if (Array.isArray(x)) {
      const cut = cutSlice(action, x, n, axis);
      cuts.push(cut);
      out.push(cut.count);
    } else {
      throw new IndexError(action, {
        axis,
        reason: `${describeIndex(x)} is no index; use a number, null, "...", ":", a slice or an integer tensor`,
      });
    }
  }
  return { cuts, shape: out, tensors };
}
