/**
 * Names of an export: what arguments, results and weights are called in it, as identifiers that C, C++, JavaScript and
 * WGSL all take. In: trees of tensors, and functions; out: names, each once.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import { getStateDict } from "../state/state_dict.ts";
import { realizedMemory } from "../tensor/realize.ts";

/** Words that mean something else in one of the languages. */
const RESERVED = new Set(
  ("alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double " +
    "else enum explicit export extern false float for friend goto if import in inline int interface let long main " +
    "mutable namespace new not null operator or private protected public register restrict return short signed " +
    "sizeof static struct super switch template this throw true try typedef typename typeof union unsigned using var " +
    "virtual void volatile while with xor yield NULL context memory init run reset test arena index " +
    "bytes seed weights exp log sin sqrt trunc abs max min floor pow memcpy nullptr dim3 INLINE NAN INFINITY errno " +
    "linux unix CLONES ONE_MACHINE context_bytes share_by").split(" "),
);
/** Functions and types of a runtime that a source uses, and its vectors. */
const OF_RUNTIMES = /^(?:[fiu]\d+x\d+|cuda[A-Z].*|(?:Big)?(?:Int|Uint|Float)\d+Array|RangeError|BigInt|Number|Object)$/;

/** Gives names, each only once. */
export class Names {
  private readonly taken: Set<string>;

  /** @param prefix of names that would begin with no letter @param taken what has these names already */
  constructor(private readonly prefix: string = "t", taken: Iterable<string> = []) {
    this.taken = new Set(taken);
  }

  /** `wanted` as an identifier, with a number behind it where that is taken. */
  take(wanted: string): string {
    let base = wanted.replace(/[^A-Za-z0-9]+/g, "_").replace(/^_+|_+$/g, "");
    if (base === "" || !/^[A-Za-z]/.test(base)) base = this.prefix + base;
    if (RESERVED.has(base) || OF_RUNTIMES.test(base)) base += "_";
    let name = base;
    for (let i = 2; this.taken.has(name); i++) name = `${base}_${i}`;
    this.taken.add(name);
    return name;
  }
}

/** A name for a variable of a writer's own: `wanted`, or, where `taken`, what no argument is ever called. */
export function localName(wanted: string, taken: Iterable<string>): string {
  for (const name of taken) if (name === wanted) return `${wanted}_`;
  return wanted;
}

/** What functions of loaders and pages use of what is around them. */
const OF_LOADERS = new Set(["m", "e", "c", "k", "lo", "out", "taken", "put", "write", "queue", "counter"]);

/** A parameter of a function of a loader. */
export function loaderParameter(name: string): string {
  return OF_LOADERS.has(name) ? `${name}_` : name;
}

/** Names of the parameters of a function, where they are plain identifiers. */
export function parameterNames(fn: (...args: never[]) => unknown): (string | undefined)[] {
  const text = Function.prototype.toString.call(fn).replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, "");
  const single = /^(?:async\s+)?([A-Za-z_$][\w$]*)\s*=>/.exec(text);
  if (single !== null) return [single[1]];
  const list = /^[^(]*\(([^()]*)\)/.exec(text);
  if (list === null) return [];
  return list[1].split(",").map((part) => /^\s*([A-Za-z_$][\w$]*)\s*$/.exec(part)?.[1]);
}

/** The leaves of a tree in its order, each with the path to it: keys and positions, joined by "_". */
export function pathsOf<T>(
  tree: unknown,
  isLeaf: (x: unknown) => x is T,
  path: string = "",
): [path: string, leaf: T][] {
  const inside: unknown[] = [], out: [string, T][] = [];
  const visit = (x: unknown, at: string): void => {
    if (isLeaf(x)) return void out.push([at, x]);
    if (typeof x !== "object" || x === null || ArrayBuffer.isView(x) || inside.includes(x)) return;
    inside.push(x);
    const below = (key: string): string => at === "" ? key : /^\d+$/.test(key) ? `${at}${key}` : `${at}_${key}`;
    if (Array.isArray(x)) x.forEach((v, i) => visit(v, below(String(i))));
    else if (x instanceof Map) [...x].forEach(([k, v]) => visit(v, below(String(k))));
    else if (x instanceof Set) [...x].forEach((v, i) => visit(v, below(String(i))));
    else for (const key of Object.keys(x)) visit((x as Record<string, unknown>)[key], below(key));
    inside.pop();
  };
  visit(tree, path);
  return out;
}

/** What weights are called, by their memory. */
export type WeightNames = ReadonlyMap<Buffer, { readonly name: string; readonly shape: readonly number[] }>;

/** The names that realized tensors have in the state dict of `weights`; none where that is no object. */
export function weightNames(weights: unknown): WeightNames {
  const names = new Map<Buffer, { name: string; shape: readonly number[] }>();
  if (typeof weights !== "object" || weights === null) return names;
  for (const [name, t] of Object.entries(getStateDict(weights))) {
    const base = realizedMemory(t.uop)?.base;
    if (base !== undefined && !names.has(base)) names.set(base, { name, shape: t.shape });
  }
  return names;
}
