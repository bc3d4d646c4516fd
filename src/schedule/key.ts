/**
 * The structural key of a graph: what it is, with buffers as slots, bound values and scalar constants left out. Graphs of
 * one key share a schedule; keys are lists of integers and args, compared exactly.
 *
 * @module
 */
import { mix } from "../helpers/hash.ts";
import { type Arg, type BufferArg, hashArg, sameArg, type Storage } from "../uop/args.ts";
import { Ops } from "../uop/ops.ts";
import { mayHave, toposort, type UOp } from "../uop/uop.ts";

/** A graph taken apart. */
export interface GraphKey {
  readonly hash: number;
  readonly ints: readonly number[];
  readonly args: readonly Arg[];
  /** All nodes, sources first: positions are stable for one key. */
  readonly order: readonly UOp[];
  /** Positions of the roots in `order`. */
  readonly rootAt: readonly number[];
  /** Storages by slot, in order of first appearance. */
  readonly storages: readonly Storage[];
  /** Values of scalar constants that may become arguments, with their positions in `order`. */
  readonly constants: readonly number[];
  readonly constantAt: readonly number[];
  /** Values of BINDs, with their positions in `order`. */
  readonly bound: readonly number[];
  readonly boundAt: readonly number[];
}

/** Float constants with no algebra of their own may be passed as arguments. */
function isParameter(u: UOp): boolean {
  const v = u.arg;
  return typeof v === "number" && u.dtype.isFloat && u.dtype.count === 1 && Number.isFinite(v) && v !== 0 && v !== 1 &&
    v !== -1;
}

/** Takes the graph below `roots` apart. `extra` (a device, options) takes part in the key; so do all constants where `exact`. */
export function graphKey(roots: readonly UOp[], extra: readonly Arg[] = [], exact = false): GraphKey {
  const hasBound = roots.some((r) => mayHave(r, Ops.BIND));
  const order = toposort(roots, hasBound ? (u) => u.op !== Ops.BIND : undefined);
  const ints: number[] = [order.length, roots.length];
  const args: Arg[] = [...extra];
  const storages: Storage[] = [];
  const slots = new Map<Storage, number>();
  const constants: number[] = [], constantAt: number[] = [], bound: number[] = [], boundAt: number[] = [];
  let hash = 0x2127599b;
  for (const a of extra) hash = mix(hash, hashArg(a));
  for (let i = 0; i < order.length; i++) {
    const u = order[i];
    u.at = i; // where it is in `order`
    ints.push(u.op | (u.dtype.id << 8) | (u.dtype.count << 16), u.src.length);
    if (u.op !== Ops.BIND) { for (let k = 0; k < u.src.length; k++) ints.push(u.src[k].at); }
    if (u.op === Ops.BUFFER) {
      const { storage, version } = u.arg as BufferArg;
      let slot = slots.get(storage);
      if (slot === undefined) {
        slots.set(storage, slot = storages.length);
        storages.push(storage);
      }
      ints.push(slot, storage.size, version - storage.version);
      args.push(storage.device);
    } else if (u.op === Ops.CONST && !exact && isParameter(u)) {
      constants.push(u.arg as number);
      constantAt.push(i);
    } else if (u.op === Ops.BIND) {
      bound.push(u.src[1].value);
      boundAt.push(i);
      args.push(u.src[0].arg, u.arg);
    } else args.push(u.arg);
  }
  const rootAt = roots.map((r) => r.at);
  for (let i = 0; i < rootAt.length; i++) ints.push(rootAt[i]);
  for (let i = 0; i < ints.length; i++) hash = mix(hash, ints[i]);
  for (let i = extra.length; i < args.length; i++) hash = mix(hash, hashArg(args[i]));
  return { hash, ints, args, order, rootAt, storages, constants, constantAt, bound, boundAt };
}

/** True when two graphs differ at most in buffers, bound values and scalar constants. */
export function sameKey(a: GraphKey, b: GraphKey): boolean {
  if (a.hash !== b.hash || a.ints.length !== b.ints.length || a.args.length !== b.args.length) return false;
  for (let i = 0; i < a.ints.length; i++) if (a.ints[i] !== b.ints[i]) return false;
  for (let i = 0; i < a.args.length; i++) if (!sameArg(a.args[i], b.args[i])) return false;
  return true;
}
