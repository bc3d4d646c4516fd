/**
 * Files of named tensors in the safetensors format (https://github.com/huggingface/safetensors): eight bytes with the
 * size of a JSON header, the header, the data. Reading checks everything before it uses anything; writing goes to a
 * file beside the target that is then renamed, so that no half of a file is ever seen.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { ArgumentError, DTypeError, FormatError } from "../helpers/errors.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import { prod } from "../helpers/math.ts";
import { Tensor } from "../tensor/tensor.ts";
import { type Json, parseJson } from "./json.ts";
import type { StateDict } from "./tree.ts";

/** Options of {@linkcode safeSave}. */
export interface SaveOptions {
  /** Text by name, kept in the header. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The format's names of our dtypes. */
const FORMAT_NAMES: readonly (readonly [string, DType])[] = [
  ["BOOL", dtypes.bool],
  ["U8", dtypes.uint8],
  ["I8", dtypes.int8],
  ["U16", dtypes.uint16],
  ["I16", dtypes.int16],
  ["U32", dtypes.uint32],
  ["I32", dtypes.int32],
  ["U64", dtypes.uint64],
  ["I64", dtypes.int64],
  ["F16", dtypes.float16],
  ["BF16", dtypes.bfloat16],
  ["F32", dtypes.float32],
  ["F64", dtypes.float64],
];
const MAX_HEADER = 100_000_000, MAX_AXES = 64;

/** Where a tensor lies in the data of a file. */
interface Entry {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: number[];
  readonly start: number;
  readonly stop: number;
}

/** A checked header. */
interface Header {
  readonly entries: readonly Entry[];
  readonly metadata: Record<string, string>;
  /** Where the data starts in the file. */
  readonly dataStart: number;
}

/** The file functions of the runtime that are used here. */
interface Files {
  open(path: string | URL, options: { read: true }): Promise<OpenFile>;
  writeFile(path: string, data: Uint8Array, options: { createNew: boolean }): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
}
interface OpenFile {
  stat(): Promise<{ readonly size: number }>;
  seek(offset: number, whence: number): Promise<number>;
  read(into: Uint8Array): Promise<number | null>;
  close(): void;
}

function files(action: string, file: string): Files {
  const deno = (globalThis as { Deno?: Files }).Deno;
  if (deno === undefined) {
    throw new FormatError(action, { file, reason: "this runtime has no files; use safeParse or safeBytes" });
  }
  return deno;
}

/** A safe whole number. */
function isCount(x: Json | undefined): x is number {
  return typeof x === "number" && Number.isSafeInteger(x) && x >= 0;
}

function entryOf(name: string, value: Json, bad: (reason: string) => FormatError): Entry {
  if (!(value instanceof Map)) throw bad(`tensor "${name}" is described by no object`);
  for (const key of value.keys()) {
    if (key !== "dtype" && key !== "shape" && key !== "data_offsets") {
      throw bad(`tensor "${name}" has an unknown field "${key}"`);
    }
  }
  const format = value.get("dtype"), shape = value.get("shape"), offsets = value.get("data_offsets");
  const dtype = FORMAT_NAMES.find(([n]) => n === format)?.[1];
  if (dtype === undefined) {
    throw bad(`tensor "${name}" has dtype ${JSON.stringify(format)}; known are ${FORMAT_NAMES.map(([n]) => n)}`);
  }
  if (!Array.isArray(shape) || !shape.every(isCount)) throw bad(`tensor "${name}" has no valid shape`);
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount)) {
    throw bad(`tensor "${name}" has no valid data_offsets`);
  }
  if (shape.length > MAX_AXES) throw bad(`tensor "${name}" has ${shape.length} axes, more than ${MAX_AXES}`);
  const [start, stop] = offsets as number[], nbytes = prod(shape as number[]) * dtype.itemsize;
  // sizes beside a 0 may not overflow either: strides are products of them
  const safe = Number.isSafeInteger(prod((shape as number[]).map((n) => n || 1)) * dtype.itemsize);
  if (!safe) throw bad(`tensor "${name}" of shape [${shape.join(", ")}] needs more bytes than can be counted`);
  if (stop - start !== nbytes) {
    throw bad(
      `tensor "${name}" of shape [${shape.join(", ")}] and dtype ${String(format)} needs ${nbytes} bytes ` +
        `and has ${stop - start}`,
    );
  }
  return { name, dtype, shape: shape as number[], start, stop };
}

/** Checks the header's size. `start` is the first 8 bytes or fewer of a file of `size` bytes. */
function headerSize(start: Uint8Array, size: number, bad: (reason: string) => FormatError): number {
  if (size < 8 || start.length < 8) throw bad(`it has ${size} bytes, too few for the size of a header`);
  const n = new DataView(start.buffer, start.byteOffset, 8).getBigUint64(0, true);
  if (n > BigInt(MAX_HEADER)) throw bad(`its header has ${n} bytes, more than ${MAX_HEADER}`);
  if (n > BigInt(size - 8)) throw bad(`its header has ${n} bytes, and only ${size - 8} follow`);
  return Number(n);
}

/** Reads and checks a header: known fields, sizes, no overlap, no hole, nothing missing and nothing left at the end. */
function parseHeader(bytes: Uint8Array, size: number, bad: (reason: string) => FormatError): Header {
  let root: Json;
  try {
    root = parseJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (error) {
    throw bad(`its header is no valid JSON (${(error as Error).message})`);
  }
  if (!(root instanceof Map)) throw bad("its header is no JSON object");
  const metadata: [string, string][] = [], entries: Entry[] = [];
  for (const [name, value] of root) {
    if (name !== "__metadata__") {
      entries.push(entryOf(name, value, bad));
      continue;
    }
    if (!(value instanceof Map)) throw bad("its __metadata__ is no object");
    for (const [key, text] of value) {
      if (typeof text !== "string") throw bad(`its metadata "${key}" is no text`);
      metadata.push([key, text]);
    }
  }
  const dataStart = 8 + bytes.length;
  let end = 0;
  for (const e of [...entries].sort((a, b) => a.start - b.start || a.stop - b.stop)) {
    if (e.start < end) throw bad(`tensor "${e.name}" overlaps the one before it, which ends at byte ${end}`);
    if (e.start > end) throw bad(`there is a hole of ${e.start - end} bytes before tensor "${e.name}"`);
    end = e.stop;
  }
  if (dataStart + end > size) throw bad(`it is truncated: ${dataStart + end} bytes are described, and it has ${size}`);
  if (dataStart + end < size) throw bad(`${size - dataStart - end} bytes follow the last tensor`);
  return { entries, metadata: Object.fromEntries(metadata), dataStart };
}

type HostArray =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | BigUint64Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

/** How the host sees elements of `dtype`; float16 and bfloat16 as bits. */
function hostArray(dtype: DType, buffer: ArrayBuffer): HostArray {
  switch (dtype) {
    case dtypes.bool:
    case dtypes.uint8:
      return new Uint8Array(buffer);
    case dtypes.int8:
      return new Int8Array(buffer);
    case dtypes.uint16:
    case dtypes.float16:
    case dtypes.bfloat16:
      return new Uint16Array(buffer);
    case dtypes.int16:
      return new Int16Array(buffer);
    case dtypes.uint32:
      return new Uint32Array(buffer);
    case dtypes.int32:
      return new Int32Array(buffer);
    case dtypes.uint64:
      return new BigUint64Array(buffer);
    case dtypes.int64:
      return new BigInt64Array(buffer);
    case dtypes.float64:
      return new Float64Array(buffer);
    default:
      return new Float32Array(buffer);
  }
}

/** A tensor of the bytes of an entry, which are aligned by being in a buffer of their own. */
function tensorOf(entry: Entry, buffer: ArrayBuffer): Tensor {
  const { dtype, shape } = entry, data = hostArray(dtype, buffer);
  if (dtype === dtypes.float16 || dtype === dtypes.bfloat16) {
    return new Tensor(data, { dtype: dtypes.uint16 }).bitcast(dtype).reshape(shape);
  }
  return new Tensor(data, { dtype }).reshape(shape);
}

/**
 * The tensors of safetensors bytes, by name, on the default device.
 * @throws {FormatError} saying what is wrong
 */
export function safeParse(bytes: Uint8Array): StateDict {
  const bad = (reason: string) => new FormatError("parse", { file: "safetensors bytes", reason });
  const n = headerSize(bytes.subarray(0, 8), bytes.length, bad);
  const header = parseHeader(bytes.subarray(8, 8 + n), bytes.length, bad);
  return Object.fromEntries(header.entries.map((e) => {
    const data = bytes.slice(header.dataStart + e.start, header.dataStart + e.stop);
    return [e.name, tensorOf(e, data.buffer)];
  }));
}

async function readAll(file: OpenFile, offset: number, nbytes: number, bad: (reason: string) => FormatError) {
  const out = new Uint8Array(nbytes);
  await file.seek(offset, 0);
  for (let n = 0; n < nbytes;) {
    const got = await file.read(out.subarray(n));
    if (got === null || got === 0) throw bad(`it ended at byte ${offset + n} while it was read`);
    n += got;
  }
  return out;
}

/** Opens a file, checks its header, and hands both to `use`. */
async function withHeader<T>(
  path: string | URL,
  use: (header: Header, read: (e: Entry) => Promise<ArrayBuffer>) => Promise<T>,
): Promise<T> {
  const name = String(path), bad = (reason: string) => new FormatError("load", { file: name, reason });
  const file = await files("load", name).open(path, { read: true });
  try {
    const { size } = await file.stat();
    const n = headerSize(await readAll(file, 0, Math.min(8, size), bad), size, bad);
    const header = parseHeader(await readAll(file, 8, n, bad), size, bad);
    return await use(
      header,
      async (e) => (await readAll(file, header.dataStart + e.start, e.stop - e.start, bad)).buffer,
    );
  } finally {
    file.close();
  }
}

/**
 * The tensors of a safetensors file, by name, on the default device. Needs read permission.
 * @throws {FormatError} saying what is wrong with the file; nothing of it was used
 */
export function safeLoad(path: string | URL): Promise<StateDict> {
  return withHeader(path, async (header, read) => {
    const out: [string, Tensor][] = [];
    for (const e of header.entries) out.push([e.name, tensorOf(e, await read(e))]);
    return Object.fromEntries(out);
  });
}

/** The metadata of a safetensors file: text by name. @throws {FormatError} as {@linkcode safeLoad} */
export function safeLoadMetadata(path: string | URL): Promise<Record<string, string>> {
  return withHeader(path, (header) => Promise.resolve(header.metadata));
}

/** Bytes of a tensor's elements, row-major, little-endian. */
async function bytesOf(t: Tensor): Promise<Uint8Array> {
  const bits = t.dtype === dtypes.bfloat16 || t.dtype === dtypes.float16 ? t.bitcast(dtypes.uint16) : t;
  const data = await bits.data();
  return new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
}

/**
 * The bytes of a safetensors file with the tensors of `dict`.
 * @throws {DTypeError} for a dtype that the format has not
 */
export async function safeBytes(dict: Readonly<StateDict>, options: SaveOptions = {}): Promise<Uint8Array> {
  checkOptions("save tensors", options, ["metadata"]);
  const entries = Object.entries(dict);
  const formats = entries.map(([name, t]) => {
    const format = FORMAT_NAMES.find(([, d]) => d === t.dtype);
    if (format === undefined || name === "__metadata__") {
      throw new DTypeError(`save "${name}" of dtype`, { dtypes: [t.dtype], reason: "safetensors has no such entry" });
    }
    return format[0];
  });
  Tensor.realize(entries.map(([, t]) => t));
  // Wide elements first, so that all are aligned; then by name.
  const order = entries.map((_, i) => i).sort((i, j) =>
    entries[j][1].dtype.itemsize - entries[i][1].dtype.itemsize || (entries[i][0] < entries[j][0] ? -1 : 1)
  );
  const header: [string, unknown][] = [];
  if (options.metadata !== undefined) {
    for (const [name, text] of Object.entries(options.metadata)) {
      if (typeof text !== "string") {
        throw new ArgumentError("save tensors", { reason: `metadata "${name}" must be text, not ${describe(text)}` });
      }
    }
    header.push(["__metadata__", { ...options.metadata }]);
  }
  let end = 0;
  const starts: number[] = [];
  for (const i of order) {
    const [name, t] = entries[i], start = end;
    starts.push(start);
    end += t.nbytes();
    header.push([name, { dtype: formats[i], shape: t.shape, data_offsets: [start, end] }]);
  }
  let text = `{${header.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`).join(",")}}`;
  let head = new TextEncoder().encode(text);
  if (head.length % 8 !== 0) head = new TextEncoder().encode(text += " ".repeat(8 - head.length % 8));
  if (head.length > MAX_HEADER) {
    throw new ArgumentError("save tensors", {
      reason: `the header would have ${head.length} bytes, more than the ${MAX_HEADER} that readers accept`,
    });
  }
  const out = new Uint8Array(8 + head.length + end);
  new DataView(out.buffer).setBigUint64(0, BigInt(head.length), true);
  out.set(head, 8);
  for (let k = 0; k < order.length; k++) out.set(await bytesOf(entries[order[k]][1]), 8 + head.length + starts[k]);
  return out;
}

/**
 * Writes the tensors of `dict` to a safetensors file: all of it or nothing. Needs write permission for the folder.
 * @throws {DTypeError} for a dtype that the format has not
 */
export async function safeSave(
  dict: Readonly<StateDict>,
  path: string | URL,
  options: SaveOptions = {},
): Promise<void> {
  const target = path instanceof URL ? decodeURIComponent(path.pathname) : path;
  const deno = files("save", target), bytes = await safeBytes(dict, options);
  const temporary = `${target}.${crypto.randomUUID().slice(0, 8)}.part`;
  try {
    await deno.writeFile(temporary, bytes, { createNew: true });
    await deno.rename(temporary, target);
  } catch (error) {
    await deno.remove(temporary).catch(() => {});
    throw error;
  }
}
