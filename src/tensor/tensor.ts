/**
 * Tensor: its constructor, the static constructors, the forms of one tensor like another, random draws, and how a tensor
 * prints. What it can compute is in families of methods, one a file, which Tensor has all side by side.
 *
 * @module
 */
import { type Checked, defaultDevice } from "../device/device.ts";
import { type DType, type DTypeLike, dtypes } from "../dtype/dtype.ts";
import { defaultFloat } from "../dtype/promotion.ts";
import type { ExecItem } from "../engine/front/runners.ts";
import { scheduleItems } from "../engine/front/engine.ts";
import { cutsGradients, envNumber, setEnv, withContext } from "../helpers/env.ts";
import { ArgumentError, DTypeError, FormatError } from "../helpers/errors.ts";
import { prod } from "../helpers/math.ts";
import { checkBoolean, checkFunction, checkInteger, checkNumber, checkOptions } from "../helpers/options.ts";
import { reshape } from "../uop/core/build_movement.ts";
import { Ops } from "../uop/core/ops.ts";
import { deviceOf } from "../uop/core/shape.ts";
import { constant, UOp, uop } from "../uop/core/uop.ts";
import { isMemory, shown } from "../uop/graph/writes.ts";
import type { TensorFamilies } from "./families.ts";
import { type Axes, checkShape } from "./handle/axes.ts";
import { checkTensor, internals, isTensor, TensorBase } from "./handle/base.ts";
import type { NestedArray, Operand, TensorLike } from "./handle/base.ts";
import { markWeak } from "./handle/weak_numbers.ts";
import {
  arangeNode,
  arangeSized,
  blobNode,
  chosenDType,
  dataNode,
  emptyNode,
  eyeNode,
  fullNode,
  linspaceNode,
  linspaceSized,
  optionsLast,
  placed,
  TENSOR_OPTIONS,
  type TensorData,
  type TensorOptions,
} from "./handle/creation.ts";
import { joined, several } from "./handle/joined.ts";
import { type Dim, hasVariable, type Shape, shaped } from "./handle/dims.ts";
import type { LinalgTensor } from "./math/linalg.ts";
import { type ComplexValue, isList, type TypedArray } from "./nodes/host.ts";
import {
  drawBetween,
  drawBits,
  drawNormal,
  drawUniform,
  ofParts,
  type RngState,
  rngState,
  setRngState,
  setSeed,
  streamNode,
} from "./nodes/random.ts";
import { castNode, inferDType, scalarConst } from "./nodes/scalars.ts";
import type { ArrangeTensor } from "./ops/arrange.ts";

/** Options of {@linkcode Tensor.rand}. */
export interface RandOptions extends TensorOptions {
  /** False leaves the numbers fusable: each kernel that reads them draws them again. Default true. */
  readonly contiguous?: boolean;
}

/** All that it can compute, which `mod.ts` adds. */
export interface Tensor extends TensorFamilies {}

/**
 * A multi-dimensional array that is computed when it is needed.
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * const x = new Tensor([[1, 2], [3, 4]]);
 * const y = x.mul(2).sum(0); // nothing has run
 * console.log(await y.tolist()); // [8, 12]
 * ```
 */
export class Tensor extends TensorBase {
  /** Sums of products by index letters: {@linkcode LinalgTensor.einsum}. */
  declare static readonly einsum: typeof LinalgTensor.einsum;
  /** Places of a lower triangle: {@linkcode ArrangeTensor.trilIndices}. */
  declare static readonly trilIndices: typeof ArrangeTensor.trilIndices;
  /** Places of an upper triangle: {@linkcode ArrangeTensor.triuIndices}. */
  declare static readonly triuIndices: typeof ArrangeTensor.triuIndices;

  /**
   * A tensor of a number, boolean or bigint, of nested lists of them, or of TypedArrays (copied). Numbers are int32 if
   * all are integers (bool, int64 for booleans, bigints), else float32. Tensors of one shape in a list are joined along new
   * axes, lazily, as `stack` joins them.
   *
   * @param options `dtype`, `device`, `requiresGrad` (the default dtype is then float32)
   * @throws {ShapeError} for ragged lists, {ArgumentError} for other data or unknown options
   */
  constructor(data?: TensorData, options?: TensorOptions) {
    if (options !== undefined) checkOptions("create a tensor", options, TENSOR_OPTIONS);
    super(data instanceof UOp && options === undefined ? data : dataNode(data, options ?? {}));
    if (!(data instanceof UOp) || options?.device !== undefined) this.hold();
    if (typeof data === "number" && options?.dtype === undefined && Number.isInteger(data)) markWeak(this);
    if (options?.requiresGrad !== undefined) this.requiresGrad = options.requiresGrad;
  }

  /** Constants live nowhere: they say the default device. */
  protected constantDevice(): string {
    return defaultDevice();
  }
  /** A list beside a tensor, on its device, or in the dtype that it is to be written in. */
  protected fromList(x: NestedArray | TypedArray, dtype?: DType): TensorBase {
    return new Tensor(dataNode(x, { device: deviceOf(this.uop) ?? undefined, dtype }, this.dtype));
  }

  /**
   * Complex numbers of real and imaginary parts, broadcast: complex64, or complex128 where a part is float64.
   *
   * ```ts
   * import { Tensor } from "../../mod.ts";
   * const z = Tensor.complex(new Tensor([1, 2]), new Tensor([0, -1]));
   * console.log(await z.mul(z).tolist()); // [{ re: 1, im: 0 }, { re: 3, im: -4 }]
   * ```
   *
   * @throws {DTypeError} for complex parts @throws {ShapeError} if the shapes do not broadcast
   */
  static complex(re: Tensor, im: Operand): Tensor {
    return checkTensor("make complex numbers", "the real part", re).withImaginary(im);
  }
  /** Complex numbers of magnitudes and angles, as {@linkcode Tensor.complex}. */
  static polar(abs: Tensor, angle: Operand): Tensor {
    return checkTensor("make complex numbers", "the magnitude", abs).atAngle(angle);
  }

  // ---- constants and ramps

  /** All elements `fillValue`, which may be a bound variable. Dtype: that of the value. @throws {ShapeError} for bad sizes */
  static full<N extends string>(
    shape: Shape,
    fillValue: number | boolean | bigint | ComplexValue | Tensor,
    options: Checked<TensorOptions, N> = {},
  ): Tensor {
    const own = () => fillValue instanceof TensorBase ? fillValue.dtype : inferDType([fillValue]);
    const dtype = chosenDType("fill a tensor", options) ?? (options.requiresGrad ? defaultFloat() : own());
    const made = make(shaped("fill a tensor", shape, (sizes) => fullNode(sizes, fillValue, dtype)), options);
    if (typeof fillValue === "number" && options.dtype === undefined) markWeak(made);
    return made;
  }
  /** Zeros. Dtype float32. @throws {ShapeError} */
  static zeros<N extends string>(shape: Shape, options: Checked<TensorOptions, N> = {}): Tensor {
    const dtype = chosenDType("make zeros", options) ?? defaultFloat();
    return make(shaped("make zeros", shape, (sizes) => fullNode(sizes, 0, dtype)), options);
  }
  /** Ones. Dtype float32. @throws {ShapeError} */
  static ones<N extends string>(shape: Shape, options: Checked<TensorOptions, N> = {}): Tensor {
    const dtype = chosenDType("make ones", options) ?? defaultFloat();
    return make(shaped("make ones", shape, (sizes) => fullNode(sizes, 1, dtype)), options);
  }
  /** Memory that nothing has written. @throws {ShapeError} */
  static empty<N extends string>(shape: Shape, options: Checked<TensorOptions, N> = {}): Tensor {
    const dtype = chosenDType("make an empty tensor", options) ?? defaultFloat();
    const node = shaped("make an empty tensor", shape, (sizes) => emptyNode(sizes, dtype, options.device));
    return make(node, options);
  }
  /** Memory that nothing has written, for a kernel to write to: {@linkcode Tensor.empty}. @throws {ShapeError} */
  static invalids<N extends string>(shape: Shape, options: Checked<TensorOptions, N> = {}): Tensor {
    return Tensor.empty<string>(shape, options);
  }
  /**
   * Memory of somebody else as a tensor of `shape`: a TypedArray or ArrayBuffer, or the address of a library's memory as a
   * pointer of Deno's or a bigint, for which `shape` is trusted. Devices whose memory it is use it where it is, without a
   * copy: JS and CLANG that of the host, CUDA its own by address. Reads then see what is there when they run, and
   * assignments write to it; it must stay valid while the tensor is in use (a TypedArray does). All other devices copy it
   * at once; for an address that takes the permission to call foreign functions. Dtype: that of a TypedArray, else float32.
   *
   * ```ts
   * import { Tensor } from "../../mod.ts";
   * const samples = new Float32Array([1, 2, 3, 4]);
   * const t = Tensor.fromBlob(samples, [2, 2], { device: "JS" });
   * samples[0] = 10;
   * console.log(await t.sum(0).tolist()); // [13, 6]
   * ```
   *
   * @throws {ArgumentError} for what is no memory, {ShapeError} where a TypedArray or ArrayBuffer is too small
   */
  static fromBlob<N extends string>(
    memory: ArrayBufferView | ArrayBuffer | bigint | object,
    shape: Axes,
    options: Checked<TensorOptions, N> = {},
  ): Tensor {
    const action = "make a tensor of memory";
    checkOptions(action, options, TENSOR_OPTIONS);
    return make(blobNode(memory, checkShape(action, shape), options), { requiresGrad: options.requiresGrad });
  }
  /** A scalar without memory, that takes its device from what it meets, or a list of values. Dtype: theirs, or `dtype`. */
  static const<N extends string>(value: TensorData, dtype?: DTypeLike<N>): Tensor {
    return new Tensor(value, dtype === undefined ? undefined : { dtype });
  }
  /**
   * start, start + step, ... up to and without stop; with one argument, 0 to it. Integers give int32 (int64 beyond),
   * any float gives float32. Each may be a bound variable, beside integers; the size is then symbolic.
   *
   * @throws {ArgumentError} for a step of 0, or one that may be
   */
  static arange<N extends string>(start: Dim, stop?: Dim, step?: Dim, options?: Checked<TensorOptions, N>): Tensor;
  /** From 0 by 1, with options. */
  static arange<N extends string>(stop: Dim, options: Checked<TensorOptions, N>): Tensor;
  /** By 1, with options. */
  static arange<N extends string>(start: Dim, stop: Dim, options: Checked<TensorOptions, N>): Tensor;
  static arange(start: Dim, ...rest: readonly (Dim | TensorOptions | undefined)[]): Tensor {
    const [[stop, step = 1], options] = optionsLast("make an arange", rest, 2);
    const dtype = chosenDType("make an arange", options);
    if (start instanceof TensorBase || stop instanceof TensorBase || step instanceof TensorBase) {
      return make(arangeSized(stop === undefined ? 0 : start, stop ?? start, step, dtype), options);
    }
    return make(arangeNode(start, stop, step, dtype), options);
  }
  /** `steps` values from start to stop, both included. @throws {ArgumentError} for negative `steps` */
  static linspace<N extends string>(
    start: number,
    stop: number,
    steps: Dim,
    options: Checked<TensorOptions, N> = {},
  ): Tensor {
    const dtype = chosenDType("make a linspace", options) ?? defaultFloat();
    if (steps instanceof TensorBase) return make(linspaceSized(start, stop, steps, dtype), options);
    return make(linspaceNode(start, stop, steps, dtype), options);
  }
  /** `base` (10) to the powers of {@linkcode Tensor.linspace}: from base^start to base^stop. @throws {ArgumentError} */
  static logspace<N extends string>(
    start: number,
    stop: number,
    steps: Dim,
    options: Checked<TensorOptions, N> & { readonly base?: number } = {},
  ): Tensor {
    const { base = 10, requiresGrad, ...rest } = checkOptions("make a logspace", options, [...TENSOR_OPTIONS, "base"]);
    checkNumber("make a logspace", "base", base);
    return make(Tensor.linspace<string>(start, stop, steps, rest).pow(base, { reverse: true }).uop, { requiresGrad });
  }
  /** `steps` values from start to stop, each the same multiple of the one before. @throws {ArgumentError} unless both have one sign */
  static geomspace<N extends string>(
    start: number,
    stop: number,
    steps: Dim,
    options?: Checked<TensorOptions, N>,
  ): Tensor {
    const action = "make a geomspace", { requiresGrad, ...rest } = checkOptions(action, options ?? {}, TENSOR_OPTIONS);
    if (!(checkNumber(action, "start", start) * checkNumber(action, "stop", stop) > 0)) {
      throw new ArgumentError(action, { reason: `${start} and ${stop} must have one sign` });
    }
    const made = Tensor.logspace<string>(0, 1, steps, { ...rest, base: stop / start }).mul(start);
    return make(made.uop, { requiresGrad });
  }
  /** The identity matrix, n by m (n). @throws {ShapeError} */
  static eye<N extends string>(n: Dim, m?: Dim, options?: Checked<TensorOptions, N>): Tensor;
  /** The square one, with options. */
  static eye<N extends string>(n: Dim, options: Checked<TensorOptions, N>): Tensor;
  static eye(n: Dim, ...rest: readonly (Dim | TensorOptions | undefined)[]): Tensor {
    const [[m = n], options] = optionsLast("make an identity matrix", rest, 1);
    const dtype = chosenDType("make an identity matrix", options) ?? defaultFloat();
    if (!hasVariable([n, m])) return make(eyeNode(n as number, m as number, dtype), options);
    return make(shaped("make an identity matrix", [n, m], ([rows, columns]) => eyeNode(rows, columns, dtype)), options);
  }

  /** The bytes at `url` as uint8; `gunzip` unpacks them. @throws {FormatError} if the server refuses */
  static async fromUrl<N extends string>(
    url: string,
    options: { readonly gunzip?: boolean } & Checked<TensorOptions, N> = {},
  ): Promise<Tensor> {
    checkOptions("load from a URL", options, ["gunzip", ...TENSOR_OPTIONS]);
    const response = await fetch(url);
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      throw new FormatError("load", { file: url, reason: `the server answers ${response.status}` });
    }
    const body = options.gunzip ? response.body.pipeThrough(new DecompressionStream("gzip")) : response.body;
    const bytes = new Uint8Array(await new Response(body).arrayBuffer());
    const { gunzip: _, ...rest } = options;
    return new Tensor(bytes, rest);
  }

  /** This shape and device, filled. */
  fullLike<N extends string>(
    fillValue: number | boolean | bigint | ComplexValue | Tensor,
    options: Checked<TensorOptions, N> & { readonly buffer?: boolean } = {},
  ): this {
    checkOptions("fullLike", options, [...TENSOR_OPTIONS, "buffer"]);
    const { buffer: _, device = this.device, ...rest } = options;
    return Tensor.full(this.symbolicShape, fillValue, { ...this.ownDType(rest), device }) as this;
  }
  /** Options with this dtype, unless they have one: undefined is none. */
  private ownDType(options: TensorOptions): TensorOptions {
    return options.dtype === undefined ? { ...options, dtype: this.dtype } : options;
  }
  /** Zeros of this shape, dtype and device. */
  zerosLike<N extends string>(options: Checked<TensorOptions, N> = {}): this {
    return this.fullLike<string>(0, options);
  }
  /** Ones of this shape, dtype and device. */
  onesLike<N extends string>(options: Checked<TensorOptions, N> = {}): this {
    return this.fullLike<string>(1, options);
  }
  /** Memory of this shape, dtype and device that nothing has written. */
  emptyLike<N extends string>(options: Checked<TensorOptions, N> = {}): this {
    checkOptions("emptyLike", options, TENSOR_OPTIONS);
    const { device = this.device, ...rest } = options;
    return Tensor.empty(this.symbolicShape, { ...this.ownDType(rest), device }) as this;
  }

  // ---- random

  /**
   * Sets the seed of all random draws, and starts their counter anew. Without a seed, the time. Seed and counter are the
   * process's: async functions that overlap draw from one sequence, in the order in which they make their draws.
   */
  static manualSeed(seed?: number | bigint): void {
    setSeed(seed);
  }

  /** Where random draws are now: the seed and how far it was used. A checkpoint has it. */
  static getRngState(): RngState {
    return rngState();
  }
  /** Goes on drawing from where `state` was taken. @throws {ArgumentError} for what {@linkcode Tensor.getRngState} did not give */
  static setRngState(state: RngState): void {
    setRngState(state);
  }

  /**
   * Uniform in [0, 1). Dtype: floats, default float32. Each call draws new numbers, fixed at the call.
   *
   * @throws {DTypeError} for other dtypes, {ShapeError}
   */
  static rand<N extends string>(shape: Shape, options: Checked<RandOptions, N> = {}): Tensor {
    checkOptions("draw random numbers", options, [...TENSOR_OPTIONS, "contiguous"]);
    const { contiguous = true, ...rest } = options;
    const dtype = chosenDType("draw random numbers", rest) ?? defaultFloat();
    const draw = (sizes: readonly number[]): UOp => ofParts(dtype, (d) => drawUniform(sizes, d));
    return drawn(shaped("draw random numbers", shape, draw), rest, contiguous);
  }
  /** Standard normal; complex numbers have parts of variance 1/2. @throws {DTypeError} unless the dtype is a float */
  static randn<N extends string>(shape: Shape, options: Checked<TensorOptions, N> = {}): Tensor {
    const dtype = chosenDType("draw normal numbers", options) ?? defaultFloat();
    const draw = (sizes: readonly number[]): UOp => {
      const made = ofParts(dtype, (d) => drawNormal(sizes, d));
      return dtype.isComplex ? made.mul(scalarConst(Math.SQRT1_2, dtype)) : made;
    };
    return drawn(shaped("draw normal numbers", shape, draw), options);
  }
  /**
   * Integers in [low, high), by default [0, 10). Dtype int32.
   *
   * @throws {ArgumentError} unless both are integers and low < high, {DTypeError} for floats
   */
  static randint<N extends string>(
    shape: Shape,
    options: Checked<TensorOptions, N> & { readonly low?: number; readonly high?: number } = {},
  ): Tensor {
    const action = "draw random integers";
    checkOptions(action, options, [...TENSOR_OPTIONS, "low", "high"]);
    const { low = 0, high = 10, ...rest } = options;
    const dtype = chosenDType(action, rest) ?? dtypes.int32;
    if (!dtype.isInt) throw new DTypeError(`${action} of dtype`, { dtypes: [dtype], reason: "it must be an integer" });
    if (!Number.isSafeInteger(low) || !Number.isSafeInteger(high) || low >= high || high - low > 2 ** 32) {
      throw new ArgumentError(action, {
        reason: `low and high must be integers with low < high, at most 2^32 apart, not ${low} and ${high}`,
      });
    }
    const span = high - low, small = low >= -(2 ** 31) && high <= 2 ** 31 && span <= 2 ** 31;
    const node = shaped(action, shape, (sizes) => {
      const bits = drawBits(prod(sizes)), ranged = span === 2 ** 32 ? bits : bits.cmod(constant(span, dtypes.uint32));
      const wide = castNode(ranged, small ? dtypes.int32 : dtypes.int64);
      return castNode(reshape(wide.add(scalarConst(low, wide.dtype)), sizes), dtype);
    });
    return drawn(node, rest);
  }
  /** Normal with `mean` (0) and `std` (1). @throws {ArgumentError} for a negative `std` */
  static normal<N extends string>(
    shape: Shape,
    options: Checked<TensorOptions, N> & { readonly mean?: number; readonly std?: number } = {},
  ): Tensor {
    checkOptions("draw normal numbers", options, [...TENSOR_OPTIONS, "mean", "std"]);
    const { mean = 0, std = 1, ...rest } = options;
    if (!(std >= 0)) throw new ArgumentError("draw normal numbers", { reason: `std must be at least 0, not ${std}` });
    const dtype = chosenDType("draw normal numbers", rest) ?? defaultFloat();
    const u = shaped("draw normal numbers", shape, (sizes) => drawNormal(sizes, dtype));
    return drawn(u.mul(scalarConst(std, dtype)).add(scalarConst(mean, dtype)), rest);
  }
  /** Uniform in [low, high), by default [0, 1), never `high`. @throws {ArgumentError} unless low < high, both in the dtype */
  static uniform<N extends string>(
    shape: Shape,
    options: Checked<TensorOptions, N> & { readonly low?: number; readonly high?: number } = {},
  ): Tensor {
    checkOptions("draw uniform numbers", options, [...TENSOR_OPTIONS, "low", "high"]);
    const { low = 0, high = 1, ...rest } = options;
    if (!(low < high)) {
      throw new ArgumentError("draw uniform numbers", { reason: `low must be below high, not ${low} and ${high}` });
    }
    const dtype = chosenDType("draw uniform numbers", rest) ?? defaultFloat();
    const wide = dtype.isFloat ? dtype : dtypes.float32;
    const u = shaped("draw uniform numbers", shape, (sizes) => drawBetween(sizes, low, high, wide));
    return drawn(castNode(u, dtype), rest);
  }
  /** Uniform in [-1, 1) over the square root of the number of elements. */
  static scaledUniform<N extends string>(shape: Axes, options: Checked<TensorOptions, N> = {}): Tensor {
    const sizes = checkShape("draw uniform numbers", shape);
    return scaledDraw(sizes, prod(sizes) ** -0.5, options);
  }
  /** Uniform within ±sqrt(6 / (fan in + fan out)): Glorot and Bengio (2010). */
  static glorotUniform<N extends string>(shape: Axes, options: Checked<TensorOptions, N> = {}): Tensor {
    const sizes = checkShape("draw uniform numbers", shape);
    return scaledDraw(sizes, Math.sqrt(6 / ((sizes[0] ?? 1) + prod(sizes.slice(1)))), options);
  }
  /** Uniform within ±sqrt(6 / ((1 + a^2) fan in)), a = 0.01, fan in without axis 0: He et al. (2015). */
  static kaimingUniform<N extends string>(
    shape: Axes,
    options: Checked<TensorOptions, N> & { readonly a?: number } = {},
  ): Tensor {
    checkOptions("draw uniform numbers", options, [...TENSOR_OPTIONS, "a"]);
    const { a = 0.01, ...rest } = options;
    const sizes = checkShape("draw uniform numbers", shape);
    return scaledDraw(sizes, Math.sqrt(6 / ((1 + a * a) * prod(sizes.slice(1)))), rest);
  }
  /** Normal with variance 2 / ((1 + a^2) fan in), a = 0.01, fan in without axis 0. */
  static kaimingNormal<N extends string>(
    shape: Axes,
    options: Checked<TensorOptions, N> & { readonly a?: number } = {},
  ): Tensor {
    checkOptions("draw normal numbers", options, [...TENSOR_OPTIONS, "a"]);
    const { a = 0.01, ...rest } = options;
    const sizes = checkShape("draw normal numbers", shape);
    return Tensor.normal<string>(sizes, { std: Math.sqrt(2 / ((1 + a * a) * prod(sizes.slice(1)))), ...rest });
  }
  /** The integers below n in random order; int32. */
  static randperm<N extends string>(n: Dim, options: Checked<TensorOptions, N> = {}): Tensor {
    if (!isTensor(n)) checkInteger("draw a permutation", "n", n, 0);
    const dtype = chosenDType("draw a permutation", options) ?? dtypes.int32;
    const keys = shaped("draw a permutation", n, (sizes) => drawUniform(sizes, dtypes.float32));
    return make(castNode(new Tensor(keys).argsort(0).uop, dtype), options);
  }
  /**
   * `num` random words (uint32) of the stream of `key` from `counter` on: threefry2x32 in JAX's partitionable form.
   *
   * @param key two words, high first: numbers or a uint32 tensor
   * @param counter a number, or a uint32 tensor of one word, or two, low first
   */
  static randomBits(key: Tensor | readonly [number, number], counter: Tensor | number | bigint, num: number): Tensor {
    const flat = (x: Tensor): UOp => castNode(x.flatten().uop, dtypes.uint32);
    const words = key instanceof Tensor && key.numel() === 2 && key.dtype.isInt ? flat(key) : key;
    return new Tensor(streamNode(words, counter instanceof Tensor ? flat(counter) : counter, num));
  }

  /** Uniform in [0, 1), of this shape and dtype. */
  randLike<N extends string>(options: Checked<TensorOptions, N> = {}): this {
    checkOptions("randLike", options, TENSOR_OPTIONS);
    return Tensor.rand(this.symbolicShape, this.ownDType(options)) as this;
  }
  /** Standard normal, of this shape and dtype. */
  randnLike<N extends string>(options: Checked<TensorOptions, N> = {}): this {
    checkOptions("randnLike", options, TENSOR_OPTIONS);
    return Tensor.randn(this.symbolicShape, this.ownDType(options)) as this;
  }

  // ---- several tensors

  /** Joins along `dim`; see the method. */
  static cat(tensors: readonly Operand[], dim = 0): Tensor {
    return joined(made, "cat", tensors, dim);
  }
  /** Joins along a new axis; see the method. */
  static stack(tensors: readonly Operand[], dim = 0): Tensor {
    return joined(made, "stack", tensors, dim);
  }
  /** `x` where `condition`, else `y`; see the method. */
  static where(condition: TensorLike, x: Operand, y: Operand): Tensor {
    return checkTensor("where", "the condition", isList(condition) ? new Tensor(condition) : condition as Tensor)
      .where(x, y);
  }
  /** Coordinates; see the method. */
  static meshgrid(tensors: readonly Operand[], options?: { readonly indexing?: "ij" | "xy" }): Tensor[] {
    return joined(made, "meshgrid", tensors, options);
  }
  /** Beside each other; see the method. */
  static hstack(tensors: readonly Operand[]): Tensor {
    return joined(made, "hstack", tensors);
  }
  /** Above each other; see the method. */
  static vstack(tensors: readonly Operand[]): Tensor {
    return joined(made, "vstack", tensors);
  }
  /** Behind each other; see the method. */
  static dstack(tensors: readonly Operand[]): Tensor {
    return joined(made, "dstack", tensors);
  }
  /** Lists as columns; see the method. */
  static columnStack(tensors: readonly Operand[]): Tensor {
    return joined(made, "columnStack", tensors);
  }
  /** Matrices along a diagonal; see the method. */
  static blockDiag(tensors: readonly Operand[]): Tensor {
    return joined(made, "blockDiag", tensors);
  }
  /** All choices of an element of each; see the method. */
  static cartesianProd(tensors: readonly Operand[]): Tensor {
    return joined(made, "cartesianProd", tensors);
  }
  /** The product of all; see the method. */
  static multiDot(tensors: readonly Operand[]): Tensor {
    return joined(made, "multiDot", tensors);
  }
  /** Computes tensors as one schedule. Synchronous. */
  static realize(tensors: readonly Tensor[]): void {
    if (Array.isArray(tensors) && tensors.length === 0) return;
    const [first, ...rest] = several("realize tensors", tensors);
    first.realize(rest);
  }
  /** Fixes what will be kernels of their own; see the method. */
  static kernelize(tensors: readonly Tensor[]): void {
    const [first, ...rest] = several("kernelize tensors", tensors);
    first?.kernelize(rest);
  }

  /**
   * Runs `fn` in training mode: dropout drops, batch normalization uses the batch. The mode holds for `fn` and what it
   * awaits, and for nothing that runs beside it; in browsers `fn` must be synchronous.
   * @throws {ArgumentError} for a generator, and in browsers for an async `fn`
   */
  static train<T>(fn: () => T): T {
    checkFunction("train", "fn", fn);
    return withContext("Tensor.train()", { TRAINING: 1 }, fn);
  }
  /** Whether training mode is on here. Setting it is for all that runs; prefer {@linkcode Tensor.train}. */
  static get training(): boolean {
    return envNumber("TRAINING") > 0;
  }
  static set training(on: boolean) {
    setEnv("TRAINING", checkBoolean("set Tensor.training", "it", on) ? 1 : 0);
  }

  /**
   * Runs `fn` without gradients: what is computed there is a constant to them, as the result of `detach()`. Tensors made
   * there with `requiresGrad` are leaves as ever. It holds for `fn` and what it awaits, and for nothing that runs beside it.
   *
   * ```ts
   * import { Tensor } from "../../mod.ts";
   * const w = new Tensor([1, 2], { requiresGrad: true });
   * w.mul(Tensor.noGrad(() => w.mul(10))).sum().backward();
   * console.log(await w.grad!.tolist()); // [10, 20]
   * ```
   *
   * @throws {ArgumentError} for a generator, and in browsers for an async `fn`
   */
  static noGrad<T>(fn: () => T): T {
    checkFunction("compute without gradients", "fn", fn);
    return withContext("Tensor.noGrad()", { GRAD: 0 }, fn);
  }
  /** As {@linkcode Tensor.noGrad}: nothing more is kept for gradients there that could be left out. */
  static inferenceMode<T>(fn: () => T): T {
    return Tensor.noGrad(fn);
  }
  /** Runs `fn` with gradients, inside of {@linkcode Tensor.noGrad}. @throws {ArgumentError} as that */
  static enableGrad<T>(fn: () => T): T {
    checkFunction("compute with gradients", "fn", fn);
    return withContext("Tensor.enableGrad()", { GRAD: 1 }, fn);
  }
  /** Whether what is computed here has gradients: false in {@linkcode Tensor.noGrad}. */
  static isGradEnabled(): boolean {
    return !cutsGradients();
  }
}

/** The tensor of a value, as it is beside another one. */
function made(data: Operand, beside: Tensor | undefined): Tensor {
  return beside === undefined ? new Tensor(data as TensorData) : beside.ufix(data);
}

/** The compiled steps that realizing `tensors` together would take; nothing runs. */
export function schedule(tensors: readonly Tensor[]): ExecItem[] {
  return scheduleItems(several("schedule", tensors).map((t) => t.uop));
}

function make(u: UOp, options: TensorOptions): Tensor {
  const t = new Tensor(placed(u, options.device));
  if (isMemory(shown(t.uop).base)) internals.hold(t);
  if (options.requiresGrad !== undefined) t.requiresGrad = options.requiresGrad;
  return t;
}

/** A random tensor: in memory of its own, so that all who read it read the same numbers at no cost. */
function drawn(u: UOp, options: TensorOptions, contiguous = true): Tensor {
  const own = contiguous && !options.requiresGrad ? uop(Ops.CONTIGUOUS, u.dtype, [u]) : u;
  return make(own, options);
}

function scaledDraw(shape: readonly number[], bound: number, options: TensorOptions): Tensor {
  checkOptions("draw uniform numbers", options, TENSOR_OPTIONS);
  return Tensor.uniform(shape, { ...options, low: -bound, high: bound });
}
