/**
 * Convolutions: Conv1d, Conv2d (any number of spatial axes), Conv3d and their transposes.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { sizesOf, uniformWeight } from "./init.ts";

/** Options of {@linkcode Conv2d}. */
export interface ConvOptions {
  /** Step of the window; 1 unless given. */
  readonly stride?: number | readonly number[];
  /** Zeros on each side, by axis; "same" keeps the size where the stride is 1. 0 unless given. */
  readonly padding?: number | readonly number[] | "same";
  /** Distance of the kernel's taps; 1 unless given. */
  readonly dilation?: number | readonly number[];
  /** Groups of channels that do not see one another; 1 unless given. */
  readonly groups?: number;
  /** Whether to add a bias; true unless given. */
  readonly bias?: boolean;
}

/** Options of {@linkcode ConvTranspose2d}. */
export interface ConvTransposeOptions extends Omit<ConvOptions, "padding"> {
  readonly padding?: number | readonly number[];
  /** Rows added on one side of the output; 0 unless given. */
  readonly outputPadding?: number | readonly number[];
}

const CONV_OPTIONS = ["stride", "padding", "dilation", "groups", "bias"];

/** Before and after each axis, last axis first, as `pad` of the convolution takes it. */
function samePadding(kernel: readonly number[], dilation: number | readonly number[]): number[] {
  const d = typeof dilation === "number" ? kernel.map(() => dilation) : dilation, out: number[] = [];
  for (let i = kernel.length - 1; i >= 0; i--) {
    const total = d[i] * (kernel[i] - 1), before = Math.floor(total / 2);
    out.push(before, total - before);
  }
  return out;
}

/** The option as it is kept, a number or a list, if it is of integers of at least `min`. @throws {ArgumentError} */
function listOf(what: string, name: string, x: number | readonly number[], min: number): number | number[] {
  const list = sizesOf(what, name, x, 1, min);
  return typeof x === "number" ? x : list;
}

/** What a convolution and its transpose have in common: checked sizes, a weight and a bias. */
abstract class Convolution {
  /** See the class. Drawn from ±1/sqrt(fan-in) as in PyTorch. */
  weight: Tensor;
  /** `[outChannels]`, or undefined. */
  bias: Tensor | undefined;
  readonly kernelSize: readonly number[];
  readonly stride: number | number[];
  readonly padding: number | number[];
  readonly dilation: number | number[];
  readonly groups: number;

  /** @param rank spatial axes where kernelSize is a number @param first whether the weight starts with outChannels */
  protected constructor(
    what: string,
    [inChannels, outChannels]: readonly [number, number],
    kernelSize: number | readonly number[],
    rank: number,
    options: ConvOptions,
    first: boolean,
  ) {
    this.groups = options.groups ?? 1;
    checkInteger(what, "inChannels", inChannels, 1);
    checkInteger(what, "outChannels", outChannels, 1);
    checkInteger(what, "groups", this.groups, 1);
    if (inChannels % this.groups !== 0 || outChannels % this.groups !== 0) {
      throw new ArgumentError(what, {
        reason: `${inChannels} and ${outChannels} channels do not divide into ${this.groups} groups`,
      });
    }
    this.kernelSize = sizesOf(what, "kernelSize", kernelSize, rank, 1);
    this.stride = listOf(what, "stride", options.stride ?? 1, 1);
    this.dilation = listOf(what, "dilation", options.dilation ?? 1, 1);
    this.padding = this.paddingOf(what, options.padding ?? 0);
    const [head, tail] = first ? [outChannels, inChannels] : [inChannels, outChannels];
    const shape = [head, tail / this.groups, ...this.kernelSize], bound = 1 / Math.sqrt(prod(shape.slice(1)));
    this.weight = uniformWeight(shape, bound);
    this.bias = options.bias ?? true ? uniformWeight([outChannels], bound) : undefined;
  }

  private paddingOf(what: string, padding: number | readonly number[] | string): number | number[] {
    const least = what.includes("Transpose") ? 0 : -Infinity;
    if (typeof padding !== "string") return listOf(what, "padding", padding, least);
    if (padding !== "same" || what.includes("Transpose")) {
      throw new ArgumentError(what, {
        reason: `padding is "${padding}", not a size${what.includes("Transpose") ? "" : ' and not "same"'}`,
      });
    }
    if ([this.stride].flat().some((s) => s !== 1)) {
      throw new ArgumentError(what, { reason: `padding "same" needs stride 1` });
    }
    return samePadding(this.kernelSize, this.dilation);
  }

  /** @throws {ShapeError} if the channels of `x` do not fit the weight */
  abstract call(x: Tensor): Tensor;
}

/**
 * Cross-correlation over the axes after the first two, as many as `kernelSize` has (2 for a number). Shape
 * `[N, inChannels, H, W]` to `[N, outChannels, H', W']`. Weight `[outChannels, inChannels / groups, ...kernelSize]`.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * new nn.Conv2d(1, 8, 3, { padding: 1 }).call(Tensor.zeros([2, 1, 28, 28])).shape; // [2, 8, 28, 28]
 * ```
 */
export class Conv2d extends Convolution {
  /** @throws {ArgumentError} for an unknown option, or channels that do not divide into the groups */
  constructor(
    inChannels: number,
    outChannels: number,
    kernelSize: number | readonly number[],
    options: ConvOptions = {},
  ) {
    checkOptions("make Conv2d", options, CONV_OPTIONS);
    super("make Conv2d", [inChannels, outChannels], kernelSize, 2, options, true);
  }

  override call(x: Tensor): Tensor {
    const { groups, stride, dilation, padding } = this;
    checkTensor("convolve", "x", x);
    return x.conv2d(this.weight, this.bias, { groups, stride, dilation, padding });
  }
}

/** Cross-correlation over one axis. Shape `[N, inChannels, L]` to `[N, outChannels, L']`. */
export class Conv1d extends Conv2d {
  constructor(inChannels: number, outChannels: number, kernelSize: number, options: ConvOptions = {}) {
    super(inChannels, outChannels, [kernelSize], options);
  }
}

/** Cross-correlation over three axes. Shape `[N, inChannels, D, H, W]` to `[N, outChannels, D', H', W']`. */
export class Conv3d extends Conv2d {
  constructor(
    inChannels: number,
    outChannels: number,
    kernelSize: number | readonly number[],
    options: ConvOptions = {},
  ) {
    super(inChannels, outChannels, sizesOf("make Conv3d", "kernelSize", kernelSize, 3, 1), options);
  }
}

/**
 * The transpose of {@linkcode Conv2d}: its gradient with respect to its input, as a layer. Weight
 * `[inChannels, outChannels / groups, ...kernelSize]`.
 */
export class ConvTranspose2d extends Convolution {
  readonly outputPadding: number | number[];

  /** @throws {ArgumentError} for an unknown option, or channels that do not divide into the groups */
  constructor(
    inChannels: number,
    outChannels: number,
    kernelSize: number | readonly number[],
    options: ConvTransposeOptions = {},
  ) {
    checkOptions("make ConvTranspose2d", options, [...CONV_OPTIONS, "outputPadding"]);
    super("make ConvTranspose2d", [inChannels, outChannels], kernelSize, 2, options, false);
    this.outputPadding = listOf("make ConvTranspose2d", "outputPadding", options.outputPadding ?? 0, 0);
  }

  override call(x: Tensor): Tensor {
    const { groups, stride, dilation, padding, outputPadding } = this;
    checkTensor("convolve (transposed)", "x", x);
    return x.convTranspose2d(this.weight, this.bias, {
      groups,
      stride,
      dilation,
      padding: padding as number,
      outputPadding,
    });
  }
}

/** The transpose of {@linkcode Conv1d}. */
export class ConvTranspose1d extends ConvTranspose2d {
  constructor(inChannels: number, outChannels: number, kernelSize: number, options: ConvTransposeOptions = {}) {
    super(inChannels, outChannels, [kernelSize], options);
  }
}

/** The transpose of {@linkcode Conv3d}. */
export class ConvTranspose3d extends ConvTranspose2d {
  constructor(
    inChannels: number,
    outChannels: number,
    kernelSize: number | readonly number[],
    options: ConvTransposeOptions = {},
  ) {
    super(inChannels, outChannels, sizesOf("make ConvTranspose3d", "kernelSize", kernelSize, 3, 1), options);
  }
}
