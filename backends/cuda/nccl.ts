/**
 * The NCCL engine: each rank is a process with a card of its own. Collectives run on a stream of the communicator, after
 * what was queued on the card's, and beside what is queued there later, up to what waits for them. Nobody tells that a rank
 * died: who waits for the card polls events, and past a deadline gives the communicator up.
 *
 * @module
 */
import {
  checkCollective,
  checkSplit,
  type Collective,
  CollectiveError,
  type CollectiveSite,
  collectiveText,
  type Communicator,
  type Operation,
  opOn,
  type RangePair,
  type ReduceOp,
  type Work,
} from "../../src/collectives/communicator.ts";
import { pollAsync, pollUntil, sleepSync } from "../../src/collectives/deadline.ts";
import { endings } from "../../src/collectives/engines.ts";
import type { Buffer } from "../../src/device/buffer.ts";
import type { DType } from "../../src/dtype/dtype.ts";
import { DeviceError, DTypeError } from "../../src/helpers/errors.ts";
import { hash64, hashString } from "../../src/helpers/hash.ts";
import { rangeOf } from "../../src/helpers/math.ts";
import type { CudaContext } from "./cuda_context.ts";
import { CudaBlock } from "./cuda_memory.ts";
import { HostMemory } from "./driver.ts";
import { ncclErrorText, NcclResult, type NcclSymbols, nonblockingConfig } from "./nccl_library.ts";

/** ncclRedOp_t and ncclDataType_t. Bytes are what is moved; bools are bytes. */
const OPS: Readonly<Record<ReduceOp, number>> = { sum: 0, prod: 1, max: 2, min: 3 };
const BYTES = 1, WORDS = 5;
const TYPES: Readonly<Record<string, number>> = {
  int8: 0,
  uint8: 1,
  bool: 1,
  int32: 2,
  uint32: 3,
  int64: 4,
  uint64: WORDS,
  float16: 6,
  float32: 7,
  float64: 8,
  bfloat16: 9,
};
/**
 * How long a rank polls without a pause until the library has queued what it was asked for, which it does on a thread of its
 * own, and for the end of a collective: each rank has a card, and cores for it.
 */
const SPIN_MS = 0.5;
/** How long the library has to end what has failed: it says neither when that is done nor that it is not. */
const ENDING_MS = 500;
/** Bytes by which a rank tells the others where it is. */
const STATE_BYTES = 256;

/** What a communicator of NCCL is made of. */
export interface NcclOptions {
  readonly nccl: NcclSymbols;
  readonly context: CudaContext;
  /** The handle of the communicator. */
  readonly handle: bigint;
  readonly timeoutMs: number;
}

/** A collective that was queued. */
class NcclWork implements Work {
  /** When something on the card began to wait for it. */
  joinedMs: number | undefined;

  /** @param event is reached at its end; 0 once that was seen */
  constructor(private readonly owner: NcclCommunicator, readonly operation: Operation, private event: bigint) {}

  isDone(): boolean {
    if (this.event !== 0n && this.owner.isReached(this.operation, this.event)) this.event = 0n;
    return this.event === 0n;
  }
  wait(): void {
    pollUntil(() => this.isDone(), (waitedMs) => this.owner.checkLate(this.operation, waitedMs), SPIN_MS);
  }
  join(): void {
    if (this.isDone()) return;
    this.joinedMs = performance.now();
    this.owner.join(this, this.event);
  }
  done(): Promise<void> {
    return pollAsync(() => this.isDone(), (waitedMs) => this.owner.checkLate(this.operation, waitedMs));
  }
}

/** Communicators that have not ended, and whether the end of the program is watched. */
const living = new Set<NcclCommunicator>();
let isWatching = false;
/** Until when a thread of the library may be at work on the end of one that was given up. */
let endingUntilMs = 0;

/** Ranks with a card each. */
export class NcclCommunicator implements Communicator {
  readonly engine: string = "NCCL";
  readonly size: number;
  readonly ranks: readonly number[];
  private readonly stream: bigint;
  private readonly ready: bigint;
  /** All events of collectives, and those that no work waits for. */
  private readonly events: bigint[] = [];
  private readonly free: bigint[] = [];
  /** Communicators of some of the ranks, which end with this one. */
  private readonly parts: NcclCommunicator[] = [];
  /** Device memory for comparisons and for what ranks tell: the own part, then that of all. */
  private states = 0n;
  private sequence = 0;
  private failure: CollectiveError | undefined;
  /** What the card waits for, and nobody has seen the end of: the oldest first. */
  private readonly joined: NcclWork[] = [];
  private readonly guard = (): void => this.lookAtJoined();

  constructor(private readonly options: NcclOptions) {
    const { nccl, context, handle } = options, out = context.driver.out;
    context.enter();
    this.check(nccl.ncclCommCount(handle, out.bytes), "ncclCommCount");
    this.size = out.i32[0];
    this.check(nccl.ncclCommUserRank(handle, out.bytes), "ncclCommUserRank");
    this.ranks = [out.i32[0]];
    this.stream = context.newStream();
    this.ready = this.newEvent();
  }

  start(collective: Collective, from: readonly Buffer[], to: readonly Buffer[], site: CollectiveSite = {}): Work {
    if (this.failure !== undefined) throw this.failure;
    checkCollective(collective, from, to, this);
    const text = collectiveText(collective, from[0], site.shape);
    const operation = { sequence: ++this.sequence, text, line: site.line };
    if (site.isAgreed !== true || collective.kind === "barrier") this.compare(operation, String(from[0]?.size));
    if (collective.kind === "barrier" || from[0].size === 0) return new NcclWork(this, operation, 0n);
    return this.queued(operation, () => this.call(collective, from[0], to[0]));
  }

  startGroup(collective: Collective, pairs: readonly RangePair[], site: CollectiveSite = {}): readonly Work[] {
    if (site.isAgreed !== true || pairs.length < 2) {
      return pairs.map(({ from, to }) => this.start(collective, from, to, site));
    }
    if (this.failure !== undefined) throw this.failure;
    const { nccl } = this.options, first = collectiveText(collective, pairs[0].from[0], site.shape);
    for (const { from, to } of pairs) checkCollective(collective, from, to, this);
    const text = `${first}, and ${pairs.length - 1} more`,
      operation = { sequence: ++this.sequence, text, line: site.line };
    return [this.queued(operation, () => {
      this.check(nccl.ncclGroupStart(), "ncclGroupStart");
      for (const { from, to } of pairs) this.call(collective, from[0], to[0]);
      this.check(nccl.ncclGroupEnd(), "ncclGroupEnd");
    })];
  }

  agree(what: string, text: string, site: CollectiveSite = {}): void {
    if (this.failure !== undefined) throw this.failure;
    const named = text === "" ? what : `${what} (hash ${(hashString(text) >>> 0).toString(16)})`;
    this.compare({ sequence: ++this.sequence, text: named, line: site.line }, text);
  }

  split(colors: readonly number[], keys: readonly number[] = this.ranks): Communicator[] {
    const { nccl, context, handle } = this.options, [color] = colors, [key] = keys;
    if (nccl.ncclCommSplit === null) {
      throw new DeviceError("split a communicator", { device: context.name, reason: "NCCL has it from 2.18 on" });
    }
    checkSplit(colors, keys);
    this.agree("split", "");
    const made = new HostMemory(1);
    context.enter();
    this.check(nccl.ncclCommSplit(handle, color | 0, key | 0, made.bytes, 0n), "ncclCommSplit");
    waitForHandle(this.options, made);
    const part = new NcclCommunicator({ ...this.options, handle: made.words[0] });
    this.parts.push(part);
    return [part];
  }

  abort(reason: string): void {
    if (this.failure !== undefined) return;
    const { sequence } = this;
    this.failure = this.errorOf({ sequence, text: "abort", line: undefined }, reason);
    this.giveUp();
  }

  destroy(): void {
    if (this.failure !== undefined) return;
    this.agree("destroy", "");
    this.failure = this.errorOf({ sequence: this.sequence, text: "destroy", line: undefined }, "it was destroyed");
    this.release((nccl, handle) => nccl.ncclCommDestroy(handle));
  }

  /** Ends it with the program: after a success when what is queued is done, since others may wait for it. */
  finish(isSuccess: boolean): void {
    const { context } = this.options;
    try {
      if (isSuccess && this.failure === undefined && context.alive) {
        const last = this.newEvent(),
          operation = { sequence: this.sequence, text: "the end of the program", line: undefined };
        context.enter();
        context.record(last, this.stream);
        new NcclWork(this, operation, last).wait();
      }
    } catch { /* a card or a rank that has failed */ }
    this.abort("the program has ended");
  }

  /** Ends what may be under way. */
  private giveUp(): void {
    this.release((nccl, handle) => {
      if (nccl.ncclCommAbort(handle) === NcclResult.IN_PROGRESS) endingUntilMs = performance.now() + ENDING_MS;
    });
  }

  /** Ends parts, then the communicator, then what it used of the card. */
  private release(end: (nccl: NcclSymbols, handle: bigint) => void): void {
    const { nccl, context, handle } = this.options;
    living.delete(this);
    this.joined.length = 0;
    context.guards.delete(this.guard);
    for (const part of this.parts) part.abort("the communicator that it was split from has ended");
    if (!context.alive) return;
    context.enter();
    end(nccl, handle);
    const { cu } = context.driver;
    for (const event of this.events) cu.cuEventDestroy_v2(event);
    cu.cuStreamDestroy_v2(this.stream);
    if (this.states !== 0n) cu.cuMemFree_v2(this.states);
  }

  /** What kernels are queued from now on run after a collective; whoever waits for the card watches it. */
  join(work: NcclWork, event: bigint): void {
    const { context } = this.options;
    context.order(context.stream, event);
    this.joined.push(work);
    context.guards.add(this.guard);
  }

  /** Forgets what has ended, and throws where the oldest of the rest is past the deadline. */
  private lookAtJoined(): void {
    while (this.joined.length > 0 && this.joined[0].isDone()) this.joined.shift();
    const [oldest] = this.joined;
    if (oldest === undefined) this.options.context.guards.delete(this.guard);
    else this.checkLate(oldest.operation, performance.now() - oldest.joinedMs!);
  }

  /** Whether an event is reached; then it is kept for others. */
  isReached(operation: Operation, event: bigint): boolean {
    const { context } = this.options;
    if (this.failure !== undefined) throw this.failure;
    context.enter();
    if (context.isReached(event)) {
      this.free.push(event);
      return true;
    }
    this.isQueued(operation);
    return false;
  }

  /** Throws past the deadline. */
  checkLate(operation: Operation, waitedMs: number): void {
    const { timeoutMs } = this.options;
    if (waitedMs > timeoutMs) {
      this.fail(operation, `it was not done after ${timeoutMs / 1000} s: a rank is late or gone`);
    }
  }

  /** Gives the communicator up. */
  private fail(operation: Operation, reason: string): never {
    const failure = this.failure ?? this.errorOf(operation, reason);
    if (this.failure === undefined) {
      this.failure = failure;
      this.giveUp();
    }
    throw failure;
  }
  private errorOf({ sequence, text, line }: Operation, reason: string): CollectiveError {
    return new CollectiveError({ rank: this.ranks[0], size: this.size, collective: text, sequence, reason, line });
  }

  private check(code: number, what: string): void {
    if (code === NcclResult.SUCCESS || code === NcclResult.IN_PROGRESS) return;
    const { nccl, context: { name } } = this.options;
    throw new DeviceError(`call ${what} on ${name}`, { device: name, reason: ncclErrorText(nccl, code) });
  }

  /** Queues `call` on the stream of the communicator, after what the card has queued where it reads that. */
  private queued(operation: Operation, call: () => void, isAfterKernels = true): NcclWork {
    const { context } = this.options;
    context.enter();
    if (isAfterKernels) {
      context.record(this.ready);
      context.order(this.stream, this.ready);
    }
    call();
    pollUntil(() => this.isQueued(operation), (waitedMs) => this.checkLate(operation, waitedMs), SPIN_MS);
    const event = this.free.pop() ?? this.newEvent();
    context.record(event, this.stream);
    return new NcclWork(this, operation, event);
  }

  private newEvent(): bigint {
    const event = this.options.context.newEvent();
    this.events.push(event);
    return event;
  }

  /** Whether the library has queued what it was asked for: its calls return before that, the first ones long before. */
  private isQueued(operation: Operation): boolean {
    const { nccl, context, handle } = this.options, { out } = context.driver;
    const code = nccl.ncclCommGetAsyncError(handle, out.bytes) || out.i32[0];
    if (code !== NcclResult.SUCCESS && code !== NcclResult.IN_PROGRESS) this.fail(operation, ncclErrorText(nccl, code));
    return code === NcclResult.SUCCESS;
  }

  /** The address of a range of memory of this rank's card: no other card's can be read here. */
  private addressOf(buffer: Buffer): bigint {
    const { name } = this.options.context, block = buffer.memory;
    if (block instanceof CudaBlock && block.card === name) return block.address + BigInt(buffer.offset);
    const there = block instanceof CudaBlock ? block.card : buffer.device.name;
    throw new DeviceError("start a collective of cards", {
      device: there,
      reason:
        `ranks that NCCL joins give memory of their cards, this one of ${name}, and not of ${there}: t.to("${name}")`,
    });
  }

  private call(collective: Collective, from: Buffer, to: Buffer): void {
    const { nccl, handle } = this.options, { stream } = this, a = this.addressOf(from), b = this.addressOf(to);
    const count = BigInt(from.size), nbytes = BigInt(from.nbytes);
    switch (collective.kind) {
      case "allReduce": {
        const [type, op] = typeAndOp(from.dtype, collective.op);
        return this.check(nccl.ncclAllReduce(a, b, count, type, op, handle, stream), "ncclAllReduce");
      }
      case "reduceScatter": {
        const [type, op] = typeAndOp(from.dtype, collective.op);
        return this.check(nccl.ncclReduceScatter(a, b, BigInt(to.size), type, op, handle, stream), "ncclReduceScatter");
      }
      case "allGather":
        return this.check(nccl.ncclAllGather(a, b, nbytes, BYTES, handle, stream), "ncclAllGather");
      case "broadcast": {
        const code = nccl.ncclBroadcast(a, b, nbytes, BYTES, collective.root, handle, stream);
        return this.check(code, "ncclBroadcast");
      }
      case "allToAll": {
        const block = nbytes / BigInt(this.size), ranks = rangeOf(this.size);
        return this.exchange(
          ranks.map((r) => [r, a + BigInt(r) * block] as const),
          ranks.map((r) => [r, b + BigInt(r) * block] as const),
          block,
        );
      }
      case "permute": {
        const [rank] = this.ranks, target = collective.pairs.filter((p) => p[0] === rank);
        const source = collective.pairs.filter((p) => p[1] === rank);
        if (source.length === 0) to.copyIn(new Uint8Array(to.nbytes));
        return this.exchange(target.map((p) => [p[1], a] as const), source.map((p) => [p[0], b] as const), nbytes);
      }
      case "barrier":
        return;
    }
  }

  /** Sends and receives `nbytes` each, as one group. */
  private exchange(
    sends: readonly (readonly [rank: number, address: bigint])[],
    receives: readonly (readonly [rank: number, address: bigint])[],
    nbytes: bigint,
  ): void {
    const { nccl, handle } = this.options, { stream } = this;
    this.check(nccl.ncclGroupStart(), "ncclGroupStart");
    for (const [rank, at] of sends) this.check(nccl.ncclSend(at, nbytes, BYTES, rank, handle, stream), "ncclSend");
    for (const [rank, at] of receives) this.check(nccl.ncclRecv(at, nbytes, BYTES, rank, handle, stream), "ncclRecv");
    this.check(nccl.ncclGroupEnd(), "ncclGroupEnd");
  }

  /** Compares an operation among all ranks, and waits for that. */
  private compare(operation: Operation, more: string): void {
    const { nccl, handle } = this.options, text = `${operation.sequence} ${operation.text} ${more}`;
    const own = hash64(text), other = BigInt.asUintN(64, ~own), words = new HostMemory(2);
    words.words.set([own, other]);
    this.together(operation, words, words.bytes.length, (at) => {
      this.check(nccl.ncclAllReduce(at, at, 2n, WORDS, OPS.max, handle, this.stream), "ncclAllReduce");
      return at;
    }, words);
    if (words.words[0] === own && words.words[1] === other) return;
    this.fail(operation, `the ranks differ in what they call, or in its shapes or dtypes: ${this.tell(operation)}`);
  }

  /** What each rank is about. */
  private tell(operation: Operation): string {
    const { nccl, handle } = this.options, { size } = this;
    const own = new HostMemory(STATE_BYTES / 8), all = new HostMemory(size * STATE_BYTES / 8);
    const at = operation.line === undefined ? "" : ` at ${operation.line}`;
    new TextEncoder().encodeInto(`collective ${operation.sequence}, ${operation.text}${at}`, own.bytes);
    this.together(operation, own, STATE_BYTES, (from) => {
      const to = from + BigInt(STATE_BYTES);
      this.check(nccl.ncclAllGather(from, to, BigInt(STATE_BYTES), BYTES, handle, this.stream), "ncclAllGather");
      return to;
    }, all);
    return rangeOf(size).map((r) => {
      const said = all.bytes.subarray(r * STATE_BYTES, (r + 1) * STATE_BYTES);
      return `rank ${r}: ${new TextDecoder().decode(said).replace(/\0.*$/s, "")}`;
    }).join("; ");
  }

  /**
   * Brings bytes of the host to the card, calls, waits, and brings what is at the address that it gives back: no sooner,
   * since a copy to memory of the host that is not pinned waits in the driver, where there is no deadline.
   */
  private together(
    operation: Operation,
    given: HostMemory,
    nbytes: number,
    call: (address: bigint) => bigint,
    result: HostMemory,
  ): void {
    const { context } = this.options, { cu } = context.driver;
    context.enter();
    this.states ||= context.newMemory((this.size + 1) * STATE_BYTES);
    let at = 0n;
    this.queued(operation, () => {
      const { address } = given;
      context.check(cu.cuMemcpyHtoDAsync_v2(this.states, address, BigInt(nbytes), this.stream), "write to memory");
      at = call(this.states);
    }, false).wait();
    this.queued(operation, () => {
      const length = BigInt(result.bytes.length);
      context.check(cu.cuMemcpyDtoHAsync_v2(result.address, at, length, this.stream), "read from memory");
    }, false).wait();
  }
}

/** NCCL's numbers of a dtype and an operation. */
function typeAndOp(dtype: DType, op: ReduceOp): readonly [type: number, op: number] {
  const type = TYPES[dtype.name];
  if (type === undefined) {
    throw new DTypeError("reduce among cards", {
      dtypes: [dtype],
      reason: "NCCL has no such numbers: cast to float32 or int32",
    });
  }
  return [type, OPS[opOn(dtype, op)]];
}

/** Waits until a handle is there and its communicator ready. */
function waitForHandle({ nccl, context, timeoutMs }: Omit<NcclOptions, "handle">, made: HostMemory): void {
  const { out } = context.driver;
  let code: number = NcclResult.IN_PROGRESS;
  const isReady = (): boolean => {
    if (made.words[0] !== 0n) {
      context.enter();
      code = nccl.ncclCommGetAsyncError(made.words[0], out.bytes) || out.i32[0];
    }
    return code !== NcclResult.IN_PROGRESS;
  };
  pollUntil(isReady, (waitedMs) => {
    if (waitedMs <= timeoutMs) return;
    if (made.words[0] !== 0n) nccl.ncclCommAbort(made.words[0]);
    throw new DeviceError("join the other ranks by NCCL", {
      device: context.name,
      reason: `not all of them came in ${timeoutMs / 1000} s`,
    });
  });
  if (code === NcclResult.SUCCESS) return;
  throw new DeviceError("join the other ranks by NCCL", { device: context.name, reason: ncclErrorText(nccl, code) });
}

/** Ends communicators with the program, however it ends: NCCL's threads must not outlive its library, which goes with it. */
function endWithProgram(made: NcclCommunicator): void {
  living.add(made);
  if (isWatching) return;
  isWatching = true;
  const end = (isSuccess: boolean): void => {
    living.forEach((c) => c.finish(isSuccess));
    if (!isSuccess) sleepSync(Math.max(0, endingUntilMs - performance.now()));
  };
  endings.add(() => end(false));
  for (const kind of ["error", "unhandledrejection"]) {
    globalThis.addEventListener?.(kind, (event) => void (event.defaultPrevented || end(false)));
  }
  globalThis.addEventListener?.("unload", () => end(Deno.exitCode === 0));
}

/** Joins the ranks that have one id; the call of a rank returns when all have come. @throws {DeviceError} */
export function joinNccl(
  options: Omit<NcclOptions, "handle">,
  { rank, size, id }: { readonly rank: number; readonly size: number; readonly id: Uint8Array },
): NcclCommunicator {
  const { nccl, context } = options, made = new HostMemory(1);
  context.enter(); // of this thread: the call may not be one of another
  const code = nccl.ncclCommInitRankConfig(made.bytes, size, id as Uint8Array<ArrayBuffer>, rank, nonblockingConfig());
  if (code !== NcclResult.SUCCESS && code !== NcclResult.IN_PROGRESS) {
    throw new DeviceError("join the other ranks by NCCL", { device: context.name, reason: ncclErrorText(nccl, code) });
  }
  waitForHandle(options, made);
  const joined = new NcclCommunicator({ ...options, handle: made.words[0] });
  endWithProgram(joined);
  return joined;
}
