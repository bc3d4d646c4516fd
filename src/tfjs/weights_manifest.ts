/**
 * The weights of a TensorFlow.js model: a manifest that says which arrays lie one after the other in which files. In: the
 * manifest, and what reads its files; out: tensors by name. Lengths, dtypes and places are checked before any is made.
 * Format: the converter of TensorFlow.js, "weightsManifest", with weights quantized to whole numbers or halves.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { concatBytes, prod } from "../helpers/math.ts";
import { isPlain } from "../helpers/options.ts";
import { tensorOfBytes } from "../state/source.ts";
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
export function weightFiles(manifest: unknown, bad: Fault): string[] {
  return listOf(manifest, "weightsManifest", bad).flatMap((group, i) =>
    listOf(recordOf(group, `group ${i} of weightsManifest`, bad).paths, `the paths of group ${i}`, bad).map((path) => {
      if (typeof path !== "string" || path === "" || /^[/\\]|^\w+:|\\/.test(path) || path.split("/").includes("..")) {
        throw bad(`weights lie in ${JSON.stringify(path)}, which is not in the model's folder`);
      }
      return path;
    })
  );
}

/** One weight of the bytes at `at`, and where the next one begins. */
function weightAt(bytes: Uint8Array, at: number, entry: unknown, device: string, bad: Fault): [string, Tensor, number] {
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
  const raw = tensorOfBytes(bytes.slice(at, end), stored, dims as number[], device);
  if (q === undefined) return [name, raw, end];
  const { scale = 1, min = 0 } = q as unknown as Quantization;
  if (!Number.isFinite(scale) || !Number.isFinite(min)) {
    throw bad(`weight "${name}" is quantized by ${scale} from ${min}`);
  }
  return [name, stored.isFloat ? raw.cast(type) : raw.cast(dtypes.float32).mul(scale).add(min).cast(type), end];
}

/** All weights, by name. @throws where the manifest and the files do not fit */
export function readWeights(
  manifest: unknown,
  files: ReadonlyMap<string, Uint8Array>,
  device: string,
  bad: Fault,
): Map<string, Tensor> {
  const out = new Map<string, Tensor>();
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
      const [name, tensor, end] = weightAt(bytes, at, entry, device, bad);
      if (out.has(name)) throw bad(`two weights are called "${name}"`);
      out.set(name, tensor);
      at = end;
    }
    if (at !== bytes.length) throw bad(`its weights have ${at} bytes, and their files ${bytes.length}`);
  }
  return out;
}
