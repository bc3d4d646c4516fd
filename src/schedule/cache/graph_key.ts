/**
 * The structural key of a graph: what it is, with buffers as slots, bound values, scalar constants and the offsets of
 * slices and padding left out. Graphs of one key share a schedule; keys are lists of integers and args, compared exactly.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { mix } from "../../helpers/hash.ts";
import { type Arg, argOf, hashArg, OwnArg, sameArg, type Storage } from "../../uop/core/args.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { mayHave, toposort, type UOp } from "../../uop/core/uop.ts";
import { extentsOf } from "../../uop/graph/extent.ts";

/** The start of a slice along an axis, or the zeros in front of a padded one: a number that may become an argument. */
export interface Offset {
  /** Position of the SHRINK or PAD in the key's order, and the axis. */
  readonly at: number;
  readonly axis: number;
  readonly value: number;
  /** The largest that it may be. */
  readonly max: number;
  /** Whether it is a slice of memory: an argument is but part of an address there. */
  readonly isRead: boolean;
  /** Whether it stays a number until it is seen to differ: where it is written to, and which part of a whole it is. */
  isFixed: boolean;
}

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
  readonly offsets: readonly Offset[];
}

const INT32_MAX = 2 ** 31 - 1;
/** Stands in a key for a constant that may become an argument, where others have their value: no op is it. */
const PARAMETER = -1;

/** Takes the offsets of a SHRINK or PAD; gives whether it has none that may be an argument. */
function takeOffsets(u: UOp, ints: number[], offsets: Offset[]): boolean {
  const { pairs } = argOf(u, Ops.PAD), [x] = u.src, from = shapeOf(x), isPad = u.op === Ops.PAD;
  if (extentsOf(u) !== null || extentsOf(x) !== null) return true;
  for (let i = 0; i < pairs.length; i++) if (Math.max(from[i], pairs[i][1]) > INT32_MAX) return true;
  const isRead = !isPad && (x.op === Ops.BUFFER || (x.op === Ops.RESHAPE && x.src[0].op === Ops.BUFFER));
  for (let axis = 0; axis < pairs.length; axis++) {
    const [a, b] = pairs[axis], size = isPad ? from[axis] + a + b : b - a;
    ints.push(size);
    const max = Math.abs(from[axis] - size);
    if (max > 0) offsets.push({ at: u.at, axis, value: a, max, isRead, isFixed: false });
  }
  return false;
}

/** Marks what stays where it is: the target of a write, and parts that are put side by side. */
function fixOffsets(u: UOp, offsets: readonly Offset[]): void {
  const fix = (x: UOp): void => {
    for (let i = offsets.length - 1; i >= 0; i--) if (offsets[i].at === x.at) offsets[i].isFixed = true;
  };
  if (u.op === Ops.STORE) { for (let x = u.src[0]; isMovement(x.op); x = x.src[0]) fix(x); }
  if (u.op !== Ops.WHERE || u.src[1].op !== Ops.PAD) return;
  if (u.src[2].op === Ops.PAD || u.src[2].op === Ops.WHERE) { for (const x of u.src) if (x.op === Ops.PAD) fix(x); }
}

/**
 * Constants with no algebra of their own may be passed as arguments: floats, and whole numbers of int32 where no variable is
 * bound, whose sizes and starts are reckoned with such.
 */
function isParameter(u: UOp, hasBound: boolean): boolean {
  const v = u.arg, { dtype } = u;
  if (typeof v !== "number" || dtype.count !== 1 || !Number.isFinite(v)) return false;
  return v !== 0 && v !== 1 && v !== -1 && (dtype.isFloat || dtype === dtypes.int32 && !hasBound);
}

/** Takes the graph below `roots` apart. `extra` (a device, options) takes part in the key; so do all constants where `exact`. */
export function graphKey(roots: readonly UOp[], extra: readonly Arg[] = [], exact = false): GraphKey {
  const hasBound = roots.some((r) => mayHave(r, Ops.BIND));
  const order = toposort(roots, hasBound ? (u) => u.op !== Ops.BIND : undefined);
  const ints: number[] = [order.length, roots.length];
  const args: Arg[] = [...extra];
  const storages: Storage[] = [];
  const slots = new Map<Storage, number>();
  // what tells copies of one value apart
  const names = new Map<number, number>();
  const nameOf = (id: number): number => {
    if (!names.has(id)) names.set(id, names.size);
    return names.get(id)!;
  };
  const offsets: Offset[] = [];
  const constants: number[] = [], constantAt: number[] = [], bound: number[] = [], boundAt: number[] = [];
  let hash = 0x2127599b;
  for (const a of extra) hash = mix(hash, hashArg(a));
  for (let i = 0; i < order.length; i++) {
    const u = order[i];
    u.at = i; // where it is in `order`
    ints.push(u.op | (u.dtype.id << 8) | (u.dtype.count << 16), u.src.length);
    if (u.op !== Ops.BIND) { for (let k = 0; k < u.src.length; k++) ints.push(u.src[k].at); }
    if (u.op === Ops.BUFFER) {
      const { storage, version } = argOf(u, Ops.BUFFER);
      let slot = slots.get(storage);
      if (slot === undefined) {
        slots.set(storage, slot = storages.length);
        storages.push(storage);
      }
      ints.push(slot, storage.size, version - storage.version, storage.staging ? 1 : 0);
      args.push(storage.device);
    } else if (u.op === Ops.CONST && !exact && isParameter(u, hasBound)) {
      constants.push(argOf(u, Ops.CONST) as number);
      constantAt.push(i);
      ints.push(PARAMETER);
    } else if (u.op === Ops.BIND) {
      bound.push(u.src[1].value);
      boundAt.push(i);
      args.push(u.src[0].arg); // a schedule is the same whoever binds
    } else if ((u.op === Ops.SHRINK || u.op === Ops.PAD) && !exact) {
      if (takeOffsets(u, ints, offsets)) args.push(u.arg);
    } else {
      const { arg } = u;
      if (u.op !== Ops.CONTIGUOUS || arg === undefined) args.push(arg);
      else if (arg instanceof OwnArg) {
        ints.push(nameOf(arg.identity));
        args.push(arg.device);
      } else ints.push(nameOf(arg as number));
      if (offsets.length > 0) fixOffsets(u, offsets);
    }
  }
  const rootAt = roots.map((r) => r.at);
  for (let i = 0; i < rootAt.length; i++) ints.push(rootAt[i]);
  for (let i = 0; i < ints.length; i++) hash = mix(hash, ints[i]);
  for (let i = extra.length; i < args.length; i++) hash = mix(hash, hashArg(args[i]));
  return { hash, ints, args, order, rootAt, storages, constants, constantAt, bound, boundAt, offsets };
}

/** True when two graphs differ at most in buffers, bound values, scalar constants and offsets. */
export function sameKey(a: GraphKey, b: GraphKey): boolean {
  if (a.hash !== b.hash || a.ints.length !== b.ints.length || a.args.length !== b.args.length) return false;
  for (let i = 0; i < a.ints.length; i++) if (a.ints[i] !== b.ints[i]) return false;
  for (let i = 0; i < a.args.length; i++) if (!sameArg(a.args[i], b.args[i])) return false;
  return true;
}
