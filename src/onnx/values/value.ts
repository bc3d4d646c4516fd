/**
 * What flows along the edges of a graph: tensors with an element type of ONNX, sequences, and optionals. A tensor is
 * held by a device, known to the host (small ones, and text, which no device has), or both; each side is made of the
 * other only when it is asked for, so that arithmetic on shapes stays on the host.
 *
 * @module
 */
import type { DeviceName } from "../../device/device.ts";
import { arrayClass, type DType, dtypes } from "../../dtype/dtype.ts";
import type { FormatError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { tensorOfBytes } from "../../state/source.ts";
import { Tensor } from "../../tensor/tensor.ts";
import {
  codeOf,
  type ElementType,
  elementType,
  INT64,
  packedBytes,
  STRING,
  unpackElements,
} from "../wire/element_types.ts";
import type { DataProto, TensorProto } from "../wire/messages.ts";
import { areSymbolic, type Size } from "./variable_sizes.ts";

/** Values that the host knows, row-major; among whole numbers sizes that are bound variables. */
export type HostData = ArrayLike<number> | ArrayLike<string> | ArrayLike<Size>;
/** Makes an error about a part of a model. */
export type Fault = (reason: string) => FormatError;
/** What a name may stand for. */
export type Item = Value | Sequence | Optional | Mapping;

/** Up to how many elements the host computes by itself. */
export const HOST_LIMIT = 4096;

/** A tensor. */
export class Value {
  /** Values on the host, where they are known. */
  data: HostData | undefined;
  /** Whether the host knows it but for the values of variables. */
  readonly isSymbolic: boolean;
  private held: Tensor | undefined;
  private make: (() => Tensor) | undefined;

  /** Use the functions below. */
  constructor(
    /** The code of its elements. */
    readonly type: number,
    private readonly size: readonly number[] | undefined,
    from: { readonly tensor?: Tensor; readonly data?: HostData; readonly make?: () => Tensor },
    /** Whether the host may compute with what it knows: not with weights that are trained, or beyond 2^53. */
    readonly foldable: boolean = true,
  ) {
    this.held = from.tensor;
    this.data = from.data;
    this.isSymbolic = from.data !== undefined && areSymbolic(from.data);
    this.make = from.make;
  }

  /** The size of each axis. */
  get shape(): readonly number[] {
    return this.size ?? this.held!.shape;
  }
  /** How many elements. */
  get count(): number {
    return prod(this.shape);
  }
  /** Whether it is text. */
  get isText(): boolean {
    return this.type === STRING;
  }
  /** The numbers, where the host knows them. */
  get numbers(): ArrayLike<number> | undefined {
    return this.isText || this.isSymbolic ? undefined : this.data as ArrayLike<number> | undefined;
  }
  /** The size of each axis, of symbolic ones the variable. */
  get sizes(): readonly Size[] {
    return this.size ?? this.held!.symbolicShape;
  }
  /** As a tensor of `device`. */
  tensor(device: string): Tensor {
    if (this.held !== undefined) return this.held;
    const dtype = elementType(this.type)!.dtype;
    if (this.isSymbolic) {
      const parts = Array.from(
        this.data as ArrayLike<Size>,
        (x) => x instanceof Tensor ? x.cast(dtype).reshape([1]) : Tensor.full([1], x, { dtype }),
      );
      return this.held = Tensor.cat(parts).to(device as DeviceName).reshape([...this.shape]);
    }
    return this.held = this.make?.() ?? tensorOfHost(this.data as ArrayLike<number>, dtype, this.shape, device);
  }
  /** The tensor that it is, if it is one already. */
  get onDevice(): Tensor | undefined {
    return this.held;
  }
}

/** Tensors, or sequences of them, in order. */
export class Sequence {
  /** @param items in order */
  constructor(readonly items: readonly Item[]) {}
}
/** Numbers by what they are of: of a row of scores, each class's. */
export class Mapping {
  /** @param entries by text or whole number */
  constructor(readonly entries: ReadonlyMap<string | number, number>) {}
}
/** Something, or nothing. */
export class Optional {
  /** @param item what it holds */
  constructor(readonly item: Item | undefined) {}
}

/** A tensor as a value, of the type that its dtype has or that is given. */
export function valueOf(tensor: Tensor, type: number = codeOf(tensor.dtype)): Value {
  return new Value(type, undefined, { tensor });
}
/** Numbers or text on the host. */
export function knownValue(type: number, shape: readonly number[], data: HostData): Value {
  return new Value(type, shape, { data });
}
/** Whole numbers of 64 bits, or sizes: a list of them, or one. */
export function knownInts(values: readonly Size[] | Size): Value {
  return !Array.isArray(values) ? knownValue(INT64, [], [values as Size]) : knownValue(INT64, [values.length], values);
}

/** Numbers of the host on a device: one that all elements are needs no memory, on no device. */
function tensorOfHost(data: ArrayLike<number>, dtype: DType, shape: readonly number[], device: string): Tensor {
  if (data.length > 0) {
    let uniform = true;
    for (let i = 1; uniform && i < data.length; i++) uniform = Object.is(data[i], data[0]);
    if (uniform) return Tensor.full([...shape], dtype.isBool ? data[0] !== 0 : data[0], { dtype });
  }
  const wide = dtype.isFloat && dtype.itemsize < 4 ? dtypes.float32 : dtype;
  const values = wide.isInt && wide.bits === 64 ? Array.from(data, (x) => BigInt(Math.trunc(x))) : data;
  const t = new Tensor(arrayClass<Float32Array>(wide).from(values), { dtype: wide, device });
  return (wide === dtype ? t : t.cast(dtype)).reshape([...shape]);
}

/** The numbers of an array that a tensor is read as. */
export function hostNumbers(data: ArrayLike<number | bigint>): ArrayLike<number> {
  return typeof data[0] === "bigint" ? Array.from(data, Number) : data as ArrayLike<number>;
}

const decoder = new TextDecoder();

/** The bytes of a tensor in ONNX's packing, from whatever field it lies in. */
function rawBytes(t: TensorProto, type: ElementType, count: number, bad: Fault): Uint8Array {
  if (t.raw !== undefined) return t.raw;
  const { bits, name } = type, { floats, doubles, ints, int64s } = t;
  const want = name.startsWith("complex") ? 2 * count : count;
  const check = (list: ArrayLike<unknown>, n: number): void => {
    if (list.length !== n) throw bad(`has ${list.length} elements for the ${count} of [${t.dims.join(", ")}]`);
  };
  const bytesOf = (a: ArrayBufferView): Uint8Array => new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  if (name === "float" || name === "complex64") {
    check(floats, want);
    return bytesOf(Float32Array.from(floats));
  }
  if (name === "double" || name === "complex128") {
    check(doubles, want);
    return bytesOf(Float64Array.from(doubles));
  }
  if (bits === 64 || name === "uint32") {
    check(int64s, want);
    return bits === 64 ? bytesOf(BigInt64Array.from(int64s)) : bytesOf(Uint32Array.from(int64s, Number));
  }
  // int32_data: small types have an element each, those below a byte a packed byte each
  const n = bits < 8 ? packedBytes(type, count) : count;
  check(ints, n);
  return bits === 32
    ? bytesOf(Int32Array.from(ints))
    : bits === 16
    ? bytesOf(Uint16Array.from(ints))
    : Uint8Array.from(ints);
}

/** Elements of a sparse tensor at their places, zeros elsewhere. */
function densify(values: Value, indices: Value, shape: readonly number[], bad: Fault): Value {
  const at = indices.numbers!, from = values.numbers!, flat = indices.shape.length === 1, rank = shape.length;
  const out = new Array<number>(prod(shape)).fill(0);
  for (let i = 0; i < from.length; i++) {
    let place = 0;
    if (flat) place = at[i];
    else {
      for (let k = 0; k < rank; k++) {
        const x = at[i * rank + k];
        if (!(x >= 0 && x < shape[k])) throw bad(`has index ${x} on an axis of ${shape[k]}`);
        place = place * shape[k] + x;
      }
    }
    if (!(place >= 0 && place < out.length)) throw bad(`has index ${place} of ${out.length} elements`);
    out[place] = from[i];
  }
  return knownValue(values.type, shape, out);
}

/** Where the data of a tensor lies outside of the model: what the loader reads. */
export type External = (t: TensorProto, nbytes: number) => Uint8Array;

/** Options of {@linkcode decodeTensor}. */
export interface DecodeOptions {
  readonly device: string;
  readonly external?: External;
  /** Whether floats are weights that get gradients. */
  readonly trained?: boolean;
}

/** A tensor of a file. @throws {FormatError} by `bad`, of which the subject is this tensor */
export function decodeTensor(t: TensorProto, bad: Fault, options: DecodeOptions): Value {
  const type = elementType(t.type), { device } = options;
  if (type === undefined) throw bad(`has element type ${t.type}, which ONNX does not have`);
  const shape = t.dims;
  let count = 1;
  for (const n of shape) {
    if (n < 0) throw bad(`has a negative size: [${shape.join(", ")}]`);
    count *= n;
  }
  if (t.indices !== undefined) {
    const n = t.indices.dims[0] ?? 0, plain = { ...t, indices: undefined, dims: [n] };
    if (count > 2 ** 28) throw bad(`is sparse, and would have ${count} elements`);
    const { external } = options, values = decodeTensor(plain, bad, { device, external });
    const indices = decodeTensor(t.indices, bad, { device, external });
    if (indices.count !== n * (indices.shape.length === 1 ? 1 : shape.length) || values.isText) {
      throw bad(`has indices [${indices.shape.join(", ")}] for ${n} values`);
    }
    return densify(allNumbers(values, device), allNumbers(indices, device), shape, bad);
  }
  if (type.code === STRING) {
    if (t.strings.length !== count) {
      throw bad(`has ${t.strings.length} texts for the ${count} of [${shape.join(", ")}]`);
    }
    return knownValue(STRING, shape, t.strings.map((s) => decoder.decode(s)));
  }
  const nbytes = packedBytes(type, count);
  let raw: Uint8Array;
  if (t.isExternal) {
    if (options.external === undefined) throw bad("has its data in another file, which a model of bytes cannot name");
    raw = options.external(t, nbytes);
  } else raw = rawBytes(t, type, count, bad);
  if (raw.length !== nbytes) {
    throw bad(`has ${raw.length} bytes, and [${shape.join(", ")}] of ${type.name} is ${nbytes}`);
  }
  const make = (): Tensor => tensorOfBytes(unpackElements(type, raw, count), type.dtype, shape, device);
  if (count > HOST_LIMIT || type.dtype.isComplex) return new Value(type.code, shape, { make });
  const data = bytesToNumbers(unpackElements(type, raw, count), type.dtype);
  let safe = true;
  for (let i = 0; safe && type.bits === 64 && i < count; i++) safe = Math.abs(data[i]) <= 2 ** 53 || type.dtype.isFloat;
  const folds = safe && !(options.trained && type.dtype.isFloat);
  return new Value(type.code, shape, folds ? { data } : { data, make }, folds);
}

/** The numbers that bytes of a dtype are. */
function bytesToNumbers(bytes: Uint8Array, dtype: DType): ArrayLike<number> {
  if (dtype.isFloat && dtype.itemsize < 4) {
    return hostNumbers(tensorOfBytes(bytes, dtype, [bytes.length / dtype.itemsize], "JS").cast("float32").dataSync());
  }
  return hostNumbers(new (arrayClass<ArrayLike<number | bigint>>(dtype))(bytes.slice().buffer));
}

/** A value whose numbers are known, by reading it. */
function allNumbers(v: Value, device: string): Value {
  v.data ??= hostNumbers(v.tensor(device).dataSync());
  return v;
}

/** What a file of test data holds. */
export function decodeData(data: DataProto, bad: Fault, options: DecodeOptions): Item {
  if (Array.isArray(data)) return new Sequence(data.map((d) => decodeData(d, bad, options)));
  if ("held" in data) return new Optional(data.held && decodeData(data.held, bad, options));
  return decodeTensor(data as TensorProto, bad, options);
}
