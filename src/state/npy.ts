/**
 * NumPy's files: `.npy`, one array (format 1.0 to 3.0), and `.npz`, a zip archive of them. Arrays of objects, which are
 * pickles, are refused, as NumPy does unless told otherwise.
 *
 * @module
 */
import type { Checked } from "../device/device.ts";
import { FILES } from "../device/files.ts";
import { isLate, partsReady } from "../device/parts.ts";
import { type DType, dtypes } from "../dtype/dtype.ts";
import { ArgumentError, DTypeError, FormatError } from "../helpers/errors.ts";
import { prod, rangeOf } from "../helpers/math.ts";
import { checkOptions, describe, isPlain } from "../helpers/options.ts";
import { Tensor } from "../tensor/tensor.ts";
import {
  bytesOfTensors,
  type Loadable,
  memorySource,
  pathOf,
  placeOf,
  type PlaceOptions,
  type Source,
  tensorOfBytes,
  withSource,
} from "./source.ts";
import type { StateDict } from "./state_dict.ts";
import { writeFile } from "./write.ts";
import type { ArchiveOptions } from "./zip.ts";

const MAGIC = "\x93NUMPY", MAX_HEADER = 1 << 16, MAX_AXES = 64;

/** The format's names of our dtypes, without the byte order. */
export const NUMPY_NAMES: readonly (readonly [string, DType])[] = [
  ["b1", dtypes.bool],
  ["u1", dtypes.uint8],
  ["i1", dtypes.int8],
  ["u2", dtypes.uint16],
  ["i2", dtypes.int16],
  ["u4", dtypes.uint32],
  ["i4", dtypes.int32],
  ["u8", dtypes.uint64],
  ["i8", dtypes.int64],
  ["f2", dtypes.float16],
  ["f4", dtypes.float32],
  ["f8", dtypes.float64],
  ["c8", dtypes.complex64],
  ["c16", dtypes.complex128],
];

/** What a header says. */
interface Header {
  readonly dtype: DType;
  readonly swapped: boolean;
  readonly fortran: boolean;
  readonly shape: number[];
  readonly start: number;
}

/** A header is a Python dictionary of exactly three keys, in any order. */
function parseDictionary(text: string, source: Source): Map<string, string> {
  const { bad } = source, entries = new Map<string, string>();
  const body = /^\s*\{([\s\S]*)\}\s*$/.exec(text)?.[1];
  if (body === undefined) throw bad("its header is no dictionary");
  const entry =
    /\s*(?:'([^'\\]*)'|"([^"\\]*)")\s*:\s*('[^'\\]*'|"[^"\\]*"|True|False|\([\d\sL,]*\)|\[[^\]]*\])\s*(,|$)/y;
  while (entry.lastIndex < body.length && body.slice(entry.lastIndex).trim() !== "") {
    const at = entry.lastIndex, m = entry.exec(body);
    if (m === null) {
      throw bad(`its header is no dictionary that NumPy writes: ${JSON.stringify(body.slice(at, at + 40))}`);
    }
    const key = m[1] ?? m[2];
    if (entries.has(key)) throw bad(`its header has "${key}" twice`);
    entries.set(key, m[3]);
  }
  const keys = [...entries.keys()].sort().join(", ");
  if (keys !== "descr, fortran_order, shape") {
    throw bad(`its header has the keys ${keys}, not descr, fortran_order, shape`);
  }
  return entries;
}

function parseDType(descr: string, source: Source): Pick<Header, "dtype" | "swapped"> {
  const m = /^['"]([<>=|])?([a-zA-Z]\d+)['"]$/.exec(descr), dtype = NUMPY_NAMES.find(([n]) => n === m?.[2])?.[1];
  if (dtype === undefined) {
    const why = /^['"]\|?O\d*['"]$/.test(descr)
      ? "objects, which are pickles and could run anything"
      : `no dtype that is known here; known are ${NUMPY_NAMES.map(([n]) => n).join(", ")}`;
    throw source.bad(`its elements are ${descr.slice(0, 60)}: ${why}`);
  }
  return { dtype, swapped: m![1] === ">" && dtype.itemsize > 1 };
}

function parseHeader(source: Source): Header {
  const { bad, size } = source, fixed = source.read(0, Math.min(size, 12));
  if (fixed.length < 10 || String.fromCharCode(...fixed.subarray(0, 6)) !== MAGIC) throw bad("it is no .npy file");
  const [major, minor] = [fixed[6], fixed[7]];
  if (major < 1 || major > 3 || minor !== 0) throw bad(`it has version ${major}.${minor}; 1.0 to 3.0 are known`);
  const view = new DataView(fixed.buffer), wide = major > 1;
  if (wide && fixed.length < 12) throw bad("it is truncated in its header");
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true), start = (wide ? 12 : 10) + length;
  if (length > MAX_HEADER) throw bad(`its header has ${length} bytes, more than ${MAX_HEADER}`);
  if (start > size) throw bad(`its header has ${length} bytes, and only ${size - start + length} follow`);
  const text = new TextDecoder(major === 3 ? "utf-8" : "latin1").decode(source.read(start - length, length));
  const entries = parseDictionary(text, source), order = entries.get("fortran_order")!;
  if (order !== "True" && order !== "False") throw bad(`its fortran_order is ${order.slice(0, 40)}`);
  const tuple = /^\((\s*|\s*\d+L?\s*,\s*|\s*\d+L?(?:\s*,\s*\d+L?)+\s*,?\s*)\)$/.exec(entries.get("shape")!);
  if (tuple === null) throw bad(`its shape is ${entries.get("shape")!.slice(0, 60)}, no tuple of sizes`);
  const shape = (tuple[1].match(/\d+/g) ?? []).map(Number);
  const { dtype, swapped } = parseDType(entries.get("descr")!, source);
  if (shape.length > MAX_AXES) throw bad(`it has ${shape.length} axes, more than ${MAX_AXES}`);
  const counted = prod(shape.map((n) => n || 1)) * dtype.itemsize;
  if (!Number.isSafeInteger(counted)) throw bad(`its shape [${shape.join(", ")}] needs more bytes than can be counted`);
  const needed = start + prod(shape) * dtype.itemsize;
  if (needed > size) {
    throw bad(`it is truncated: its shape [${shape.join(", ")}] needs ${needed} bytes, and it has ${size}`);
  }
  if (needed < size) throw bad(`${size - needed} bytes follow the last element`);
  return { dtype, swapped, fortran: order === "True" && shape.length > 1, shape, start };
}

/** Reverses the bytes of each element, in place. */
function swapBytes(bytes: Uint8Array<ArrayBuffer>, width: number): Uint8Array<ArrayBuffer> {
  for (let i = 0; i < bytes.length; i += width) bytes.subarray(i, i + width).reverse();
  return bytes;
}

/** The array of a source. In Fortran's order it is the transpose of what lies there; big-endian elements are swapped here. */
function parseSource(source: Source, device: string): Tensor {
  const { dtype, swapped, fortran, shape, start } = parseHeader(source);
  const stored = fortran ? [...shape].reverse() : shape;
  const t = swapped
    ? tensorOfBytes(swapBytes(source.read(start, source.size - start), dtype.real.itemsize), dtype, stored, device)
    : source.tensor(start, dtype, stored);
  if (!fortran) return t;
  // a transpose is computed, and a file computes nothing
  return (t.device === FILES ? t.to() : t).permute(rangeOf(shape.length).reverse());
}

/** The array in the bytes of a `.npy` file. @throws {FormatError} saying what is wrong with them */
export function npyParse<N extends string>(bytes: Uint8Array, options: Checked<PlaceOptions, N> = {}): Tensor {
  checkOptions("parse a .npy file", options, ["device"]);
  return parseSource(memorySource(bytes, ".npy bytes", options), placeOf(options));
}

/**
 * The array in a `.npy` file, lazily: it is read when it is used. Needs read permission.
 * @throws {FormatError} saying what is wrong with the file
 */
export async function npyLoad<N extends string>(
  from: Loadable,
  options: Checked<PlaceOptions, N> = {},
): Promise<Tensor> {
  checkOptions("load a .npy file", options, ["device"]);
  return await withSource(from, options, (source) => parseSource(source, placeOf(options)));
}

/** The header of a `.npy` file of a tensor, as NumPy writes it. */
function headerOf(t: Tensor): Uint8Array {
  const given: unknown = t;
  if (!(given instanceof Tensor)) {
    throw new ArgumentError("save a .npy file", { reason: `it takes a tensor, not ${describe(given)}` });
  }
  const name = NUMPY_NAMES.find(([, d]) => d === t.dtype)?.[0];
  if (name === undefined) {
    throw new DTypeError("save a .npy file of dtype", { dtypes: [t.dtype], reason: "NumPy has none" });
  }
  const { shape } = t, tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const order = t.dtype.itemsize === 1 ? "|" : "<";
  const text = `{'descr': '${order}${name}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const length = Math.ceil((10 + text.length + 1) / 64) * 64, out = new Uint8Array(length).fill(0x20);
  out.set(Array.from(MAGIC, (c) => c.charCodeAt(0)));
  out.set([1, 0, (length - 10) & 255, (length - 10) >> 8], 6);
  out.set(new TextEncoder().encode(text), 10);
  out[length - 1] = 0x0a;
  return out;
}

/** The bytes of a `.npy` file with the values of `t`. @throws {DTypeError} for a dtype that NumPy has not */
export async function npyBytes(t: Tensor): Promise<Uint8Array<ArrayBuffer>> {
  if (isLate()) await partsReady();
  return joined(headerOf(t), await bytesOfTensors([t])[0]());
}

function joined(head: Uint8Array, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(head.length + data.length);
  out.set(head);
  out.set(data, head.length);
  return out;
}

/** Writes a `.npy` file: all of it or nothing. Needs write permission. @throws {DTypeError} for a dtype that NumPy has not */
export async function npySave(t: Tensor, path: string | URL): Promise<void> {
  const target = pathOf("save a .npy file", path), head = headerOf(t), [take] = bytesOfTensors([t]);
  await writeFile(target, async (put) => {
    await put(head);
    await put(await take());
  });
}

/** Options of {@linkcode npzLoad}. */
export interface NpzOptions extends ArchiveOptions {
  /** The arrays that are read; all unless given, and then one that is none (text, objects) is an error. */
  readonly names?: readonly string[];
}

/** What an error says is wrong, without what was tried. */
function reasonOf({ message, file }: FormatError): string {
  const at = message.indexOf(`${file}: `);
  return at < 0 ? message : message.slice(at + file.length + 2);
}

/** The arrays of an `.npz` archive by name. @throws {FormatError} saying what is wrong with it */
async function parseArchive(source: Source, options: NpzOptions): Promise<StateDict> {
  const { ZipReader } = await import("./formats/zip_file.ts");
  const zip = new ZipReader(source, options), device = placeOf(options), out: [string, Tensor][] = [];
  const { names } = options, members = [...zip.members.keys()];
  const absent = names?.find((n) => !zip.members.has(`${n}.npy`));
  if (absent !== undefined) throw source.bad(`it has no array "${absent}"; its members are ${members.join(", ")}`);
  for (const member of names?.map((n) => `${n}.npy`) ?? members) {
    if (!member.endsWith(".npy")) throw source.bad(`member "${member}" is no .npy file`);
    const file = await zip.open(member), name = member.slice(0, -4);
    try {
      out.push([name, parseSource(file, device)]);
    } catch (error) {
      const others = members.filter((m) => m !== member && m.endsWith(".npy")).map((m) => m.slice(0, -4));
      if (!(error instanceof FormatError) || names !== undefined || others.length === 0) throw error;
      throw file.bad(`${reasonOf(error)}; other arrays are read by { names: ${JSON.stringify(others)} }`);
    }
  }
  return Object.fromEntries(out);
}

/**
 * The arrays of an `.npz` archive by name: stored ones are read when they are used, deflated ones here.
 * @throws {FormatError} saying what is wrong with it
 */
export async function npzLoad<N extends string = string>(
  from: Loadable,
  options: Checked<NpzOptions, N> = {},
): Promise<StateDict> {
  const { names } = checkOptions("load an .npz archive", options, ["device", "maxBytes", "names"]);
  if (names !== undefined && !(Array.isArray(names) && names.every((n) => typeof n === "string"))) {
    throw new ArgumentError("load an .npz archive", {
      reason: `names must be a list of names, not ${describe(names)}`,
    });
  }
  return await withSource(from, options, (source) => parseArchive(source, options));
}

/**
 * Writes an `.npz` archive of the tensors of `dict`: all of it or nothing; `compressed` deflates it.
 * @throws {DTypeError} for a dtype that NumPy has not
 */
export async function npzSave(
  dict: Readonly<StateDict>,
  path: string | URL,
  options: { readonly compressed?: boolean } = {},
): Promise<void> {
  checkOptions("save an .npz archive", options, ["compressed"]);
  if (!isPlain(dict)) {
    throw new ArgumentError("save an .npz archive", {
      reason: `it takes an object of tensors by name, not ${describe(dict)}`,
    });
  }
  const target = pathOf("save an .npz archive", path), entries = Object.entries(dict);
  const heads = entries.map(([, t]) => headerOf(t)), taken = bytesOfTensors(entries.map(([, t]) => t));
  const members = entries.map(([name], i) => ({
    name: `${name}.npy`,
    bytes: () => {
      const data = taken[i]();
      return data instanceof Promise ? data.then((d) => joined(heads[i], d)) : joined(heads[i], data);
    },
  }));
  const { putZip } = await import("./formats/zip_file.ts");
  await writeFile(target, (put) => putZip(members, put, options.compressed ?? false));
}
