/**
 * The weights of a TensorFlow.js model: a manifest that says which arrays lie one after the other in which files. In: the
 * manifest, and what reads its files; out: tensors by name. Lengths, dtypes and places are checked before any is made.
 * Format: the converter of TensorFlow.js, "weightsManifest", with weights quantized to whole numbers or halves.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { f16Value } from "../dtype/float16.ts";
import { concatBytes, prod } from "../helpers/math.ts";
import { isPlain } from "../helpers/options.ts";
import { fileBytes, folderOf, tensorOfBytes } from "../state/source.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** Makes the errors of a file. */
export type Fault = (reason: string) => Error;

/** How a weight lies in its file: whole numbers times `scale` plus `min`, or halves. */
interface Quantization {
  readonly dtype: string;
  readonly scale: number;
  readonly min: number;
}

const DTYPES: Readonly<Record<string, DType>> = {
  float32: dtypes.float32,
  float16: dtypes.float16,
  int32: dtypes.int32,
  uint8: dtypes.uint8,
  uint16: dtypes.uint16,
  bool: dtypes.bool,
};

/** A record of JSON. @throws where it is none */
export function recordOf(x: unknown, what: string, bad: Fault): Record<string, unknown> {
  if (!isPlain(x)) throw bad(`${what} is no object`);
  return x as Record<string, unknown>;
}
/** A list of JSON. @throws where it is none */
export function listOf(x: unknown, what: string, bad: Fault): unknown[] {
  if (!Array.isArray(x)) throw bad(`${what} is no list`);
  return x;
}

/** Files of all groups, which lie in the model's folder. @throws for one that does not */
function weightFiles(manifest: unknown, bad: Fault): string[] {
  return listOf(manifest, "weightsManifest", bad).flatMap((group, i) =>
    listOf(recordOf(group, `group ${i} of weightsManifest`, bad).paths, `the paths of group ${i}`, bad).map((path) => {
      if (typeof path !== "string" || path === "" || /^[/\\]|^\w+:|\\/.test(path) || path.split("/").includes("..")) {
        throw bad(`weights lie in ${JSON.stringify(path)}, which is not in the model's folder`);
      }
      return path;
    })
  );
}

/** A weight as it is in memory: quantized ones are made floats once, here. */
export interface WeightEntry {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The floats that halves or whole numbers stand for. */
function dequantized(
  raw: Uint8Array<ArrayBuffer>,
  stored: DType,
  scale: number,
  min: number,
): Float32Array<ArrayBuffer> {
  if (stored === dtypes.float16) return Float32Array.from(new Uint16Array(raw.buffer), f16Value);
  const q = stored === dtypes.uint16 ? new Uint16Array(raw.buffer) : raw;
  return Float32Array.from(q, (x) => x * scale + min);
}

/** One weight of the bytes at `at`, and where the next one begins. */
function weightAt(bytes: Uint8Array, at: number, entry: unknown, bad: Fault): [WeightEntry, number] {
  const { name, shape, dtype, quantization } = recordOf(entry, "an entry of weightsManifest", bad);
  if (typeof name !== "string") throw bad("a weight has no name");
  const dims = listOf(shape, `the shape of weight "${name}"`, bad);
  if (!dims.every((n) => Number.isSafeInteger(n) && n as number >= 0)) {
    throw bad(`weight "${name}" has shape ${JSON.stringify(shape)}`);
  }
  const q = quantization === undefined ? undefined : recordOf(quantization, `the quantization of "${name}"`, bad);
  const stored = DTYPES[String(q?.dtype ?? dtype)], type = DTYPES[String(dtype)];
  if (stored === undefined || type === undefined) throw bad(`weight "${name}" is ${q?.dtype ?? dtype}`);
  const end = at + prod(dims as number[]) * stored.itemsize;
  if (end > bytes.length) throw bad(`weight "${name}" ends at byte ${end} of its group, which has ${bytes.length}`);
  const raw = bytes.slice(at, end) as Uint8Array<ArrayBuffer>, made = { name, dtype: type, shape: dims as number[] };
  if (q === undefined) return [{ ...made, bytes: raw }, end];
  const { scale = 1, min = 0 } = q as unknown as Quantization;
  if (!Number.isFinite(scale) || !Number.isFinite(min)) {
    throw bad(`weight "${name}" is quantized by ${scale} from ${min}`);
  }
  if (type !== dtypes.float32 && type !== dtypes.int32 || stored !== dtypes.float16 && stored.isFloat) {
    throw bad(`weight "${name}" is ${dtype}, quantized to ${q.dtype}`);
  }
  const floats = dequantized(raw, stored, scale, min);
  const numbers = type.isInt ? Int32Array.from(floats, Math.round) : floats;
  return [{ ...made, bytes: new Uint8Array(numbers.buffer) }, end];
}

/** All weights in their order. @throws where the manifest and the files do not fit */
export function weightEntries(
  manifest: unknown,
  files: ReadonlyMap<string, Uint8Array>,
  bad: Fault,
): WeightEntry[] {
  const out: WeightEntry[] = [], names = new Set<string>();
  for (const group of listOf(manifest, "weightsManifest", bad)) {
    const { paths, weights } = recordOf(group, "a group of weightsManifest", bad);
    const bytes = concatBytes(
      listOf(paths, "the paths of a group", bad).map((p) => {
        const file = files.get(p as string);
        if (file === undefined) throw bad(`the file ${JSON.stringify(p)} of its weights is missing`);
        return file;
      }),
    );
    let at = 0;
    for (const entry of listOf(weights, "the weights of a group", bad)) {
      const [weight, end] = weightAt(bytes, at, entry, bad);
      if (names.has(weight.name)) throw bad(`two weights are called "${weight.name}"`);
      names.add(weight.name);
      out.push(weight);
      at = end;
    }
    if (at !== bytes.length) throw bad(`its weights have ${at} bytes, and their files ${bytes.length}`);
  }
  return out;
}

/** All weights as tensors, by name. @throws where the manifest and the files do not fit */
export function readWeights(
  manifest: unknown,
  files: ReadonlyMap<string, Uint8Array>,
  device: string,
  bad: Fault,
): Map<string, Tensor> {
  const entries = weightEntries(manifest, files, bad);
  return new Map(entries.map(({ name, dtype, shape, bytes }) => [name, tensorOfBytes(bytes, dtype, shape, device)]));
}

/** Where a model is read from, and its files. */
export interface ModelFiles {
  readonly json: Record<string, unknown>;
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** A `model.json`, from its path or from memory, with the files that it names. */
export async function readModelFiles(
  from: string | URL | { readonly model: unknown; readonly files: Readonly<Record<string, Uint8Array | ArrayBuffer>> },
  file: string,
  bad: Fault,
): Promise<ModelFiles> {
  const memory = isPlain(from)
    ? from as { model: unknown; files: Record<string, Uint8Array | ArrayBuffer> }
    : undefined;
  let json: unknown = memory === undefined ? new TextDecoder().decode(await fileBytes(file)) : memory.model;
  if (typeof json === "string") {
    try {
      json = JSON.parse(json);
    } catch (error) {
      throw bad(`it is no JSON: ${(error as Error).message}`);
    }
  }
  const record = recordOf(json, "it", bad), files = new Map<string, Uint8Array>(), folder = folderOf(file);
  for (const path of weightFiles(record.weightsManifest, bad)) {
    const bytes = memory === undefined ? await fileBytes(folder + path) : memory.files?.[path];
    if (bytes instanceof Uint8Array) files.set(path, bytes);
    else if (bytes instanceof ArrayBuffer) files.set(path, new Uint8Array(bytes));
  }
  return { json: record, files };
}
