/**
 * One device of the driver as the other parts use it: its primary context and stream, what was launched since it was
 * last waited for, and what a failed call means. After a fatal error it is lost: every later call says so.
 *
 * @module
 */
import { pollUntil } from "../../src/collectives/deadline.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { type Driver, HostMemory } from "./driver.ts";
import { isFatal, Result, resultError, resultText } from "./results.ts";

/** How many of the latest launches are remembered, to be named in an error. */
const REMEMBERED = 8;
const NON_BLOCKING = 1, NO_TIMING = 2;
/** CU_STREAM_CAPTURE_MODE_RELAXED: other threads, as those of NCCL, may do meanwhile what they like. */
const RELAXED = 2;
/**
 * How long an asynchronous wait asks again at once, and between macrotasks; later it sleeps for a millisecond at a time,
 * which must be little of what it has waited for.
 */
const SPIN_MS = 0.03, IMMEDIATE_MS = 20;

/** A kernel and its buffers, as errors name it: "E_4 (float32[16], float32[16])". */
function kernelText({ name, params }: LinearProgram): string {
  return `${name} (${params.map((p) => `${p.dtype}[${p.size}]`).join(", ")})`;
}

function later(): Promise<void> {
  const { setImmediate } = globalThis as { setImmediate?: (fn: () => void) => unknown };
  return new Promise((done) => setImmediate === undefined ? setTimeout(done, 0) : setImmediate(done));
}

/** Whose work, of streams of its own, is part of a graph of kernels. */
export interface GraphShare {
  /** Has the graph come after what is under way there. @throws where that has failed */
  before(): void;
  /** Is told that it was queued. */
  after(): void;
  /** Forgets the graph, which has ended. */
  end(): void;
}
/** A graph that others have work in: it ends before them. */
export interface SharedGraph {
  /** Gives up what the driver has of it; run again, it is made again. */
  release(): void;
}

/** A context with its stream. */
export class CudaContext {
  /** Of the driver: CUcontext and CUstream. */
  readonly handle: bigint;
  readonly stream: bigint;
  private readonly orderEvent: bigint;
  private readonly timers: readonly [bigint, bigint];
  private readonly recent: LinearProgram[] = [];
  private launched = 0;
  private lost: DeviceError | undefined;
  private closed = false;
  private readonly peers = new Set<CudaContext>();
  /** Settles with the last wait. */
  private waits: Promise<void> = Promise.resolve();
  /** What is asked each time that a wait finds the card busy: it throws where waiting any longer is no use. */
  readonly guards: Set<() => void> = new Set();
  /** While a graph is captured on the stream of kernels: it, and who has put work into it, by what that is of. */
  capture: { readonly graph: SharedGraph; readonly shares: Map<object, GraphShare> } | undefined;

  /** Retains the primary context of a device. @throws {DeviceError} */
  constructor(readonly name: string, readonly driver: Driver, readonly device: number) {
    const { cu, out } = driver;
    const fail = (code: number): never => {
      throw resultError(name, `open device ${name}`, code);
    };
    let code = cu.cuDevicePrimaryCtxRetain(out.bytes, device);
    if (code !== 0) fail(code);
    this.handle = out.words[0];
    try {
      if ((code = driver.use(this.handle)) !== 0) fail(code);
      if ((code = cu.cuStreamCreate(out.bytes, NON_BLOCKING)) !== 0) fail(code);
      this.stream = out.words[0];
      this.orderEvent = this.newEvent();
      this.timers = [this.newEvent(0), this.newEvent(0)];
    } catch (error) {
      driver.forget();
      cu.cuDevicePrimaryCtxRelease_v2(device); // frees what was made in it
      throw error;
    }
  }

  /** Whether calls can be made: neither lost nor closed. */
  get alive(): boolean {
    return !this.closed && this.lost === undefined;
  }

  /** Makes this context current; to be called before others. @throws {DeviceError} if it is lost or closed */
  enter(): void {
    if (this.lost !== undefined) {
      const first = this.lost.message.replace(/^Cannot /, "").replace(/; (DEBUG=2|restart) .*$/s, "");
      throw new DeviceError(`use device ${this.name}`, {
        device: this.name,
        reason: `it was lost earlier, when it could not ${first}; restart the process`,
        cause: this.lost,
      });
    }
    if (this.closed) {
      throw new DeviceError(`use device ${this.name}`, { device: this.name, reason: "it was closed" });
    }
    const code = this.driver.use(this.handle);
    if (code !== 0) this.fail(code, `use device ${this.name}`);
  }

  /** Throws where a call failed. @param action what was tried, as a verb and its object */
  check(code: number, action: string): void {
    if (code !== 0) this.fail(code, action);
  }

  /** Throws what a failed call means; errors of kernels name those that may have made them. */
  fail(code: number, action: string): never {
    if (!isFatal(code)) throw resultError(this.name, `${action} on ${this.name}`, code);
    const n = Math.min(this.launched, REMEMBERED);
    const kernels = Array.from({ length: n }, (_, i) => kernelText(this.recent[(this.launched - 1 - i) % REMEMBERED]));
    const more = this.launched > n ? ` and ${this.launched - n} more` : "";
    const what = n === 0 ? action : n === 1 ? `run kernel ${kernels[0]}` : `run one of ${kernels.join(", ")}${more},`;
    const hint = n > 1 ? "; DEBUG=2 waits for each kernel and so names the one" : "";
    this.lost = new DeviceError(`${what} on ${this.name}`, {
      device: this.name,
      reason: `${resultText(code)}${hint}; restart the process: it cannot use the device any more`,
    });
    throw this.lost;
  }

  /** Remembers a launch, for errors that show later. */
  note(program: LinearProgram): void {
    this.recent[this.launched++ % REMEMBERED] = program;
  }

  /** An event. @param flags without timing if not given */
  newEvent(flags: number = NO_TIMING): bigint {
    const { cu, out } = this.driver;
    this.check(cu.cuEventCreate(out.bytes, flags), "make an event");
    return out.words[0];
  }
  /** Marks all that was queued so far, on another stream if given. */
  record(event: bigint, stream: bigint = this.stream): void {
    this.check(this.driver.cu.cuEventRecord(event, stream), "mark the end of queued work");
  }
  /** Whether an event is reached, asked without waiting. */
  isReached(event: bigint): boolean {
    const code = this.driver.cu.cuEventQuery(event);
    if (code !== Result.NOT_READY) this.check(code, "wait for queued work");
    return code !== Result.NOT_READY;
  }
  /** What is queued on `stream` from now on runs after an event. */
  order(stream: bigint, event: bigint): void {
    this.check(this.driver.cu.cuStreamWaitEvent(stream, event, 0), "order two streams");
  }
  /** What `queue` queues on a stream, and on streams that are ordered with it, as a CUgraph. */
  captured(stream: bigint, queue: () => void): bigint {
    const { cu, out } = this.driver;
    this.check(cu.cuStreamBeginCapture_v2(stream, RELAXED), "capture a graph");
    let code = 0, made = 0n, isWhole = false;
    try {
      queue();
      isWhole = true;
    } finally {
      this.enter();
      code = cu.cuStreamEndCapture(stream, out.bytes);
      made = out.words[0];
      if (!isWhole && code === 0) cu.cuGraphDestroy(made);
    }
    this.check(code, "capture a graph");
    return made;
  }
  /** Makes a CUgraph ready to run: a CUgraphExec. @param what names it in errors */
  instantiated(template: bigint, what: string): bigint {
    const { cu, out } = this.driver;
    this.check(cu.cuGraphInstantiateWithFlags(out.bytes, template, 0n), `prepare ${what}`);
    return out.words[0];
  }
  /** Destroys a CUgraph and what was made of it; 0 is none. */
  destroyGraph(template: bigint, executable: bigint): void {
    const { cu } = this.driver;
    if (executable !== 0n) cu.cuGraphExecDestroy(executable);
    if (template !== 0n) cu.cuGraphDestroy(template);
  }
  /** The node that was captured last on the stream of kernels. */
  lastNode(): bigint {
    const { cu } = this.driver, info = new HostMemory(5), at = (word: number) => info.bytes.subarray(8 * word);
    this.check(cu.cuStreamGetCaptureInfo_v2(this.stream, at(0), at(1), at(2), at(3), at(4)), "capture a graph");
    const nodes = Deno.UnsafePointer.create(info.words[3]);
    return nodes === null ? 0n : new Deno.UnsafePointerView(nodes).getBigUint64();
  }
  /** A stream beside that of kernels. */
  newStream(): bigint {
    const { cu, out } = this.driver;
    this.check(cu.cuStreamCreate(out.bytes, NON_BLOCKING), "make a stream");
    return out.words[0];
  }
  /** Memory of the card for the use of the driver's callers. */
  newMemory(nbytes: number): bigint {
    const { cu, out } = this.driver;
    this.check(cu.cuMemAlloc_v2(out.bytes, BigInt(nbytes)), `allocate ${nbytes} bytes`);
    return out.words[0];
  }
  /** Pinned memory of the host, through which copies are asynchronous; the caller frees it. */
  newPinned(nbytes: number): { readonly address: bigint; readonly bytes: Uint8Array<ArrayBuffer> } {
    const { cu, out } = this.driver;
    this.check(cu.cuMemHostAlloc(out.bytes, BigInt(nbytes), 0), `pin ${nbytes} bytes of host memory`);
    const address = out.words[0], pointer = Deno.UnsafePointer.create(address)!;
    return { address, bytes: new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(pointer, nbytes)) };
  }
  private guard(): void {
    for (const look of this.guards) look();
  }

  /** Blocks until an event is reached. What guards watch may have ended wrongly before it: they look then, too. */
  wait(event: bigint): void {
    if (this.guards.size > 0) {
      pollUntil(() => this.isReached(event), () => this.guard(), IMMEDIATE_MS);
      this.guard();
    }
    this.check(this.driver.cu.cuEventSynchronize(event), "wait for queued work");
  }
  /**
   * Settles when an event of the stream of kernels is reached: at once where it is soon, else the process serves others
   * meanwhile. They are reached in the order that they were recorded in, so one is asked for at a time.
   */
  waitAsync(event: bigint): Promise<void> {
    const wait = this.waits.then(() => this.poll(event));
    this.waits = wait.catch(() => {});
    return wait;
  }
  private async poll(event: bigint): Promise<void> {
    const start = performance.now();
    for (;;) {
      this.enter();
      if (this.isReached(event)) return this.guard();
      const elapsed = performance.now() - start;
      if (elapsed < SPIN_MS) continue;
      this.guard();
      if (elapsed < IMMEDIATE_MS) await later();
      else await new Promise((done) => setTimeout(done, 1));
    }
  }

  /** Blocks until all queued work is done. */
  synchronize(): void {
    this.enter();
    if (this.guards.size > 0) {
      this.record(this.orderEvent);
      this.wait(this.orderEvent);
    }
    this.check(this.driver.cu.cuStreamSynchronize(this.stream), "wait for queued work");
    this.launched = 0;
  }
  /** As {@linkcode synchronize}, without blocking the process. */
  async settle(): Promise<void> {
    this.enter();
    const event = this.newEvent();
    try {
      this.record(event);
      const launched = this.launched;
      await this.waitAsync(event);
      if (this.launched === launched) this.launched = 0;
    } finally {
      if (this.alive) this.driver.cu.cuEventDestroy_v2(event);
    }
  }

  /** Milliseconds between two events around what `queue` queues, all of it done. */
  time(queue: () => void): number {
    const { cu, out } = this.driver, [start, end] = this.timers;
    this.enter();
    this.record(start);
    queue();
    this.enter();
    this.record(end);
    this.wait(end);
    this.launched = 0;
    this.check(cu.cuEventElapsedTime(out.bytes, start, end), "read the time");
    return out.view.getFloat32(0, true);
  }

  /** What is queued here from now on runs after all that is queued on `other` now. Both are entered; this one last. */
  after(other: CudaContext): void {
    other.enter();
    other.record(other.orderEvent);
    this.enter();
    this.check(this.driver.cu.cuStreamWaitEvent(this.stream, other.orderEvent, 0), `wait for ${other.name}`);
  }

  /** Lets copies between this device and another go directly, where the cards can. */
  befriend(other: CudaContext): void {
    if (this.peers.has(other)) return;
    this.peers.add(other);
    const { cu, out } = this.driver;
    this.check(cu.cuDeviceCanAccessPeer(out.bytes, this.device, other.device), `ask for access to ${other.name}`);
    if (out.i32[0] === 0) return; // the driver copies through the host
    const code = cu.cuCtxEnablePeerAccess(other.handle, 0);
    if (code !== Result.PEER_ACCESS_ALREADY_ENABLED) this.check(code, `enable access to ${other.name}`);
  }

  /** Destroys stream and events and releases the context. What else was made in it must be gone. */
  close(): void {
    if (this.closed) return;
    const { cu } = this.driver;
    if (this.alive && this.driver.use(this.handle) === 0) {
      for (const e of [this.orderEvent, ...this.timers]) cu.cuEventDestroy_v2(e);
      cu.cuStreamDestroy_v2(this.stream);
    }
    this.closed = true;
    this.driver.forget();
    cu.cuDevicePrimaryCtxRelease_v2(this.device);
  }
}
