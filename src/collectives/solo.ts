/**
 * A world of one rank: programs that are written for many run without a launcher.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import {
  checkCollective,
  type Collective,
  type Communicator,
  DONE,
  type RangePair,
  type Work,
} from "./communicator.ts";

/** Of one process, which agrees with itself and has nobody to leave. */
export abstract class OneProcess implements Communicator {
  abstract readonly engine: string;
  abstract readonly size: number;
  readonly ranks: readonly number[] = [0];
  abstract start(collective: Collective, from: readonly Buffer[], to: readonly Buffer[]): Work;
  startGroup(collective: Collective, pairs: readonly RangePair[]): readonly Work[] {
    return pairs.map(({ from, to }) => this.start(collective, from, to));
  }
  agree(): Work {
    return DONE;
  }
  split(): Communicator[] {
    return [this];
  }
  abort(): void {}
  destroy(): void {}
}

/** One rank alone: every collective is a copy. */
export class SoloCommunicator extends OneProcess {
  readonly engine: string = "SOLO";
  readonly size: number = 1;

  start(collective: Collective, from: readonly Buffer[], to: readonly Buffer[]): Work {
    checkCollective(collective, from, to, this);
    if (collective.kind === "barrier" || from[0] === to[0]) return DONE;
    const [a] = from, [b] = to, { allocator } = b.device;
    const isSilent = "pairs" in collective && collective.pairs.length === 0;
    if (isSilent) b.copyIn(new Uint8Array(b.nbytes));
    else if (a.device.allocator === allocator && allocator.transfer !== undefined && a.nbytes > 0) {
      allocator.transfer(b.memory, b.offset, a.memory, a.offset, a.nbytes);
    } else b.copyIn(a.copyOut(new Uint8Array(a.nbytes)));
    return DONE;
  }
}
