/**
 * JIT_CHECK: each replay beside a call of the function, compared bit by bit. Whatever the function depends on besides its
 * arguments and its state shows as a difference.
 *
 * @module
 */
import { type Buffer, bufferOf } from "../device/buffer.ts";
import { JitError } from "../helpers/errors.ts";
import type { Storage } from "../uop/args.ts";
import type { TensorBase } from "./base.ts";
import { type Leaves, leavesOfTree } from "./jit_arguments.ts";
import { type Captured, storageOf } from "./jit_capture.ts";
import { reserveCounter } from "./random.ts";
import { realizeTensors } from "./realize.ts";

function bytesOf(buffer: Buffer): Uint8Array {
  return buffer.copyOut(new Uint8Array(buffer.nbytes));
}

function firstDifference(a: Uint8Array, b: Uint8Array): number {
  if (a.length !== b.length) return 0;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return i;
  return -1;
}

function check(what: string, got: Uint8Array, want: Uint8Array, itemsize: number): void {
  const at = firstDifference(got, want);
  if (at < 0) return;
  const element = Math.floor(at / itemsize);
  const text = (x: Uint8Array): string =>
    [...x.subarray(element * itemsize, (element + 1) * itemsize)].reverse().map((v) => v.toString(16).padStart(2, "0"))
      .join("");
  throw new JitError("replay a jit function", {
    reason: `JIT_CHECK: element ${element} of ${what} has the bits ${text(got)}, the function called now gives ${
      text(want)
    }; it depends on something that is no argument: pass it, or call reset() when it changes`,
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
  call: () => unknown,
): unknown {
  const targets = c.replay.targets.map((s) => bufferOf(s)!), watched = [...targets];
  if ([...watched, ...storages.map((s) => bufferOf(s)!)].some((b) => b.device.allocator.copyOut === undefined)) {
    return c.run(leaves, storages, false);
  }
  const before = targets.map(bytesOf), grads = c.gradients();
  const outputs = (tree: unknown): TensorBase[] => [...leavesOfTree(tree, "call a jit function").tensors];
  const result = c.run(leaves, storages, false);
  const got = [...outputs(result), ...c.gradients().filter((g) => g !== undefined)];
  const values = got.map((t) => bytesOf(bufferOf(storageOf(t))!)), state = targets.map(bytesOf);
  targets.forEach((b, i) => b.copyIn(before[i]));
  c.setGradients(grads);
  reserveCounter(-c.draws);
  const again = call();
  const want = [...outputs(again), ...c.gradients().filter((g) => g !== undefined)];
  if (want.length !== got.length) {
    throw new JitError("replay a jit function", {
      reason: `JIT_CHECK: the replay gives ${got.length} tensors, the function called now gives ${want.length}`,
    });
  }
  want.forEach((t, i) => {
    realizeTensors([t]);
    check(`result ${i}`, values[i], bytesOf(bufferOf(storageOf(t))!), t.dtype.itemsize);
  });
  targets.forEach((b, i) => check(`state tensor ${i}`, state[i], bytesOf(b), b.dtype.itemsize));
  return result;
}
