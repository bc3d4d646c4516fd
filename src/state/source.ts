/**
 * Where a format is read from: a file (nothing of it read but what is asked for), bytes, or a part of either. A format
 * gives its tensors as ranges of its source; those of a file stay on disk until they are used.
 *
 * @module
 */
import { attachBuffer, type Buffer, bufferOf } from "../device/buffer.ts";
import { type Checked, defaultDevice, type DeviceName, getDevice, knownDevice } from "../device/device.ts";
import { fileDevice, FILES } from "../device/files.ts";
import { takeTurn } from "../device/pressure.ts";
import { type DType, type DTypeLike, dtypes, toDType } from "../dtype/dtype.ts";
import { ArgumentError, FormatError } from "../helpers/errors.ts";
import { prod } from "../helpers/math.ts";
import { checkInteger, checkOptions, describe } from "../helpers/options.ts";
import { checkShape } from "../tensor/handle/axes.ts";
import { hostNode } from "../tensor/handle/creation.ts";
import { holdMemory } from "../tensor/realize.ts";
import { Tensor } from "../tensor/tensor.ts";
import { argOf, Storage } from "../uop/core/args.ts";
import { reshape } from "../uop/core/build_movement.ts";
import { Ops } from "../uop/core/ops.ts";
import { bufferNode } from "../uop/core/uop.ts";
import { fromPairs } from "../uop/graph/complex.ts";
import { unshaped } from "../uop/graph/resolve.ts";

/** Bytes of our own. */
export type Bytes = Uint8Array<ArrayBuffer>;

/**
 * What can be loaded: a path, a `file:` URL, or bytes, as a Uint8Array, an ArrayBuffer, a Blob (a file that was picked in a page,
 * or what a server sent: `await (await fetch(url)).blob()`) or a tensor.
 */
export type Loadable = string | URL | InMemory;
/** Bytes in the forms that hosts have them in. */
type InMemory = Tensor | Uint8Array | ArrayBuffer | Blob;

/** Options of everything that loads tensors. */
export interface PlaceOptions {
  /** The device of the tensors, the default device unless given; "DISK" leaves them in the file. */
  readonly device?: DeviceName;
}

/** Makes the error of a format: what is wrong, of which file. */
export type Bad = (reason: string) => FormatError;

/** A range of bytes with a name. */
export interface Source {
  /** What errors call it. */
  readonly name: string;
  /** In bytes. */
  readonly size: number;
  /** Makes errors about it. */
  readonly bad: Bad;
  /** A copy of some bytes. @throws {FormatError} beyond the end */
  read(offset: number, nbytes: number): Bytes;
  /** The elements that start at byte `offset`, row-major, little-endian. @throws {FormatError} beyond the end */
  tensor(offset: number, dtype: DType, shape: readonly number[]): Tensor;
  /** A range of it. */
  part(offset: number, size: number, name?: string): Source;
}

/** Throws unless `[offset, offset + nbytes)` lies within. */
function checkRange(source: Source, offset: number, nbytes: number): void {
  if (offset >= 0 && nbytes >= 0 && offset + nbytes <= source.size) return;
  throw source.bad(`it is truncated: ${nbytes} bytes at ${offset} are needed, and it has ${source.size}`);
}

/** Where tensors of a source go: a device by its canonical name. */
export function placeOf(options: PlaceOptions): string {
  return options.device === undefined ? defaultDevice() : knownDevice(options.device);
}

/** A range of a file. */
class FileSource implements Source {
  readonly bad: Bad;
  constructor(
    readonly name: string,
    private readonly file: Buffer,
    private readonly start: number,
    readonly size: number,
    private readonly device: string,
    action: string,
  ) {
    this.bad = (reason) => new FormatError(action, { file: name, reason });
    this.action = action;
  }
  private readonly action: string;

  read(offset: number, nbytes: number): Bytes {
    checkRange(this, offset, nbytes);
    const out = new Uint8Array(nbytes);
    this.file.view(this.start + offset, nbytes).copyOut(out);
    return out;
  }
  tensor(offset: number, dtype: DType, shape: readonly number[]): Tensor {
    const size = prod(shape);
    checkRange(this, offset, size * dtype.itemsize);
    const { real } = dtype, count = size * dtype.itemsize / real.itemsize;
    const t = tensorOfRange(this.file.share(this.start + offset, count, real), shape, dtype.isComplex);
    return this.device === FILES ? t : t.to(this.device);
  }
  part(offset: number, size: number, name: string = this.name): Source {
    checkRange(this, offset, size);
    return new FileSource(name, this.file, this.start + offset, size, this.device, this.action);
  }
}

/** Bytes in memory. */
class MemorySource implements Source {
  readonly bad: Bad;
  constructor(
    readonly name: string,
    private readonly bytes: Bytes,
    private readonly device: string,
    private readonly action: string,
  ) {
    this.bad = (reason) => new FormatError(action, { file: name, reason });
  }
  get size(): number {
    return this.bytes.length;
  }
  read(offset: number, nbytes: number): Bytes {
    checkRange(this, offset, nbytes);
    return this.bytes.slice(offset, offset + nbytes);
  }
  tensor(offset: number, dtype: DType, shape: readonly number[]): Tensor {
    const nbytes = prod(shape) * dtype.itemsize;
    checkRange(this, offset, nbytes);
    return tensorOfBytes(this.bytes.subarray(offset, offset + nbytes), dtype, shape, this.device);
  }
  part(offset: number, size: number, name: string = this.name): Source {
    checkRange(this, offset, size);
    return new MemorySource(name, this.bytes.subarray(offset, offset + size), this.device, this.action);
  }
}

/** The unsigned integers as wide as a dtype that the host has no array for. */
function bitsOf(dtype: DType): DType {
  return dtype.itemsize === 1 ? dtypes.uint8 : dtypes.uint16;
}
/** Whether elements of `dtype` pass the host as bits. */
function passesAsBits(dtype: DType): boolean {
  return dtype.isBool || dtype.isFloat && dtype.itemsize <= 2;
}

/** A tensor of little-endian bytes, which are copied, on `device`. */
export function tensorOfBytes(bytes: Uint8Array, dtype: DType, shape: readonly number[], device: string): Tensor {
  if (dtype.isComplex) {
    return holdMemory(new Tensor(fromPairs(tensorOfBytes(bytes, dtype.real, [...shape, 2], device).uop)));
  }
  const target = device === FILES ? defaultDevice() : device;
  if (dtype.isBool) return new Tensor(bytes, { dtype, device: target }).reshape(shape);
  const raw = passesAsBits(dtype) ? bitsOf(dtype) : dtype;
  const t = holdMemory(new Tensor(hostNode(bytes, raw, shape, target)));
  return raw === dtype ? t : t.bitcast(dtype);
}

/** A tensor on DISK: the elements of a range of a file, which it keeps open; they are pairs where it is complex. */
function tensorOfRange(range: Buffer, shape: readonly number[], isComplex: boolean): Tensor {
  const storage = new Storage(FILES, range.dtype, range.size);
  range.shape = shape;
  attachBuffer(storage, range);
  const u = reshape(bufferNode(storage), isComplex ? [...shape, 2] : shape);
  return holdMemory(new Tensor(isComplex ? fromPairs(u) : u));
}

/** The range of a file that a tensor is, or is a copy of that nobody has made yet; undefined for all others. */
export function fileRange(t: Tensor): Buffer | undefined {
  let u = unshaped(t.uop);
  if (u.op === Ops.COPY) u = unshaped(u.src[0]);
  if (u.op !== Ops.BUFFER) return undefined;
  const { storage } = argOf(u, Ops.BUFFER);
  return storage.device === FILES ? bufferOf(storage) : undefined;
}

/** The same range of a file as a tensor of its own on `device`, lazily: what is made of it stays its own. */
export function anewFromFile(t: Tensor, device: string): Tensor | undefined {
  const range = fileRange(t);
  return range && tensorOfRange(range.share(0, range.size, range.dtype), t.shape, t.dtype.isComplex).to(device);
}

/**
 * The bytes of tensors, row-major and little-endian, as they are at the call, whatever is written to them until they are asked for: for each what gives
 * them, once, at once where they are here. One schedule realizes all; what is in files is read when it is asked for.
 */
export function bytesOfTensors(tensors: readonly Tensor[]): (() => Uint8Array | Promise<Uint8Array>)[] {
  const ranges = tensors.map(fileRange);
  Tensor.realize(tensors.filter((_, i) => ranges[i] === undefined));
  return tensors.map((t, i) => {
    const range = ranges[i];
    if (range !== undefined) {
      return async () => {
        await takeTurn();
        return range.copyOut(new Uint8Array(range.nbytes));
      };
    }
    let taken: Uint8Array | Promise<Uint8Array> | undefined = bytesNow(t);
    if (taken instanceof Promise) taken.catch(() => {}); // told when it is asked for
    return () => {
      const bytes = taken!;
      taken = undefined; // they are freed one by one
      return bytes;
    };
  });
}

/** The bytes of a tensor, at once where its device gives them at once. */
function bytesNow(t: Tensor): Uint8Array | Promise<Uint8Array> {
  const bits = passesAsBits(t.dtype) && !t.dtype.isBool ? t.bitcast(bitsOf(t.dtype)) : t;
  const raw = (data: ArrayBufferView) => new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
  return getDevice(t.device).allocator.copyOut === undefined ? bits.data().then(raw) : raw(bits.dataSync());
}

/** A source of bytes in memory. */
export function memorySource(bytes: Uint8Array, name: string, options: PlaceOptions = {}, action = "parse"): Source {
  checkBytes(action, bytes);
  const own = bytes.buffer instanceof ArrayBuffer ? bytes as Bytes : bytes.slice();
  return new MemorySource(name, own, placeOf(options), action);
}

/** What to write instead of what will hold bytes, or does in a form that nothing else takes; "" for other things. */
function wayOut(x: unknown, isBytes: boolean): string {
  if (x instanceof Promise) return "; await it first";
  if (x instanceof Response) {
    return isBytes ? "; pass new Uint8Array(await response.arrayBuffer())" : "; pass await response.blob(), its bytes";
  }
  if (!isBytes) return "";
  if (x instanceof ArrayBuffer) return "; pass new Uint8Array(buffer)";
  return x instanceof Blob ? "; pass new Uint8Array(await blob.arrayBuffer())" : "";
}

/**
 * The path of a URL, or the path itself, of what can be given as bytes, too, or not.
 *
 * @throws {ArgumentError} for other URLs and other things
 */
export function pathOf(action: string, path: unknown, isLoadable = false): string {
  if (typeof path === "string" && /^[a-z]{2,}:\/\//i.test(path)) path = new URL(path);
  if (path instanceof URL) {
    if (path.protocol === "file:") {
      const text = decodeURIComponent(path.pathname);
      return /^\/[A-Za-z]:\//.test(text) ? text.slice(1) : text;
    }
    throw new ArgumentError(action, {
      reason: `the URL must be file:, not ${path.protocol}; bytes that were fetched can be loaded`,
    });
  }
  if (typeof path === "string" && path !== "") return path;
  const kinds = isLoadable ? "a path, a file: URL or bytes" : "a path or a file: URL";
  const way = isLoadable || path instanceof Promise ? wayOut(path, false) : "";
  throw new ArgumentError(action, { reason: `it takes ${kinds}, not ${describe(path)}${way}` });
}

/** Whether something is in memory, and no place of a file. */
export function isInMemory(from: unknown): from is InMemory {
  return [Tensor, Uint8Array, ArrayBuffer, Blob].some((form) => from instanceof form);
}
/** All bytes of what is in memory. @throws {ArgumentError} for tensors of something else */
export async function bytesIn(from: InMemory): Promise<Bytes> {
  if (from instanceof Blob) from = await from.arrayBuffer();
  if (from instanceof ArrayBuffer) return new Uint8Array(from);
  if (!(from instanceof Tensor)) return from.buffer instanceof ArrayBuffer ? from as Bytes : from.slice();
  if (from.dtype !== dtypes.uint8 || from.ndim !== 1) {
    throw new ArgumentError("load from a tensor", {
      reason: `it has dtype ${from.dtype} and ${from.ndim} axes; bytes are uint8 with one axis`,
    });
  }
  return await from.data() as Bytes;
}

/** The folder that a path names a file of, up to and with its last slash; "" where the path has none. */
export function folderOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1);
}

/** The bytes given. @throws {ArgumentError} for anything else */
export function checkBytes(action: string, bytes: Uint8Array): Uint8Array {
  if (bytes instanceof Uint8Array) return bytes;
  const way = wayOut(bytes, true);
  throw new ArgumentError(action, { reason: `it takes the bytes as a Uint8Array, not ${describe(bytes)}${way}` });
}

/**
 * Opens what is to be loaded, and hands it to `use`. A file stays open, as memory that nothing has read, as long as one
 * of its tensors lives.
 */
export async function withSource<T>(
  from: Loadable,
  options: PlaceOptions,
  use: (source: Source) => T | Promise<T>,
): Promise<T> {
  const device = placeOf(options);
  if (isInMemory(from)) {
    const name = from instanceof Tensor ? "a tensor of bytes" : "bytes";
    return await use(new MemorySource(name, await bytesIn(from), device, "load"));
  }
  const path = pathOf("load a file", from, true);
  const file = fileDevice().openFile(path);
  try {
    return await use(new FileSource(String(from), file, 0, file.size, device, "load"));
  } finally {
    file.free();
  }
}

/** All bytes of a file. @throws {FormatError} where it cannot be read */
export async function fileBytes(path: string): Promise<Bytes> {
  return await withSource(path, { device: FILES as DeviceName }, (s) => s.read(0, s.size));
}

/** Options of {@linkcode fromFile}. */
export interface FileOptions extends PlaceOptions {
  /** Of the elements; uint8 unless given. */
  readonly dtype?: DTypeLike;
  /** All that fits in the rest of the file, along one axis, unless given. */
  readonly shape?: readonly number[];
  /** Where the elements start, in bytes; 0 unless given. */
  readonly offset?: number;
}

/**
 * The elements in a file, lazily: a part is read when it is used. Little-endian. Needs read permission.
 *
 * ```ts ignore files
 * import { state } from "../../mod.ts";
 * const tokens = await state.fromFile("train.bin", { dtype: "uint16", device: "DISK" });
 * const batch = tokens.at([1000, 2024]).to("WASM"); // reads 2048 bytes
 * ```
 *
 * @throws {FormatError} where the file has too few bytes
 */
export async function fromFile<N extends string>(
  path: string | URL,
  options: Checked<FileOptions, N> = {},
): Promise<Tensor> {
  const action = "load a file";
  checkOptions(action, options, ["dtype", "shape", "offset", "device"]);
  const dtype = toDType(options.dtype ?? dtypes.uint8);
  const offset = checkInteger(action, "offset", options.offset ?? 0, 0);
  const given = options.shape === undefined ? undefined : checkShape(action, options.shape);
  return await withSource(pathOf(action, path), options, (source) => {
    const shape = given ?? [Math.floor(Math.max(0, source.size - offset) / dtype.itemsize)];
    return source.tensor(offset, dtype, shape);
  });
}
