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

/** A handle as it was: what it names later, by `replace` or in memory of its own, is another tensor. */
export interface Named<T extends Handle> {
  /** The tensor. */
  readonly handle: T;
  /** How often it had been made to name another one. */
  readonly epoch: number;
}

/** Memory, or a value, and what it is by now, not reshaped. */
export interface Moved {
  /** What views were made of. */
  readonly from: UOp;
  /** Its newest version. */
  readonly to: UOp;
}

/** What a view is a view of. */
export interface Source<T extends Handle> {
  /** The nearest tensor that it is a view of; undefined where all are gone, or name something else by now. */
  readonly handle: T | undefined;
  /** The last of the tensors that it leads to, if one is left. */
  readonly top: Named<T> | undefined;
  /** The node of the tensor that the view is made of, if it can be found in the view. */
  readonly over: UOp | undefined;
  /** What the view, as it was `node`, is when its tensor is `parent`, and what is below them has moved; undefined: unknown. */
  move(node: UOp, parent: UOp, moved: Moved): UOp | undefined;
  /** This for a view that has been realized; `node` is the view as it was. */
  weak(node: UOp): Source<T> | undefined;
}

/** The tensor, if it still is what it was. */
function still<T extends Handle>({ handle, epoch }: Named<T>, epochOf: (t: T) => number): T | undefined {
  return epochOf(handle) === epoch ? handle : undefined;
}

/** Whether `base` is what has moved, or another version of it. */
function hasMoved(base: UOp, { from, to }: Moved): boolean {
  return base === from || (isMemory(base) && isMemory(to) && isSameMemory(base, to));
}

/** Of a view that is not realized: it keeps what it is made of. */
class Strong<T extends Handle> implements Source<T> {
  /** What it is a view of in the end. */
  readonly top: Named<T>;
  constructor(
    private readonly named: Named<T>,
    /** What that is a view of. */
    private readonly next: Source<T> | undefined,
    private readonly epochOf: (t: T) => number,
    readonly over: UOp | undefined,
  ) {
    this.top = next?.top ?? named;
  }
  get handle(): T | undefined {
    const own = still(this.named, this.epochOf);
    if (own !== undefined) return own;
    let at = this.next; // views of views may be many
    for (; at instanceof Strong; at = at.next) {
      const its = still(at.named as Named<T>, this.epochOf);
      if (its !== undefined) return its;
    }
    return at?.handle;
  }
  move(node: UOp, parent: UOp, moved: Moved): UOp | undefined {
    const { base, steps } = shown(node);
    if (hasMoved(base, moved)) return showAs(steps, reshape(moved.to, shapeOf(base)));
    if (this.over === undefined || still(this.named, this.epochOf) === undefined) return undefined;
    return showAs(shown(node, this.over).steps, reshape(parent, shapeOf(this.over)));
  }
  weak(node: UOp): Source<T> | undefined {
    const { base, steps } = shown(node), { over, top } = this, ofMemory = isMemory(base);
    const isNear = over !== undefined && still(this.named, this.epochOf) !== undefined;
    const own = shown(isNear ? this.named.handle.uop : base).base;
    if (isNear && (!ofMemory || !isMemory(own) || !isSameMemory(base, own))) {
      return new Weak(this.named, top, this.epochOf, shown(node, over).steps, over, false);
    }
    return ofMemory ? new Weak(this.named, top, this.epochOf, steps, base, true) : undefined;
  }
}

/** Of a view that has memory of its own: it keeps nothing. */
class Weak<T extends Handle> implements Source<T> {
  readonly over: undefined = undefined;
  private readonly near: WeakRef<T>;
  private readonly nearEpoch: number;
  private readonly far: WeakRef<T>;
  private readonly farEpoch: number;
  private readonly steps: readonly Step[];
  private readonly shape: readonly number[];

  /** @param ofMemory whether the steps are those from the memory, and not from the tensor */
  constructor(
    near: Named<T>,
    far: Named<T>,
    private readonly epochOf: (t: T) => number,
    steps: readonly UOp[],
    over: UOp,
    private readonly ofMemory: boolean,
  ) {
    this.near = new WeakRef(near.handle);
    this.nearEpoch = near.epoch;
    this.far = new WeakRef(far.handle);
    this.farEpoch = far.epoch;
    this.steps = steps.map(({ op, dtype, src, arg }) => ({ op, dtype, rest: src.slice(1), arg }));
    this.shape = shapeOf(over);
  }
  get handle(): T | undefined {
    const near = this.near.deref();
    if (near !== undefined && this.epochOf(near) === this.nearEpoch) return near;
    const far = this.ofMemory ? this.far.deref() : undefined;
    return far !== undefined && this.epochOf(far) === this.farEpoch ? far : undefined;
  }
  get top(): Named<T> | undefined {
    const { handle } = this;
    return handle === undefined ? undefined : { handle, epoch: this.epochOf(handle) };
  }
  move(_node: UOp, parent: UOp, moved: Moved): UOp | undefined {
    let x = reshape(this.ofMemory ? moved.to : parent, this.shape);
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
  next: Source<T> | undefined,
  epochOf: (t: T) => number,
): Source<T> | undefined {
  // a shape more or less is none: builders merge them
  let over = of, u = view;
  while (over.op === Ops.RESHAPE) over = over.src[0];
  while (u !== of && u !== over && isAlias(u.op)) u = u.src[0];
  if (u === of || u === over) return new Strong(named, next, epochOf, u);
  return shown(u).base === shown(of).base ? new Strong(named, next, epochOf, undefined) : undefined;
}
