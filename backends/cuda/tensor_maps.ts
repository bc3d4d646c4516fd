/**
 * Arguments that are made of the address of a buffer: how the copy engine sees it. They are encoded by the driver, once for
 * each address, and kept.
 *
 * @module
 */
import { MAP_ALIGN, MAP_BYTES, type ProgramMap } from "../../src/renderer/renderer.ts";
import type { CudaContext } from "./cuda_context.ts";
import { HostMemory } from "./driver.ts";

/** CUtensorMapDataType, by bytes of an element: bits are copied as they are. */
const TYPES: Readonly<Record<number, number>> = { 1: 0, 2: 1, 4: 2, 8: 4 };
/** No interleaving, rows of 128 bytes swizzled, 256 bytes into the L2 at a time, zeros outside. */
const INTERLEAVE = 0, SWIZZLE = 3, PROMOTION = 3, FILL = 0;
/** Addresses of a buffer whose maps are kept. */
const MOST_KEPT = 64;

/** Words of a map. */
const WORDS = MAP_BYTES / 8;

/** One map of a program. */
export class TensorMap {
  private readonly sizes: BigUint64Array<ArrayBuffer>;
  private readonly strides: BigUint64Array<ArrayBuffer>;
  private readonly box: Uint32Array<ArrayBuffer>;
  private readonly steps: Uint32Array<ArrayBuffer>;
  private readonly known = new Map<bigint, BigUint64Array<ArrayBuffer>>();
  private readonly scratch: HostMemory = new HostMemory(WORDS + MAP_ALIGN / 8);

  constructor(private readonly context: CudaContext, private readonly program: string, readonly of: ProgramMap) {
    const { map: { sizes, strides, box }, dtype: { itemsize } } = of;
    this.sizes = BigUint64Array.from(sizes, BigInt);
    this.strides = BigUint64Array.from(strides.slice(1), (n) => BigInt(n * itemsize));
    this.box = Uint32Array.from(box);
    this.steps = new Uint32Array(box.length).fill(1);
  }

  /** The map of a buffer at this address. */
  at(address: bigint): BigUint64Array<ArrayBuffer> {
    let made = this.known.get(address);
    if (made !== undefined) return made;
    if (this.known.size >= MOST_KEPT) this.known.clear();
    this.known.set(address, made = this.encode(address));
    return made;
  }

  private encode(address: bigint): BigUint64Array<ArrayBuffer> {
    const { context, scratch, sizes, strides, box, steps, of: { map, dtype, slot } } = this;
    const first = Number((BigInt(MAP_ALIGN) - scratch.address % BigInt(MAP_ALIGN)) % BigInt(MAP_ALIGN)) / 8;
    const words = scratch.words.subarray(first, first + WORDS);
    const code = context.driver.cu.cuTensorMapEncodeTiled!(
      words,
      TYPES[dtype.itemsize],
      sizes.length,
      address + BigInt(map.offset * dtype.itemsize),
      sizes,
      strides,
      box,
      steps,
      INTERLEAVE,
      SWIZZLE,
      PROMOTION,
      FILL,
    );
    context.check(code, `describe buffer ${slot} of kernel ${this.program} (${dtype}, ${map}) to the copy engine`);
    return words.slice();
  }
}
