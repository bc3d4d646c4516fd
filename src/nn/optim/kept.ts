/**
 * Numbers that are kept as tensors, so that a state dictionary holds them, and read as numbers: the host remembers what
 * it wrote, and reads a tensor only when something else has written it, as loading a checkpoint does.
 *
 * @module
 */
import { Tensor } from "../../tensor/tensor.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { unshaped } from "../../uop/graph/resolve.ts";

/** What a tensor is now: its node, and how often the memory that this names was written. */
function placeOf(t: Tensor): { readonly node: UOp; readonly version: number } {
  const u = unshaped(t.uop);
  return { node: u, version: u.op === Ops.BUFFER ? argOf(u, Ops.BUFFER).storage.version : 0 };
}

/** The numbers in a tensor, as long as they are known: nobody wrote it since. */
export class KnownNumbers {
  private numbers: readonly number[] = [];
  private place: ReturnType<typeof placeOf> | undefined;
  /** Of this tensor; nothing is known yet. */
  constructor(private readonly tensor: Tensor) {}

  /** Remembers what the tensor has now. */
  note(numbers: readonly number[]): void {
    this.numbers = [...numbers];
    this.place = placeOf(this.tensor);
  }
  /** What it has; read from it where that is not known, on devices that read at once. */
  read(): readonly number[] {
    const now = placeOf(this.tensor);
    if (this.place === undefined || now.node !== this.place.node || now.version !== this.place.version) {
      this.note(Array.from(this.tensor.dataSync(), Number));
    }
    return this.numbers;
  }
}

/** Numbers of the host as a float64 tensor, that no step of a device waits for. */
export class KeptNumbers {
  /** What a state dictionary holds. */
  readonly tensor: Tensor;
  private readonly known: KnownNumbers;
  /** Keeps these numbers, as a tensor of this shape. */
  constructor(numbers: readonly number[], private readonly shape: readonly number[] = [numbers.length]) {
    this.tensor = this.made(numbers);
    this.tensor.requiresGrad = false; // an optimizer of all that a tree has does not train it
    this.known = new KnownNumbers(this.tensor);
    this.known.note(numbers);
  }
  private made(numbers: readonly number[]): Tensor {
    // the host device: it has float64, and is read at once
    return new Tensor(Float64Array.from(numbers), { device: "JS" }).reshape(this.shape);
  }
  /** The numbers, row-major. */
  get values(): readonly number[] {
    return this.known.read();
  }
  set values(numbers: readonly number[]) {
    this.tensor.replace(this.made(numbers));
    this.known.note(numbers);
  }
}
