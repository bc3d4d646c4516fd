/**
 * The weights of a model on a device: quantized ones stay scales and quants, sorted into planes when they are loaded, and
 * become numbers inside the kernel that reads them.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { DTypeError, FormatError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { numbersOf, planesOf } from "../files/block_formats.ts";
import type { GgufTensor } from "../files/gguf.ts";
import { plainTensor } from "../files/llama2c.ts";

/** What is learned beside a weight `[m, n]`: a product of `[m, rank]` and `[rank, n]`, `scale` times. */
export interface Adapter {
  readonly a: Tensor;
  readonly b: Tensor;
  readonly scale: number;
}

/** One weight. */
export class Weight {
  /** Row-major; the last axis is the one that products run along. */
  readonly shape: readonly number[];
  /** What is added to it. */
  adapter: Adapter | undefined = undefined;
  private source: GgufTensor;
  private held: readonly Tensor[];

  /** Goes to `device` when its memory is realized. */
  constructor(source: GgufTensor, device: string) {
    const raw = source.raw(), there = raw.device === device ? raw : raw.to(device), { format } = source;
    this.shape = source.shape;
    this.source = source;
    this.held = format.plain === undefined ? planesOf(there, format).map((x) => x.contiguous()) : [there];
  }
  /** What is on the device: its elements, or the planes of its blocks, rows first. */
  get planes(): readonly Tensor[] {
    return this.held;
  }
  /** Its elements, which can be trained. @throws {DTypeError} for blocks, which have none */
  get memory(): Tensor {
    const { format, name } = this.source;
    if (format.plain !== undefined) return this.held[0];
    throw new DTypeError("take the elements of a weight", {
      reason: `"${name}" is in blocks of ${format.name}; its parts are planes, its numbers values()`,
    });
  }
  /** Bytes on the device. */
  get nbytes(): number {
    return this.held.reduce((n, x) => n + x.nbytes(), 0);
  }
  private numbers(planes: readonly Tensor[]): Tensor {
    const { format } = this.source;
    return format.plain === undefined ? numbersOf(planes, format) : planes[0].cast(dtypes.float32);
  }
  /** Float32 of its shape. Lazy. */
  values(): Tensor {
    return this.numbers(this.held);
  }
  /** Some of the rows along its first axis: float32 `[...index, ...rest]`. Lazy. */
  rows(index: Tensor): Tensor {
    return this.numbers(this.held.map((x) => x.at(index)));
  }
  /** `x` `[..., n]` times it, `[m, n]`: `[..., m]`. */
  product(x: Tensor): Tensor {
    const y = x.matmul(this.values().transpose(0, 1)), more = this.adapter;
    if (more === undefined) return y;
    return y.add(x.matmul(more.a.transpose(0, 1)).matmul(more.b.transpose(0, 1)).mul(more.scale));
  }
  /** Makes the adapter a part of it: its elements become float32. */
  merge(): void {
    if (this.adapter === undefined) return;
    const { a, b, scale } = this.adapter,
      sum = this.values().add(b.matmul(a).mul(scale)).detach().contiguous().realize();
    this.held = [sum];
    this.adapter = undefined;
    this.source = plainTensor(this.source.name, sum, sum.device);
  }
  /** As a file has it, with its present values. */
  tensor(): GgufTensor {
    const { source } = this, [x] = this.held;
    if (source.format.plain === undefined) return { ...source, load: () => this.values() };
    return { ...source, nbytes: x.nbytes(), raw: () => x, load: () => x };
  }
}

/** Weights by name; what is never asked for is never read. */
export class WeightStore {
  private readonly made = new Map<string, Weight>();
  constructor(
    private readonly tensors: ReadonlyMap<string, GgufTensor>,
    readonly device: string,
    private readonly file: string,
  ) {}

  /** A weight that may be missing. @throws {FormatError} if it is there and has another shape */
  maybe(name: string, shape?: readonly number[]): Weight | undefined {
    const source = this.tensors.get(name);
    if (source === undefined) return undefined;
    if (shape !== undefined && shape.join() !== source.shape.join()) {
      throw new FormatError("load", {
        file: this.file,
        reason: `its tensor "${name}" has shape [${source.shape.join(", ")}], not [${shape.join(", ")}]`,
      });
    }
    let weight = this.made.get(name);
    if (weight === undefined) this.made.set(name, weight = new Weight(source, this.device));
    return weight;
  }
  /** A weight that must be there. @throws {FormatError} naming it */
  get(name: string, shape?: readonly number[]): Weight {
    const weight = this.maybe(name, shape);
    if (weight === undefined) throw new FormatError("load", { file: this.file, reason: `it has no tensor "${name}"` });
    return weight;
  }
  /** Those that were asked for, by name. */
  get all(): ReadonlyMap<string, Weight> {
    return this.made;
  }
  /** Reads all that was asked for. */
  realize(): void {
    // one after the other: the bytes of a file that were sorted go before the next ones come
    for (const w of this.made.values()) Tensor.realize([...w.planes]);
  }
  /** How many numbers they stand for. */
  get parameters(): number {
    return [...this.made.values()].reduce((n, w) => n + prod(w.shape), 0);
  }
  /** Bytes on the device, of each weight as large a part as `part` says. */
  nbytes(part: (name: string) => number = () => 1): number {
    return [...this.made].reduce((n, [name, w]) => n + part(name) * w.nbytes, 0);
  }
}
