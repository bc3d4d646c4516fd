/**
 * Assertions, under the names that Deno's users know: `@std/assert` of the import map. The suite needs no package, so that
 * it runs where nothing can be fetched.
 *
 * @module
 */
import strict, { AssertionError } from "node:assert/strict";

function fail(message: string, detail?: string): never {
  throw new AssertionError({ message: detail === undefined ? message : `${message}: ${detail}` });
}

function isObject(x: unknown): x is object {
  return typeof x === "object" && x !== null;
}

/** Whether two values are alike, entry by entry: 0 is -0, NaN is NaN, classes must be the same. */
export function equal(a: unknown, b: unknown): boolean {
  const pending = new Map<object, object>();
  const same = (a: unknown, b: unknown): boolean => {
    if (a === b || Object.is(a, b)) return true;
    if (!isObject(a) || !isObject(b)) return false;
    const [pa, pb] = [a, b].map((x) => Object.getPrototypeOf(x) ?? Object.prototype);
    if (pa !== pb) return false;
    if (pending.get(a) === b) return true;
    pending.set(a, b);
    if (a instanceof Date) return a.getTime() === (b as Date).getTime();
    if (a instanceof URL || a instanceof RegExp) return String(a) === String(b);
    if (a instanceof ArrayBuffer) return same(new Uint8Array(a), new Uint8Array(b as ArrayBuffer));
    if (a instanceof Map) {
      const other = b as Map<unknown, unknown>;
      return a.size === other.size &&
        [...a].every(([key, value]) =>
          other.has(key)
            ? same(value, other.get(key))
            : [...other].some(([k, v]) => isObject(key) && same(key, k) && same(value, v))
        );
    }
    if (a instanceof Set) {
      const other = b as Set<unknown>;
      return a.size === other.size && [...a].every((x) => other.has(x) || [...other].some((y) => same(x, y)));
    }
    const keys = Reflect.ownKeys(a), others = Reflect.ownKeys(b);
    return keys.length === others.length &&
      keys.every((k) => Object.hasOwn(b, k) && same(a[k as keyof typeof a], b[k as keyof typeof b]));
  };
  return same(a, b);
}

let heard: ((values: readonly unknown[]) => void) | undefined;

/** What is to hear of the values that are held to each other. */
export function hearAssertions(listener: (values: readonly unknown[]) => void): void {
  heard = listener;
}

/** Fails unless `condition` holds. */
export function assert(condition: unknown, message = "The condition does not hold"): asserts condition {
  heard?.([condition]);
  if (!condition) fail(message);
}

/** Fails unless both are alike, entry by entry. */
export function assertEquals(actual: unknown, expected: unknown, message?: string): void {
  heard?.([actual, expected]);
  if (equal(actual, expected)) return;
  try {
    strict.deepEqual(actual, expected);
  } catch (error) {
    fail(message ?? "Values are not equal", (error as Error).message);
  }
  fail(message ?? "Values are not equal");
}

/** Fails if both are alike. */
export function assertNotEquals(actual: unknown, expected: unknown, message = "Values are equal"): void {
  if (equal(actual, expected)) fail(message, String(actual));
}

/** Fails unless both are the same: -0 is not 0. */
export function assertStrictEquals(actual: unknown, expected: unknown, message?: string): void {
  heard?.([actual, expected]);
  if (!Object.is(actual, expected)) strict.equal(actual, expected, message);
  if (!Object.is(actual, expected)) {
    fail(message ?? "Values are not the same", `${String(actual)}, ${String(expected)}`);
  }
}

/** Fails unless numbers differ by at most `tolerance`, 1e-7 of the expected one. */
export function assertAlmostEquals(actual: number, expected: number, tolerance?: number, message?: string): void {
  heard?.([actual, expected]);
  if (Object.is(actual, expected)) return;
  const most = tolerance ?? (Number.isFinite(expected) ? Math.abs(expected * 1e-7) : 1e-7);
  if (!(Math.abs(expected - actual) <= most)) {
    fail(message ?? "Numbers differ", `${actual} is not ${expected} within ${most}`);
  }
}

/** Fails unless numbers, or lists of them entry by entry, differ by at most `tolerance` times what is expected, or 1. */
export function assertClose(actual: unknown, expected: unknown, tolerance: number = 1e-5, message?: string): void {
  heard?.([actual, expected]);
  const check = (a: unknown, b: unknown, at: string): void => {
    if (Array.isArray(b) || ArrayBuffer.isView(b)) {
      const got = a as ArrayLike<unknown> | undefined, want = b as unknown as ArrayLike<unknown>;
      if (!isObject(got) || got.length !== want.length) {
        fail(message ?? "Lists differ", `${at} has ${isObject(got) ? got.length : "no"} entries, not ${want.length}`);
      }
      for (let i = 0; i < want.length; i++) check(got[i], want[i], `${at}[${i}]`);
      return;
    }
    const x = Number(a), y = Number(b);
    if (Object.is(x, y) || x === y || Math.abs(x - y) <= tolerance * Math.max(1, Math.abs(y))) return;
    fail(message ?? "Numbers differ", `${at} is ${x}, not ${y}`);
  };
  check(actual, expected, "it");
}

/** Fails unless `actual` has `part`. */
export function assertStringIncludes(actual: string, part: string, message = "A text lacks a part"): void {
  heard?.([actual]);
  if (!actual.includes(part)) fail(message, `${JSON.stringify(part)} is not in ${JSON.stringify(actual)}`);
}

/** Fails unless `actual` matches. */
export function assertMatch(actual: string, pattern: RegExp, message = "A text does not match"): void {
  heard?.([actual]);
  if (!pattern.test(actual)) fail(message, `${pattern} for ${JSON.stringify(actual)}`);
}

type ErrorClass = abstract new (...args: never[]) => Error;

function checkError<K extends ErrorClass>(
  error: unknown,
  kind: K | undefined,
  includes: string | undefined,
): InstanceType<K> {
  if (!(error instanceof Error)) fail("What was thrown is no Error", String(error));
  const { name, stack } = error;
  if (kind !== undefined && !(error instanceof kind)) fail(`${name} was thrown instead of ${kind.name}`, stack);
  if (includes !== undefined) assertStringIncludes(error.message, includes, "The error says something else");
  return error as InstanceType<K>;
}

/** Fails unless `fn` throws an Error of the class, with a text that has the part. Gives the error. */
export function assertThrows<K extends ErrorClass = typeof Error>(
  fn: () => unknown,
  kind?: K | string,
  includes?: string,
  message?: string,
): InstanceType<K> {
  const of = typeof kind === "string" ? undefined : kind;
  let thrown: unknown;
  try {
    fn();
  } catch (error) {
    thrown = error ?? new Error(String(error));
  }
  if (thrown === undefined) fail((typeof kind === "string" ? kind : message) ?? "Nothing was thrown");
  return checkError(thrown, of, includes);
}

/** Fails unless the promise that `fn` gives rejects so. Gives the error. */
export async function assertRejects<K extends ErrorClass = typeof Error>(
  fn: () => PromiseLike<unknown>,
  kind?: K | string,
  includes?: string,
  message?: string,
): Promise<InstanceType<K>> {
  const of = typeof kind === "string" ? undefined : kind;
  let thrown: unknown;
  try {
    await fn();
  } catch (error) {
    thrown = error ?? new Error(String(error));
  }
  if (thrown === undefined) fail((typeof kind === "string" ? kind : message) ?? "No promise was rejected");
  return checkError(thrown, of, includes);
}
