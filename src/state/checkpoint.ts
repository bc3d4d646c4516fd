/**
 * Checkpoints: all that a training loop goes on from, in one safetensors file. In: an object of models, optimizers,
 * schedules, loaders (what has tensors, by name) and of plain values; out: the same, in objects made anew. Tensors are the
 * file's, plain values and the state of random numbers are JSON in its metadata. Files are written whole or not at all. What
 * reads them is in formats/checkpoint_file.ts, which is loaded when it is asked for.
 *
 * @module
 */
import { hostFiles, NO_FILES } from "../device/host_files.ts";
import { ArgumentError, FormatError } from "../helpers/errors.ts";
import { checkBoolean, checkInteger, checkOptions, describe, isPlain } from "../helpers/options.ts";
import { stateOf } from "../helpers/stateful.ts";
import { Tensor } from "../tensor/tensor.ts";
import { CHECKPOINT, MARK } from "./formats/checkpoint_format.ts";
import { safeBytes, safeSave } from "./safetensors.ts";
import { bytesIn, folderOf, isInMemory, type Loadable, pathOf } from "./source.ts";
import { getStateDict, type StateDict } from "./state_dict.ts";

/** What a checkpoint is made of: models, optimizers and the like, and plain values, each by name. */
export type CheckpointContents = Readonly<Record<string, unknown>>;

/** Options of {@linkcode saveCheckpoint}. */
export interface SaveCheckpointOptions {
  /** Deletes the older ones of the same folder, so that this many are left: those whose names differ in the number. */
  readonly keep?: number;
}

/** Options of {@linkcode loadCheckpoint}. */
export interface LoadCheckpointOptions {
  /** Whether names that one side lacks are an error; true unless given. */
  readonly strict?: boolean;
  /** Whether random draws go on from where they were; true unless given. */
  readonly rng?: boolean;
}

/** A plain value as JSON has it, within `above`. @throws {ArgumentError} naming what is none, or contains itself */
function plain(x: unknown, name: string, above: readonly unknown[] = []): unknown {
  if (x === null || x === undefined || typeof x === "string" || typeof x === "boolean") return x;
  if (typeof x === "number") {
    return Number.isFinite(x) && !Object.is(x, -0) ? x : { [MARK]: Object.is(x, -0) ? "-0" : String(x) };
  }
  if (typeof x === "bigint") return { [MARK]: `${x}n` };
  if (above.includes(x)) throw new ArgumentError("save a checkpoint", { reason: `${name} contains itself` });
  const inner = [...above, x];
  if (Array.isArray(x)) return x.map((v, i) => plain(v, `${name}[${i}]`, inner));
  if (isPlain(x)) return Object.fromEntries(Object.entries(x).map(([k, v]) => [k, plain(v, `${name}.${k}`, inner)]));
  throw new ArgumentError("save a checkpoint", {
    reason: `${name} is ${describe(x)}, neither tensors nor a plain value: a number, text, list or object of these`,
  });
}

/** Whether something is saved by its tensors: it has some, or is an object of a class. */
function isTree(x: unknown): x is object {
  if (typeof x !== "object" || x === null || ArrayBuffer.isView(x)) return false;
  if (Object.keys(getStateDict(x)).length > 0) return true;
  return !Array.isArray(x) && !isPlain(x) && (stateOf(x) !== undefined || Object.getPrototypeOf(x) !== null);
}

/** What is written: each tensor once, under its first name. */
function parts(contents: CheckpointContents): { readonly dict: StateDict; readonly metadata: Record<string, string> } {
  if (!isPlain(contents)) {
    throw new ArgumentError("save a checkpoint", {
      reason: `it takes an object as { model, optimizer, epoch }, not ${describe(contents)}`,
    });
  }
  const dict: StateDict = {}, names = new Map<Tensor, string>(), aliases: Record<string, string> = {};
  const trees: string[] = [], values: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(contents)) {
    if (!isTree(value)) {
      values[key] = plain(value, key);
      continue;
    }
    trees.push(key);
    for (const [name, t] of Object.entries(getStateDict({ [key]: value }))) {
      const first = names.get(t);
      if (first !== undefined) aliases[name] = first;
      else {
        names.set(t, name);
        dict[name] = t;
      }
    }
  }
  const text = { trees, values, aliases, rng: Tensor.getRngState() };
  return { dict, metadata: { ...CHECKPOINT, checkpoint: JSON.stringify(text) } };
}

/** A path as its folder, and the text around the last number of its name. */
function numbered(path: string): { folder: string; before: string; after: string; number: number } | undefined {
  const at = folderOf(path).length;
  const m = /^(.*?)(\d+)(\D*)$/.exec(path.slice(at));
  return m === null ? undefined : { folder: path.slice(0, at), before: m[1], after: m[3], number: Number(m[2]) };
}

/** Deletes all but the newest `keep` of the files beside `path` that differ from it in the number. */
async function prune(path: string, keep: number): Promise<void> {
  const own = numbered(path)!, files = hostFiles()!, found: [number, string][] = [];
  for (const { name } of files.readDirSync(own.folder || ".")) {
    const its = numbered(name);
    if (its !== undefined && its.before === own.before && its.after === own.after && its.number !== own.number) {
      found.push([its.number, own.folder + name]);
    }
  }
  found.sort((a, b) => b[0] - a[0]);
  for (const [, file] of found.slice(keep - 1)) await files.remove(file).catch(() => {}); // another process was faster
}

/**
 * Writes what training goes on from to one safetensors file: of `contents`, models, optimizers, schedules, scalers,
 * averages and loaders by their tensors, and numbers, texts and lists and objects of them as they are; and where random
 * draws are. All is taken as it is at the call. Each tensor is written once, however many names it has. Of the loaders,
 * it is where they stand.
 *
 * ```ts ignore files
 * import { nn, state } from "../../mod.ts";
 * const model = new nn.Linear(8, 2), optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 0.1 });
 * const schedule = new nn.optim.ExponentialLR(optimizer, { gamma: 0.9 }), loader = new nn.data.DataLoader([1, 2, 3]);
 * const all = { model, optimizer, schedule, loader, epoch: 2, best: 0.25 };
 * await state.saveCheckpoint("step-000100.safetensors", all, { keep: 3 });
 * ```
 *
 * @throws {FormatError} where the file cannot be written; then nothing has changed
 * @throws {ArgumentError} for a value that is neither, and for `keep` without a number in the name
 */
export async function saveCheckpoint(
  path: string | URL,
  contents: CheckpointContents,
  options: SaveCheckpointOptions = {},
): Promise<void> {
  const action = "save a checkpoint";
  checkOptions(action, options, ["keep"]);
  const target = pathOf(action, path), { keep } = options;
  if (keep !== undefined) {
    checkInteger(action, "keep", keep, 1);
    if (numbered(target) === undefined) {
      throw new ArgumentError(action, {
        reason: `to keep ${keep} of them, the name must have a number, and ${target} has none`,
      });
    }
  }
  const { dict, metadata } = parts(contents);
  await safeSave(dict, target, { metadata });
  if (keep !== undefined) await prune(target, keep);
}

/** The bytes that {@linkcode saveCheckpoint} writes, where there are no files. */
export async function checkpointBytes(contents: CheckpointContents): Promise<Uint8Array<ArrayBuffer>> {
  const { dict, metadata } = parts(contents);
  return await safeBytes(dict, { metadata });
}

/**
 * Loads a checkpoint into objects made as those that were saved: `into` has the same names, all of them or some. Returns
 * the plain values. Training goes on bit by bit as it would have: weights, moments, schedules, loaders in mid-epoch, random
 * draws. Nothing is written unless all of it fits.
 *
 * ```ts
 * import { nn, state } from "../../mod.ts";
 * const bytes = await state.checkpointBytes({ model: new nn.Linear(2, 3), epoch: 7 });
 * const model = new nn.Linear(2, 3);
 * const { epoch } = await state.loadCheckpoint<{ epoch: number }>(bytes, { model });
 * console.log(epoch); // 7
 * ```
 *
 * @param from a path, a `file:` URL, or bytes
 * @throws {FormatError} for what is no checkpoint @throws {ArgumentError} naming what it has not @throws {ShapeError}
 */
export async function loadCheckpoint<V extends object = Record<string, unknown>>(
  from: Loadable,
  into: CheckpointContents = {},
  options: LoadCheckpointOptions = {},
): Promise<V> {
  const action = "load a checkpoint";
  checkOptions(action, options, ["strict", "rng"]);
  const { strict = true } = options, rng = options.rng === undefined || checkBoolean(action, "rng", options.rng);
  if (!isPlain(into)) {
    throw new ArgumentError(action, {
      reason: `it loads into an object as { model, optimizer }, not ${describe(into)}`,
    });
  }
  const place = isInMemory(from) ? await bytesIn(from) : from;
  const file = place instanceof Uint8Array ? "bytes" : pathOf(action, place, true);
  const { readCheckpoint } = await import("./formats/checkpoint_file.ts");
  return await readCheckpoint<V>(action, place, file, into, { strict, rng });
}

/**
 * The path of the checkpoint with the highest number in its name, of the safetensors files in `folder`; undefined where
 * there is none, or no folder: `const last = state.latestCheckpoint("runs")`.
 */
export function latestCheckpoint(folder: string | URL): string | undefined {
  const action = "look for checkpoints", path = pathOf(action, folder).replace(/[/\\]+$/, ""), files = hostFiles();
  if (files === undefined) throw new FormatError("load", { file: path, reason: NO_FILES });
  let best: string | undefined, most = -1, names: Iterable<{ readonly name: string }>;
  try {
    names = [...files.readDirSync(path)];
  } catch {
    return undefined;
  }
  for (const { name } of names) {
    const number = name.endsWith(".safetensors") ? numbered(name)?.number ?? -1 : -1;
    if (number > most) [best, most] = [`${path}/${name}`, number];
  }
  return best;
}
