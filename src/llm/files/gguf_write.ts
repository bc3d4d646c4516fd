/**
 * Writing GGUF files, version 3: typed metadata and tensors, plain or quantized. What is written here is read by
 * llama.cpp and all that reads its files.
 *
 * @module
 */
import { FILES } from "../../device/files.ts";
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { concatBytes, prod, roundUp } from "../../helpers/math.ts";
import { describe } from "../../helpers/options.ts";
import { anewFromFile, bytesOfTensors, fileRange, pathOf, placeOf } from "../../state/source.ts";
import { type Put, writeFile } from "../../state/write.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { BLOCK_FORMATS, type BlockFormat, dequantize, type FormatName } from "./block_formats.ts";
import { ALIGNMENT, type GgufEntry, type GgufScalarType, type GgufTensor, LIST, MAGIC, SCALARS } from "./gguf.ts";
import { quantize, QUANTIZED } from "./quantize.ts";

/**
 * A value to write. Its type is that of an entry that was read; of a plain boolean, text or list of texts their own; of
 * a whole number uint32, or int32 below 0; of all other numbers float32.
 */
export type GgufInput = GgufEntry | number | boolean | string | readonly string[];

/**
 * A tensor to write: in the dtype that it has; of a file, byte for byte as it is there; or in a given format. One of a
 * file that has this format already is copied, too.
 */
export type GgufTensorInput = Tensor | GgufTensor | {
  readonly tensor: Tensor | GgufTensor;
  readonly format: FormatName;
};

/** What a file is made of: what {@linkcode readGguf} gives is that, too. */
export interface GgufContents {
  /** Values by key. */
  readonly metadata: Readonly<Record<string, GgufInput>> | ReadonlyMap<string, GgufInput>;
  /** Tensors by name. */
  readonly tensors: Readonly<Record<string, GgufTensorInput>> | ReadonlyMap<string, GgufTensorInput>;
}

const ACTION = "write a GGUF file", encoder = new TextEncoder();

/** A number of metadata with its type: `typed("float32", 10000)`, `typed("int32", [1, 2])`. */
export function typed(type: GgufScalarType, value: GgufEntry["value"]): GgufEntry {
  return { type, list: Array.isArray(value), value };
}

/** A value with its type. @throws {ArgumentError} for what metadata cannot hold */
export function entryOf(key: string, value: GgufInput): GgufEntry {
  if (typeof value === "boolean") return typed("bool", value);
  if (typeof value === "string") return typed("string", value);
  if (typeof value === "number") {
    if (!Number.isInteger(value)) return typed("float32", value);
    return typed(value < 0 ? "int32" : "uint32", value);
  }
  if (Array.isArray(value)) return typed("string", value as string[]);
  if (typeof value === "object" && value !== null && "type" in value) return value as GgufEntry;
  throw new ArgumentError(ACTION, { reason: `"${key}" has a value that metadata cannot hold` });
}

/** Bytes one after the other. */
class Bytes {
  private readonly parts: Uint8Array[] = [];
  private scalars(nbytes: number, put: (view: DataView) => void): void {
    const bytes = new Uint8Array(nbytes);
    put(new DataView(bytes.buffer));
    this.parts.push(bytes);
  }
  u32(x: number): void {
    this.scalars(4, (v) => v.setUint32(0, x, true));
  }
  u64(x: number): void {
    this.scalars(8, (v) => v.setBigUint64(0, BigInt(x), true));
  }
  text(x: string): void {
    const bytes = encoder.encode(x);
    this.u64(bytes.length);
    this.parts.push(bytes);
  }
  scalar(key: string, type: GgufScalarType, x: unknown): void {
    const wrong = () =>
      new ArgumentError(ACTION, { reason: `"${key}" is said to be ${type}, and ${String(x)} is not` });
    const number = (): number => {
      if (typeof x !== "number") throw wrong();
      return x;
    };
    const whole = (min: number, max: number): number => {
      if (!Number.isInteger(x) || number() < min || number() > max) throw wrong();
      return x as number;
    };
    const big = (min: bigint, max: bigint): bigint => {
      const n = typeof x === "bigint" ? x : BigInt(whole(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER));
      if (n < min || n > max) throw wrong();
      return n;
    };
    switch (type) {
      case "uint8":
        return this.scalars(1, (v) => v.setUint8(0, whole(0, 255)));
      case "int8":
        return this.scalars(1, (v) => v.setInt8(0, whole(-128, 127)));
      case "uint16":
        return this.scalars(2, (v) => v.setUint16(0, whole(0, 65535), true));
      case "int16":
        return this.scalars(2, (v) => v.setInt16(0, whole(-32768, 32767), true));
      case "uint32":
        return this.scalars(4, (v) => v.setUint32(0, whole(0, 2 ** 32 - 1), true));
      case "int32":
        return this.scalars(4, (v) => v.setInt32(0, whole(-(2 ** 31), 2 ** 31 - 1), true));
      case "uint64":
        return this.scalars(8, (v) => v.setBigUint64(0, big(0n, (1n << 64n) - 1n), true));
      case "int64":
        return this.scalars(8, (v) => v.setBigInt64(0, big(-(1n << 63n), (1n << 63n) - 1n), true));
      case "float32":
        return this.scalars(4, (v) => v.setFloat32(0, number(), true));
      case "float64":
        return this.scalars(8, (v) => v.setFloat64(0, number(), true));
      case "bool":
        if (typeof x !== "boolean") throw wrong();
        return this.scalars(1, (v) => v.setUint8(0, x ? 1 : 0));
      case "string":
        if (typeof x !== "string") throw wrong();
        return this.text(x);
    }
  }
  entry(key: string, { type, list, value }: GgufEntry): void {
    const kind = SCALARS.findIndex(([name]) => name === type);
    if (kind < 0) throw new ArgumentError(ACTION, { reason: `"${key}" has the unknown type ${type}` });
    this.text(key);
    this.u32(list ? LIST : kind);
    if (!list) return this.scalar(key, type, value);
    const items = value as readonly unknown[];
    this.u32(kind);
    this.u64(items.length);
    for (const x of items) this.scalar(key, type, x);
  }
  bytes(): Uint8Array<ArrayBuffer> {
    return concatBytes(this.parts);
  }
}

/** A tensor, how it is stored, and where. */
interface Stored {
  readonly content: Content;
  readonly offset: number;
  readonly nbytes: number;
}

/** What a tensor is written as. */
interface Content {
  readonly shape: readonly number[];
  readonly format: BlockFormat;
  /** Float32, of which blocks are made, or what is written as it is. */
  readonly from: Tensor;
  /** Is `from` to become blocks? */
  readonly packs: boolean;
  /** Of what a file has and nobody computed yet, `from` again, for itself, and what is freed once it was read. */
  readonly anew?: () => readonly Tensor[];
}

/** The format whose elements are `dtype`. */
function plainFormat(name: string, dtype: DType): BlockFormat {
  for (const format of BLOCK_FORMATS.values()) if (format.plain === dtype) return format;
  throw new ArgumentError(ACTION, { reason: `tensor "${name}" has dtype ${dtype}, which the format has not; cast it` });
}

function isOfFile(x: unknown): x is GgufTensor {
  return typeof x === "object" && x !== null && "raw" in x && typeof x.raw === "function";
}

/** In a format that it does not have yet. */
function converted(tensor: Tensor | GgufTensor, format: BlockFormat): Content {
  const dtype = format.plain ?? dtypes.float32, packs = format.plain === undefined, { shape } = tensor;
  const cast = (x: Tensor): Tensor => x.dtype === dtype ? x : x.cast(dtype);
  if (tensor instanceof Tensor) return { shape, format, from: cast(tensor), packs };
  const raw = tensor.raw(), place = raw.device === FILES ? placeOf({}) : raw.device, { plain } = tensor.format;
  if (fileRange(raw) === undefined || plain === dtype) return { shape, format, from: cast(tensor.load()), packs };
  const anew = (): readonly Tensor[] => {
    const own = anewFromFile(raw, place)!;
    return [cast(plain === undefined ? dequantize(own, tensor.format) : own), own];
  };
  return { shape, format, from: raw, packs, anew };
}

function contentOf(name: string, input: GgufTensorInput): Content {
  const bad = (reason: string) => new ArgumentError(ACTION, { reason: `tensor "${name}"${reason}` });
  if (input instanceof Tensor) {
    return { shape: input.shape, format: plainFormat(name, input.dtype), from: input, packs: false };
  }
  if (isOfFile(input)) return { shape: input.shape, format: input.format, from: input.raw(), packs: false };
  const { tensor, format } = (input ?? {}) as Partial<Exclude<GgufTensorInput, Tensor | GgufTensor>>;
  if (!(tensor instanceof Tensor || isOfFile(tensor))) {
    throw bad(` is ${describe(input)}; it must be a Tensor, a tensor of a file, or { tensor, format } of one`);
  }
  const known = BLOCK_FORMATS.get(format!);
  if (known === undefined) throw bad(`: ${describe(format)} is no format`);
  if (isOfFile(tensor) && tensor.format === known) return contentOf(name, tensor);
  if (known.plain !== undefined) return converted(tensor, known);
  if (!QUANTIZED.includes(known.name)) throw bad(`: ${known.name} is only read; written are ${QUANTIZED.join(", ")}`);
  const row = tensor.shape.at(-1) ?? 1;
  if (row % known.elements !== 0) {
    throw bad(` has rows of ${row} elements, no multiple of the ${known.elements} of a ${known.name} block`);
  }
  return converted(tensor, known);
}

function pairsOf<T>(x: Readonly<Record<string, T>> | ReadonlyMap<string, T>): [string, T][] {
  return x instanceof Map ? [...x] : Object.entries(x);
}

/** The header, and what follows it. */
function layoutOf(
  contents: GgufContents,
): { head: Uint8Array<ArrayBuffer>; stored: readonly Stored[]; alignment: number } {
  const parts = Object(contents) as Partial<GgufContents>;
  if (typeof parts.metadata !== "object" || typeof parts.tensors !== "object") {
    throw new ArgumentError(ACTION, {
      reason: `it is made of { metadata, tensors }, objects or maps both, not of ${describe(contents)}`,
    });
  }
  const metadata = pairsOf(contents.metadata),
    tensors = pairsOf(contents.tensors),
    head = new Bytes(),
    stored: Stored[] = [];
  const given = new Map(metadata).get("general.alignment");
  const alignment = given === undefined
    ? ALIGNMENT
    : Number(typeof given === "object" && "value" in given ? given.value : given);
  if (!(alignment >= 1 && Number.isInteger(Math.log2(alignment)))) {
    throw new ArgumentError(ACTION, { reason: `the alignment ${alignment} is no power of two` });
  }
  head.u32(MAGIC);
  head.u32(3);
  head.u64(tensors.length);
  head.u64(metadata.length);
  for (const [key, value] of metadata) head.entry(key, entryOf(key, value));
  let offset = 0;
  for (const [name, input] of tensors) {
    const content = contentOf(name, input), { shape, format } = content;
    if (shape.length > 4 || shape.includes(0)) {
      throw new ArgumentError(ACTION, {
        reason: `tensor "${name}" of shape [${shape.join(", ")}] has more than 4 axes, or no elements`,
      });
    }
    const nbytes = prod(shape) / format.elements * format.nbytes;
    head.text(name);
    head.u32(shape.length);
    for (const n of [...shape].reverse()) head.u64(n);
    head.u32(format.id);
    head.u64(offset);
    stored.push({ content, offset, nbytes });
    offset = roundUp(offset + nbytes, alignment);
  }
  const bytes = head.bytes(), padded = new Uint8Array(roundUp(bytes.length, alignment));
  padded.set(bytes);
  return { head: padded, stored, alignment };
}

async function put(contents: GgufContents, to: Put): Promise<void> {
  const { head, stored, alignment } = layoutOf(contents), now = stored.filter(({ content }) => !content.anew);
  const taken = bytesOfTensors(now.map(({ content }) => content.from));
  await to(head);
  let at = 0, next = 0;
  for (const { content: { format, packs, anew }, offset, nbytes } of stored) {
    if (offset > at) await to(new Uint8Array(offset - at));
    const own = anew?.(), plain = await (own ? bytesOfTensors([own[0]])[0] : taken[next++])();
    own?.forEach((t) => t.dispose()); // one weight at a time is in memory
    const whole = plain.byteOffset % 4 === 0 ? plain : plain.slice();
    const numbers = () => new Float32Array(whole.buffer, whole.byteOffset, whole.length / 4);
    await to(packs ? quantize(numbers(), format.name) : whole);
    at = offset + nbytes;
  }
  const rest = roundUp(at, alignment) - at;
  if (rest > 0) await to(new Uint8Array(rest));
}

/**
 * Writes a GGUF file, all of it or nothing. Needs write permission for the folder.
 *
 * ```ts ignore files
 * import { Tensor } from "../../../mod.ts";
 * import { readGguf, typed, writeGguf } from "../llm.ts";
 * await writeGguf("new.gguf", {
 *   metadata: { "general.architecture": "llama", "llama.rope.freq_base": typed("float32", 10000) },
 *   tensors: { "token_embd.weight": { tensor: Tensor.rand([100, 64]), format: "Q8_0" } },
 * });
 * await writeGguf("copy.gguf", await readGguf("new.gguf")); // the same tensors, block by block
 * ```
 *
 * @throws {ArgumentError} for metadata or tensors that the format cannot hold
 */
export async function writeGguf(path: string | URL, contents: GgufContents): Promise<void> {
  const target = pathOf(ACTION, path);
  layoutOf(contents); // what cannot be written is told before a file is made
  await writeFile(target, (to) => put(contents, to));
}

/** The bytes of a GGUF file. @throws {ArgumentError} as {@linkcode writeGguf} */
export async function encodeGguf(contents: GgufContents): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  await put(contents, (bytes) => {
    parts.push(bytes.slice());
    return undefined;
  });
  return concatBytes(parts);
}
