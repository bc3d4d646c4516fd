/** Checks of option objects: an unknown name is an error, never silently ignored. @module */
import { ArgumentError } from "./errors.ts";

/**
 * Throws if `options` is no plain options object or has a name outside `allowed`.
 *
 * @throws {ArgumentError} naming the action, the unknown option and the known ones
 */
export function checkOptions(action: string, options: unknown, allowed: readonly string[]): void {
  if (options === undefined) return;
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new ArgumentError(action, {
      reason: `the options must be an object with ${optionList(allowed)}, not ${describe(options)}`,
    });
  }
  for (const name in options) {
    if (allowed.includes(name)) continue;
    throw new ArgumentError(action, { reason: `unknown option "${name}"; known are ${optionList(allowed)}` });
  }
}

/** Throws unless `value` is an integer of at least `min`. @throws {ArgumentError} */
export function checkInteger(action: string, name: string, value: unknown, min: number = -Infinity): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < min) {
    throw new ArgumentError(action, {
      reason: `${name} must be an integer${min > -Infinity ? ` of at least ${min}` : ""}, not ${describe(value)}`,
    });
  }
  return value;
}

function optionList(names: readonly string[]): string {
  return names.length === 0 ? "none" : names.join(", ");
}

/** A value in the text of an error: short, and text in quotes. */
export function describe(x: unknown): string {
  if (typeof x === "string") return JSON.stringify(x.length > 40 ? `${x.slice(0, 40)}...` : x);
  if (Array.isArray(x)) return `a list of ${x.length}`;
  if (typeof x === "object" && x !== null) return "an object";
  return typeof x === "function" ? "a function" : String(x);
}
