/**
 * The whole backend seam: what a device makes of linear programs (Program), and how it runs them, once (`run`) or again
 * and again with other buffers (Graph). Everything here is synchronous: a launch may only be queued.
 *
 * @module
 */
import { SpecError } from "../helpers/errors.ts";
import type { LinearProgram } from "../renderer/renderer.ts";
import { evalOp } from "../uop/algebra/eval.ts";
import { argOf, type ConstValue } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import type { UOp } from "../uop/core/uop.ts";
import type { Buffer } from "./buffer.ts";

/** A compiled kernel of one device. */
export interface Program {
  /** What it was compiled from. */
  readonly linear: LinearProgram;
  /** What was rendered, for DEBUG=4: text, or a listing where the source is bytes. */
  readonly source: string;
  /** What its compiler finds it by in another process, which is then given it as {@linkcode LinearProgram.compiled}; none where it keeps nothing. */
  readonly key?: string;
}

/** One kernel with its arguments. */
export interface Launch {
  /** What runs. */
  readonly program: Program;
  /** By slot. */
  readonly buffers: readonly Buffer[];
  /** In the order of `program.linear.vars`; 64-bit values beyond 2^53 as bigint. */
  readonly vars: readonly (number | bigint)[];
}

/**
 * What is queued between the launches of a graph, on streams of its own: a collective, or that what follows waits for one.
 * A graph may call it once and repeat what it has queued then.
 */
export interface Insertion {
  /** Before which launch; after all of them where it is their count. */
  readonly at: number;
  /** Queues it. */
  readonly queue: () => void;
}

/** A list of launches, prepared once and replayed with patched arguments. */
export interface Graph {
  /** Puts another buffer in place of an argument of a launch. */
  setBuffer(launch: number, slot: number, buffer: Buffer): void;
  /** Puts another value in place of a scalar argument of a launch. */
  setVar(launch: number, position: number, value: number | bigint): void;
  /** Runs all launches in order; `ends` as in `run` of a device that times launches. */
  run(ends?: Float64Array<ArrayBuffer>): void;
  /** Gives up what it holds. */
  dispose(): void;
}

/** A graph that keeps its launches with their arguments, so that what these point to lives as long as it does. */
export abstract class LaunchGraph implements Graph {
  /** As patched so far; none once it was disposed. */
  protected readonly launches: { readonly program: Program; readonly buffers: Buffer[]; vars: (number | bigint)[] }[];

  /** Copies of the launches, to be patched. */
  constructor(launches: readonly Launch[]) {
    this.launches = launches.map((l) => ({ program: l.program, buffers: [...l.buffers], vars: [...l.vars] }));
  }
  setBuffer(launch: number, slot: number, buffer: Buffer): void {
    this.launches[launch].buffers[slot] = buffer;
  }
  setVar(launch: number, position: number, value: number | bigint): void {
    this.launches[launch].vars[position] = value;
  }
  abstract run(ends?: Float64Array<ArrayBuffer>): void;
  dispose(): void {
    this.launches.length = 0;
  }
}

/** Turns programs into something that runs; caches by content. All programs of a schedule come in one call. */
export interface Compiler {
  /** Whether its programs run on all devices of the backend. */
  readonly isPortable?: boolean;
  /**
   * Compiles all of them, in parallel where the device can. Where that may take seconds, `progress` is told how many are
   * done, and how many milliseconds may go by until it is told again. @throws {CompileError} with the source and the log
   */
  compile(programs: readonly LinearProgram[], progress?: (done: number, nextMs: number) => void): Program[];
}

/** The groups that a launch runs, by dimension: 1 each where the program has no grid. `vars` as {@linkcode Launch} has them. */
export function groupsOf(linear: LinearProgram, vars: readonly (number | bigint)[]): [number, number, number] {
  if (linear.grid === undefined) return [1, 1, 1];
  const valueOf = (u: UOp): ConstValue => {
    if (u.op === Ops.CONST) return argOf(u, Ops.CONST);
    if (u.op === Ops.VARIABLE) return Number(vars[linear.vars.indexOf(u)]);
    const value = evalOp(u.op, u.dtype, u.src[0].dtype, u.src.map(valueOf));
    if (value === undefined) throw new SpecError(`The grid of ${linear.name} has no value`);
    return value;
  };
  const [x, y, z] = linear.grid.groups;
  return [Number(valueOf(x)), Number(valueOf(y)), Number(valueOf(z))];
}

/** Events that a thread has counted while it ran its part of a launch. */
export interface ThreadCounts {
  /** Of the processor. */
  readonly cycles?: number;
  /** That the processor has completed. */
  readonly instructions?: number;
  /** Of the last level. */
  readonly cacheMisses?: number;
  /** Pages that were not there when they were first used. */
  readonly pageFaults?: number;
  /** Turns on the core that others had meanwhile, or that it gave up. */
  readonly contextSwitches?: number;
  /** Milliseconds that it was on a core. */
  readonly cpuMs?: number;
}

/** What a thread did of a launch. */
export interface ThreadTime {
  /** Position of the launch in its list. */
  readonly launch: number;
  /** 0 is who asked for it. */
  readonly thread: number;
  /** The core on which it began; -1 where the system does not tell. */
  readonly core: number;
  /** Milliseconds since the first launch began. */
  readonly beginMs: number;
  /** Likewise. */
  readonly endMs: number;
  /** What was counted meanwhile; undefined where nothing was. */
  readonly counts: ThreadCounts | undefined;
}

/** Which thread of a device ran what part of each launch, when, and on which core: while somebody watches. */
export interface ThreadTimes {
  /** What the system does not count, and why; undefined where it counts all. */
  uncounted(): string | undefined;
  /** Begins; with `counts` events are counted, too. */
  start(counts: boolean): ThreadWatch;
}

/** One who watches threads. */
export interface ThreadWatch {
  /** The number of the list of launches that ran last. */
  readonly list: number;
  /** Ends it: what ran until now can still be read. */
  stop(): void;
  /** What threads did since it began, each in order, with the number of the list of launches that it is of. */
  read(): Iterable<readonly [list: number, time: ThreadTime]>;
}
