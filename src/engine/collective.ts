/**
 * How a COLLECTIVE runs: for each group of ranks that act together, by the communicator of these ranks, on what their
 * devices have of the buffers.
 *
 * @module
 */
import type { Communicator, ReduceOp } from "../collectives/communicator.ts";
import { LocalCommunicator } from "../collectives/local.ts";
import type { Buffer } from "../device/buffer.ts";
import { partsOfBuffer } from "../device/group.ts";
import { Ops } from "../uop/core/ops.ts";
import type { CollectiveArg, MeshShape } from "../uop/core/sharding.ts";
import { GlobalCounters } from "./stats.ts";

/** Ranks of a mesh that act together along an axis, in order, and what joins them. */
interface Team {
  readonly ranks: readonly number[];
  readonly communicator: Communicator;
}

const teams = new Map<string, readonly Team[]>();

/** The teams of a mesh along an axis: ranks that differ in nothing else. */
function teamsOf(mesh: MeshShape, axis: string): readonly Team[] {
  const key = `${mesh.device} ${mesh} ${axis}`;
  let known = teams.get(key);
  if (known === undefined) {
    const others = mesh.names.filter((n) => n !== axis), all = Array.from({ length: mesh.size }, (_, r) => r);
    const colors = all.map((r) => mesh.block(r, others));
    const communicators = new LocalCommunicator(mesh.size).split(colors);
    known = [...new Set(colors)].map((c, i) => (
      { ranks: all.filter((r) => colors[r] === c), communicator: communicators[i] }
    ));
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
  const { kind, mesh, axes, op } = what;
  GlobalCounters.collectiveCount++;
  if (kind === "scatter") {
    const { size, nbytes } = to;
    return partsOfBuffer(to).forEach((part, rank) => {
      const at = mesh.block(rank, axes) * nbytes;
      GlobalCounters.collectiveBytes += nbytes;
      copyPart(part, from.view(at, size));
    });
  }
  if (kind === "gather") {
    const seen = new Set<number>(), { size, nbytes } = from;
    return partsOfBuffer(from).forEach((part, rank) => {
      const at = mesh.block(rank, axes);
      if (seen.has(at)) return;
      seen.add(at);
      GlobalCounters.collectiveBytes += nbytes;
      copyPart(to.view(at * nbytes, size), part);
    });
  }
  const outs = partsOfBuffer(to), ins = partsOfBuffer(from);
  const collective = kind === "allReduce" || kind === "reduceScatter" ? { kind, op: REDUCE_OPS[op] } : { kind };
  for (const { ranks, communicator } of teamsOf(mesh, axes[0])) {
    GlobalCounters.collectiveBytes += ranks.length * from.nbytes;
    communicator.start(collective, ranks.map((r) => ins[r]), ranks.map((r) => outs[r]), { line }).wait();
  }
}
