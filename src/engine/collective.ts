/**
 * How a COLLECTIVE runs: for each group of ranks that act together, by the communicator of these ranks, on what their
 * devices have of the buffers.
 *
 * @module
 */
import type { Collective, Communicator, ReduceOp } from "../collectives/communicator.ts";
import { world } from "../collectives/engines.ts";
import { LocalCommunicator } from "../collectives/local.ts";
import type { Buffer } from "../device/buffer.ts";
import { findGroup, partsOfBuffer } from "../device/group.ts";
import { floorMod, rangeOf } from "../helpers/math.ts";
import { Ops } from "../uop/core/ops.ts";
import type { CollectiveArg, MeshShape } from "../uop/core/sharding.ts";
import { GlobalCounters } from "./stats.ts";

/** Ranks of a mesh that act together: what joins them, and which parts of a buffer of this process are theirs. */
interface Team {
  readonly parts: readonly number[];
  readonly communicator: Communicator;
}

const teams = new Map<string, readonly Team[]>();

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
    const all = held.length === mesh.size ? new LocalCommunicator(mesh.size) : world.communicator!;
    const communicators = all.split(colors, keys);
    known = [...new Set(colors)].map((c, i) => ({
      parts: held.flatMap((_, part) => colors[part] === c ? [part] : []).sort((a, b) => keys[a] - keys[b]),
      communicator: communicators[i],
    }));
    teams.set(key, known);
  }
  return known;
}

const REDUCE_OPS: { readonly [op: number]: ReduceOp } = { [Ops.ADD]: "sum", [Ops.MUL]: "prod", [Ops.MAX]: "max" };

/** Copies a part of the bytes of one buffer into another one. */
function copyPart(to: Buffer, from: Buffer): void {
  if (to.nbytes > 0) to.copyIn(from.copyOut(new Uint8Array(from.nbytes)));
}

/** Does what `what` says, from `from` to `to`. `line` is the user's. */
export function runCollective(what: CollectiveArg, to: Buffer, from: Buffer, line?: string): void {
  const { kind, mesh, axes, op, shift } = what;
  if (to.nbytes === 0) return;
  GlobalCounters.collectiveCount++;
  if (kind === "scatter") {
    const { size, nbytes } = to;
    const held = heldRanks(mesh);
    return partsOfBuffer(to).forEach((part, i) => {
      const at = mesh.block(held[i], axes) * nbytes;
      GlobalCounters.collectiveBytes += nbytes;
      copyPart(part, from.view(at, size));
    });
  }
  if (kind === "gather") return gather(what, to, from, line);
  const outs = partsOfBuffer(to), ins = partsOfBuffer(from);
  for (const { parts, communicator } of teamsOf(mesh, axes)) {
    const collective: Collective = kind === "allReduce" || kind === "reduceScatter"
      ? { kind, op: REDUCE_OPS[op] }
      : kind === "permute"
      ? { kind, pairs: rangeOf(communicator.size).map((r) => [r, floorMod(r + shift, communicator.size)]) }
      : { kind };
    GlobalCounters.collectiveBytes += parts.length * from.nbytes;
    communicator.start(collective, parts.map((i) => ins[i]), parts.map((i) => outs[i]), { line }).wait();
  }
}

/** All blocks on one device: copies where this process holds them, else each process gets those of the others. */
function gather({ mesh, axes }: CollectiveArg, to: Buffer, from: Buffer, line?: string): void {
  const held = heldRanks(mesh), parts = partsOfBuffer(from), seen = new Set<number>(), { size, nbytes } = from;
  if (held.length < mesh.size) {
    const [{ communicator }] = teamsOf(mesh, axes);
    GlobalCounters.collectiveBytes += nbytes;
    return communicator.start({ kind: "allGather" }, parts, [to], { line }).wait();
  }
  parts.forEach((part, i) => {
    const at = mesh.block(held[i], axes);
    if (seen.has(at)) return;
    seen.add(at);
    GlobalCounters.collectiveBytes += nbytes;
    copyPart(to.view(at * nbytes, size), part);
  });
}
