/**
 * The opts of a kernel by measuring: candidates (codegen/choose/candidates.ts) race against what the chooser made, then
 * the neighbors of the best. They replace the chooser's only where they are faster for certain. What was found is known
 * to this process, and kept on disk (tuned_store.ts) by the kernel's structure and the device.
 *
 * @module
 */
import { drawCandidates, neighborsOf } from "../../codegen/choose/candidates.ts";
import { modeledOpts } from "../../codegen/choose/choose.ts";
import { KernelInfo, type Opt, optsText, parseOpts, withOpts } from "../../codegen/opt/opt.ts";
import { isByKey } from "../../codegen/late/keyed_loops.ts";
import { beforeOpts } from "../../codegen/passes.ts";
import { toProgram } from "../../codegen/to_program.ts";
import type { Device } from "../../device/device.ts";
import { cacheRoot } from "../../device/host_files.ts";
import { digest } from "../../device/object_cache.ts";
import type { Program } from "../../device/program.ts";
import { envNumber } from "../../helpers/env.ts";
import { ArgumentError, CompileError, DeviceError, OutOfMemoryError, SpecError } from "../../helpers/errors.ts";
import type { LinearProgram } from "../../renderer/renderer.ts";
import { TextArg } from "../../uop/core/custom_arg.ts";
import { Ops } from "../../uop/core/ops.ts";
import { printUOp } from "../../uop/core/print.ts";
import { hasPhases } from "../../uop/algebra/row_phases.ts";
import { sink, toposort, type UOp } from "../../uop/core/uop.ts";
import { race, type Standing } from "./race.ts";
import { type Found, TunedStore } from "./tuned_store.ts";
import { tellsTime, Trial } from "./trial.ts";

/** Candidates for each unit of BEAM, and those that are compiled together: in between the clock is looked at. */
const CANDIDATES = 8, BATCH = 16;
const SEED = 1;
/**
 * Nodes of a program that is compiled, at most, on loops and on grids, unless the chooser's has half as many: more are long
 * to compile (a C compiler takes a second for 2,000 lines) and have spilled every register.
 */
const MOST_NODES = 800, MOST_NODES_GRID = 4000;

/** A candidate that was left out. */
export interface Problem {
  /** The kernel, as DEBUG=2 names it. */
  readonly kernel: string;
  /** The opts under which it was left out. */
  readonly opts: string;
  /** What was wrong with its values, or what it threw. */
  readonly reason: string;
}

/** A candidate, compiled. */
export interface Candidate {
  readonly opts: readonly Opt[];
  readonly program: Program;
}

/** What a search has found. */
export interface Outcome extends Found {
  /** What runs from now on. */
  readonly program: Program;
  readonly problems: readonly Problem[];
  /** Whether nothing had to be measured. */
  readonly isKnown: boolean;
}

/** What is looked at of a device: results for another are of no use. */
function identityOf(device: Device): string {
  const { name, renderer } = device, { version, card, driver } = device.info();
  const plain = (_: string, v: unknown): unknown => v instanceof Object && "itemsize" in v ? String(v) : v;
  return [name, renderer.name, JSON.stringify(renderer.caps, plain), version, card, driver].join(" ");
}

const identities = new WeakMap<Device, string>(), stores = new Map<string | undefined, TunedStore>();

/** The store of the cache folder that is in use. */
export function tunedStore(): TunedStore {
  let root: string | undefined;
  try {
    root = cacheRoot();
  } catch { /* relative to a folder that may not be asked for */ }
  let store = stores.get(root);
  if (store === undefined) stores.set(root, store = new TunedStore(root));
  return store;
}

/** The key of a kernel on a device. */
export function tunedKey(device: Device, ast: UOp): string {
  let identity = identities.get(device);
  if (identity === undefined) identities.set(device, identity = identityOf(device));
  return digest(`${identity} ${envNumber("ALLOW_TF32")}\n${printUOp(sink(ast.src), Infinity)}`);
}

/** Why a kernel is not measured; undefined where it is. */
export function whyNotTuned(device: Device, ast: UOp): string | undefined {
  if (!tellsTime(device)) return `${device.name} has no clock`;
  if (envNumber("NOOPT") !== 0) return "NOOPT turns all opts off";
  if (ast.arg instanceof TextArg) return "its source is given";
  if (ast.arg instanceof KernelInfo && ast.arg.opts !== undefined) return "its opts are given";
  const isUnchecked = toposort(ast).some((u) =>
    u.op === Ops.INDEX && u.src.length < 3 && toposort(u.src[1]).some((x) => x.op === Ops.LOAD)
  );
  return isUnchecked ? "what it reads says where it reads" : undefined;
}

/** The opts that are measured for a kernel: near the chooser's, best by the model, and drawn. */
export function candidatesOf(device: Device, ast: UOp, chosen: string, count: number, seed: number = SEED): Opt[][] {
  if (hasPhases(ast) || isByKey(ast, device.renderer.caps)) return []; // each phase has its own
  const { renderer } = device, { caps } = renderer, open = beforeOpts(ast, renderer);
  const opts = parseOpts(chosen) ?? [], near = neighborsOf(open, caps, opts);
  const found = new Map<string, Opt[]>();
  const lists = [near, modeledOpts(open, caps, count), drawCandidates(open, caps, count, seed)];
  for (let i = 0; found.size < count && lists.some((l) => i < l.length); i++) {
    for (const l of lists) {
      if (i < l.length && found.size < count && optsText(l[i]) !== chosen) found.set(optsText(l[i]), l[i]);
    }
  }
  return [...found.values()];
}

/** Lowers and compiles candidates together; those that cannot be are left out, and told of where that is a fault. */
export function compileCandidates(
  device: Device,
  ast: UOp,
  lists: readonly (readonly Opt[])[],
  chosen: Program,
  fault: (opts: readonly Opt[], error: Error) => void,
): Candidate[] {
  const limit = device.renderer.caps.hasGrid ? MOST_NODES_GRID : MOST_NODES;
  const most = Math.max(limit, 2 * chosen.linear.uops.length);
  const lowered: { opts: readonly Opt[]; linear: LinearProgram }[] = [];
  for (const opts of lists) {
    try {
      const linear = toProgram(withOpts(ast, opts), device.renderer);
      if (linear.uops.length <= most) lowered.push({ opts, linear });
    } catch (error) {
      // more than a group may have, or not possible after all
      if (error instanceof DeviceError || error instanceof ArgumentError) continue;
      if (!(error instanceof SpecError)) throw error;
      fault(opts, error);
    }
  }
  const compile = (some: typeof lowered): Candidate[] => {
    try {
      const programs = device.compiler.compile(some.map((l) => l.linear));
      return some.map(({ opts }, i) => ({ opts, program: programs[i] }));
    } catch (error) {
      if (!(error instanceof CompileError || error instanceof DeviceError)) throw error;
      if (some.length > 1) return some.flatMap((l) => compile([l]));
      if (error instanceof CompileError) fault(some[0].opts, error);
      return [];
    }
  };
  return lowered.length === 0 ? [] : compile(lowered);
}

/** Where a search begins and ends. */
export interface SearchOptions {
  /** As BEAM: eight candidates for each. */
  readonly width: number;
  /** When it must end, as `performance.now()` has it. */
  readonly until?: number;
}

/** One search. */
class Search {
  readonly problems: Problem[] = [];
  private readonly sources: Set<string>;
  private readonly texts = new Set<string>();
  /** Milliseconds that a batch took to compile. */
  private batchMs = 0;

  constructor(
    private readonly device: Device,
    private readonly ast: UOp,
    private readonly chosen: Program,
    private readonly key: string,
    private readonly until: number,
  ) {
    this.sources = new Set([chosen.source]);
    for (const opts of tunedStore().crashed(key)) {
      this.texts.add(opts);
      this.report(parseOpts(opts) ?? [], "it ended the process that measured it");
    }
  }

  private report(opts: readonly Opt[], reason: string): void {
    this.problems.push({ kernel: this.chosen.linear.name, opts: optsText(opts), reason });
  }

  /** Compiles those that are new, in batches, until the time is up. */
  private compile(lists: readonly (readonly Opt[])[]): Candidate[] {
    const fresh = lists.filter((o) => !this.texts.has(optsText(o))), made: Candidate[] = [];
    for (let at = 0; at < fresh.length; at += BATCH) {
      const start = performance.now(), some = fresh.slice(at, at + BATCH);
      if (start + this.batchMs >= this.until) break;
      for (const o of some) this.texts.add(optsText(o));
      const fault = (o: readonly Opt[], error: Error): void => this.report(o, error.message);
      for (const c of compileCandidates(this.device, this.ast, some, this.chosen, fault)) {
        // other opts may come to the same
        if (c.program.source !== "" && this.sources.has(c.program.source)) continue;
        this.sources.add(c.program.source);
        made.push(c);
      }
      this.batchMs = performance.now() - start;
    }
    return made;
  }

  /** Races candidates; gives the best, if one is faster for certain. */
  private race(trial: Trial, all: readonly Candidate[]): { best: Candidate; standing: Standing } | undefined {
    const store = tunedStore(), mayCrash = this.device.name.startsWith("CLANG");
    let running: Candidate | undefined;
    const onFirst = (i: number): void => {
      if (!mayCrash) return;
      if (running !== undefined) store.note(this.key, running.opts, false);
      store.note(this.key, (running = all[i - 1]).opts, true);
    };
    try {
      const standings = race(trial, [this.chosen, ...all.map((c) => c.program)], { until: this.until, onFirst });
      let best: { best: Candidate; standing: Standing } | undefined;
      all.forEach((c, i) => {
        const standing = standings[i + 1];
        if (standing.problem !== undefined) this.report(c.opts, standing.problem);
        else if (standing.isFaster && !(best !== undefined && best.standing.ratio <= standing.ratio)) {
          best = { best: c, standing };
        }
      });
      return best;
    } finally {
      if (running !== undefined) store.note(this.key, running.opts, false);
    }
  }

  run(trial: Trial, width: number): { found: Found; program: Program } {
    const { device, ast, chosen } = this, count = CANDIDATES * width;
    let best = this.race(trial, this.compile(candidatesOf(device, ast, chosen.linear.opts ?? "", count)));
    if (best !== undefined && performance.now() < this.until) {
      const open = beforeOpts(ast, device.renderer);
      const near = this.compile(neighborsOf(open, device.renderer.caps, best.best.opts).slice(0, count));
      const next = near.length === 0 ? undefined : this.race(trial, [best.best, ...near]);
      if (next !== undefined) best = next;
    }
    const tried = this.texts.size;
    if (best === undefined) return { program: chosen, found: { opts: undefined, ratio: 1, tried } };
    return { program: best.best.program, found: { opts: best.best.opts, ratio: best.standing.ratio, tried } };
  }
}

/** What is known of a kernel, compiled; undefined where nothing is. */
export function knownOutcome(device: Device, ast: UOp, chosen: Program, key: string): Outcome | undefined {
  const found = tunedStore().get(key);
  if (found === undefined) return undefined;
  const [made] = found.opts === undefined ? [] : compileCandidates(device, ast, [found.opts], chosen, () => {});
  // opts that are no longer possible
  if (found.opts !== undefined && made === undefined) return undefined;
  return { ...found, program: made?.program ?? chosen, problems: [], isKnown: true };
}

/**
 * Finds the opts of a kernel by measuring, or what was found before. `chosen` is what the chooser made of it.
 * @throws {DeviceError} where the device tells no times, or is lost
 */
export function searchKernel(device: Device, ast: UOp, chosen: Program, options: SearchOptions): Outcome {
  const key = tunedKey(device, ast),
    known = knownOutcome(device, ast, chosen, key),
    { width, until = Infinity } = options;
  if (known !== undefined) return known;
  const nothing = { opts: undefined, ratio: 1, tried: 0, program: chosen, problems: [], isKnown: false };
  if (width < 1 || performance.now() >= until) return nothing;
  const search = new Search(device, ast, chosen, key, until);
  let trial: Trial;
  try {
    trial = new Trial(device, ast, chosen);
  } catch (error) {
    if (error instanceof OutOfMemoryError) return nothing;
    throw error;
  }
  try {
    const { found, program } = search.run(trial, width);
    // what ran out of time is no result
    if (performance.now() < until || found.opts !== undefined) tunedStore().set(key, found);
    return { ...found, program, problems: search.problems, isKnown: false };
  } finally {
    trial.free();
  }
}
