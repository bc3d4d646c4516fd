/**
 * The runtime module: walks lists of launches in shared memory, alone or with other threads. Each thread has its own
 * instance. Chunks of a launch are claimed by an atomic add; a launch starts when all chunks of the one before are done.
 * A thread that has not checked in is never waited for: the thread that publishes a list can do all of it.
 *
 * @module
 */
import { Bytes, EMPTY, encodeModule, type FuncType, I32, I64, type ValType } from "./encoder.ts";

/** Addresses of the words that threads share, each on its own cache line. */
export const WORDS = {
  /** Grows with every job and every published module; threads park on it. */
  SEQ: 64,
  /** Threads parked now. */
  PARKED: 128,
  /** Modules published so far. */
  MODULES: 192,
  /** {@linkcode GATE_OPEN} while a job runs, plus the number of helping threads inside it. */
  GATE: 256,
  /** The list of the job, and after it the number of launches. */
  JOB: 320,
  /** 1 after a kernel trapped. */
  ERROR: 384,
  /** Helping threads that have checked in. */
  READY: 448,
  /** The record of the first published module. */
  FIRST: 512,
} as const;
/** Set in the gate while a job runs. */
const GATE_OPEN = 0x40000000;
/** Records of the threads: 64 bytes each; the first word points to the thread's scratch memory. */
export const THREAD_RECORDS = 1024;
/** Offset in a thread's record of a word that is 1 from the time it checked in until it left. */
export const RECORD_ALIVE = 4;
/**
 * Offset in a thread's record of a word that says who has it: 0 nobody, {@linkcode RECORD_TAKEN} a helper that lives, else the
 * ticket of the helper that was started for it last. One that comes later than another was started in its place finds
 * another ticket, and goes: two on one record would share its scratch memory.
 */
export const RECORD_TICKET = 8;
/** See {@linkcode RECORD_TICKET}. */
export const RECORD_TAKEN = -1;
/** Threads at most. */
export const MAX_THREADS = 128;
/** A published module: address of its bytes, their number, size of the table it needs, the next record. */
export const MODULE_RECORD = { BYTES: 0, LENGTH: 4, TABLE: 8, NEXT: 12, SIZE: 64 } as const;
/** A launch in a list. NEXT (chunks claimed) and DONE (chunks done) are on their own cache lines. */
export const COMMAND = {
  NEXT: 0,
  DONE: 64,
  WAITERS: 68,
  KERNEL: 128,
  BUFS: 132,
  VARS: 136,
  TOTAL: 140,
  /** Iterations of one chunk, and of one call within a chunk. */
  CLAIM: 144,
  CALL: 148,
  CHUNKS: 152,
  SIZE: 192,
} as const;
/** Looks at a word this often before parking: some hundreds of microseconds, longer than a program takes between kernels. */
const SPINS = 250000;

/** Parameters of every kernel: buffers, scalar arguments, begin, end. */
export const KERNEL_TYPE: FuncType = { params: [I32, I32, I32, I32], results: [] };

/** What the runtime module exports. */
export interface Runtime {
  /** Runs a list on this thread alone. */
  serial(list: number, count: number): void;
  /** Runs a list with all threads that come; 0, or 1 after a trap in another thread. */
  parallel(list: number, count: number, mayWait: number): number;
  /** Closes the gate after a trap and waits until helpers have left. */
  close(mayWait: number): void;
  /** The life of a helper; returns 0 when there are modules to load, 1 when nothing came for `timeout` nanoseconds. */
  work(loaded: number, timeout: bigint): number;
}

/** A body written with names instead of local numbers. */
class Code extends Bytes {
  get(x: number): this {
    return this.i("local.get", x);
  }
  set(x: number): this {
    return this.i("local.set", x);
  }
  num(x: number): this {
    return this.i32(x);
  }
  /** Opens a block, loop or if without a result. */
  open(name: "block" | "loop" | "if"): this {
    return this.i(name).u8(EMPTY);
  }
  end(): this {
    return this.i("end");
  }
  /** A plain i32 field of the record at local `x`. */
  field(x: number, offset: number): this {
    return this.get(x).i("i32.load", 2, offset);
  }
  atomicLoad(offset = 0): this {
    return this.i("i32.atomic.load", 2, offset);
  }
}

/** Calls the kernel of the command at `cmd` from `b` to `e`, in pieces. */
function callPieces(c: Code, cmd: number, b: number, e: number, piece: number): Code {
  return c.open("block").open("loop")
    .get(b).get(e).i("i32.ge_u").i("br_if", 1)
    .get(b).field(cmd, COMMAND.CALL).i("i32.add").set(piece)
    .get(e).get(piece).get(piece).get(e).i("i32.gt_u").i("select").set(piece)
    .field(cmd, COMMAND.BUFS).field(cmd, COMMAND.VARS).get(b).get(piece).field(cmd, COMMAND.KERNEL)
    .i("call_indirect", 0, 0)
    .get(piece).set(b).i("br", 0).end().end();
}

function serialBody(): Code {
  const list = 0, count = 1, b = 2, piece = 3, e = 4;
  const c = new Code().open("block").open("loop").get(count).i("i32.eqz").i("br_if", 1)
    .num(0).set(b).field(list, COMMAND.TOTAL).set(e);
  return callPieces(c, list, b, e, piece)
    .get(list).num(COMMAND.SIZE).i("i32.add").set(list)
    .get(count).num(1).i("i32.sub").set(count)
    .i("br", 0).end().end();
}

/** walk(list, count, mayWait): does chunks until all launches are done; 1 after a trap elsewhere. */
function walkBody(): Code {
  const list = 0, count = 1, mayWait = 2, b = 3, piece = 4, e = 5, chunk = 6, seen = 7, spins = 8;
  const c = new Code().open("block").open("loop").get(count).i("i32.eqz").i("br_if", 1);
  c.open("block").open("loop")
    .get(list).num(1).i("i32.atomic.rmw.add", 2, COMMAND.NEXT).i("local.tee", chunk)
    .field(list, COMMAND.CHUNKS).i("i32.ge_u").i("br_if", 1)
    .get(chunk).field(list, COMMAND.CLAIM).i("i32.mul").i("local.tee", b)
    .field(list, COMMAND.CLAIM).i("i32.add").set(e)
    .field(list, COMMAND.TOTAL).get(e).get(e).field(list, COMMAND.TOTAL).i("i32.gt_u").i("select").set(e);
  callPieces(c, list, b, e, piece)
    .get(list).num(1).i("i32.atomic.rmw.add", 2, COMMAND.DONE).num(1).i("i32.add")
    .field(list, COMMAND.CHUNKS).i("i32.eq").open("if")
    .get(list).atomicLoad(COMMAND.WAITERS).open("if")
    .get(list).num(-1).i("memory.atomic.notify", 2, COMMAND.DONE).i("drop")
    .end().end()
    .i("br", 0).end().end();
  c.num(0).set(spins).open("block").open("loop")
    .get(list).atomicLoad(COMMAND.DONE).i("local.tee", seen).field(list, COMMAND.CHUNKS).i("i32.ge_u").i("br_if", 1)
    .num(WORDS.ERROR).atomicLoad().open("if").num(1).i("return").end()
    .get(spins).num(1).i("i32.add").i("local.tee", spins).num(SPINS).i("i32.gt_u").get(mayWait).i("i32.and")
    .open("if")
    .get(list).num(1).i("i32.atomic.rmw.add", 2, COMMAND.WAITERS).i("drop")
    .get(list).get(seen);
  c.i("i64.const").s32(1000000);
  c.i("memory.atomic.wait32", 2, COMMAND.DONE).i("drop")
    .get(list).num(1).i("i32.atomic.rmw.sub", 2, COMMAND.WAITERS).i("drop")
    .end()
    .i("br", 0).end().end();
  return c.get(list).num(COMMAND.SIZE).i("i32.add").set(list)
    .get(count).num(1).i("i32.sub").set(count)
    .i("br", 0).end().end().num(0);
}

/** close(mayWait) */
function closeBody(): Code {
  const mayWait = 0, seen = 1, spins = 2;
  const c = new Code().num(WORDS.GATE).num(~GATE_OPEN).i("i32.atomic.rmw.and", 2, 0).i("drop")
    .open("block").open("loop")
    .num(WORDS.GATE).atomicLoad().i("local.tee", seen).i("i32.eqz").i("br_if", 1)
    .get(spins).num(1).i("i32.add").i("local.tee", spins).num(SPINS).i("i32.gt_u").get(mayWait).i("i32.and")
    .open("if").num(WORDS.GATE).get(seen);
  c.i("i64.const").s32(50000);
  return c.i("memory.atomic.wait32", 2, 0).i("drop").end().i("br", 0).end().end();
}

/** parallel(list, count, mayWait) */
function parallelBody(walk: number, close: number): Code {
  const list = 0, count = 1, mayWait = 2, at = 3, left = 4, result = 5;
  const c = new Code().get(list).set(at).get(count).set(left)
    .open("block").open("loop").get(left).i("i32.eqz").i("br_if", 1)
    .get(at).num(0).i("i32.store", 2, COMMAND.NEXT)
    .get(at).num(0).i("i32.store", 2, COMMAND.DONE)
    .get(at).num(0).i("i32.store", 2, COMMAND.WAITERS)
    .get(at).num(COMMAND.SIZE).i("i32.add").set(at)
    .get(left).num(1).i("i32.sub").set(left).i("br", 0).end().end()
    .num(WORDS.JOB).get(list).i("i32.store", 2, 0)
    .num(WORDS.JOB).get(count).i("i32.store", 2, 4)
    .num(WORDS.GATE).num(GATE_OPEN).i("i32.atomic.store", 2, 0)
    .num(WORDS.SEQ).num(1).i("i32.atomic.rmw.add", 2, 0).i("drop")
    .num(WORDS.PARKED).atomicLoad().open("if")
    .num(WORDS.SEQ).num(-1).i("memory.atomic.notify", 2, 0).i("drop").end();
  return c.get(list).get(count).get(mayWait).i("call", walk).set(result)
    .get(mayWait).i("call", close).get(result);
}

/** work(loaded, timeout) */
function workBody(walk: number): Code {
  const loaded = 0, timeout = 1, seq = 2, now = 3, gate = 4, spins = 5;
  const modulesChanged = (c: Code) => c.num(WORDS.MODULES).atomicLoad().get(loaded).i("i32.ne");
  const c = new Code().num(WORDS.SEQ).atomicLoad().num(1).i("i32.sub").set(seq).open("loop");
  modulesChanged(c).open("if").num(0).i("return").end()
    .num(WORDS.SEQ).atomicLoad().i("local.tee", now).get(seq).i("i32.ne").open("if")
    .get(now).set(seq).num(0).set(spins)
    .open("block").open("loop")
    .num(WORDS.GATE).atomicLoad().i("local.tee", gate).num(GATE_OPEN).i("i32.and").i("i32.eqz").i("br_if", 1)
    .num(WORDS.GATE).get(gate).get(gate).num(1).i("i32.add").i("i32.atomic.rmw.cmpxchg", 2, 0)
    .get(gate).i("i32.ne").i("br_if", 0);
  modulesChanged(c).open("if")
    .num(WORDS.GATE).num(1).i("i32.atomic.rmw.sub", 2, 0).i("drop").num(0).i("return").end()
    .num(WORDS.JOB).i("i32.load", 2, 0).num(WORDS.JOB).i("i32.load", 2, 4).num(1).i("call", walk).i("drop")
    .num(WORDS.GATE).num(1).i("i32.atomic.rmw.sub", 2, 0).i("drop")
    .end().end()
    .i("br", 1).end()
    .get(spins).num(1).i("i32.add").i("local.tee", spins).num(SPINS).i("i32.lt_u").i("br_if", 0)
    .num(0).set(spins)
    .num(WORDS.PARKED).num(1).i("i32.atomic.rmw.add", 2, 0).i("drop")
    .num(WORDS.SEQ).get(seq).get(timeout).i("memory.atomic.wait32", 2, 0).set(now)
    .num(WORDS.PARKED).num(1).i("i32.atomic.rmw.sub", 2, 0).i("drop")
    .get(now).num(2).i("i32.ne").i("br_if", 0)
    .end();
  return c.num(1);
}

/** Bytes of the runtime module. It imports "m" (memory) and "t" (table). */
export function runtimeModule(memoryMaximum: number, shared: boolean): Uint8Array {
  const locals = (n: number): ValType[] => new Array<ValType>(n).fill(I32);
  const SERIAL = 0, WALK = 1, CLOSE = 2, PARALLEL = 3, WORK = 4;
  return encodeModule({
    types: [
      KERNEL_TYPE,
      { params: [I32, I32], results: [] },
      { params: [I32, I32, I32], results: [I32] },
      { params: [I32], results: [] },
      { params: [I32, I64], results: [I32] },
    ],
    imports: [
      { kind: "memory", name: "m", maximum: memoryMaximum, shared },
      { kind: "table", name: "t" },
    ],
    funcs: [
      { type: 1, locals: locals(3), code: serialBody().take() },
      { type: 2, locals: locals(6), code: walkBody().take() },
      { type: 3, locals: locals(2), code: closeBody().take() },
      { type: 2, locals: locals(3), code: parallelBody(WALK, CLOSE).take() },
      { type: 4, locals: locals(4), code: workBody(WALK).take() },
    ],
    exports: [
      { name: "serial", func: SERIAL },
      { name: "parallel", func: PARALLEL },
      { name: "close", func: CLOSE },
      { name: "work", func: WORK },
    ],
  });
}
