/**
 * Sizes of an export to ONNX. A size is a list of numbers: what it is in each trace, the first of which has the sizes of
 * the arguments, each other one changes dynamic axes. A size that is equal in all is fixed; others are expressions of the
 * dynamic axes, found from these numbers.
 *
 * @module
 */
import { ExportError } from "../../helpers/errors.ts";

/** What a size is in each trace. */
export type Size = readonly number[];
/** Sizes of all axes. */
export type Shape = readonly Size[];

/** An axis whose size is given when the model runs. */
export interface DynamicAxis {
  readonly name: string;
  /** The input that has it first, and where. */
  readonly input: string;
  readonly axis: number;
  readonly size: Size;
}

/** Whether it is one number. */
export function isFixed(size: Size): boolean {
  return size.every((n) => n === size[0]);
}
/** Whether two are equal in all traces. */
export function sameSize(a: Size, b: Size): boolean {
  return a.every((n, i) => n === b[i]);
}
/** Whether two shapes are equal in all traces. */
export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((n, i) => sameSize(n, b[i]));
}
/** Whether it is 1 in all traces. */
export function isOne(size: Size): boolean {
  return size.every((n) => n === 1);
}
/** Products of sizes; `like` says how many traces there are. */
export function product(sizes: Shape, like: Size): Size {
  return like.map((_, i) => sizes.reduce((a, n) => a * n[i], 1));
}

/**
 * A size as an expression: constant + Σ factor · axis, or constant · Π axis, divided by `per`, which is 1 unless axes are
 * multiples of something.
 */
export type Expression =
  & (
    | { readonly kind: "sum"; readonly constant: number; readonly terms: readonly (readonly [number, DynamicAxis])[] }
    | {
      readonly kind: "product";
      readonly constant: number;
      readonly factors: readonly DynamicAxis[];
    }
  )
  & { readonly per: number };

/** Divisors of sizes: those of axes that change by steps (trace.ts), and of two of them. */
const DIVISORS: readonly number[] = Array.from({ length: 11 }, (_, i) => 2 ** i);

/**
 * The expression of dynamic axes that a size is. Trace i + 1 changes axis i alone, the last one all of them, which tests
 * what the others suggest. @throws {ExportError} for a size that is neither a sum nor a product
 */
export function expressionOf(action: string, size: Size, axes: readonly DynamicAxis[]): Expression {
  const changed = axes.flatMap((a, i) => size[i + 1] === size[0] ? [] : [{ a, i }]), last = size.length - 1;
  const terms = changed.map(({ a, i }) => [(size[i + 1] - size[0]) / (a.size[i + 1] - a.size[0]), a] as const);
  const constant = terms.reduce((c, [factor, a]) => c - factor * a.size[0], size[0]);
  // powers of two: nothing is rounded
  const divisors = changed.some(({ a, i }) => a.size[i + 1] - a.size[0] > 1) ? DIVISORS : [1];
  const perOf = (...numbers: number[]): number | undefined => (
    divisors.find((per) => numbers.every((x) => Number.isInteger(x * per)))
  );
  const per = perOf(constant, ...terms.map(([factor]) => factor));
  if (per !== undefined && terms.reduce((n, [factor, a]) => n + factor * a.size[last], constant) === size[last]) {
    return { kind: "sum", constant: constant * per, terms: terms.map(([f, a]) => [f * per, a]), per };
  }
  const factors = changed.map(({ a }) => a), each = size[0] / factors.reduce((n, a) => n * a.size[0], 1);
  const fits = (trace: number): boolean => factors.reduce((n, a) => n * a.size[trace], each) === size[trace];
  const share = perOf(each);
  if (share !== undefined && size.every((_, trace) => fits(trace))) {
    return { kind: "product", constant: each * share, factors, per: share };
  }
  const names = changed.map(({ a }) => a.name).join(" and ");
  throw new ExportError(action, {
    reason: `a size that follows ${names} is neither a sum nor a product of it: ${size.join(", ")} for ` +
      `${changed.map(({ a }) => `${a.name} ${a.size.join(", ")}`).join(" and ")}; leave ${names} out of \`dynamic\``,
  });
}
