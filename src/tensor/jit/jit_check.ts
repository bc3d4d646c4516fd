/**
 * JIT_CHECK: each replay beside a call of the function, compared bit by bit. Whatever the function depends on besides its
 * arguments and its state shows as a difference.
 *
 * @module
 */
import { type Buffer, bufferOf } from "../../device/buffer.ts";
import { readLog } from "../../engine/front/listening.ts";
import { JitError } from "../../helpers/errors.ts";
import { argOf, type Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { nodesMade, toposort, type UOp } from "../../uop/core/uop.ts";
import { resolve } from "../../uop/graph/resolve.ts";
import { internals, type TensorBase } from "../handle/base.ts";
import { reserveCounter } from "../nodes/random.ts";
import { realizeTensors } from "../realize.ts";
import { type Leaves, leavesOfTree } from "./jit_arguments.ts";
import type { Captured } from "./captured.ts";
import type { Parts } from "./jit_memory.ts";
import { shownBy, storageOf } from "./jit_places.ts";

function bytesOf(buffer: Buffer): Uint8Array {
  return buffer.copyOut(new Uint8Array(buffer.nbytes));
}

function firstDifference(a: Uint8Array, b: Uint8Array): number {
  if (a.length !== b.length) return 0;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return i;
  return -1;
}

/** A tensor that a function read, of whose binding nothing is known: "float32 [3] made at a.ts:3:5". */
function nameOf(u: UOp): string {
  const line = u.op === Ops.BUFFER ? bufferOf(argOf(u, Ops.BUFFER).storage)?.line ?? u.line : u.line;
  return `${u.dtype.name} [${shapeOf(u).join(", ")}]${line === undefined ? "" : ` made at ${line}`}`;
}

/**
 * Watches a call for tensors that it closes over and that did not exist when it was captured: those that were rebound.
 * `known` are storages that each call brings, or that the function itself gives other tensors.
 */
class Watch {
  /** The outermost of them. */
  readonly found: Set<UOp> = new Set();
  private readonly until = nodesMade();

  constructor(private readonly since: number, private readonly known: ReadonlySet<Storage>) {}

  private isNew(u: UOp): boolean {
    if (u.op !== Ops.BUFFER) return u.seq >= this.since && u.seq < this.until;
    const { storage, version } = argOf(u, Ops.BUFFER);
    // values of the host are born with their node; one of a later version is that of a write
    const born = storage.born === Infinity && version === 0 ? u.seq : storage.born;
    return !this.known.has(storage) && born >= this.since && born < this.until;
  }

  look(nodes: readonly UOp[]): void {
    for (const u of toposort(nodes.map((n) => resolve(n)))) {
      // shapes and constants are shared by everybody
      if (deviceOf(u) === null || u.op === Ops.RESHAPE || !this.isNew(u)) continue;
      for (const s of u.src) this.found.delete(s);
      if (![...this.found].some((f) => f.src.includes(u))) this.found.add(u);
    }
  }

  /** What to say of a difference. */
  get text(): string {
    const [first] = this.found;
    if (first === undefined) {
      return "it depends on something that is no argument: pass it, or call reset() when it changes";
    }
    const more = this.found.size > 1 ? `, and ${this.found.size - 1} others` : "";
    return `it closes over a variable that has been given another tensor since it was captured (${
      nameOf(first)
    }${more}): ` +
      "pass that as an argument, change the tensor it had with assign(x).realize() or replace(x), or call reset() when it changes";
  }
}

function check(what: string, got: Uint8Array, want: Uint8Array, itemsize: number, watch: Watch): void {
  const at = firstDifference(got, want);
  if (at < 0) return;
  const element = Math.floor(at / itemsize);
  const text = (x: Uint8Array): string =>
    [...x.subarray(element * itemsize, (element + 1) * itemsize)].reverse().map((v) => v.toString(16).padStart(2, "0"))
      .join("");
  throw new JitError("replay a jit function", {
    reason: `JIT_CHECK: element ${element} of ${what} has the bits ${text(got)}, the function called now gives ${
      text(want)
    }; ${watch.text}`,
  });
}

/**
 * Replays, puts the state back, calls, and compares results, state and gradients. Gives what the replay gave; the state is
 * that of the call. On devices that read only asynchronously nothing is compared.
 * @throws {JitError} where they differ
 */
export function checkedReplay(
  c: Captured,
  leaves: Leaves,
  storages: readonly Storage[],
  parts: Parts,
  call: () => unknown,
): unknown {
  const written = [...[...c.writtenInputs.keys()].map((i) => storages[i]), ...c.found().map(storageOf)];
  const targets = [...c.replay.targets, ...written].map((s) => bufferOf(s)!), watched = [...targets];
  if ([...watched, ...storages.map((s) => bufferOf(s)!)].some((b) => b.device.allocator.copyOut === undefined)) {
    return c.run(leaves, storages, false, parts);
  }
  const before = targets.map(bytesOf), back = c.remember(), old = c.gradients().map(storageOf);
  const outputs = (tree: unknown): TensorBase[] => [...leavesOfTree(tree, "call a jit function").tensors];
  const result = c.run(leaves, storages, false, parts);
  const got = [...outputs(result), ...c.gradients()];
  realizeTensors(got, true);
  const values = got.map((t) => bytesOf(bufferOf(storageOf(t))!)), state = targets.map(bytesOf);
  targets.forEach((b, i) => b.copyIn(before[i]));
  back();
  reserveCounter(-c.draws);
  const brought = [...storages, ...c.replay.targets, ...old];
  const watch = new Watch(c.madeAt, new Set(brought));
  readLog.look = (nodes) => watch.look(nodes);
  let again: unknown;
  try {
    again = call();
  } finally {
    readLog.look = undefined;
  }
  const want = [...outputs(again), ...c.gradients()];
  if (want.length !== got.length) {
    throw new JitError("replay a jit function", {
      reason: `JIT_CHECK: the replay gives ${got.length} tensors, the function called now gives ${want.length}`,
    });
  }
  want.forEach((t, i) => {
    realizeTensors([t]);
    check(`result ${i}`, values[i], bytesOf(bufferOf(storageOf(t))!), t.dtype.itemsize, watch);
  });
  targets.forEach((b, i) => check(`state tensor ${i}`, state[i], bytesOf(b), b.dtype.itemsize, watch));
  // arguments, written again
  for (const t of outputs(result)) if (written.includes(shownBy(t)!)) internals.refresh(t);
  return result;
}
