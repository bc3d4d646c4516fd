/**
 * Notes which public members gave a value that reached an assertion of a test that passed: for docs/coverage.md. Loaded
 * before tests (`deno test --preload`) by coverage.ts. What a member gives carries its name, and those of the tensors and
 * layers that it was made from; what an assertion is handed is looked up: objects by identity, lists by their numbers, single
 * values among those given last. One line of JSON a pair goes to the file that RECORD names: member, test file, test. Where
 * ONLY is the URL of a file like asserted.json, its tests alone run.
 *
 * @module
 */
import strict from "node:assert/strict";
import { nn, Tensor } from "../../mod.ts";
import { hearAssertions } from "../support/assert.ts";
import { listen } from "./listen.ts";

const ROOT = new URL("../../", import.meta.url).href;
/** Single values are looked up among so many. */
const RECENT = 24;

type Names = ReadonlySet<string>;
const NONE: Names = new Set();

/** What the test that runs has got: names by object, by the numbers of a list, and of single values. */
let objects = new WeakMap<object, Names>(), lists = new Map<string, Names>();
let recent: [value: unknown, names: Names][] = [], reached = new Set<string>();

const isObject = (x: unknown): x is object => typeof x === "object" && x !== null || typeof x === "function";

/** The numbers of a list of lists; undefined where it holds other things. */
function numbers(x: unknown, into: string[] = []): string[] | undefined {
  if (typeof x === "number" || typeof x === "bigint" || typeof x === "boolean") into.push(String(Number(x)));
  else if (ArrayBuffer.isView(x) || Array.isArray(x)) {
    for (const y of x as unknown[]) if (into.length > 4096 || numbers(y, into) === undefined) return undefined;
  } else return undefined;
  return into;
}
function signature(x: unknown): string | undefined {
  const list = isObject(x) ? numbers(x) : undefined;
  return list === undefined || list.length < 2 ? undefined : list.join();
}

/** The names that a value carries: its own, and of a list those of its members. */
function namesOf(x: unknown, depth: number = 2): Names {
  if (!isObject(x)) return NONE;
  const own = objects.get(x) ?? NONE;
  if (depth === 0 || x instanceof Tensor || ArrayBuffer.isView(x)) return own;
  const parts = (Array.isArray(x) ? x : Object.values(x)).slice(0, 64).map((y) => namesOf(y, depth - 1));
  return parts.reduce((all, part) => part.size === 0 ? all : all.union(part), own);
}

/** Marks what a member gave. */
function mark(x: unknown, names: Names): void {
  if (x instanceof Promise) return void x.then((y) => mark(y, names), () => {});
  if (!isObject(x)) {
    recent = [...recent.slice(1 - RECENT), [x, names]];
    return;
  }
  objects.set(x, names.union(objects.get(x) ?? NONE));
  const key = signature(x);
  if (key !== undefined) lists.set(key, names.union(lists.get(key) ?? NONE));
  else if (Array.isArray(x)) { for (const y of x) mark(y, names); }
}

/** What an assertion was handed. */
function assertion(values: readonly unknown[]): void {
  const look = (x: unknown, depth: number): void => {
    const found = [...namesOf(x, 0), ...lists.get(signature(x) ?? "") ?? []];
    if (!isObject(x)) { for (const [value, names] of recent) if (Object.is(value, x)) found.push(...names); }
    for (const name of found) reached.add(name);
    if (depth === 0 || !isObject(x) || x instanceof Tensor || ArrayBuffer.isView(x)) return;
    for (const y of (Array.isArray(x) ? x : Object.values(x)).slice(0, 256)) look(y, depth - 1);
  };
  for (const x of values) look(x, 3);
}

function record(name: string, self: unknown, args: readonly unknown[], result: unknown): void {
  const names = new Set([name]).union(namesOf(self)).union(namesOf(args));
  mark(result, names);
  // what works in place gives nothing, or itself
  if (isObject(self) && typeof self !== "function" && !(result instanceof Tensor)) mark(self, names);
  const { params } = self as { params?: unknown };
  if (Array.isArray(params)) { for (const p of params) mark(p, names); }
}

/** A test's function, which notes what reached its assertions if it passes. */
function noted(name: string, file: string, fn: (t: Deno.TestContext) => unknown): (t: Deno.TestContext) => unknown {
  return async (t) => {
    [objects, lists, recent, reached] = [new WeakMap(), new Map(), [], new Set()];
    await fn(t);
    const text = ["", ...reached].map((member) => `${JSON.stringify([member, file, name])}\n`).join("");
    Deno.writeTextFileSync(Deno.env.get("RECORD")!, text, { append: true });
  };
}

/** The tests that are to run, by file and name; undefined for all. */
const only: ReadonlySet<string> | undefined = Deno.env.has("ONLY")
  ? new Set(
    Object.values(JSON.parse(Deno.readTextFileSync(new URL(Deno.env.get("ONLY")!)))).map((t) => JSON.stringify(t)),
  )
  : undefined;

const test = Deno.test;
function listenedTest(...args: unknown[]): void {
  const options = args.find((a) => typeof a === "object") as Deno.TestDefinition | undefined;
  const fn = (args.find((a) => typeof a === "function") ?? options!.fn) as (t: Deno.TestContext) => unknown;
  const name = (typeof args[0] === "string" ? args[0] : options?.name) ?? fn.name;
  const file = Deno.mainModule.replace(ROOT, "").replace(/^tests\//, "");
  // what not every machine runs names no row
  if (/\b(CLANG|WEBGPU|CUDA)\b/.test(name) || only?.has(JSON.stringify([file, name])) === false) return;
  test({ ...options, name, fn: noted(name, file, fn) as (t: Deno.TestContext) => Promise<void> });
}
Object.assign(Deno, { test: Object.assign(listenedTest, test) });

hearAssertions(assertion);
for (const key of Object.keys(strict) as (keyof typeof strict)[]) {
  const method: unknown = strict[key];
  if (typeof method !== "function" || !/equal|match|^ok/i.test(key)) continue;
  Object.defineProperty(strict, key, {
    value: (...args: unknown[]) => {
      assertion(args);
      return method(...args);
    },
  });
}

listen(Tensor.prototype, "", record);
listen(Tensor, "Tensor.", record);
for (const [scope, members] of [["nn", nn], ["nn.optim", nn.optim]] as const) {
  for (const member of Object.values(members)) {
    if (typeof member === "function" && member.prototype !== undefined) {
      listen(member.prototype, "", (_, self, ...rest) => record(`${scope}.${self!.constructor.name}`, self, ...rest));
    }
  }
}
