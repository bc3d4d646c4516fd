/**
 * Functions of a list of tensors, of methods of the first of them. In: tensors, lists and numbers. Out: what the method gives,
 * called with the rest.
 *
 * @module
 */
import { isTensor, type Operand, type TensorBase } from "./base.ts";
import { listNeeded } from "./dims.ts";

/**
 * A method of the first of a list, called with the rest and `more`. The first is made a tensor if it is none, beside one
 * that is.
 *
 * @param made the tensor of a value, as it is beside another one
 * @throws {ArgumentError} for what is no list of at least one
 */
export function joined<
  T extends TensorBase & Record<N, (rest: Operand[], ...more: A) => R>,
  N extends string,
  A extends unknown[],
  R,
>(
  made: (data: Operand, beside: T | undefined) => T,
  name: N,
  tensors: readonly Operand[],
  ...more: A
): R {
  const [first, ...rest] = Array.isArray(tensors) ? Array.from(tensors) : [];
  // nothing is no tensor, though `new Tensor()` is one
  if ((first ?? undefined) === undefined) throw listNeeded(name, tensors, "it", "at least one tensor");
  const of = isTensor(first) ? first as T : made(first, rest.find(isTensor) as T | undefined);
  return of[name](rest, ...more);
}

/** A list of at least one tensor. @throws {ArgumentError} for anything else */
export function several<T extends TensorBase>(action: string, tensors: readonly T[]): T[] {
  if (!Array.isArray(tensors) || tensors.length === 0 || !Array.from(tensors).every(isTensor)) {
    throw listNeeded(action, tensors, "it", "at least one tensor");
  }
  return [...tensors];
}
