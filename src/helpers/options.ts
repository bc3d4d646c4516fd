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

function describe(x: unknown): string {
  if (x === null) return "null";
  if (Array.isArray(x)) return `a list of ${x.length}`;
  return typeof x === "object" || typeof x === "function" ? `a ${typeof x}` : String(x);
}
