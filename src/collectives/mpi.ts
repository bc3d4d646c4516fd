/**
 * The MPI engine: ranks are processes, data is memory of the host. Each collective is compared among the ranks before its
 * data moves, so that what would hang is an error that says who called what; all waiting is polled, with a deadline.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import { hash64 } from "../helpers/hash.ts";
import {
  checkCollective,
  checkSplit,
  type Collective,
  CollectiveError,
  type CollectiveSite,
  collectiveText,
  type Communicator,
  DONE,
  type Operation,
  type RangePair,
  type Work,
} from "./communicator.ts";
import { pollAsync, pollUntil } from "./deadline.ts";
import { addressOfBytes, type HostRange, rangeToRead, rangeToWrite } from "./host_ranges.ts";
import { type MpiLibrary, outInts } from "./mpi_library.ts";
import type { MpiProgress } from "./mpi_progress.ts";
import { checkMpi, isRequestDone, type MpiRequest, newRequest, RequestPoster } from "./mpi_requests.ts";
import { RollCall, rollText } from "./mpi_roll_call.ts";

/** A rank that waits so long listens for others that give up; and how long one waits for answers, at most. */
const LISTEN_MS = 200, GRACE_MS = 2000;

/** A comparison under way: the greatest hash of all ranks, and the greatest complement, in place. */
interface Comparison {
  readonly words: BigUint64Array<ArrayBuffer>;
  readonly own: bigint;
  readonly request: MpiRequest;
}

/** Data that moves. */
interface Moving {
  readonly requests: readonly MpiRequest[];
  /** Brings what has come to where it belongs. */
  readonly finish: () => void;
  readonly ranges: readonly HostRange[];
}
const NOTHING: Moving = { requests: [], finish: () => {}, ranges: [] };

/** A collective from its comparison to its end. */
class MpiWork implements Work {
  state: "compared" | "moving" | "done" = "compared";
  /** What is under way: the library reads and writes its ranges, which must not be collected. */
  moving: Moving | undefined;

  /**
   * @param comparison absent where a whole schedule was compared
   * @param post starts moving data, and gives what is to be done at its end
   */
  constructor(
    private readonly owner: MpiCommunicator,
    readonly operation: Operation,
    readonly comparison: Comparison | undefined,
    readonly post: () => Moving,
  ) {}

  isDone(): boolean {
    if (this.state !== "done") this.owner.advance();
    return this.state === "done";
  }
  wait(): void {
    pollUntil(() => this.isDone(), (waitedMs) => this.owner.checkLate(this.operation, waitedMs));
  }
  join(): void {
    this.wait();
  }
  done(): Promise<void> {
    return pollAsync(() => this.isDone(), (waitedMs) => this.owner.checkLate(this.operation, waitedMs));
  }
}

/** What is about to be done; it is made text where it is compared, or goes wrong. */
function operationOf(
  sequence: number,
  collective: Collective,
  from: Buffer | undefined,
  { shape, line }: CollectiveSite,
): Operation {
  return {
    sequence,
    line,
    get text() {
      return collectiveText(collective, from, shape);
    },
  };
}

/** What a communicator of MPI is made of. */
export interface MpiOptions {
  readonly library: MpiLibrary;
  /** Handles of two communicators of the same ranks: for data, and for comparisons and roll calls. */
  readonly data: bigint;
  readonly control: bigint;
  /** Milliseconds that a rank waits for others, at most. */
  readonly timeoutMs: number;
  /** The most elements of one call of the library; for tests. */
  readonly most?: number;
  /** What moves data while the program computes. */
  readonly progress?: MpiProgress;
}

/** Ranks of an MPI program, this process one of them. */
export class MpiCommunicator implements Communicator {
  readonly engine: string = "MPI";
  readonly size: number;
  readonly ranks: readonly number[];
  private readonly rank: number;
  private readonly roll: RollCall;
  private queue: MpiWork[] = [];
  /** Communicators of some of the ranks, which end with this one. */
  private readonly parts: MpiCommunicator[] = [];
  private sequence = 0;
  private failure: CollectiveError | undefined;

  constructor(private readonly options: MpiOptions) {
    const { library, data, control } = options, { symbols, handles } = library, out = outInts();
    for (const group of [data, control]) {
      checkMpi(library, symbols.MPI_Comm_set_errhandler(group, handles.errorsReturn), "MPI_Comm_set_errhandler");
    }
    checkMpi(library, symbols.MPI_Comm_size(data, out), "MPI_Comm_size");
    this.size = out[0];
    checkMpi(library, symbols.MPI_Comm_rank(data, out), "MPI_Comm_rank");
    this.rank = out[0];
    this.ranks = [this.rank];
    this.roll = new RollCall(library, control, this.rank, this.size);
  }

  /** What has gone wrong, if something has. */
  get error(): CollectiveError | undefined {
    return this.failure;
  }

  start(collective: Collective, from: readonly Buffer[], to: readonly Buffer[], site: CollectiveSite = {}): Work {
    if (this.failure !== undefined) throw this.failure;
    checkCollective(collective, from, to, this);
    const operation = operationOf(++this.sequence, collective, from[0], site);
    const compares = site.isAgreed !== true || collective.kind === "barrier";
    const comparison = compares ? this.compare(operation, String(from[0]?.size)) : undefined;
    const work = new MpiWork(this, operation, comparison, () => this.move(collective, from[0], to[0]));
    this.queue.push(work);
    this.advance();
    return work;
  }

  startGroup(collective: Collective, pairs: readonly RangePair[], site?: CollectiveSite): readonly Work[] {
    return pairs.map(({ from, to }) => this.start(collective, from, to, site));
  }

  /** Posts what moves the data of a collective. */
  private move(collective: Collective, from: Buffer | undefined, to: Buffer | undefined): Moving {
    if (from === undefined || to === undefined) return NOTHING;
    const reduces = "op" in collective, source = rangeToRead(from, reduces);
    const [target, finish] = rangeToWrite(to, reduces), { library, data: group, most } = this.options;
    const poster = new RequestPoster({ library, group, rank: this.rank, size: this.size, most }, source, target);
    return { requests: poster.post(collective), finish, ranges: [source, target] };
  }

  agree(what: string, text: string, site: CollectiveSite = {}): Work {
    if (this.failure !== undefined) throw this.failure;
    const named = text === "" ? what : `${what} (hash ${hash64(text).toString(16)})`;
    const operation = { sequence: ++this.sequence, text: named, line: site.line };
    const work = new MpiWork(this, operation, this.compare(operation, text), () => NOTHING);
    this.queue.push(work);
    work.wait();
    return DONE;
  }

  split(colors: readonly number[], keys: readonly number[] = this.ranks): Communicator[] {
    const [color] = colors, [key] = keys;
    checkSplit(colors, keys);
    this.agree("split", ""); // all are there: what follows does not wait
    const made = (group: bigint): bigint => {
      const out = newRequest(), { library } = this.options;
      checkMpi(library, library.symbols.MPI_Comm_split(group, color | 0, key | 0, out), "MPI_Comm_split");
      return out[0];
    };
    const { data, control } = this.options;
    const part = new MpiCommunicator({ ...this.options, data: made(data), control: made(control) });
    this.parts.push(part);
    return [part];
  }

  abort(reason: string): void {
    const { queue: [first], sequence } = this;
    this.failure ??= this.errorOf(first?.operation ?? { sequence, text: "abort", line: undefined }, reason);
    this.queue = [];
    this.options.progress?.note(this, false);
  }

  destroy(): void {
    const { library: { symbols, handles }, data, control } = this.options;
    if (this.failure !== undefined) return;
    this.agree("destroy", "");
    this.close("its communicator was destroyed");
    for (const group of [data, control]) {
      if (group !== handles.world) symbols.MPI_Comm_free(new BigUint64Array([group]));
    }
  }

  /** Takes back what waits for the word of others, here and in what was split from this: the library wants it before its end. */
  private close(reason: string): void {
    this.abort(reason);
    for (const part of this.parts) part.close("the communicator that it was split from has ended");
    this.roll.close();
  }

  /** Moves everything on that can move; in the order of the calls, which is the same on all ranks. */
  advance(): void {
    if (this.failure !== undefined) throw this.failure;
    let mayPost = true, isAnyDone = false;
    for (const work of this.queue) {
      try {
        this.step(work, mayPost);
      } catch (error) {
        if (!(error instanceof CollectiveError)) this.fail(work.operation, (error as Error).message);
        throw error;
      }
      mayPost &&= work.state !== "compared";
      isAnyDone ||= work.state === "done";
    }
    if (isAnyDone) this.queue = this.queue.filter((w) => w.state !== "done");
    this.options.progress?.note(this, this.queue.some((w) => w.state === "moving"));
  }

  private step(work: MpiWork, mayPost: boolean): void {
    const { library } = this.options, { comparison } = work;
    if (work.state === "compared") {
      if (!mayPost || (comparison !== undefined && !isRequestDone(library, comparison.request))) return;
      if (comparison !== undefined) this.checkEqual(work.operation, comparison);
      work.moving = work.post();
      work.state = "moving";
    }
    if (work.state !== "moving" || !work.moving!.requests.every((r) => isRequestDone(library, r))) return;
    work.state = "done";
    work.moving!.finish();
    work.moving = undefined;
  }

  /** Throws past the deadline, and where another rank has given up. */
  checkLate(operation: Operation, waitedMs: number): void {
    if (waitedMs < Math.min(LISTEN_MS, this.options.timeoutMs)) return;
    const { timeoutMs } = this.options;
    if (waitedMs > timeoutMs) this.fail(operation, `it was not done after ${timeoutMs / 1000} s`);
    this.roll.listen();
    if (this.roll.hasHeard()) this.fail(operation, "another rank gave up");
  }

  /** Begins to compare an operation among all ranks. */
  private compare({ sequence, text }: Operation, more: string): Comparison {
    const { library, control } = this.options, { symbols, handles } = library;
    const own = hash64(`${sequence} ${text} ${more}`), request = newRequest();
    const words = new BigUint64Array(new ArrayBuffer(16));
    words.set([own, BigInt.asUintN(64, ~own)]);
    const address = addressOfBytes(new Uint8Array(words.buffer));
    const code = symbols.MPI_Iallreduce(handles.inPlace, address, 2, handles.uint64, handles.max, control, request);
    checkMpi(library, code, "MPI_Iallreduce");
    return { words, own, request };
  }

  private checkEqual(operation: Operation, { words, own }: Comparison): void {
    if (words[0] === own && words[1] === BigInt.asUintN(64, ~own)) return;
    this.fail(operation, "the ranks differ in what they call, or in its shapes or dtypes");
  }

  /** Breaks this communicator, after a roll call. */
  private fail(operation: Operation, reason: string): never {
    const { sequence, text, line } = operation, at = line === undefined ? "" : ` at ${line}`;
    let states = "";
    try {
      const grace = Math.max(LISTEN_MS, Math.min(GRACE_MS, this.options.timeoutMs));
      states = rollText(this.roll.call(`collective ${sequence}, ${text}${at}`, grace));
    } catch (error) {
      states = `the other ranks cannot be asked (${(error as Error).message})`;
    }
    this.queue = [];
    this.options.progress?.note(this, false);
    throw this.failure = this.errorOf(operation, `${reason}: ${states}`);
  }

  private errorOf({ sequence, text, line }: Operation, reason: string): CollectiveError {
    return new CollectiveError({ rank: this.rank, size: this.size, collective: text, sequence, reason, line });
  }
}
