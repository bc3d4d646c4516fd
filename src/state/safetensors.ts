/**
 * Files of named tensors in the safetensors format (https://github.com/huggingface/safetensors): eight bytes with the
 * size of a JSON header, the header, the data. Reading checks everything before it uses anything; large models are
 * spread over several files with an index.
 *
 * @module
 */
import type { Checked } from "../device/device.ts";
import { FILES } from "../device/files.ts";
import { isLate, partsReady } from "../device/parts.ts";
import { type DType, dtypes } from "../dtype/dtype.ts";
import { ArgumentError, DTypeError, type FormatError } from "../helpers/errors.ts";
import { prod, roundUp } from "../helpers/math.ts";
import { checkInteger, checkOptions, describe, isPlain } from "../helpers/options.ts";
import { Tensor } from "../tensor/tensor.ts";
import { type Json, parseJson } from "./json.ts";
import {
  type Bad,
  bytesOfTensors,
  fileRange,
  isInMemory,
  type Loadable,
  memorySource,
  pathOf,
  type PlaceOptions,
  type Source,
  withSource,
} from "./source.ts";
import type { StateDict } from "./state_dict.ts";
import { type Put, writeFile, writeFiles } from "./write.ts";

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
  ["F8_E4M3", dtypes.fp8e4m3],
  ["F8_E5M2", dtypes.fp8e5m2],
  ["F16", dtypes.float16],
  ["BF16", dtypes.bfloat16],
  ["F32", dtypes.float32],
  ["F64", dtypes.float64],
  ["C64", dtypes.complex64],
  ["C128", dtypes.complex128],
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

/** The tensors of a source. */
function parseSource(source: Source): { readonly header: Header; readonly tensors: StateDict } {
  const { size, bad } = source, n = headerSize(source.read(0, Math.min(8, size)), size, bad);
  const header = parseHeader(source.read(8, n), size, bad);
  const tensors = Object.fromEntries(
    header.entries.map((e) => [e.name, source.tensor(header.dataStart + e.start, e.dtype, e.shape)]),
  );
  return { header, tensors };
}

/**
 * The tensors of safetensors bytes, by name.
 * @throws {FormatError} saying what is wrong
 */
export function safeParse<N extends string>(bytes: Uint8Array, options: Checked<PlaceOptions, N> = {}): StateDict {
  checkOptions("parse safetensors", options, ["device"]);
  return parseSource(memorySource(bytes, "safetensors bytes", options)).tensors;
}

/**
 * The tensors of a safetensors file, by name, lazily: a tensor is read from the file when it is first used, and of its
 * first rows (`t.at([0, 10])`) only those. `from` may also be an index of several files (`model.safetensors.index.json`),
 * or bytes. `device` is the default device unless given; "DISK" leaves tensors in the file, to be moved by
 * `to`. Needs read permission.
 * @throws {FormatError} saying what is wrong with the file; nothing of it was used
 */
export async function safeLoad<N extends string>(
  from: Loadable,
  options: Checked<PlaceOptions, N> = {},
): Promise<StateDict> {
  checkOptions("load safetensors", options, ["device"]);
  if (!isInMemory(from)) {
    const path = pathOf("load safetensors", from, true);
    if (path.endsWith(".index.json")) return loadShards(path, options);
  }
  return await withSource(from, options, (source) => parseSource(source).tensors);
}

/** The metadata of a safetensors file: text by name. @throws {FormatError} as {@linkcode safeLoad} */
export async function safeLoadMetadata(from: Loadable): Promise<Record<string, string>> {
  return await withSource(from, { device: FILES }, (source) => {
    const { size, bad } = source, n = headerSize(source.read(0, Math.min(8, size)), size, bad);
    return parseHeader(source.read(8, n), size, bad).metadata;
  });
}

// ---- several files

const MAX_INDEX = 100_000_000;

/** The names of tensors by file, as an index says. Files are plain names beside it. */
function parseIndex(text: Uint8Array, bad: Bad): Map<string, string[]> {
  let root: Json;
  try {
    root = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(text));
  } catch (error) {
    throw bad(`it is no valid JSON (${(error as Error).message})`);
  }
  const map = root instanceof Map ? root.get("weight_map") : undefined;
  if (!(map instanceof Map)) throw bad("it has no weight_map");
  const files = new Map<string, string[]>();
  for (const [name, file] of map) {
    if (typeof file !== "string" || !/^[^/\\:\0]+$/.test(file) || file === "." || file === "..") {
      throw bad(`tensor "${name}" is in ${JSON.stringify(file)}, which is no plain file name`);
    }
    const names = files.get(file);
    if (names === undefined) files.set(file, [name]);
    else names.push(name);
  }
  return files;
}

async function loadShards(path: string, options: PlaceOptions): Promise<StateDict> {
  const out: [string, Tensor][] = [];
  const { files, bad } = await withSource(path, { device: FILES }, (source) => {
    if (source.size > MAX_INDEX) throw source.bad(`it has ${source.size} bytes, more than ${MAX_INDEX}`);
    return { files: parseIndex(source.read(0, source.size), source.bad), bad: source.bad };
  });
  const folder = path.slice(0, path.length - path.split(/[/\\]/).at(-1)!.length);
  for (const [file, names] of files) {
    const tensors = await withSource(folder + file, options, (source) => parseSource(source).tensors);
    for (const name of names) {
      if (!Object.hasOwn(tensors, name)) throw bad(`${file} has no tensor "${name}"`);
      out.push([name, tensors[name]]);
    }
  }
  return Object.fromEntries(out);
}

// ---- writing

/** A file to be: its header, and its tensors in the order of their bytes. */
interface Layout {
  readonly head: Uint8Array;
  readonly tensors: readonly Tensor[];
  readonly nbytes: number;
}

function checkMetadata(metadata: SaveOptions["metadata"]): void {
  if (metadata !== undefined && !isPlain(metadata)) {
    throw new ArgumentError("save tensors", {
      reason: `metadata must be an object of texts, not ${describe(metadata)}`,
    });
  }
  for (const [name, text] of Object.entries(metadata ?? {})) {
    if (typeof text === "string") continue;
    throw new ArgumentError("save tensors", { reason: `metadata "${name}" must be text, not ${describe(text)}` });
  }
}

function layoutOf(entries: readonly (readonly [string, Tensor])[], metadata: SaveOptions["metadata"]): Layout {
  const formats = entries.map(([name, t]) => {
    const format = FORMAT_NAMES.find(([, d]) => d === t.dtype);
    if (format === undefined || name === "__metadata__") {
      throw new DTypeError(`save "${name}" of dtype`, { dtypes: [t.dtype], reason: "safetensors has no such entry" });
    }
    return format[0];
  });
  // Wide elements first, so that all are aligned; then by name.
  const order = entries.map((_, i) => i).sort((i, j) =>
    entries[j][1].dtype.itemsize - entries[i][1].dtype.itemsize || (entries[i][0] < entries[j][0] ? -1 : 1)
  );
  const header: [string, unknown][] = metadata === undefined ? [] : [["__metadata__", { ...metadata }]];
  let end = 0;
  for (const i of order) {
    const [name, t] = entries[i], start = end;
    end += t.nbytes();
    header.push([name, { dtype: formats[i], shape: t.shape, data_offsets: [start, end] }]);
  }
  const text = new TextEncoder().encode(
    `{${header.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`).join(",")}}`,
  );
  const size = roundUp(text.length, 8);
  if (size > MAX_HEADER) {
    throw new ArgumentError("save tensors", {
      reason: `the header would have ${size} bytes, more than the ${MAX_HEADER} that readers accept`,
    });
  }
  const head = new Uint8Array(8 + size).fill(0x20);
  new DataView(head.buffer).setBigUint64(0, BigInt(size), true);
  head.set(text, 8);
  return { head, tensors: order.map((i) => entries[i][1]), nbytes: end };
}

/** Puts a file's header and the bytes of its tensors, which are taken at the call. */
function putting({ head, tensors }: Layout): (put: Put) => Promise<void> {
  const taken = bytesOfTensors(tensors);
  return async (put) => {
    await put(head);
    for (const take of taken) {
      const bytes = take(), done = put(bytes instanceof Promise ? await bytes : bytes);
      if (done !== undefined) await done;
    }
  };
}

/** A dictionary's tensors, checked. */
function entriesOf(dict: Readonly<StateDict>): [string, Tensor][] {
  if (!isPlain(dict)) {
    throw new ArgumentError("save tensors", { reason: `it takes an object of tensors by name, not ${describe(dict)}` });
  }
  return Object.entries(dict).map(([name, t]) => {
    if (t instanceof Tensor) return [name, t];
    throw new ArgumentError(`save "${name}"`, { reason: `it is no tensor but ${describe(t)}` });
  });
}

/** Computes what is still lazy, in one schedule; what is on disk stays there until its turn. */
function realizeAll(entries: readonly (readonly [string, Tensor])[]): void {
  Tensor.realize(entries.map(([, t]) => t).filter((t) => fileRange(t) === undefined));
}

/**
 * The bytes of a safetensors file with the tensors of `dict`.
 * @throws {DTypeError} for a dtype that the format has not
 */
export async function safeBytes(
  dict: Readonly<StateDict>,
  options: SaveOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  checkOptions("save tensors", options, ["metadata"]);
  checkMetadata(options.metadata);
  if (isLate()) await partsReady();
  const entries = entriesOf(dict), layout = layoutOf(entries, options.metadata);
  realizeAll(entries);
  const out = new Uint8Array(layout.head.length + layout.nbytes);
  let at = 0;
  await putting(layout)((bytes) => {
    out.set(bytes, at);
    at += bytes.length;
    return undefined;
  });
  return out;
}

/** Groups of entries of at most `limit` bytes, or of one entry. */
function shardsOf(entries: readonly (readonly [string, Tensor])[], limit: number): (readonly [string, Tensor])[][] {
  const shards: (readonly [string, Tensor])[][] = [];
  let room = 0;
  for (const entry of entries) {
    const nbytes = entry[1].nbytes();
    if (shards.length === 0 || nbytes > room) {
      shards.push([]);
      room = limit;
    }
    shards.at(-1)!.push(entry);
    room -= nbytes;
  }
  return shards;
}

/**
 * Writes the tensors of `dict`, as they are at the call, to a safetensors file: all of it or nothing. With `maxShardBytes`, to several files of at
 * most that many bytes of tensors (`model-00001-of-00002.safetensors`) and their index (`model.safetensors.index.json`),
 * where one would be larger. Needs write permission for the folder.
 * @throws {DTypeError} for a dtype that the format has not
 */
export async function safeSave(
  dict: Readonly<StateDict>,
  path: string | URL,
  options: SaveOptions & { readonly maxShardBytes?: number } = {},
): Promise<void> {
  checkOptions("save tensors", options, ["metadata", "maxShardBytes"]);
  checkMetadata(options.metadata);
  const target = pathOf("save tensors", path), entries = entriesOf(dict);
  const limit = options.maxShardBytes === undefined
    ? Infinity
    : checkInteger("save tensors", "maxShardBytes", options.maxShardBytes, 1);
  const shards = shardsOf(entries, limit), { metadata } = options;
  if (shards.length <= 1) {
    const layout = layoutOf(entries, metadata);
    realizeAll(entries);
    return await writeFile(target, putting(layout));
  }
  await writeShards(target, shards, metadata);
}

/** The part of one process in {@linkcode writeShards}: the file that it writes, if any, and how it waits for the others. */
export interface OwnShard {
  readonly file: number | undefined;
  readonly writesIndex: boolean;
  barrier(): Promise<void>;
}

/**
 * Writes groups of tensors, as they are at the call, to a file each, and their index, which gets its name last. With `own`
 * one file alone, and the index once all processes have written theirs.
 */
export async function writeShards(
  target: string,
  shards: readonly (readonly (readonly [string, Tensor])[])[],
  metadata?: Readonly<Record<string, string>>,
  own?: OwnShard,
): Promise<void> {
  const entries = shards.flat(), stem = target.replace(/\.safetensors$/, "");
  const count = String(shards.length).padStart(5, "0");
  const names = shards.map((_, i) => `${stem}-${String(i + 1).padStart(5, "0")}-of-${count}.safetensors`);
  const weights: [string, string][] = shards.flatMap((shard, i) =>
    shard.map(([name]): [string, string] => [name, names[i].split(/[/\\]/).at(-1)!])
  );
  const total = entries.reduce((n, [, t]) => n + t.nbytes(), 0);
  const index = { metadata: { ...metadata, total_size: total }, weight_map: Object.fromEntries(weights) };
  const putIndex = [
    `${stem}.safetensors.index.json`,
    async (put: Put): Promise<void> => await put(new TextEncoder().encode(JSON.stringify(index, null, 2))),
  ] as const;
  if (own === undefined) {
    const layouts = shards.map((shard) => layoutOf(shard, metadata));
    realizeAll(entries);
    return await writeFiles([...layouts.map((layout, i) => [names[i], putting(layout)] as const), putIndex]);
  }
  const mine = own.file === undefined ? undefined : shards[own.file];
  if (mine !== undefined) {
    const layout = layoutOf(mine, metadata);
    realizeAll(mine);
    await writeFiles([[names[own.file!], putting(layout)]]);
  }
  await own.barrier();
  if (own.writesIndex) await writeFiles([putIndex]);
  await own.barrier();
}
