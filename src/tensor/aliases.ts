/**
 * What views are views of. A view is made of another tensor, and a write through it is one to that tensor, to what that is
 * a view of, and so on: their handles name the newest version afterwards. Views that have been realized are kept by
 * nobody for this, and keep nobody: they know the others weakly.
 *
 * @module
 */
import type { DType } from "../dtype/dtype.ts";
import type { Arg } from "../uop/args.ts";
import { reshape } from "../uop/movement.ts";
import { Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { type UOp, uop } from "../uop/uop.ts";
import { isAlias, isMemory, isSameMemory, showAs, shown } from "../uop/writes.ts";

/** A view op without what it is applied to. */
interface Step {
  readonly op: Ops;
  readonly dtype: DType;
  readonly rest: readonly UOp[];
  readonly arg: Arg;
}

/** A tensor, as far as this module knows it. */
interface Handle {
  readonly uop: UOp;
}

/** What a view shows when what it is a view of, and the memory below, are `parent` and `base` by now; undefined: it is none. */
export interface Source<T extends Handle> {
  /** The tensor that it is a view of; undefined where that is gone, or names something else by now. */
  readonly handle: T | undefined;
  /** The last of the tensors that it leads to. */
  readonly top: T | undefined;
  /** What the view is when its tensor is `parent`; `node` is the view as it was. */
  move(node: UOp, parent: UOp): UOp | undefined;
  /** This for a view that has been realized; `node` is the view as it was. */
  weak(node: UOp): Source<T> | undefined;
}

/** A handle as it was: what it names by `replace` later is another tensor. */
export interface Named<T extends Handle> {
  readonly handle: T;
  readonly epoch: number;
}

/** Of a view that is not realized: it keeps what it is made of. */
class Strong<T extends Handle> implements Source<T> {
  constructor(
    private readonly named: Named<T>,
    readonly top: T,
    private readonly epochOf: (t: T) => number,
    /** The node of the tensor that the view is made of, if it can be found in the view. */
    private readonly over: UOp | undefined,
  ) {}
  get handle(): T | undefined {
    return this.epochOf(this.named.handle) === this.named.epoch ? this.named.handle : undefined;
  }
  move(node: UOp, parent: UOp): UOp | undefined {
    const { base, steps } = shown(node), now = shown(parent).base;
    if (isMemory(base) && isMemory(now) && isSameMemory(base, now)) return showAs(steps, reshape(now, shapeOf(base)));
    if (this.over === undefined) return undefined;
    return showAs(shown(node, this.over).steps, reshape(parent, shapeOf(this.over)));
  }
  weak(node: UOp): Source<T> | undefined {
    const { handle, epoch } = this.named, { base, steps } = shown(node), { over } = this, now = shown(handle.uop).base;
    const ofMemory = isMemory(base) && isMemory(now) && isSameMemory(base, now);
    if (!ofMemory && over === undefined) return undefined;
    const bare = (ofMemory ? steps : shown(node, over).steps).map(({ op, dtype, src, arg }) => {
      return { op, dtype, rest: src.slice(1), arg };
    });
    const shape = shapeOf(ofMemory ? base : over!);
    return new Weak(new WeakRef(handle), epoch, new WeakRef(this.top), this.epochOf, bare, shape, ofMemory);
  }
}

/** Of a view that has memory of its own. */
class Weak<T extends Handle> implements Source<T> {
  constructor(
    private readonly ref: WeakRef<T>,
    private readonly epoch: number,
    private readonly topRef: WeakRef<T>,
    private readonly epochOf: (t: T) => number,
    private readonly steps: readonly Step[],
    private readonly shape: readonly number[],
    /** Whether the steps are those from the memory, and not from the tensor. */
    private readonly ofMemory: boolean,
  ) {}
  get handle(): T | undefined {
    const t = this.ref.deref() ?? (this.ofMemory ? this.top : undefined);
    return t !== undefined && this.epochOf(t) === this.epoch ? t : undefined;
  }
  get top(): T | undefined {
    return this.topRef.deref();
  }
  move(_node: UOp, parent: UOp): UOp | undefined {
    let x = reshape(this.ofMemory ? shown(parent).base : parent, this.shape);
    for (let i = this.steps.length - 1; i >= 0; i--) {
      const { op, dtype, rest, arg } = this.steps[i];
      x = uop(op, op === Ops.BITCAST ? dtype : x.dtype, [x, ...rest], arg);
    }
    return x;
  }
  weak(): Source<T> {
    return this;
  }
}

/** What `view`, a node made of what `of` names, is a view of; undefined where it is a value of its own. */
export function sourceOf<T extends Handle>(
  view: UOp,
  of: UOp,
  named: Named<T>,
  top: T,
  epochOf: (t: T) => number,
): Source<T> | undefined {
  let u = view;
  while (u !== of && isAlias(u.op)) u = u.src[0];
  if (u === of) return new Strong(named, top, epochOf, of);
  const { base, steps } = shown(of);
  if (shown(u).base !== base) return undefined;
  return new Strong(named, top, epochOf, steps.every((s) => s.op === Ops.RESHAPE) ? base : undefined);
}
