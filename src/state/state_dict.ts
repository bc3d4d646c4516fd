/**
 * Weights by name: walks fields, arrays and maps of any object for tensors. There is no base class for models.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { prod, sameArray } from "../helpers/math.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import { Listeners } from "../helpers/spans.ts";
import { stateOf } from "../helpers/stateful.ts";
import { Tensor } from "../tensor/tensor.ts";
import { anewFromFile } from "./source.ts";

/** Tensors by dotted name, as `layers.0.weight`. */
export type StateDict = Record<string, Tensor>;

/** Options of {@linkcode getStateDict}. */
export interface StateDictOptions {
  /** Stands before every name; empty unless given. */
  readonly prefix?: string;
}

/** Options of {@linkcode loadStateDict}. */
export interface LoadOptions {
  /** Whether names that the dictionary lacks, or has and the model has not, are an error; true unless given. */
  readonly strict?: boolean;
  /** Whether to print a line for each tensor, to standard error; false unless given. */
  readonly verbose?: boolean;
  /** Whether to delete each tensor from the dictionary once it is loaded, so that its memory can go; false unless given. */
  readonly consume?: boolean;
  /** Whether to read and move the values now; true unless given. */
  readonly realize?: boolean;
}

/** Who hears what tensors of a model are called, when a program lists them: what explains it. */
export const namesHeard: Listeners<(name: string, t: Tensor) => void> = new Listeners((all) => (name, t) =>
  all.forEach((hear) => hear(name, t))
);

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
  } else for (const [key, value] of Object.entries(stateOf(x) ?? x)) walk(value, under(key), visit, path);
  path.delete(x);
}

/**
 * The tensors of `tree` by dotted name: fields of objects, indices of arrays, keys of maps. A tensor that is reached by
 * two names has both. Typed arrays, functions and gradients are left out. Of a schedule these are its counters and
 * learning rates, not the optimizer that it drives.
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
  if (namesHeard.listener !== undefined) { for (const [name, t] of entries) namesHeard.listener(name, t); }
  return Object.fromEntries(entries);
}

/** The tensors of `tree`, each once: weights and statistics. An optimizer takes both and updates the first. */
export function getParameters(tree: unknown): Tensor[] {
  const found = new Set<Tensor>();
  walk(tree, "", (name, t) => {
    found.add(t);
    namesHeard.listener?.(name, t);
  }, new Set());
  return [...found];
}

/** `runningMean` as `running_mean`: how PyTorch names the last part. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
}

/** Bytes that are read before they are moved into the model. */
const STEP = 1 << 26;

/** What goes where: target by target. */
interface Step {
  readonly name: string;
  readonly key: string;
  readonly target: Tensor;
  readonly source: Tensor;
}

/** Matches names, and checks everything before anything is written. */
function planLoad(tree: unknown, dict: Readonly<StateDict>, strict: boolean): Step[] {
  const steps: Step[] = [], missing: string[] = [], planned = new Set<Tensor>(), used = new Set<string>();
  const all = Object.entries(getStateDict(tree));
  for (const [name, target] of all) {
    const key = [name, snakeCase(name)].find((k) => Object.hasOwn(dict, k));
    if (key === undefined) {
      missing.push(name);
      continue;
    }
    used.add(key);
    const source = dict[key];
    if (!(source instanceof Tensor)) {
      throw new ArgumentError(`load "${name}"`, { reason: `it is no tensor but ${describe(source)}` });
    }
    const to = target.shape, from = source.shape;
    const scalars = prod(to) === 1 && prod(from) === 1 && to.length <= 1 && from.length <= 1;
    if (!sameArray(to, from) && !scalars) {
      throw new ShapeError(`load "${name}"`, { shapes: [from], reason: `the model has shape [${to.join(", ")}]` });
    }
    if (!planned.has(target)) steps.push({ name, key, target, source });
    planned.add(target);
  }
  if (!strict) return steps;
  // one of several names of a tensor is enough
  const targets = new Map(all), lacking = missing.filter((name) => !planned.has(targets.get(name)!));
  const unexpected = Object.keys(dict).filter((key) => !used.has(key));
  if (lacking.length > 0 || unexpected.length > 0) {
    const reasons = [
      ...lacking.length > 0 ? [`it lacks ${someOf(lacking)}`] : [],
      ...unexpected.length > 0 ? [`the model has no ${someOf(unexpected)}`] : [],
    ];
    throw new ArgumentError("load a state dictionary", {
      reason: `${reasons.join("; ")}; { strict: false } loads the rest`,
    });
  }
  return steps;
}

/** The first few names, and how many more there are. */
function someOf(names: readonly string[]): string {
  return `${names.slice(0, 5).join(", ")}${names.length > 5 ? ` and ${names.length - 5} more` : ""}`;
}

/**
 * Points `target` at the values of `source`, lazily. Memory that it has is written, so that steps that were captured with
 * it go on; where it has none yet, its initial values are never computed. Returns what to give up once it is realized.
 */
function loadOne({ target, source }: Step): Tensor | undefined {
  const anew = anewFromFile(source, target.device);
  let value = (anew ?? source.detach().to(target.device)).cast(target.dtype);
  if (!sameArray(value.shape, target.shape)) value = value.reshape(target.shape);
  if (target.isRealized) target.assign(value);
  else target.replace(anew !== undefined && value.uop === anew.uop ? anew : value.clone());
  return target.isRealized || target.uop !== anew?.uop ? anew : undefined;
}

/**
 * Copies the tensors of `dict` into those of `tree` with the same name, cast to their dtype and moved to their device.
 * Shapes must be equal, except that `[]` and `[1]` are interchangeable. Where a name is missing, PyTorch's spelling of it
 * (`running_mean`) is tried. Nothing is written unless everything fits. Tensors of files are read here, a part of the
 * model at a time. Returns the tensors written.
 *
 * ```ts
 * import { nn, state } from "../../mod.ts";
 * const model = [new nn.Linear(2, 3)], copy = [new nn.Linear(2, 3)];
 * state.loadStateDict(copy, state.getStateDict(model)).length; // 2
 * ```
 *
 * @throws {ShapeError} naming the tensor whose shape differs
 * @throws {ArgumentError} naming what is missing, and what the model has not, unless `strict` is false
 */
export function loadStateDict(tree: unknown, dict: StateDict, options: LoadOptions = {}): Tensor[] {
  checkOptions("load a state dictionary", options, ["strict", "verbose", "consume", "realize"]);
  const { strict = true, verbose = false, consume = false, realize = true } = options;
  if (typeof dict !== "object" || dict === null || dict instanceof Tensor) {
    throw new ArgumentError("load a state dictionary", {
      reason: `it must be an object of tensors by name, not ${dict instanceof Tensor ? "a tensor" : describe(dict)}`,
    });
  }
  const steps = planLoad(tree, dict, strict);
  let pending: Tensor[] = [], temporaries: Tensor[] = [], nbytes = 0;
  const flush = (): void => {
    if (realize) Tensor.realize(pending);
    if (realize) { for (const t of temporaries) t.dispose(); }
    [pending, temporaries, nbytes] = [[], [], 0];
  };
  for (const step of steps) {
    const { name, key, target } = step, temporary = loadOne(step);
    pending.push(target);
    if (temporary !== undefined) temporaries.push(temporary);
    if (verbose) console.error(`${name} [${target.shape.join(", ")}] ${target.dtype} ${target.device}`);
    if (consume) delete dict[key];
    if ((nbytes += target.nbytes()) >= STEP) flush();
  }
  flush();
  return steps.map(({ target }) => target);
}
