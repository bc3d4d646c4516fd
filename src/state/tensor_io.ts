/**
 * A tensor of bytes as a file that is read and written in turn.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { checkChoice, checkInteger, describe } from "../helpers/options.ts";
import { Tensor } from "../tensor/tensor.ts";
import { checkBytes } from "./source.ts";

/** Where {@linkcode TensorIO.seek} counts from. */
export type Whence = "start" | "current" | "end";

/**
 * Reads and writes a uint8 tensor of one axis as a file: each read moves on by what was read. Of a tensor of a file only
 * what is asked for is read.
 *
 * ```ts
 * import { state, Tensor } from "../../mod.ts";
 * const file = new state.TensorIO(new Tensor(new Uint8Array([1, 2, 3, 4])));
 * file.seek(-2, "end");
 * console.log([...await file.read()]); // [3, 4]
 * ```
 */
export class TensorIO {
  private position = 0;

  /** @throws {ArgumentError} unless the tensor is uint8 with one axis */
  constructor(readonly tensor: Tensor) {
    if (!(tensor instanceof Tensor) || tensor.dtype !== dtypes.uint8 || tensor.ndim !== 1) {
      throw new ArgumentError("read a tensor as a file", { reason: "it takes a uint8 tensor with one axis" });
    }
  }
  /** Bytes in all. */
  get size(): number {
    return this.tensor.shape[0];
  }
  /** Where the next read starts. */
  tell(): number {
    return this.position;
  }
  /** Moves to `offset` from the start, from here or from the end; returns the new place, which is never negative. */
  seek(offset: number, whence: Whence = "start"): number {
    checkInteger("seek", "offset", offset);
    checkChoice("seek", "whence", whence, ["start", "current", "end"]);
    const from = whence === "start" ? 0 : whence === "current" ? this.position : this.size;
    return this.position = Math.max(0, from + offset);
  }
  /** The next `n` bytes, or all that are left: fewer at the end. */
  async read(n: number = Infinity): Promise<Uint8Array> {
    if (!Number.isInteger(n) && n !== Infinity) {
      throw new ArgumentError("read bytes", { reason: `n must be an integer, not ${describe(n)}` });
    }
    const start = Math.min(this.position, this.size), stop = Math.min(this.size, start + Math.max(0, n));
    this.position = stop;
    return start === stop ? new Uint8Array(0) : await this.tensor.shrink([[start, stop]]).data() as Uint8Array;
  }
  /** Reads into `out`; returns how many bytes there were. */
  async readinto(out: Uint8Array): Promise<number> {
    const bytes = await this.read(checkBytes("read into bytes", out).length);
    out.set(bytes);
    return bytes.length;
  }
  /** Writes bytes into the tensor, lazily; returns how many fit. */
  write(bytes: Uint8Array): number {
    checkBytes("write bytes", bytes);
    const start = Math.min(this.position, this.size), n = Math.min(bytes.length, this.size - start);
    if (n > 0) {
      this.tensor.setAt([[start, start + n]], new Tensor(bytes.subarray(0, n), { device: this.tensor.device }));
    }
    this.position = start + n;
    return n;
  }
}
