/**
 * Reads realized nodes through. In: a tensor graph in which some nodes have become buffers. Out: the same graph on those
 * buffers, interned anew, so that `===` is equality again. Iterative: graphs may be deep.
 *
 * @module
 */
import { wantsLines, wantsMemoryLines } from "../../helpers/env.ts";
import { SpecError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { Site } from "../../helpers/stack.ts";
import { argOf, type Storage } from "../core/args.ts";
import { expand, flip, isMergingAll, pad, permute, reshape, shrink, skew, unskew } from "../core/build_movement.ts";
import { isMovement, isView, opName, Ops } from "../core/ops.ts";
import { shapeOf } from "../core/shape.ts";
import { bufferNode, renewed, type UOp, uop } from "../core/uop.ts";
import { knownSources } from "../rewrite/walk.ts";
import { isLabel, window } from "./extent.ts";

/**
 * Where lines are wanted, `node` was made at that which the program is at, if it has none. Where an operation ends in views of
 * what it computes, which nobody else names, so was that.
 */
export function takeLine(node: UOp): void {
  if (node.line !== undefined || !(node.op === Ops.BUFFER ? wantsMemoryLines() : wantsLines())) return;
  const line = new Site();
  for (let u = node; u.line === undefined; u = u.src[0]) {
    u.line = line;
    if (!isMovement(u.op) || u.src[0].names > 0 || u.src[0].src.length === 0) return;
  }
}

/** What a node is now: the end of its chain of `becomes`, which is shortened on the way. */
export function latest(u: UOp): UOp {
  if (u.becomes === undefined) return u;
  let end = u.becomes;
  while (end.becomes !== undefined) end = end.becomes;
  for (let v = u; v !== end;) {
    const next = v.becomes!;
    v.becomes = end;
    v = next;
  }
  return end;
}

/**
 * What reads `u` reads: what that is now, unless it is a value that has become memory of a tensor which has been written
 * since. Then it is computed again.
 */
export function readNow(u: UOp): UOp {
  if (u.becomes === undefined) return u;
  const end = latest(u),
    isOwn = u.op === Ops.COPY || u.op === Ops.AFTER || (u.op === Ops.CONTIGUOUS && u.arg !== undefined);
  let base = end;
  while (base.op === Ops.RESHAPE) base = base.src[0];
  if (isOwn || base.op !== Ops.BUFFER) return end;
  const { storage, version } = argOf(base, Ops.BUFFER);
  return storage.version === version || storage.disposedAt !== "" ? end : u;
}

/** What `u` is now, under any shape; of complex numbers the pairs. */
export function unshaped(u: UOp): UOp {
  u = latest(u);
  while (u.op === Ops.RESHAPE || u.op === Ops.COMPLEX) u = latest(u.src[0]);
  return u;
}

/** What `u` is now, under any shape and symbolic sizes. */
export function unlabeled(u: UOp): UOp {
  u = unshaped(u);
  while (isLabel(u)) u = unshaped(u.src[0]);
  return u;
}

/** The node of which `u` is all, in order: what a schedule takes it for. */
export function wholeOf(u: UOp): UOp {
  for (;;) {
    u = unlabeled(u);
    const isCut = u.op === Ops.DETACH || u.op === Ops.CONTIGUOUS_BACKWARD, below = isCut ? u.src[0] : turnedBack(u);
    if (below === undefined) return u;
    u = below;
  }
}

/** What a node is that turns axes and turns them back. */
function turnedBack(u: UOp): UOp | undefined {
  if (u.op !== Ops.PERMUTE) return undefined;
  let order = argOf(u, Ops.PERMUTE).axes;
  for (u = latest(u.src[0]); u.op === Ops.PERMUTE; u = latest(u.src[0])) {
    const { axes } = argOf(u, Ops.PERMUTE);
    order = order.map((a) => axes[a]);
    if (order.every((a, i) => a === i)) return u.src[0];
  }
  return undefined;
}

/** The nodes of which `u` is all, in order, whatever they have become: the innermost first, itself last. */
export function wholesOf(u: UOp): UOp[] {
  const path = [u];
  while (u.op === Ops.RESHAPE || u.op === Ops.DETACH || u.op === Ops.CONTIGUOUS_BACKWARD) path.push(u = u.src[0]);
  return path.reverse();
}

/** The views, outermost first, by which a node shows what is realized, and that; undefined where it is computed. */
export function viewsOfRealized(u: UOp): { readonly views: UOp[]; readonly below: UOp } | undefined {
  const views: UOp[] = [];
  do {
    if (!isMovement(u.op) && u.op !== Ops.CONTIGUOUS_BACKWARD && u.op !== Ops.CONTIGUOUS) return undefined;
    views.push(u);
    u = u.src[0];
  } while (u.becomes === undefined && u.op !== Ops.BUFFER);
  return { views, below: latest(u) };
}

/** By AFTER that is another one built anew, when the first of them was made. */
const firstMade = new WeakMap<UOp, number>();

/** What write an AFTER is: the same for those that are built anew when what it reads has been realized. */
export function writeOf(after: UOp): number {
  return firstMade.get(after) ?? after.seq;
}

/** By AFTER, those that are the same write: built anew for gradients, which merge no views, or for a schedule, which does. */
const sameWrites = new WeakMap<UOp, UOp[]>();

/** Notes that an AFTER is another one built anew. */
function noteAnew(after: UOp, made: UOp): void {
  const all = sameWrites.get(after) ?? [after];
  sameWrites.set(after, all);
  if (sameWrites.get(made) === all) return;
  all.push(made);
  sameWrites.set(made, all);
}

/** Lets an AFTER and all that are the same write read what it has become. */
export function writeBecomes(after: UOp, made: UOp): void {
  for (const u of sameWrites.get(after)?.splice(0) ?? []) if (u !== made) u.becomes ??= made;
}

/** The movement of node `u` applied to `x`, which has the shape of `u.src[0]`. Folds as the builders do. */
export function moveLike(u: UOp, x: UOp): UOp {
  switch (u.op) {
    case Ops.RESHAPE:
      return reshape(x, argOf(u, Ops.RESHAPE).shape);
    case Ops.EXPAND:
      return expand(x, argOf(u, Ops.EXPAND).shape);
    case Ops.PERMUTE:
      return permute(x, argOf(u, Ops.PERMUTE).axes);
    case Ops.PAD:
      return pad(x, argOf(u, Ops.PAD).pairs);
    case Ops.SHRINK:
      return shrink(x, argOf(u, Ops.SHRINK).pairs);
    case Ops.FLIP:
      return flip(x, argOf(u, Ops.FLIP).axes);
    case Ops.UNSKEW:
      return unskew(x, argOf(u, Ops.UNSKEW));
    case Ops.SKEW:
      return skew(x, argOf(u, Ops.SKEW));
    case Ops.WINDOW: {
      const { axis, capacity } = argOf(u, Ops.WINDOW);
      return window(x, axis, u.src[1], u.src[2], capacity);
    }
  }
  throw new SpecError(`${opName[u.op]} is no movement`);
}

/** A node on other sources: where all movement is merged, as the builders make it, else as it is. */
function rebuild(u: UOp, src: readonly UOp[]): UOp {
  return isMovement(u.op) && u.op !== Ops.WINDOW && isMergingAll()
    ? moveLike(u, src[0])
    : uop(u.op, u.dtype, src, u.arg);
}

/** Whether movement builders would make something else of a node whose source is `x`. */
function isMerged(u: UOp, x: UOp): boolean {
  if (u.op === x.op) return u.op === Ops.RESHAPE || u.op === Ops.EXPAND || u.op === Ops.PERMUTE || u.op === Ops.SHRINK;
  return u.op === Ops.RESHAPE && (argOf(u, Ops.RESHAPE).apart > 0 || sameArray(shapeOf(u), shapeOf(x)));
}

/**
 * A STORE through a view, resolved: what it writes is the memory below the view, also where the view itself has been
 * realized and is memory of its own by now. Pushes what is not resolved yet; undefined then.
 */
function resolveStore(u: UOp, memo: ReadonlyMap<UOp, UOp>, stack: UOp[]): UOp | undefined {
  const steps: UOp[] = [], needed = [u.src[1]];
  let base = u.src[0];
  for (; isView(base.op); base = base.src[0]) {
    steps.push(base);
    for (let i = 1; i < base.src.length; i++) needed.push(base.src[i]);
  }
  needed.push(base);
  const missing = needed.filter((s) => !memo.has(s));
  if (missing.length > 0) {
    stack.push(...missing);
    return undefined;
  }
  const target = steps.reduceRight(
    (x, s) => rebuild(s, [x, ...s.src.slice(1).map((r) => memo.get(r)!)]),
    memo.get(base)!,
  );
  return uop(Ops.STORE, u.dtype, [target, memo.get(u.src[1])!], u.arg);
}

/**
 * Which memory a node is a part of, of an earlier version, where nothing was written since; `now` reads realized nodes
 * through. Set with the first write to a part: until then there is none.
 */
export const untouched: { below(u: UOp, now?: (u: UOp) => UOp): Storage | undefined } = { below: () => undefined };

/** A part of memory, of the newest version if it is the same there. */
function newestPart(part: UOp): UOp {
  const storage = untouched.below(part), chain: UOp[] = [];
  if (storage === undefined) return part;
  for (let x = part; isMovement(x.op); x = x.src[0]) chain.push(x);
  return chain.reduceRight((x, step) => moveLike(step, x), bufferNode(storage));
}

/**
 * `root` with every realized node replaced by what it became, and every other node interned in the present generation.
 * BUFFER nodes are kept as they are. Pass one `memo` to resolve several roots of one graph. Nodes in `unread` are built
 * anew although they are realized, and stand for what they have become. Parts of an earlier version of memory are those of the newest one where nothing has been
 * written to them since.
 */
export function resolve(root: UOp, memo: Map<UOp, UOp> = new Map(), unread?: ReadonlySet<UOp>): UOp {
  const merges = isMergingAll(), stack: UOp[] = [root], known = (u: UOp): UOp | undefined => memo.get(u);
  while (stack.length > 0) {
    const u = stack[stack.length - 1], { src } = u;
    if (memo.has(u)) {
      stack.pop();
      continue;
    }
    const isUnread = u.becomes !== undefined && unread?.has(u) === true;
    const now = isUnread || u.becomes === undefined ? u : readNow(u);
    if (isUnread && memo.has(latest(u))) {
      memo.set(u, memo.get(latest(u))!);
      stack.pop();
      continue;
    }
    if (now !== u) {
      const done = memo.get(now);
      if (done === undefined) stack.push(now);
      else {
        memo.set(u, done);
        stack.pop();
      }
      continue;
    }
    if (u.op === Ops.BUFFER) {
      memo.set(u, u);
      stack.pop();
      continue;
    }
    if (u.op === Ops.STORE && isView(src[0].op)) {
      const made = resolveStore(u, memo, stack);
      if (made === undefined) continue;
      stack.pop();
      made.line ??= u.line;
      memo.set(u, made);
      continue;
    }
    const sources = knownSources(src, known, stack);
    if (sources === 0) continue;
    stack.pop();
    const isKept = sources === 1 && (u.becomes === undefined || isUnread) &&
      !(merges && isMovement(u.op) && isMerged(u, src[0]));
    const made = isKept ? renewed(u) : rebuild(u, src.map((s) => memo.get(s)!));
    made.line ??= u.line;
    if (u.op === Ops.AFTER && made !== u) {
      if (!firstMade.has(made)) firstMade.set(made, writeOf(u));
      noteAnew(u, made);
    }
    memo.set(u, made.op === Ops.SHRINK ? newestPart(made) : made);
    if (isUnread) memo.set(latest(u), memo.get(u)!); // what reads it as it is now is computed from it
  }
  return memo.get(root)!;
}
