/**
 * Weights by name: walks fields, arrays and maps of any object for tensors. There is no base class for models.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import { prod, sameArray } from "../helpers/math.ts";
import { Tensor } from "../tensor/tensor.ts";

/** Tensors by dotted name, as `layers.0.weight`. */
export type StateDict = Record<string, Tensor>;

/** Options of {@linkcode getStateDict}. */
export interface StateDictOptions {
  /** Stands before every name; empty unless given. */
  readonly prefix?: string;
}

/** Options of {@linkcode loadStateDict}. */
export interface LoadOptions {
  /** Whether a tensor of the model that is missing in the dictionary is an error; true unless given. */
  readonly strict?: boolean;
}

/** True for values that have no tensors inside. */
function isOpaque(x: object): boolean {
  return ArrayBuffer.isView(x) || x instanceof ArrayBuffer || x instanceof Promise || x instanceof WeakMap ||
    x instanceof WeakSet || x instanceof RegExp || x instanceof Date;
}

function walk(x: unknown, name: string, visit: (name: string, t: Tensor) => void, path: Set<object>): void {
  if (typeof x !== "object" || x === null || isOpaque(x)) return;
  if (x instanceof Tensor) return visit(name, x);
  if (path.has(x)) return;
  path.add(x);
  const under = (key: unknown) => name === "" ? String(key) : `${name}.${String(key)}`;
  if (x instanceof Map) { for (const [key, value] of x) walk(value, under(key), visit, path); }
  else if (x instanceof Set || Array.isArray(x)) {
    let i = 0;
    for (const value of x) walk(value, under(i++), visit, path);
  } else for (const key of Object.keys(x)) walk((x as Record<string, unknown>)[key], under(key), visit, path);
  path.delete(x);
}

/**
 * The tensors of `tree` by dotted name: fields of objects, indices of arrays, keys of maps. A tensor that is reached by
 * two names has both. Typed arrays, functions and gradients are left out.
 *
 * ```ts
 * import { nn, state } from "../../mod.ts";
 * Object.keys(state.getStateDict({ l1: new nn.Linear(2, 3) })); // ["l1.weight", "l1.bias"]
 * ```
 */
export function getStateDict(tree: unknown, options: StateDictOptions = {}): StateDict {
  checkOptions("list the tensors of a tree", options, ["prefix"]);
  const entries: [string, Tensor][] = [];
  const prefix = (options.prefix ?? "").replace(/\.$/, "");
  walk(tree, prefix, (name, t) => entries.push([name, t]), new Set());
  return Object.fromEntries(entries);
}

/** The tensors of `tree`, each once: weights and statistics. An optimizer takes both and updates the first. */
export function getParameters(tree: unknown): Tensor[] {
  const found = new Set<Tensor>();
  walk(tree, "", (_, t) => found.add(t), new Set());
  return [...found];
}

/** `runningMean` as `running_mean`: how PyTorch names the last part. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
}

/**
 * Copies the tensors of `dict` into those of `tree` with the same name, cast to their dtype, moved to their device, and
 * realized. Shapes must be equal, except that `[]` and `[1]` are interchangeable. Where a name is missing, PyTorch's
 * spelling of it (`running_mean`) is tried. Nothing is written unless everything fits. Returns the tensors written.
 * @throws {ShapeError} naming the tensor whose shape differs
 * @throws {ArgumentError} naming what is missing, unless `strict` is false
 */
export function loadStateDict(tree: unknown, dict: Readonly<StateDict>, options: LoadOptions = {}): Tensor[] {
  checkOptions("load a state dictionary", options, ["strict"]);
  const plan: [Tensor, Tensor][] = [], missing: string[] = [];
  const planned = new Set<Tensor>();
  for (const [name, target] of Object.entries(getStateDict(tree))) {
    const key = [name, snakeCase(name)].find((k) => Object.hasOwn(dict, k));
    if (key === undefined) {
      if (!planned.has(target)) missing.push(name);
      continue;
    }
    const source = dict[key];
    if (!(source instanceof Tensor)) {
      throw new ArgumentError(`load "${name}"`, { reason: `it is no tensor but ${describe(source)}` });
    }
    const to = target.shape, from = source.shape;
    const scalars = prod(to) === 1 && prod(from) === 1 && to.length <= 1 && from.length <= 1;
    if (!sameArray(to, from) && !scalars) {
      throw new ShapeError(`load "${name}"`, { shapes: [from], reason: `the model has shape [${to.join(", ")}]` });
    }
    if (!planned.has(target)) plan.push([target, source]);
    planned.add(target);
  }
  if (missing.length > 0 && (options.strict ?? true)) {
    const more = missing.length > 5 ? ` and ${missing.length - 5} more` : "";
    throw new ArgumentError("load a state dictionary", {
      reason: `it lacks ${missing.slice(0, 5).join(", ")}${more}; { strict: false } loads the rest`,
    });
  }
  for (const [target, source] of plan) {
    let value = source.detach().to(target.device).cast(target.dtype);
    if (!sameArray(value.shape, target.shape)) value = value.reshape(target.shape);
    target.assign(value);
  }
  Tensor.realize(plan.map(([target]) => target));
  return plan.map(([target]) => target);
}
