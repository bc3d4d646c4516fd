/**
 * Valid calls of public functions, made anew each time: what the tables of them are written with.
 *
 * @module
 */
import { Tensor } from "../../../mod.ts";
import type { Arg } from "./argument_kinds.ts";

/** A valid call. */
export interface Call {
  /** What the function belongs to; undefined for none. */
  readonly self?: unknown;
  readonly args: readonly Arg[];
  /** Whether it is to run in `Tensor.train`. */
  readonly training?: boolean;
}
/** Makes a valid call, anew each time: calls may write to their tensors. */
export type MakeCall = () => Call;

export const f32 = (...sizes: number[]): Tensor => Tensor.ones(sizes);
export const i32 = (values: number[]): Tensor => new Tensor(values, { dtype: "int32" });
export const matrix = (): Tensor => new Tensor([[4, 1], [1, 3]], { dtype: "float32" });

/** Arguments of the usual tensor: floats of [2, 3]. */
export const on = (...args: Arg[]): MakeCall => () => ({ self: f32(2, 3), args });
/** Arguments of something else. */
export const of = (self: () => object, ...args: Arg[]): MakeCall => () => ({ self: self(), args });
/** Arguments of something else, that are made anew. */
export const ofMade = (self: () => object, args: () => Arg[]): MakeCall => () => ({ self: self(), args: args() });
/** Arguments of a function. */
export const free = (...args: Arg[]): MakeCall => () => ({ args });
/** Arguments of a function, that are made anew. */
export const made = (args: () => Arg[]): MakeCall => () => ({ args: args() });
