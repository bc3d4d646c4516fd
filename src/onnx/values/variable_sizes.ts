/**
 * Sizes that are bound variables, or arithmetic of such, in what graphs compute from shapes. In: a number or a bound tensor
 * each; out: the same, a number wherever the variables do not matter; undefined for what is left to the device.
 *
 * @module
 */
import { Tensor } from "../../tensor/tensor.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { simplifySize } from "../../uop/algebra/sizes.ts";
import { Ops } from "../../uop/core/ops.ts";

/** A size: a number, or a bound variable or integer arithmetic of such, as shapes of tensors take it. */
export type Size = number | Tensor;
/** A function of sizes; undefined where only the device can tell. */
export type OnSizes = (...xs: Size[]) => Size | undefined;

/** Whether any of a list is no number. */
export function areSymbolic(sizes: ArrayLike<unknown>): boolean {
  return Array.isArray(sizes) && sizes.some((x) => x instanceof Tensor);
}

/** A number where the variables do not matter. */
function settled(x: Size): Size {
  if (typeof x === "number") return x;
  const node = simplifySize(x.uop);
  return node.op === Ops.CONST ? Number(node.value) : x;
}

/** Arithmetic that a size may be; numbers that are not whole are none. */
function whole(f: (a: Tensor, b: Size) => Tensor, numbers: (a: number, b: number) => number): OnSizes {
  return (a, b) => {
    if (typeof a === "number" && typeof b === "number") return numbers(a, b);
    if ([a, b].some((x) => typeof x === "number" && !(Math.abs(x) < 2 ** 31 && Number.isInteger(x)))) return undefined;
    return settled(f(typeof a === "number" ? new Tensor(a, { dtype: "int32" }) : a, b));
  };
}
/** Whether `holds` for a - b, where its bounds tell. */
function compared(holds: (least: number, most: number) => boolean | undefined): OnSizes {
  const minus = whole((a, b) => a.sub(b), (a, b) => a - b);
  return (a, b) => {
    const d = minus(a, b);
    if (d === undefined) return undefined;
    const node = typeof d === "number" ? undefined : simplifySize(d.uop);
    const found = holds(node ? vmin(node) : d as number, node ? vmax(node) : d as number);
    return found === undefined ? undefined : Number(found);
  };
}
const below = (least: number, most: number): boolean | undefined => most < 0 ? true : least >= 0 ? false : undefined;
const upTo = (least: number, most: number): boolean | undefined => most <= 0 ? true : least > 0 ? false : undefined;
const not = (x: boolean | undefined): boolean | undefined => x === undefined ? undefined : !x;

/** Division of sizes, which are not negative: cut off and rounded down are the same. */
function divided(a: Size, b: Size): Size | undefined {
  if (typeof b !== "number" || !(b > 0) || typeof a !== "number" && vmin(simplifySize(a.uop)) < 0) return undefined;
  return whole((x, y) => x.div(y, { roundingMode: "floor" }), (x, y) => Math.trunc(x / y))(a, b);
}

/** By the name of the operator: what it is on sizes. */
export const ON_SIZES: Readonly<Record<string, OnSizes>> = {
  Add: whole((a, b) => a.add(b), (a, b) => a + b),
  Sub: whole((a, b) => a.sub(b), (a, b) => a - b),
  Mul: whole((a, b) => a.mul(b), (a, b) => a * b),
  Div: divided,
  Min: whole((a, b) => a.minimum(b), Math.min),
  Max: whole((a, b) => a.maximum(b), Math.max),
  Equal: compared((least, most) => least > 0 || most < 0 ? false : least === most ? true : undefined),
  Less: compared(below),
  LessOrEqual: compared(upTo),
  Greater: compared((least, most) => not(upTo(least, most))),
  GreaterOrEqual: compared((least, most) => not(below(least, most))),
  Where: (q, a, b) => typeof q !== "number" ? undefined : q !== 0 ? a : b,
};

/** How many elements a shape has. */
export function product(sizes: readonly Size[]): Size {
  return sizes.reduce((a, b) => ON_SIZES.Mul(a, b)!, 1);
}
/** Sizes as an error calls them. */
export function sizesText(sizes: readonly Size[]): string {
  return `[${sizes.map((n) => typeof n === "number" ? n : "?").join(", ")}]`;
}
