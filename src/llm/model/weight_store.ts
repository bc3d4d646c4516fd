/**
 * The weights of a model on a device: quantized ones stay scales and quants, sorted into planes when they are loaded, and
 * become numbers inside the kernel that reads them.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { DTypeError, FormatError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { showAs } from "../../helpers/text.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type BlockFormat, numbersOf, planesOf } from "../files/block_formats.ts";
import type { GgufTensor } from "../files/gguf.ts";
import { plainTensor } from "../files/llama2c.ts";
import {
  layoutOf,
  multipliesBytes,
  multipliesParts,
  productOfBytes,
  productOfParts,
  UNIT_ROWS,
  unitDType,
} from "./quantized_products.ts";

/** Planes of a weight: what they are in memory, and what of it stands for each. */
interface Planes {
  readonly memory: readonly Tensor[];
  readonly seen: readonly Tensor[];
}
const NO_PLANES: Planes = { memory: [], seen: [] };
function asTheyAre(...memory: Tensor[]): Planes {
  return { memory, seen: memory };
}

/** Computes planes, which lie in memory as products of the device read them. */
function realized(planes: readonly Tensor[], device: string, format: BlockFormat): Planes {
  const [m, blocks] = planes[0].shape, { laid, seen } = layoutOf(format);
  const isLaid = multipliesBytes(device, format, planes[0].ndim === 3 ? [m, blocks] : []);
  const memory = planes.map((x) => (isLaid ? laid(x) : x).contiguous());
  Tensor.realize([...memory]);
  return { memory, seen: isLaid ? memory.map(seen) : memory };
}

/** The product of `x` `[..., n]` and planes, or elements. */
function productOf(x: Tensor, planes: readonly Tensor[], device: string, format: BlockFormat): Tensor {
  const [m, blocks] = planes[0].shape;
  if (format.plain === undefined && multipliesBytes(device, format, planes[0].ndim === 3 ? [m, blocks] : [])) {
    return productOfBytes(x, planes, format);
  }
  const w = format.plain === undefined ? numbersOf(planes, format) : planes[0];
  const rows = prod(x.shape.slice(0, -1)), unit = rows < UNIT_ROWS ? undefined : unitDType(device, format);
  if (unit === undefined && multipliesParts(device, format, rows)) return productOfParts(x, w);
  if (unit === undefined) return x.matmul(w.cast(dtypes.float32).transpose(0, 1));
  return x.cast(unit).matmul(w.cast(unit).transpose(0, 1), { dtype: dtypes.float32 });
}

/** What is learned beside a weight `[m, n]`: a product of `[m, rank]` and `[rank, n]`, `scale` times. */
export interface Adapter {
  readonly a: Tensor;
  readonly b: Tensor;
  readonly scale: number;
}

/** One weight. */
export class Weight {
  static {
    showAs(Weight.prototype, ({ shape, format: { name } }) => `Weight [${shape.join(", ")}] ${name}`);
  }
  /** Row-major; the last axis is the one that products run along. */
  readonly shape: readonly number[];
  /** What is added to it. */
  adapter: Adapter | undefined = undefined;
  private source: GgufTensor;
  private held: Planes;
  /** What its planes are a part of. */
  private stack: WeightStack | undefined = undefined;

  /** Goes to `device` when it is realized. */
  constructor(source: GgufTensor, private readonly device: string) {
    this.shape = source.shape;
    this.source = source;
    // those of blocks are made when they are read
    this.held = source.format.plain === undefined ? NO_PLANES : asTheyAre(this.bytes());
  }
  private bytes(): Tensor {
    const raw = this.source.raw();
    return raw.device === this.device ? raw : raw.to(this.device);
  }
  /** The format of its blocks, or of its elements. */
  get format(): BlockFormat {
    return this.source.format;
  }
  /** Reads it. */
  realize(): void {
    if (this.format.plain !== undefined) void this.held.memory[0].realize();
    else this.sorting((planes) => this.held = realized(planes, this.device, this.format));
  }
  /** Does it come to the device when it is read, or is it there? */
  get isElsewhere(): boolean {
    return this.source.isMade === true || this.source.raw().device !== this.device;
  }
  /** What `use` makes of planes of bytes, or of elements, which are given back then. */
  sorting(use: (planes: readonly Tensor[]) => void): void {
    const isCopy = this.isElsewhere, there = this.bytes();
    if (isCopy) there.realize();
    use(this.format.plain === undefined ? planesOf(there, this.format) : [there]);
    if (isCopy) there.dispose();
  }
  /** Its planes are rows `[from, to)` of a stack's. */
  layIn(stack: WeightStack, from: number, to: number): void {
    this.stack = stack;
    const part = (x: Tensor) => x.at([from, to]);
    this.held = { memory: stack.planes.memory.map(part), seen: stack.planes.seen.map(part) };
  }
  /** Is it a part of any stack? */
  get isPart(): boolean {
    return this.stack !== undefined;
  }
  /** Is it still a part of this stack? */
  isIn(stack: WeightStack): boolean {
    return this.stack === stack;
  }
  /** Its elements, or the planes of its blocks, rows first. */
  get planes(): readonly Tensor[] {
    return this.held.seen;
  }
  /** What of it is on the device once it is realized: its planes, in whatever order. */
  get stored(): readonly Tensor[] {
    return this.held.memory;
  }
  /** Its elements, which can be trained: a part of a stack becomes a weight of its own. @throws {DTypeError} for blocks, which have none */
  get memory(): Tensor {
    const { format, name } = this.source;
    if (format.plain !== undefined) {
      if (this.stack !== undefined) {
        this.held = asTheyAre(this.held.memory[0].contiguous().realize());
        this.stack = undefined;
      }
      return this.held.memory[0];
    }
    throw new DTypeError("take the elements of a weight", {
      reason: `"${name}" is in blocks of ${format.name}; its parts are planes, its numbers values()`,
    });
  }
  /** Bytes on the device. */
  get nbytes(): number {
    return this.held.seen.reduce((n, x) => n + x.nbytes(), 0);
  }
  private numbers(planes: readonly Tensor[]): Tensor {
    const { format } = this.source;
    return format.plain === undefined ? numbersOf(planes, format) : planes[0].cast(dtypes.float32);
  }
  /** Float32 of its shape. Lazy. */
  values(): Tensor {
    return this.numbers(this.held.seen);
  }
  /** Some of the rows along its first axis: float32 `[...index, ...rest]`. Lazy. */
  rows(index: Tensor): Tensor {
    return this.numbers(this.held.seen.map((x) => x.at(index)));
  }
  /** `x` `[..., n]` times it, `[m, n]`: `[..., m]`. */
  product(x: Tensor): Tensor {
    return this.adapted(x, productOf(x, this.held.seen, this.device, this.format));
  }
  /** The product of `x`, of the product without what is added to it. */
  adapted(x: Tensor, y: Tensor): Tensor {
    const more = this.adapter;
    if (more === undefined) return y;
    return y.add(x.matmul(more.a.transpose(0, 1)).matmul(more.b.transpose(0, 1)).mul(more.scale));
  }
  /** Makes the adapter a part of it: its elements become float32. */
  merge(): void {
    if (this.adapter === undefined) return;
    const { a, b, scale } = this.adapter,
      sum = this.values().add(b.matmul(a).mul(scale)).detach().contiguous().realize();
    this.held = asTheyAre(sum);
    this.stack = undefined;
    this.adapter = undefined;
    this.source = plainTensor(this.source.name, sum, sum.device);
  }
  /** As a file has it, with its present values. */
  tensor(): GgufTensor {
    const { source } = this, [x] = this.held.memory;
    if (source.format.plain === undefined) return { ...source, load: () => this.values() };
    return { ...source, nbytes: x.nbytes(), raw: () => x, load: () => x };
  }
}

/** Weights `[m, n]` of one format, one below the other: one product gives those of all. */
class WeightStack {
  private held: Planes = NO_PLANES;
  constructor(private readonly parts: readonly Weight[], private readonly device: string) {}

  /** Planes of all rows, once it is realized. */
  get planes(): Planes {
    return this.held;
  }
  /** Reads its parts, whose planes are rows of its own from then on. */
  realize(): void {
    const { parts } = this,
      read = (all: readonly (readonly Tensor[])[]): void => {
        const next = parts[all.length];
        if (next !== undefined) return next.sorting((planes) => read([...all, planes]));
        const joined = all[0].map((_, i) => Tensor.cat(all.map((planes) => planes[i]), 0));
        const { format } = parts[0];
        if (format.plain === undefined) this.held = realized(joined, this.device, format);
        else this.held = asTheyAre(joined[0].contiguous().realize());
      };
    read([]);
    let at = 0;
    for (const w of parts) w.layIn(this, at, at += w.shape[0]);
  }
  /** Is any weight a part of it still? */
  get isUsed(): boolean {
    return this.parts.some((w) => w.isIn(this));
  }
  /** `x` `[..., n]` times each. */
  products(x: Tensor): Tensor[] {
    const { parts, held } = this;
    if (parts.some((w) => !w.isIn(this))) {
      if (!this.isUsed) this.held = NO_PLANES;
      return parts.map((w) => w.product(x));
    }
    const y = productOf(x, held.seen, this.device, parts[0].format);
    return y.split(parts.map((w) => w.shape[0]), -1).map((y, i) => parts[i].adapted(x, y));
  }
}

/** Weights by name; what is never asked for is never read. */
export class WeightStore {
  private readonly made = new Map<string, Weight>();
  private readonly stacks = new Map<string, WeightStack>();
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
  /**
   * The products of an `x` with several weights that must be there. Those of one format are put below each other when
   * they are read, and are one product; elements that are on the device already stay where they are.
   */
  products(names: readonly string[]): (x: Tensor) => Tensor[] {
    const weights = names.map((name) => this.get(name)), found: ((x: Tensor) => Tensor[])[] = [], order: number[] = [];
    for (const format of new Set(weights.map((w) => w.format))) {
      const of = weights.flatMap((w, i) => w.format === format ? [i] : []), parts = of.map((i) => weights[i]);
      order.push(...of);
      const isThere = format.plain !== undefined && !parts.every((w) => w.isElsewhere);
      if (isThere || parts.length === 1) found.push((x) => parts.map((w) => w.product(x)));
      else {
        const stack = new WeightStack(parts, this.device);
        this.stacks.set(of.map((i) => names[i]).join("+"), stack);
        found.push((x) => stack.products(x));
      }
    }
    return (x) => {
      const all = found.flatMap((f) => f(x));
      return weights.map((_, i) => all[order.indexOf(i)]);
    };
  }
  /** Those that were asked for, by name. */
  get all(): ReadonlyMap<string, Weight> {
    return this.made;
  }
  /** Reads all that was asked for. */
  realize(): void {
    // one after the other: the bytes of a file that were sorted go before the next ones come
    for (const stack of this.stacks.values()) stack.realize();
    for (const w of this.made.values()) if (!w.isPart) w.realize();
  }
  /** What is on the device, by name: planes of weights have numbers, and weights that are one product are one. */
  get memory(): ReadonlyMap<string, Tensor> {
    const out = new Map<string, Tensor>();
    const put = (name: string, planes: readonly Tensor[]): void =>
      planes.forEach((x, i) => out.set(planes.length === 1 ? name : `${name}.${i}`, x));
    for (const [name, w] of this.made) if (!w.isPart) put(name, w.stored);
    for (const [name, s] of this.stacks) if (s.isUsed) put(name, s.planes.memory);
    return out;
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
