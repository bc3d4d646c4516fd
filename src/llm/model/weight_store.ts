/**
 * The weights of a model on a device, as the file has them: quantized ones stay bytes, and become numbers inside the
 * kernel that reads them.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { FormatError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { dequantize } from "../files/block_formats.ts";
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
  private held: Tensor;

  /** Copies it to `device` when the tensor is realized. */
  constructor(source: GgufTensor, device: string) {
    const raw = source.raw();
    this.shape = source.shape;
    this.source = source;
    this.held = raw.device === device ? raw : raw.to(device);
  }
  /** Its memory: elements, or bytes of blocks. */
  get memory(): Tensor {
    return this.held;
  }
  private numbers(raw: Tensor): Tensor {
    return this.source.format.plain === undefined ? dequantize(raw, this.source.format) : raw.cast(dtypes.float32);
  }
  /** Float32 of its shape. Lazy. */
  values(): Tensor {
    return this.numbers(this.memory);
  }
  /** Some of the rows along its first axis: float32 `[...index, ...rest]`. Lazy. */
  rows(index: Tensor): Tensor {
    return this.numbers(this.memory.at(index));
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
    this.held = sum;
    this.adapter = undefined;
    this.source = plainTensor(this.source.name, sum, sum.device);
  }
  /** As a file has it, with its present values. */
  tensor(): GgufTensor {
    const { held, source } = this;
    return {
      ...source,
      nbytes: held.nbytes(),
      raw: () => held,
      load: () => source.format.plain === undefined ? this.values() : held,
    };
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
    Tensor.realize([...this.made.values()].map((w) => w.memory));
  }
  /** How many numbers they stand for. */
  get parameters(): number {
    return [...this.made.values()].reduce((n, w) => n + prod(w.shape), 0);
  }
  /** Bytes on the device, of each weight as large a part as `part` says. */
  nbytes(part: (name: string) => number = () => 1): number {
    return [...this.made].reduce((n, [name, w]) => n + part(name) * w.memory.nbytes(), 0);
  }
}
