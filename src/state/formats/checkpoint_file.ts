/**
 * Reading of checkpoints: into objects made as those that were saved. In: a safetensors file. Out: its tensors in their
 * places, and the plain values.
 *
 * @module
 */
import { ArgumentError, FormatError } from "../../helpers/errors.ts";
import { isPlain } from "../../helpers/options.ts";
import type { RngState } from "../../tensor/nodes/random.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { safeLoad, safeLoadMetadata, safeParse } from "../safetensors.ts";
import { loadStateDict, type StateDict } from "../state_dict.ts";
import { CHECKPOINT, MARK } from "./checkpoint_format.ts";

function unplain(_: string, x: unknown): unknown {
  const text = isPlain(x) && MARK in x ? x[MARK] : undefined;
  if (typeof text !== "string") return x;
  return text.endsWith("n") && text !== "NaN" && /^-?\d+n$/.test(text) ? BigInt(text.slice(0, -1)) : Number(text);
}

/** What the metadata of a checkpoint say. */
interface Kept<V> {
  readonly trees: readonly string[];
  readonly values: V;
  readonly aliases: Readonly<Record<string, string>>;
  readonly rng: RngState;
}

/** Reads them. @throws {FormatError} for what this module did not write */
function kept<V extends object>(text: string | undefined, file: string): Kept<V> {
  let found: unknown, cause: unknown;
  try {
    found = JSON.parse(text ?? "", unplain);
  } catch (error) {
    cause = error;
  }
  const { trees, values, aliases, rng } = (isPlain(found) ? found : {}) as Partial<Kept<V>>;
  const isText = (x: unknown): boolean => typeof x === "string";
  if (
    Array.isArray(trees) && trees.every(isText) && isPlain(values) && isPlain(aliases) &&
    Object.values(aliases).every(isText) && isPlain(rng)
  ) return found as Kept<V>;
  throw new FormatError("load", { file, reason: "what it says of the checkpoint is damaged", cause });
}

/** The names of a dictionary that belong to some keys of a tree. */
function belongs(name: string, keys: readonly string[]): boolean {
  return keys.some((key) => name === key || name.startsWith(`${key}.`));
}

/** What `loadCheckpoint` does, with options that are whole. @throws as that */
export async function readCheckpoint<V extends object>(
  action: string,
  from: string | URL | Uint8Array,
  file: string,
  into: Readonly<Record<string, unknown>>,
  { strict, rng }: { readonly strict: boolean; readonly rng: boolean },
): Promise<V> {
  const isBytes = from instanceof Uint8Array;
  const metadata = await safeLoadMetadata(isBytes ? new Tensor(from, { device: "JS" }) : from);
  if (metadata.format !== CHECKPOINT.format) {
    throw new FormatError("load", { file, reason: "it is no checkpoint; state.safeLoad reads other files" });
  }
  if (metadata.version !== CHECKPOINT.version) {
    throw new FormatError("load", {
      file,
      reason: `it is a checkpoint of version ${metadata.version}, not ${CHECKPOINT.version}`,
    });
  }
  const { trees, values, aliases, rng: draws } = kept<V>(metadata.checkpoint, file);
  const keys = Object.keys(into), missing = keys.filter((key) => !trees.includes(key));
  if (missing.length > 0) {
    throw new ArgumentError(action, {
      reason: `it has no ${missing.join(", ")}; to load into it has ${trees.join(", ") || "nothing"}${
        missing.some((key) => key in values) ? ", and plain values are returned" : ""
      }`,
    });
  }
  const all: StateDict = isBytes ? safeParse(from, { device: "JS" }) : await safeLoad(from);
  const dict: StateDict = {};
  for (const [name, t] of Object.entries(all)) if (belongs(name, keys)) dict[name] = t;
  for (const [name, first] of Object.entries(aliases)) {
    if (!Object.hasOwn(all, first)) {
      throw new FormatError("load", { file, reason: `${name} is ${first}, which it lacks` });
    }
    if (belongs(name, keys)) dict[name] = all[first];
  }
  if (keys.length > 0) loadStateDict(into, dict, { strict });
  if (rng) Tensor.setRngState(draws);
  return values;
}
