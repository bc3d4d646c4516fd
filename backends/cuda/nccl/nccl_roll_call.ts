/**
 * What ranks tell each other of what they are about, to compare it: each a hash and a text of {@linkcode SAID_BYTES}, through
 * pinned memory and memory of the card. Several comparisons can be under way.
 *
 * @module
 */
import { hash64 } from "../../../src/helpers/hash.ts";
import { rangeOf } from "../../../src/helpers/math.ts";
import type { CudaContext } from "../cuda_context.ts";

/** What a rank says: 8 bytes of hash, then text, cut where it is longer. */
export const SAID_BYTES = 256;
const HASH_BYTES = 8;
/** Comparisons that can be under way. */
const PLACES = 8;

/** Where one comparison is: what this rank says, then what all say, in host memory and on the card. */
export interface RollCallPlace {
  readonly index: number;
  /** Of the own part; what all say is behind it. */
  readonly host: bigint;
  readonly card: bigint;
}

/** The memory of comparisons of one communicator. */
export class NcclRollCall {
  private host = 0n;
  private card = 0n;
  private bytes = new Uint8Array();
  private next = 0;

  constructor(private readonly context: CudaContext, private readonly size: number) {}

  /** Bytes of a place. */
  private get stride(): number {
    return (this.size + 1) * SAID_BYTES;
  }

  /** The place after that of the last comparison; it may be of one under way, {@linkcode PLACES} ago. */
  take(): RollCallPlace {
    const { context, stride } = this;
    if (this.host === 0n) {
      ({ address: this.host, bytes: this.bytes } = context.newPinned(PLACES * stride));
      this.card = context.newMemory(PLACES * stride);
    }
    const index = this.next, at = BigInt(index * stride);
    this.next = (index + 1) % PLACES;
    return { index, host: this.host + at, card: this.card + at };
  }

  private part({ index }: RollCallPlace, part: number): Uint8Array {
    const at = index * this.stride + part * SAID_BYTES;
    return this.bytes.subarray(at, at + SAID_BYTES);
  }

  /** Says it: `text` is what is compared, `told` what errors tell. */
  say(place: RollCallPlace, text: string, told: string): void {
    const own = this.part(place, 0);
    own.fill(0);
    new DataView(own.buffer, own.byteOffset).setBigUint64(0, BigInt.asUintN(64, hash64(text)), true);
    new TextEncoder().encodeInto(told, own.subarray(HASH_BYTES));
  }

  /** What each rank told, where they differ; undefined where all have said the same. */
  difference(place: RollCallPlace): string | undefined {
    const hashOf = (part: number): bigint => {
      const { buffer, byteOffset } = this.part(place, part);
      return new DataView(buffer, byteOffset).getBigUint64(0, true);
    };
    const own = hashOf(0), ranks = rangeOf(this.size);
    if (ranks.every((r) => hashOf(r + 1) === own)) return undefined;
    const toldBy = (r: number): string =>
      new TextDecoder().decode(this.part(place, r + 1).subarray(HASH_BYTES)).replace(/\0.*$/s, "");
    return ranks.map((r) => `rank ${r}: ${toldBy(r)}`).join("; ");
  }

  /** Gives the memory up. The context has been entered. */
  release(): void {
    const { cu } = this.context.driver;
    if (this.host === 0n) return;
    cu.cuMemFreeHost(this.host);
    cu.cuMemFree_v2(this.card);
    this.host = this.card = 0n;
    this.bytes = new Uint8Array();
  }
}
