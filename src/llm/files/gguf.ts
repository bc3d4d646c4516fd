/**
 * GGUF files, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): typed metadata, a table of
 * tensors, and their bytes. Everything is checked before it is used; tensors stay in the file until they are computed
 * with. A model that is split over several files is read as one.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { FILES } from "../../device/files.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { prod, roundUp } from "../../helpers/math.ts";
import { checkOptions } from "../../helpers/options.ts";
import {
  isInMemory,
  type Loadable,
  pathOf,
  placeOf,
  type PlaceOptions,
  type Source,
  withSource,
} from "../../state/source.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { type BlockFormat, dequantize, formatOfId } from "./block_formats.ts";

/** The types of values that metadata may have, without lists. */
export type GgufScalarType =
  | ("uint8" | "int8" | "uint16" | "int16" | "uint32" | "int32" | "uint64" | "int64")
  | ("float32" | "float64" | "bool" | "string");

/** A value of metadata: 64-bit integers beyond 2^53 are bigint; lists of lists do not occur in models, and are refused. */
export type GgufValue = number | bigint | boolean | string | readonly (number | bigint | boolean | string)[];

/** A value with its type; `list` where it is a list of such values. */
export interface GgufEntry {
  /** Of the value, or of the elements of the list. */
  readonly type: GgufScalarType;
  /** Whether it is a list. */
  readonly list: boolean;
  /** What the file says. */
  readonly value: GgufValue;
}

/** A tensor of a file. */
export interface GgufTensor {
  /** Unique in the model. */
  readonly name: string;
  /** How its numbers are written. */
  readonly format: BlockFormat;
  /** Row-major, outermost axis first: the file has them the other way round. */
  readonly shape: readonly number[];
  /** In the file. */
  readonly nbytes: number;
  /** Its bytes as they are: of plain elements, those with their shape; of blocks uint8 `[..., bytes of a row]`. Lazy. */
  raw(): Tensor;
  /** Its numbers: plain elements as they are; of blocks float32, computed from {@linkcode raw} where they are used. Lazy. */
  load(): Tensor;
  /** Whether each call of {@linkcode raw} makes a tensor of its own, which who asks for it may dispose of. */
  readonly isMade?: boolean;
}

/** What a file, or all the files of a split model, hold. */
export interface Gguf {
  /** 2 or 3. */
  readonly version: number;
  /** Values by key, in the order of the file. */
  readonly metadata: ReadonlyMap<string, GgufEntry>;
  /** Tensors by name, of all parts. */
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

/** By number in files: name and bytes, and what reads one; strings and lists begin with their length. */
export const SCALARS: readonly (readonly [GgufScalarType, number, (view: DataView, at: number) => number | bigint])[] =
  [
    ["uint8", 1, (view, at) => view.getUint8(at)],
    ["int8", 1, (view, at) => view.getInt8(at)],
    ["uint16", 2, (view, at) => view.getUint16(at, true)],
    ["int16", 2, (view, at) => view.getInt16(at, true)],
    ["uint32", 4, (view, at) => view.getUint32(at, true)],
    ["int32", 4, (view, at) => view.getInt32(at, true)],
    ["float32", 4, (view, at) => view.getFloat32(at, true)],
    ["bool", 1, (view, at) => view.getUint8(at)],
    ["string", 8, (view, at) => small(view.getBigUint64(at, true))],
    ["string", 8, (view, at) => small(view.getBigUint64(at, true))], // a list; see LIST
    ["uint64", 8, (view, at) => small(view.getBigUint64(at, true))],
    ["int64", 8, (view, at) => small(view.getBigInt64(at, true))],
    ["float64", 8, (view, at) => view.getFloat64(at, true)],
  ];
/** The number of lists. */
export const LIST = 9;
/** The first four bytes, "GGUF". */
export const MAGIC = 0x46554747;
/** Where data starts, and tensors do, unless the metadata says otherwise. */
export const ALIGNMENT = 32;

const MAX_AXES = 4, MAX_NAME = 4096, WINDOW = 1 << 16;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads numbers one after the other; bytes are fetched as they are needed, and nothing is believed. */
class Cursor {
  at = 0;
  private start = 0;
  private window = new Uint8Array(0);
  private view = new DataView(this.window.buffer);
  constructor(readonly source: Source) {}

  /** Where the next `n` bytes are in the view. */
  private take(n: number, what: string): number {
    const { source, at } = this;
    if (n > source.size - at) {
      throw source.bad(`it is truncated: ${what} at byte ${at} needs ${n} bytes, and ${source.size - at} are left`);
    }
    if (at < this.start || at + n > this.start + this.window.length) {
      this.start = at;
      this.window = source.read(at, Math.min(source.size - at, Math.max(n, WINDOW)));
      this.view = new DataView(this.window.buffer, this.window.byteOffset, this.window.length);
    }
    this.at += n;
    return at - this.start;
  }
  u32(what: string): number {
    const i = this.take(4, what);
    return this.view.getUint32(i, true);
  }
  /** A count or an offset. */
  size(what: string): number {
    const i = this.take(8, what), n = this.view.getBigUint64(i, true);
    if (n > BigInt(Number.MAX_SAFE_INTEGER)) throw this.source.bad(`${what} is ${n}, more than can be counted`);
    return Number(n);
  }
  text(what: string, limit: number): string {
    const n = this.size(`the length of ${what}`);
    if (n > limit) throw this.source.bad(`${what} has ${n} bytes, more than ${limit}`);
    const i = this.take(n, what), bytes = this.window.subarray(i, i + n);
    try {
      return utf8.decode(bytes);
    } catch {
      return new TextDecoder().decode(bytes); // a token may be any bytes
    }
  }
  scalar(kind: number, what: string): number | bigint | boolean | string {
    const [type, nbytes, read] = SCALARS[kind];
    if (type === "string") return this.text(what, this.source.size);
    const i = this.take(nbytes, what), value = read(this.view, i);
    if (type !== "bool") return value;
    if (value > 1) throw this.source.bad(`${what} is ${value}, neither true nor false`);
    return value === 1;
  }
}

/** A number where it is one exactly. */
function small(x: bigint): number | bigint {
  const n = Number(x);
  return Number.isSafeInteger(n) ? n : x;
}

function kindOf(cursor: Cursor, what: string): number {
  const kind = cursor.u32(`the type of ${what}`);
  if (kind >= SCALARS.length) throw cursor.source.bad(`${what} has the unknown type ${kind}`);
  return kind;
}

function entryOf(cursor: Cursor, key: string): GgufEntry {
  const what = `the value of "${key}"`, kind = kindOf(cursor, what);
  if (kind !== LIST) return { type: SCALARS[kind][0], list: false, value: cursor.scalar(kind, what) };
  const inner = kindOf(cursor, `an element of ${what}`), { source } = cursor;
  if (inner === LIST) throw source.bad(`${what} is a list of lists`);
  const n = cursor.size(`the length of ${what}`), [type, nbytes] = SCALARS[inner];
  if (n * nbytes > source.size - cursor.at) {
    throw source.bad(`${what} has ${n} elements, more than the file has room for`);
  }
  const value: (number | bigint | boolean | string)[] = new Array(n);
  for (let i = 0; i < n; i++) value[i] = cursor.scalar(inner, `an element of ${what}`);
  return { type, list: true, value };
}

/** A row of the table of tensors. */
interface Row {
  readonly name: string;
  readonly shape: number[];
  readonly format: BlockFormat;
  readonly offset: number;
  readonly nbytes: number;
}

function rowOf(cursor: Cursor, alignment: number): Row {
  const { source } = cursor, name = cursor.text("the name of a tensor", MAX_NAME), what = `tensor "${name}"`;
  const ndim = cursor.u32(`the number of axes of ${what}`);
  if (ndim > MAX_AXES) throw source.bad(`${what} has ${ndim} axes, more than ${MAX_AXES}`);
  const shape = Array.from({ length: ndim }, () => cursor.size(`a size of ${what}`)).reverse();
  const id = cursor.u32(`the type of ${what}`), format = formatOfId(id);
  if (format === undefined) throw source.bad(`${what} has the type ${id}, which is not known`);
  const offset = cursor.size(`the offset of ${what}`), count = prod(shape), row = shape.at(-1) ?? 1;
  if (shape.some((n) => n === 0)) throw source.bad(`${what} of shape [${shape.join(", ")}] has no elements`);
  if (row % format.elements !== 0) {
    throw source.bad(
      `${what} has rows of ${row} elements, no multiple of the ${format.elements} of a ${format.name} block`,
    );
  }
  const nbytes = count / format.elements * format.nbytes;
  if (!Number.isSafeInteger(count) || !Number.isSafeInteger(nbytes)) {
    throw source.bad(`${what} of shape [${shape.join(", ")}] needs more bytes than can be counted`);
  }
  if (offset % alignment !== 0) throw source.bad(`${what} starts at byte ${offset}, no multiple of ${alignment}`);
  return { name, shape, format, offset, nbytes };
}

/** Throws where tensors reach beyond the file, or into each other. */
function checkRows(rows: readonly Row[], room: number, source: Source): void {
  const sorted = [...rows].sort((a, b) => a.offset - b.offset);
  let end = 0, before = "";
  for (const { name, offset, nbytes } of sorted) {
    if (offset < end) throw source.bad(`tensor "${name}" at byte ${offset} lies over tensor "${before}"`);
    end = offset + nbytes;
    before = name;
    if (end > room) {
      throw source.bad(
        `it is truncated: tensor "${name}" ends at byte ${end} of the data, which has ${Math.max(0, room)}`,
      );
    }
  }
}

/** A tensor as a range of the source, which goes to `place` where it is used. */
function tensorOf(row: Row, source: Source, dataStart: number, place: string): GgufTensor {
  const { name, shape, format, offset, nbytes } = row, { plain } = format, last = shape[shape.length - 1];
  const rows = plain === undefined ? [...shape.slice(0, -1), last / format.elements * format.nbytes] : shape;
  const base = source.tensor(dataStart + offset, plain ?? dtypes.uint8, rows); // holds the file open
  const raw = (): Tensor => base.device === place ? base : base.to(place);
  const load = (): Tensor => plain === undefined ? dequantize(onDevice(raw()), format) : raw();
  return { name, shape, format, nbytes, raw, load };
}

/** What computes is moved off DISK to the default device. */
function onDevice(t: Tensor): Tensor {
  return t.device === FILES ? t.to(placeOf({})) : t;
}

/** One file. */
function parse(source: Source, place: string): Gguf {
  const cursor = new Cursor(source);
  if (source.size < 4 || cursor.u32("its first bytes") !== MAGIC) throw source.bad('it does not begin with "GGUF"');
  const version = cursor.u32("its version");
  if (version !== 2 && version !== 3) {
    const swapped = version > 0xffff ? ", as of a file of big-endian numbers" : "";
    throw source.bad(`it has version ${version}${swapped}; versions 2 and 3, little-endian, are read`);
  }
  const count = cursor.size("the number of tensors"), keys = cursor.size("the number of values");
  if (count > source.size / 24) throw source.bad(`it is said to have ${count} tensors, more than it has room for`);
  if (keys > source.size / 13) throw source.bad(`it is said to have ${keys} values, more than it has room for`);
  const metadata = new Map<string, GgufEntry>();
  for (let i = 0; i < keys; i++) {
    const key = cursor.text("a key", 65535);
    if (metadata.has(key)) throw source.bad(`it has the key "${key}" twice`);
    metadata.set(key, entryOf(cursor, key));
  }
  const alignment = metadata.get("general.alignment")?.value ?? ALIGNMENT;
  if (typeof alignment !== "number" || alignment < 1 || !Number.isInteger(Math.log2(alignment))) {
    throw source.bad(`its alignment is ${alignment}, no power of two`);
  }
  const rows: Row[] = [];
  for (let i = 0; i < count; i++) rows.push(rowOf(cursor, alignment));
  const dataStart = roundUp(cursor.at, alignment), tensors = new Map<string, GgufTensor>();
  checkRows(rows, source.size - dataStart, source);
  for (const row of rows) {
    if (tensors.has(row.name)) throw source.bad(`it has the tensor "${row.name}" twice`);
    tensors.set(row.name, tensorOf(row, source, dataStart, place));
  }
  return { version, metadata, tensors };
}

/** The names of all files of a split model, of the name of the first. */
function partsOf(path: string, count: number, source: Source): string[] {
  const m = /^(.*)-00001-of-(\d{5})(\.gguf)$/.exec(path);
  if (m === null || Number(m[2]) !== count) {
    throw source.bad(`it is one of ${count} parts; load the first, whose name ends in -00001-of-${five(count)}.gguf`);
  }
  return Array.from({ length: count - 1 }, (_, i) => `${m[1]}-${five(i + 2)}-of-${m[2]}${m[3]}`);
}
function five(n: number): string {
  return String(n).padStart(5, "0");
}

/**
 * Reads a GGUF file, or, given the first of several parts, all of them. Only the header is read; with
 * `device: "DISK"` tensors stay in the file until they are moved, on another device they are copied when they are used.
 *
 * ```ts ignore files
 * import { readGguf } from "../llm.ts";
 * const { metadata, tensors } = await readGguf("model.gguf");
 * console.log(metadata.get("general.architecture")?.value, tensors.get("token_embd.weight")?.shape);
 * ```
 *
 * @throws {FormatError} for a file that is truncated, contradicts itself, or has what is not known, saying where
 */
export async function readGguf<N extends string = string>(
  from: Loadable,
  options: Checked<PlaceOptions, N> = {},
): Promise<Gguf> {
  checkOptions("read a GGUF file", options, ["device"]);
  const place = placeOf(options), read: PlaceOptions = { device: isInMemory(from) ? place : FILES };
  const [first, rest] = await withSource(from, read, (source) => {
    const file = parse(source, place), count = file.metadata.get("split.count")?.value ?? 1;
    if (typeof count !== "number" || count < 2) return [file, []] as const;
    if (isInMemory(from)) throw source.bad(`it is one of ${count} parts; load them by the path of the first`);
    if (file.metadata.get("split.no")?.value !== 0 || count > 99999) {
      throw source.bad("it is not the first of its parts");
    }
    return [file, partsOf(pathOf("load a file", from, true), count, source)] as const;
  });
  const tensors = new Map(first.tensors);
  for (const [i, path] of rest.entries()) {
    await withSource(path, read, (source) => {
      const part = parse(source, place), { metadata } = part;
      if (metadata.get("split.no")?.value !== i + 1) {
        throw source.bad(`it says that it is not part ${i + 1} of its model`);
      }
      for (const [name, t] of part.tensors) {
        if (tensors.has(name)) throw source.bad(`it has the tensor "${name}", which an earlier part has too`);
        tensors.set(name, t);
      }
    });
  }
  const ofParts = (key: string) => rest.length > 0 && key.startsWith("split."); // the whole has no parts
  const metadata = new Map([...first.metadata].filter(([key]) => !ofParts(key)));
  return { version: first.version, metadata, tensors };
}
