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
} from "../../../src/collectives/communicator.ts";
import { pollAsync, pollUntil, sleepSync } from "../../../src/collectives/deadline.ts";
import { endings } from "../../../src/collectives/engines.ts";
import type { Buffer } from "../../../src/device/buffer.ts";
import type { DType } from "../../../src/dtype/dtype.ts";
import { DeviceError, DTypeError } from "../../../src/helpers/errors.ts";
import { hashString } from "../../../src/helpers/hash.ts";
import { rangeOf } from "../../../src/helpers/math.ts";
import type { CudaContext, GraphShare, SharedGraph } from "../cuda_context.ts";
import { CudaBlock } from "../cuda_memory.ts";
import { HostMemory } from "../driver.ts";
import { ncclErrorText, NcclResult, type NcclSymbols, nonblockingConfig } from "./nccl_library.ts";
import { NcclRollCall, SAID_BYTES } from "./nccl_roll_call.ts";

/** ncclRedOp_t and ncclDataType_t. Bytes are what is moved; bools are bytes. */
const OPS: Readonly<Record<ReduceOp, number>> = { sum: 0, prod: 1, max: 2, min: 3 };
const BYTES = 1;
const TYPES: Readonly<Record<string, number>> = {
  int8: 0,
  uint8: 1,
  bool: 1,
  int32: 2,
  uint32: 3,
  int64: 4,
  uint64: 5,
  float16: 6,
  float32: 7,
  float64: 8,
  bfloat16: 9,
};
/**
 * How long a rank polls without a pause until the library has queued what it was asked for, which it does on a thread of its
 * own, and for the end of a collective: each rank has a card, and cores for it, and a pause is a good part of what it waits.
 */
const SPIN_MS = 20;
/** How long the library has to end what has failed: it says neither when that is done nor that it is not. */
const ENDING_MS = 500;

/** What a communicator of NCCL is made of. */
export interface NcclOptions {
  readonly nccl: NcclSymbols;
  readonly context: CudaContext;
  /** The handle of the communicator. */
  readonly handle: bigint;
  readonly timeoutMs: number;
}

/** A collective that was queued, or a graph of them. */
class NcclWork implements Work {
  /** When something on the card began to wait for it. */
  joinedMs: number | undefined;

  /**
   * @param event is reached at its end; 0 once that was seen
   * @param ended is called then
   */
  constructor(
    private readonly owner: NcclCommunicator,
    readonly operation: Operation,
    private event: bigint,
    private readonly ended?: () => void,
  ) {}

  isDone(): boolean {
    if (this.event !== 0n && this.owner.isReached(this.operation, this.event)) {
      this.event = 0n;
      this.ended?.();
    }
    return this.event === 0n;
  }
  wait(): void {
    pollUntil(() => this.isDone(), (waitedMs) => this.owner.checkLate(this.operation, waitedMs), SPIN_MS);
  }
  join(): void {
    const { event } = this;
    if (this.owner.isCapturing) {
      this.event = 0n; // the graph tells of its end
      this.owner.joinCaptured(event);
    } else if (!this.isDone()) this.owner.join(this, event);
  }
  done(): Promise<void> {
    return pollAsync(() => this.isDone(), (waitedMs) => this.owner.checkLate(this.operation, waitedMs));
  }
}

/** Collectives of a communicator in a graph. */
class CapturedCollectives implements GraphShare {
  /** Those of one run. */
  readonly operations: Operation[] = [];
  /** These as one, once it has run. */
  private all: Operation | undefined;

  constructor(private readonly owner: NcclCommunicator, readonly graph: SharedGraph) {}

  before(): void {
    this.owner.beforeGraph();
  }
  after(): void {
    this.owner.afterGraph(this.all ??= this.together());
  }
  private together(): Operation {
    const { operations: [{ sequence, text, line }, ...more] } = this;
    const others = more.length === 0 ? "" : `, and ${more.length} more`;
    return { sequence, text: `a graph with ${text}${others}`, line };
  }
  end(): void {
    this.owner.captured.delete(this);
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
  private readonly rollCall: NcclRollCall;
  /** By place, the last comparison, and what it queues as a graph, which takes the host a twentieth of the time. */
  private readonly comparisons: NcclWork[] = [];
  private readonly graphs: { readonly template: bigint; readonly executable: bigint }[] = [];
  /** What graphs have of it: they end before it does. */
  readonly captured: Set<CapturedCollectives> = new Set();
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
    this.rollCall = new NcclRollCall(context, this.size);
  }

  start(collective: Collective, from: readonly Buffer[], to: readonly Buffer[], site: CollectiveSite = {}): Work {
    if (this.failure !== undefined) throw this.failure;
    checkCollective(collective, from, to, this);
    const text = collectiveText(collective, from[0], site.shape);
    const operation = { sequence: ++this.sequence, text, line: site.line };
    if (site.isAgreed !== true || collective.kind === "barrier") this.compare(operation, String(from[0]?.size)).wait();
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

  agree(what: string, text: string, site: CollectiveSite = {}): Work {
    if (this.failure !== undefined) throw this.failure;
    const named = text === "" ? what : `${what} (hash ${(hashString(text) >>> 0).toString(16)})`;
    return this.compare({ sequence: ++this.sequence, text: named, line: site.line }, text);
  }

  split(colors: readonly number[], keys: readonly number[] = this.ranks): Communicator[] {
    const { nccl, context, handle } = this.options, [color] = colors, [key] = keys;
    if (nccl.ncclCommSplit === null) {
      throw new DeviceError("split a communicator", { device: context.name, reason: "NCCL has it from 2.18 on" });
    }
    checkSplit(colors, keys);
    this.agree("split", "").wait();
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
    this.agree("destroy", "").wait();
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
    for (const { graph } of this.captured) graph.release();
    if (!context.alive) return;
    context.enter();
    const { cu } = context.driver;
    for (const { template, executable } of this.graphs) context.destroyGraph(template, executable);
    this.graphs.length = 0;
    end(nccl, handle);
    for (const event of this.events) cu.cuEventDestroy_v2(event);
    cu.cuStreamDestroy_v2(this.stream);
    this.rollCall.release();
  }

  /** What kernels are queued from now on run after a collective; whoever waits for the card watches it. */
  join(work: NcclWork, event: bigint): void {
    const { context } = this.options;
    context.order(context.stream, event);
    this.watch(work);
  }
  /** Has whoever waits for the card see the end of `work`. */
  private watch(work: NcclWork): void {
    work.joinedMs = performance.now();
    this.joined.push(work);
    this.options.context.guards.add(this.guard);
  }

  /** Whether what is queued becomes part of a graph. */
  get isCapturing(): boolean {
    return this.options.context.capture !== undefined;
  }
  /** Kernels that are captured from now on run after a collective that was; 0 where there was none. */
  joinCaptured(event: bigint): void {
    if (event === 0n) return;
    const { context } = this.options;
    context.order(context.stream, event);
    this.free.push(event);
  }
  /** Kernels that are queued next come after what is under way here. */
  beforeGraph(): void {
    if (this.failure !== undefined) throw this.failure;
    const { context } = this.options;
    context.record(this.ready, this.stream);
    context.order(context.stream, this.ready);
  }
  /** A graph with collectives has been queued on the stream of kernels. */
  afterGraph(operation: Operation): void {
    this.watch(new NcclWork(this, operation, this.marked(this.options.context.stream)));
  }
  /** The own part of the graph that is captured, where one is. */
  private get share(): CapturedCollectives | undefined {
    const { context: { capture } } = this.options;
    if (capture === undefined) return undefined;
    let share = capture.shares.get(this) as CapturedCollectives | undefined;
    if (share === undefined) {
      capture.shares.set(this, share = new CapturedCollectives(this, capture.graph));
      this.captured.add(share);
    }
    return share;
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

  /** Queues `call` on the stream of the communicator, after what the card has queued. */
  private queued(operation: Operation, call: () => void): NcclWork {
    const { context } = this.options;
    context.enter();
    context.record(this.ready);
    context.order(this.stream, this.ready);
    this.share?.operations.push(operation);
    this.queue(operation, call);
    return new NcclWork(this, operation, this.marked());
  }
  /** Queues `call` on the stream of the communicator. */
  private queue(operation: Operation, call: () => void): void {
    call();
    pollUntil(() => this.isQueued(operation), (waitedMs) => this.checkLate(operation, waitedMs), SPIN_MS);
  }
  /** An event at the end of a stream, that of the communicator unless told. */
  private marked(stream: bigint = this.stream): bigint {
    const event = this.free.pop() ?? this.newEvent();
    this.options.context.record(event, stream);
    return event;
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

  /** What `queue` queues on the stream of the communicator, as a graph. */
  private graphOf(queue: () => void): { readonly template: bigint; readonly executable: bigint } {
    const { context } = this.options, template = context.captured(this.stream, queue);
    return { template, executable: context.instantiated(template, "a comparison of what ranks call") };
  }

  /** Starts to compare an operation among all ranks. Its end throws where they differ. */
  private compare(operation: Operation, more: string): NcclWork {
    const { nccl, context, handle } = this.options, { rollCall, stream } = this, { cu } = context.driver;
    const { sequence, text } = operation, at = operation.line === undefined ? "" : ` at ${operation.line}`;
    context.enter();
    const place = rollCall.take(), { host, card } = place, one = BigInt(SAID_BYTES);
    const last: NcclWork | undefined = this.comparisons[place.index];
    last?.wait();
    rollCall.say(place, `${sequence} ${text} ${more}`, `collective ${sequence}, ${text}${at}`);
    const queue = (): void => {
      this.queue(operation, () => {
        context.check(cu.cuMemcpyHtoDAsync_v2(card, host, one, stream), "write to memory");
        this.check(nccl.ncclAllGather(card, card + one, one, BYTES, handle, stream), "ncclAllGather");
      });
      // of what the library has queued by now
      const nbytes = one * BigInt(this.size);
      context.check(cu.cuMemcpyDtoHAsync_v2(host + one, card + one, nbytes, stream), "read from memory");
    };
    if (last === undefined) queue();
    else {
      this.graphs[place.index] ??= this.graphOf(queue);
      const { executable } = this.graphs[place.index];
      context.check(cu.cuGraphLaunch(executable, stream), "compare what ranks call");
    }
    return this.comparisons[place.index] = new NcclWork(this, operation, this.marked(), () => {
      const difference = rollCall.difference(place);
      if (difference === undefined) return;
      this.fail(operation, `the ranks differ in what they call, or in its shapes or dtypes: ${difference}`);
    });
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
