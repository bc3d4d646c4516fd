/**
 * Nodes of a tensor graph that get memory of their own, whatever else is decided: values that are memory which has a name
 * already, and what must be kept aside so that kernels can be made and ordered. In and out: tensor graphs.
 *
 * @module
 */
import { customOf } from "../../uop/core/custom_arg.ts";
import { reshape } from "../../uop/core/build_movement.ts";
import { isView, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { wholesOf } from "../../uop/graph/resolve.ts";
import { stripReshape } from "./fusion_plan.ts";
import { isMemory } from "../../uop/graph/writes.ts";

/** The argument of a CONTIGUOUS that makes memory of its own of other memory: it may share that until either is written. */
export const OWN: string = "own";

/** Whether a node is memory, or will be where an AFTER writes it. */
function mayBeMemory(u: UOp): boolean {
  return u.op === Ops.BUFFER || u.op === Ops.AFTER || u.op === Ops.CONTIGUOUS || u.op === Ops.COPY;
}

/**
 * `roots` with the nodes of `kept` in memory of their own: of a STORE its value, computed before it is written; of what is
 * memory already a copy, for all who read it. What is written to stays what it is.
 */
export function keep(roots: readonly UOp[], kept: ReadonlySet<UOp>): UOp[] {
  const values = new Map<UOp, UOp>(), targets = new Map<UOp, UOp>();
  const contiguous = (u: UOp): UOp => uop(Ops.CONTIGUOUS, u.dtype, [u]);
  const valueOf = (u: UOp): UOp => values.get(u)!, targetOf = (u: UOp): UOp => targets.get(u)!;
  for (const u of toposort(roots)) {
    let made = u, target = u;
    if (u.src.length > 0 && u.op !== Ops.BIND) {
      switch (u.op) {
        case Ops.STORE:
          made = u.withSrc([targetOf(u.src[0]), kept.has(u) ? contiguous(valueOf(u.src[1])) : valueOf(u.src[1])]);
          break;
        case Ops.AFTER:
          made = u.withSrc([targetOf(u.src[0]), ...u.src.slice(1).map(valueOf)]);
          break;
        case Ops.CUSTOM: {
          const { written } = customOf(u);
          made = u.withSrc(u.src.map((s, slot) => written.includes(slot) ? targetOf(s) : valueOf(s)));
          break;
        }
        default:
          made = u.withSrc(u.src.map(valueOf));
      }
      target = isView(u.op) ? u.withSrc([targetOf(u.src[0]), ...u.src.slice(1).map(valueOf)]) : made;
    }
    made.line ??= u.line;
    target.line ??= u.line;
    targets.set(u, target);
    values.set(u, kept.has(u) && u.op !== Ops.STORE ? contiguous(made) : made);
  }
  // what becomes a version of a buffer is that one, and not its copy
  return roots.map((r) => mayBeMemory(stripReshape(r)) ? targetOf(r) : valueOf(r));
}

/**
 * Values that folding found to be memory which has a name already, as `x * 1`: they get memory of their own, once it is
 * written. What a value is a shape of becomes that memory with it, and never the named one: handles may name it, and
 * would keep the tensor that is written from being written where it is.
 */
export function ownValues(order: readonly UOp[], rootAt: readonly number[], now: readonly UOp[]): readonly UOp[] {
  let made: UOp[] | undefined;
  for (const i of rootAt) {
    let base = stripReshape(now[i]);
    while (isView(base.op) && base.op !== Ops.BITCAST) base = base.src[0];
    if (!isMemory(base)) continue;
    let u = order[i];
    while (isView(u.op)) u = u.src[0];
    if (isMemory(u)) continue;
    const path = wholesOf(order[i]).map((u) => order.lastIndexOf(u, i)), value = now[path[0]];
    const own = uop(Ops.CONTIGUOUS, value.dtype, [value], OWN);
    made ??= now.slice();
    for (const at of path) made[at] = reshape(own, shapeOf(now[at]));
  }
  return made ?? now;
}

/**
 * CONTIGUOUS nodes whose memory a collective can write itself: nothing else reads what it gives, and nothing of the graph
 * writes it after that.
 */
export function ownResults(roots: readonly UOp[]): ReadonlySet<UOp> {
  const uses = new Map<UOp, number>(), written = new Set<UOp>(), order = toposort(roots);
  const use = (u: UOp): unknown => uses.set(u, (uses.get(u) ?? 0) + 1);
  roots.forEach(use);
  for (const u of order) {
    u.src.forEach(use);
    if (u.op !== Ops.STORE && u.op !== Ops.AFTER && u.op !== Ops.CUSTOM) continue;
    for (let s of u.op === Ops.CUSTOM ? u.src : u.src.slice(0, 1)) {
      while (isView(s.op)) s = s.src[0];
      written.add(s);
    }
  }
  return new Set(order.filter((u) => {
    if (u.op !== Ops.CONTIGUOUS || u.arg === undefined || written.has(u)) return false;
    let x = u.src[0];
    while (x.op === Ops.RESHAPE && uses.get(x) === 1) x = x.src[0];
    return x.op === Ops.COLLECTIVE && uses.get(x) === 1;
  }));
}
