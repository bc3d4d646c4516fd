/**
 * How a COLLECTIVE runs: for each group of ranks that act together, by the communicator of these ranks, on what their
 * devices have of the buffers.
 *
 * @module
 */
import type { Collective, Communicator, ReduceOp, Work } from "../collectives/communicator.ts";
import { world } from "../collectives/engines.ts";
import { LocalCommunicator } from "../collectives/local.ts";
import type { Buffer } from "../device/buffer.ts";
import { findGroup, getDevice } from "../device/device.ts";
import { partsOfBuffer } from "../device/group.ts";
import type { Program } from "../device/program.ts";
import { type DType, dtypes } from "../dtype/dtype.ts";
import { hash64 } from "../helpers/hash.ts";
import { floorMod, rangeOf } from "../helpers/math.ts";
import type { Line } from "../helpers/stack.ts";
import { AxisKind } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { type CollectiveArg, meshes, type MeshShape } from "../uop/core/sharding.ts";
import { index, load, param, range, sink, store, type UOp, uop } from "../uop/core/uop.ts";
import { compileKernels } from "./compile_cache.ts";
import { copyBuffer } from "./copy_buffer.ts";
import { type Access, CollectiveStep, type ExecItem } from "./front/runners.ts";
import { GlobalCounters } from "./stats.ts";

/** Ranks of a mesh that act together: what joins them, and which parts of a buffer of this process are theirs. */
interface Team {
  readonly parts: readonly number[];
  readonly communicator: Communicator;
}

const teams = new Map<string, readonly Team[]>();
/** What teams start for a collective of the graph. */
interface Act {
  readonly team: Team;
  readonly collective: Collective;
}
const acts = new WeakMap<CollectiveArg, readonly Act[]>();

/** The ranks of a mesh that this process holds, by part of a buffer. */
function heldRanks(mesh: MeshShape): readonly number[] {
  return findGroup(mesh.device)!.ranks;
}

/**
 * The teams of a mesh along axes: ranks that differ in nothing else, in the order of their blocks. Where ranks are processes,
 * all of them split their world here, at the first collective of a kind.
 */
function teamsOf(mesh: MeshShape, axes: readonly string[]): readonly Team[] {
  const key = `${mesh.device} ${mesh} ${axes}`;
  let known = teams.get(key);
  if (known === undefined) {
    const held = heldRanks(mesh), others = mesh.names.filter((n) => !axes.includes(n));
    const colors = held.map((r) => mesh.block(r, others)), keys = held.map((r) => mesh.block(r, axes));
    const all = held.length === mesh.size ? new LocalCommunicator(mesh.size, reduceRanges) : world.communicator!;
    const communicators = all.split(colors, keys);
    known = [...new Set(colors)].map((c, i) => ({
      parts: held.flatMap((_, part) => colors[part] === c ? [part] : []).sort((a, b) => keys[a] - keys[b]),
      communicator: communicators[i],
    }));
    teams.set(key, known);
  }
  return known;
}

/** Buffers next to each other have less than this between them, in bytes: what their beginnings are aligned to. */
const NEAR = 256;

/** Whether the steps that run now have been compared among the ranks. */
let isAgreed = false;
/** What ranks compare of the steps of a schedule or replay: what errors call it, a hash of the steps, a line of the user's. */
interface Agreement {
  readonly what: string;
  readonly text: string;
  readonly site: { readonly line: Line | undefined };
}
/** By schedule or replay; null where nothing moves between processes. */
const agreements = new WeakMap<object, Agreement | null>();

/** What ranks compare before they run steps: a hash of each step with its sizes. */
function agreementOf(items: readonly ExecItem[]): Agreement | null {
  const isShared = items.some(({ runner }) => runner instanceof CollectiveStep && isBetweenProcesses(runner.what.mesh));
  if (!isShared) return null;
  const text = items.map(({ runner, bufs }) => {
    const what = runner instanceof CollectiveStep
      ? `${runner.what} ${runner.what.op} ${runner.what.shift}`
      : runner.kind;
    return `${what} ${bufs.map((b) => `${b.dtype}${b.size}`)}`;
  }).join(";");
  const line = items.find((i) => i.runner instanceof CollectiveStep)?.line;
  return { what: collectivesText(items), text: hash64(text).toString(16), site: { line } };
}

/** The collectives of steps, as an error names them. */
function collectivesText(items: readonly ExecItem[]): string {
  const all = items.flatMap(({ runner, bufs }) =>
    runner instanceof CollectiveStep ? [`${runner.what} of ${bufs.at(-1)!.dtype}[${bufs.at(-1)!.size}]`] : []
  );
  const more = all.length > 3 ? `, and ${all.length - 3} more` : "";
  return `a schedule of ${items.length} steps with ${all.slice(0, 3).join(", ")}${more}`;
}

/**
 * Runs steps, those of `owner` each time, while all ranks tell what they are about to run: then their collectives are not
 * compared one by one. The first time they have told before anything runs; later that goes on beside the steps, and whoever
 * waits for the results is told.
 *
 * @throws {CollectiveError} that names what each rank is about to run, where they differ
 */
export function runAgreed(owner: object, items: readonly ExecItem[], run: () => void): void {
  if (meshes.count === 0) return run();
  let agreement = agreements.get(owner);
  const isFirst = agreement === undefined;
  if (agreement === undefined) agreements.set(owner, agreement = agreementOf(items));
  if (agreement === null || isAgreed) return run();
  const compared = world.communicator!.agree(agreement.what, agreement.text, agreement.site);
  if (isFirst) compared.wait();
  isAgreed = true;
  try {
    run();
  } finally {
    isAgreed = false;
  }
  compared.join();
}

function isBetweenProcesses(mesh: MeshShape): boolean {
  return heldRanks(mesh).length < mesh.size;
}

/** Whether a collective can be part of a graph: it only queues work of the ranks' devices, the same each time and on all ranks. */
export function canCapture({ kind, mesh }: CollectiveArg): boolean {
  const isMove = kind === "gather" || kind === "scatter" || kind === "permute"; // some ranks copy, others do not
  return !isMove && isBetweenProcesses(mesh) && getDevice(mesh.device).takesInsertions === true;
}

const REDUCE_OPS: { readonly [op: number]: ReduceOp } = { [Ops.ADD]: "sum", [Ops.MUL]: "prod", [Ops.MAX]: "max" };

/** Buffers that lie one after the other, and what is between them, as one; undefined where they do not. */
function rangeOver(bufs: readonly Buffer[]): Buffer | undefined {
  const [first] = bufs, { base, dtype } = first, last = bufs[bufs.length - 1], end = last.offset + last.nbytes;
  let at = first.offset;
  for (const b of bufs) {
    if (b.base !== base || b.offset < at || b.offset - at >= NEAR) return undefined;
    at = b.offset + b.nbytes;
  }
  return base.view(first.offset - base.offset, (end - first.offset) / dtype.itemsize, dtype);
}

/**
 * Starts what `what` says, from the second half of `bufs` to the first; `line` is the user's. What is given back is to be
 * joined before something writes what it reads, or uses what it writes.
 */
export function startCollective(what: CollectiveArg, bufs: readonly Buffer[], line?: string): readonly Work[] {
  const count = bufs.length / 2, tos = bufs.slice(0, count), froms = bufs.slice(count);
  if (count === 1) return startOne(what, tos[0], froms[0], line);
  if (what.kind !== "allReduce") return startGroup(what, tos, froms, line);
  const to = rangeOver(tos), from = rangeOver(froms);
  if (to !== undefined && from !== undefined && to.nbytes === from.nbytes) return startOne(what, to, from, line);
  return tos.flatMap((t, i) => startOne(what, t, froms[i], line));
}

function startOne(what: CollectiveArg, to: Buffer, from: Buffer, line?: string): readonly Work[] {
  const { kind, mesh, axes } = what;
  if (to.nbytes === 0) return [];
  GlobalCounters.collectiveCount++;
  if (kind === "scatter") {
    const { size, nbytes } = to;
    const held = heldRanks(mesh);
    partsOfBuffer(to).forEach((part, i) => {
      const at = mesh.block(held[i], axes) * nbytes;
      GlobalCounters.collectiveBytes += nbytes;
      copyBuffer(part, from.view(at, size));
    });
    return [];
  }
  if (kind === "gather") return gather(what, to, from, line);
  const outs = partsOfBuffer(to), ins = partsOfBuffer(from);
  return actsOf(what).map(({ team: { parts, communicator }, collective }) => {
    GlobalCounters.collectiveBytes += parts.length * from.nbytes;
    return communicator.start(collective, parts.map((i) => ins[i]), parts.map((i) => outs[i]), { line, isAgreed });
  });
}

/** Starts a collective on several ranges as one. */
function startGroup(
  what: CollectiveArg,
  tos: readonly Buffer[],
  froms: readonly Buffer[],
  line?: string,
): readonly Work[] {
  const outs = tos.map(partsOfBuffer), ins = froms.map(partsOfBuffer);
  GlobalCounters.collectiveCount++;
  return actsOf(what).flatMap(({ team: { parts, communicator }, collective }) => {
    for (const from of froms) GlobalCounters.collectiveBytes += parts.length * from.nbytes;
    const pairs = outs.map((to, k) => ({ from: parts.map((i) => ins[k][i]), to: parts.map((i) => to[i]) }));
    return communicator.startGroup(collective, pairs.filter(({ to }) => to[0].nbytes > 0), { line, isAgreed });
  });
}

/** What each team starts for a collective. */
function actsOf(what: CollectiveArg): readonly Act[] {
  let known = acts.get(what);
  if (known === undefined) {
    const { kind, mesh, axes, op, shift } = what;
    known = teamsOf(mesh, axes).map((team) => {
      const { communicator: { size } } = team;
      const collective: Collective = kind === "allReduce" || kind === "reduceScatter"
        ? { kind, op: REDUCE_OPS[op] }
        : kind === "permute"
        ? { kind, pairs: rangeOf(size).map((r) => [r, floorMod(r + shift, size)]) }
        : { kind } as Collective;
      return { team, collective };
    });
    acts.set(what, known);
  }
  return known;
}

/** All blocks on one device: copies where this process holds them, else each process gets those of the others. */
function gather({ mesh, axes }: CollectiveArg, to: Buffer, from: Buffer, line?: string): readonly Work[] {
  const held = heldRanks(mesh), parts = partsOfBuffer(from), seen = new Set<number>(), { size, nbytes } = from;
  if (isBetweenProcesses(mesh)) {
    const [{ communicator }] = teamsOf(mesh, axes);
    GlobalCounters.collectiveBytes += nbytes;
    return [communicator.start({ kind: "allGather" }, parts, [to], { line, isAgreed })];
  }
  parts.forEach((part, i) => {
    const at = mesh.block(held[i], axes);
    if (seen.has(at)) return;
    seen.add(at);
    GlobalCounters.collectiveBytes += nbytes;
    copyBuffer(to.view(at * nbytes, size), part);
  });
  return [];
}

/** Of two elements: a NaN is larger than all, and smaller. */
function combined(op: ReduceOp, a: UOp, b: UOp): UOp {
  if (op === "sum") return a.alu(Ops.ADD, b);
  if (op === "prod") return a.alu(Ops.MUL, b);
  if (a.dtype.isBool) return a.alu(op === "max" ? Ops.OR : Ops.AND, b);
  if (op === "max") return a.alu(Ops.MAX, b);
  const { bool } = dtypes, isLess = uop(Ops.CMPLT, bool, [b, a]), isNaN = uop(Ops.CMPNE, bool, [b, b]);
  return uop(Ops.WHERE, a.dtype, [uop(Ops.OR, bool, [isLess, isNaN]), b, a]);
}

/** One element of each of `count` ranges reduced to one; floats of 16 bits and fewer in float32, rounded once. */
function reductionOf(op: ReduceOp, dtype: DType, size: number, count: number): UOp {
  const at = range(size, 0, AxisKind.LOOP), wide = dtype.isFloat && dtype.itemsize < 4 ? dtypes.float32 : dtype;
  const of = (slot: number): UOp => load(index(param(slot, dtype, size), at)).cast(wide);
  let all = of(1);
  for (let slot = 2; slot <= count; slot++) all = combined(op, all, of(slot));
  return sink([store(index(param(0, dtype, size), at), all.cast(dtype))]);
}

/** Queues a kernel: `to` becomes `parts` reduced, in their order; all have one size and dtype, on one device. */
export function reduceRanges(op: ReduceOp, to: Buffer, parts: readonly Buffer[]): void {
  const device = getDevice(to.device.name);
  const [program] = compileKernels(device, [reductionOf(op, to.dtype, to.size, parts.length)]);
  device.run([{ program, buffers: [to, ...parts], vars: [] }]);
}

/** A kernel that copies a buffer to another of its size. */
export function copyProgram(
  device: string,
  dtype: DType,
  size: number,
): { readonly ast: UOp; readonly program: Program } {
  const ast = reductionOf("sum", dtype, size, 1), [program] = compileKernels(getDevice(device), [ast]);
  return { ast, program };
}

/** Whether two buffers have bytes in common. */
export function overlaps(a: Buffer, b: Buffer): boolean {
  return a.base === b.base && a.offset < b.offset + b.nbytes && b.offset < a.offset + a.nbytes;
}

/** Whether a step has to wait for a collective on `bufs`; `meets` tells which buffers, or what stands for them, share memory. */
export function needsEnd<T>(
  { reads, writes }: Access<T>,
  bufs: readonly T[],
  meets: (a: T, b: T) => boolean,
): boolean {
  const half = bufs.length / 2;
  return bufs.some((b, i) => writes.some((w) => meets(w, b)) || (i < half && reads.some((r) => meets(r, b))));
}

/** Collectives under way, each with its buffers: those that it writes, then those that it reads. */
export class UnderWay {
  private list: { readonly works: readonly Work[]; readonly bufs: readonly Buffer[]; readonly ended?: () => void }[] =
    [];

  /** Whether there is none. */
  get isEmpty(): boolean {
    return this.list.length === 0;
  }
  /** Notes what was started. @param ended is called when it was waited for */
  add(works: readonly Work[], bufs: readonly Buffer[], ended?: () => void): void {
    this.list.push({ works, bufs, ended });
  }
  /** Whether a step would have to wait. */
  meets(access: Access): boolean {
    return this.list.some(({ bufs }) => needsEnd(access, bufs, overlaps));
  }
  /** Waits for what a step needs the end of. @throws {CollectiveError} */
  joinFor(access: Access): void {
    this.join((bufs) => needsEnd(access, bufs, overlaps));
  }
  /** Waits for all. @throws {CollectiveError} */
  joinAll(): void {
    this.join(() => true);
  }
  /** Waits for all after something has failed, which is told, and not what happens here. */
  abandon(): void {
    try {
      this.joinAll();
    } catch { /* the first error says more */ }
  }
  private join(isNeeded: (bufs: readonly Buffer[]) => boolean): void {
    const needed = this.list.filter(({ bufs }) => isNeeded(bufs));
    if (needed.length === 0) return;
    this.list = this.list.filter((x) => !needed.includes(x));
    for (const { works, ended } of needed) {
      for (const work of works) work.join();
      ended?.();
    }
  }
}
