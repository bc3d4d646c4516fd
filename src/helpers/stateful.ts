/**
 * How an object says what of it is state: what is saved and loaded with a model.
 *
 * @module
 */

/** The method that gives what is walked for tensors by name, in place of the object's own fields. */
const STATE: unique symbol = Symbol("state");

/** What `x` says its state is; undefined where it says nothing. */
export function stateOf(x: object): Readonly<Record<string, unknown>> | undefined {
  return STATE in x && typeof x[STATE] === "function" ? x[STATE]() : undefined;
}

/** Lets the objects of a class say what their state is, without a public name for it. */
export function hasState<T extends object>(prototype: T, state: (x: T) => Readonly<Record<string, unknown>>): void {
  Object.defineProperty(prototype, STATE, {
    value(this: T): Readonly<Record<string, unknown>> {
      return state(this);
    },
  });
}
