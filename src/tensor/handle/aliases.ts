/**
 * What views are views of. A view is made of another tensor, and a write through it is one to that tensor, to what that is
 * a view of, and so on: their handles name the newest version afterwards. Views that have been realized are kept by
 * nobody for this, and keep nobody: they know the others weakly.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { type Arg, argOf, AxesArg, PairsArg, ShapeArg, type Storage } from "../../uop/core/args.ts";
import { prod } from "../../helpers/math.ts";
import { numelOf, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { bare } from "../../uop/graph/complex.ts";
import { isAlias, isMemory, isSameMemory, memoryOf, showAs, shown } from "../../uop/graph/writes.ts";

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

/** A handle as it was, which that keeps not alive. */
interface WeaklyNamed<T extends Handle> {
  readonly ref: WeakRef<T>;
  readonly epoch: number;
}
function weakly<T extends Handle>({ handle, epoch }: Named<T>): WeaklyNamed<T> {
  return { ref: new WeakRef(handle), epoch };
}
/** What a view that has been realized is a view of, and how: steps, outermost first, from that, or from its memory, in this shape. */
interface Link<T extends Handle> extends WeaklyNamed<T> {
  readonly steps: readonly Step[];
  readonly shape: readonly number[];
  readonly ofMemory: boolean;
}
function madeBy(steps: readonly UOp[]): Step[] {
  const made: Step[] = [];
  for (const { op, dtype, src, arg } of steps) append(made, { op, dtype, rest: src.slice(1), arg });
  return made;
}
/** Adds a step below others, which a shape of a shape is not. */
function append(steps: Step[], step: Step): void {
  if (step.op !== Ops.RESHAPE || steps.at(-1)?.op !== Ops.RESHAPE) steps.push(step);
}

/** A version of memory, which is kept by its number. */
interface VersionOf {
  readonly storage: number;
  readonly version: number;
}
function versionOf(u: UOp): VersionOf | undefined {
  if (u.op !== Ops.BUFFER) return undefined;
  const { storage: { id: storage }, version } = argOf(u, Ops.BUFFER);
  return { storage, version };
}
/** Whether a node is memory of which `from` is a version. */
function isFrom(u: UOp, from: VersionOf | undefined): boolean {
  return from !== undefined && isMemory(u) && (memoryOf(u) as Partial<Storage>).id === from.storage;
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
  /** The node of the tensor that the view is made of, if it can be found in the view. */
  readonly over: UOp | undefined;
  /** What the view, as it was `node`, is when its tensor is `parent`, and what is below them has moved; undefined: unknown. */
  move(node: UOp, parent: UOp, moved: Moved): UOp | undefined;
  /** As `move`, of what `top` is, where it is known to be a view of that tensor by itself. */
  moveOf(top: T, node: UOp, parent: UOp, moved: Moved): UOp | undefined;
  /** This for a view that has been realized; `node` is the view as it was, `isApart` whether the first tensor has other memory, or none. */
  weak(node: UOp, isApart: boolean): Source<T> | undefined;
  /** Whether what a view was realized into is what it shows, where the newest version of its memory is `now`. */
  isNow(now: UOp): boolean;
}

/** A tensor as it was before what it is a view of has moved. */
interface Before<T extends Handle> {
  readonly was: UOp;
  readonly source: Source<T> | undefined;
}

/** What tensors, each a view of the one before it, are where the first is `top`, and below that memory has moved; undefined: unknown. */
export function moveAll<T extends Handle>(path: readonly Before<T>[], moved: Moved, top: UOp): (UOp | undefined)[] {
  const made: (UOp | undefined)[] = [top];
  for (let i = 1; i < path.length; i++) {
    const { was, source } = path[i];
    let u = made[i - 1] && source?.move(was, made[i - 1]!, moved);
    // what a builder has merged with the view below is found in what that is a view of
    for (let k = i - 1; u === undefined && k > 0; k--) {
      const over = path[k].source?.over;
      if (over === undefined || made[k - 1] === undefined) continue;
      const own = shown(was, over);
      if (own.base === over) u = showAs(own.steps, reshape(bare(made[k - 1]!), shapeOf(over)));
    }
    made.push(u);
  }
  return made;
}

/** The tensor, if it still is what it was. */
function still<T extends Handle>({ handle, epoch }: Named<T>, epochOf: (t: T) => number): T | undefined {
  return epochOf(handle) === epoch ? handle : undefined;
}

/** Whether `base` is what has moved, or another version of it. */
function hasMoved(base: UOp, { from, to }: Moved): boolean {
  return base === from || (isMemory(base) && isMemory(to) && isSameMemory(base, to));
}

/** Of so many tensors at most a realized view knows that it is a view of them: of the nearest ones, and of the last. */
const MAX_PATH = 16;

/** What a node is views of, whatever has been realized. */
function bottom(u: UOp): UOp {
  while (isAlias(u.op)) u = u.src[0];
  return u;
}

/** What undoes a view op, as an op on `x`, which is as `u` is; undefined where `u` shows a part. */
function undoing(u: UOp, x: UOp): UOp | undefined {
  switch (u.op) {
    case Ops.RESHAPE:
      return uop(Ops.RESHAPE, x.dtype, [x], new ShapeArg(shapeOf(u.src[0])));
    case Ops.FLIP:
      return uop(Ops.FLIP, x.dtype, [x], u.arg);
    case Ops.PERMUTE: {
      const { axes } = argOf(u, Ops.PERMUTE);
      return uop(Ops.PERMUTE, x.dtype, [x], new AxesArg(axes.map((_, i) => axes.indexOf(i))));
    }
    case Ops.DETACH:
      return x;
  }
  return undefined;
}

/** Part `u` as a part of part `of` of the same node; undefined where it is none. */
function partOf(u: UOp, of: UOp): UOp | undefined {
  if (u.op !== Ops.SHRINK || of.op !== Ops.SHRINK || u.src[0] !== of.src[0]) return undefined;
  const outer = argOf(of, Ops.SHRINK).pairs, pairs = argOf(u, Ops.SHRINK).pairs;
  if (pairs.some(([start, stop], i) => start < outer[i][0] || stop > outer[i][1])) return undefined;
  const arg = new PairsArg(pairs.map(([start, stop], i) => [start - outer[i][0], stop - outer[i][0]]));
  return uop(Ops.SHRINK, of.dtype, [of], arg);
}

/** A view, and what it was made of, which builders have merged. */
interface Merged {
  readonly view: UOp;
  readonly of: UOp;
}

/** The views, outermost first, that make of `of` again what it has been merged to; undefined where that is unknown. */
function stepsOf({ view, of }: Merged): UOp[] | undefined {
  const chain: UOp[] = [bare(of)]; // down to what both show
  for (let u = chain[0]; isAlias(u.op);) chain.push(u = u.src[0]);
  const own: UOp[] = [];
  for (let u = view;; u = u.src[0]) {
    const at = chain.indexOf(u), k = at >= 0 ? at : chain.findIndex((c) => partOf(u, c) !== undefined);
    if (k >= 0) {
      let x: UOp | undefined = chain[0];
      for (let i = 0; i < k && x !== undefined; i++) x = undoing(chain[i], x);
      if (x === undefined) return undefined;
      const made = at >= 0 ? x : uop(Ops.SHRINK, x.dtype, [x], partOf(u, chain[k])!.arg);
      return shown(showAs(own, made), chain[0]).steps as UOp[];
    }
    if (!isAlias(u.op)) return undefined;
    own.push(u);
  }
}

/** Of a view that is not realized: it keeps what it is made of. */
class Strong<T extends Handle> implements Source<T> {
  constructor(
    private readonly named: Named<T>,
    /** What that is a view of. */
    private readonly next: Source<T> | undefined,
    private readonly epochOf: (t: T) => number,
    readonly over: UOp | undefined,
    private readonly merged?: Merged,
  ) {}
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
    parent = bare(parent);
    const { base, steps } = shown(node);
    if (hasMoved(base, moved)) return showAs(steps, reshape(moved.to, shapeOf(base)));
    if (still(this.named, this.epochOf) === undefined) return this.moveAbove(node, parent, moved);
    if (this.over !== undefined) return showAs(shown(node, this.over).steps, reshape(parent, shapeOf(this.over)));
    const made = this.merged && stepsOf(this.merged);
    return made && showAs(made, reshape(parent, shapeOf(bare(this.merged!.of))));
  }
  moveOf(_top: T, node: UOp, _parent: UOp, moved: Moved): UOp | undefined {
    const { base, steps } = shown(node);
    return hasMoved(base, moved) ? showAs(steps, reshape(moved.to, shapeOf(base))) : undefined;
  }
  /** As `move`, where what it was made of names something else by now: as a view of what that was a view of. */
  private moveAbove(node: UOp, parent: UOp, moved: Moved): UOp | undefined {
    let { next, over } = this;
    while (next instanceof Strong && still(next.named, this.epochOf) === undefined) {
      ({ next, over } = next as Strong<T>);
    }
    const isRead = next instanceof Weak; // read by the time: that says itself how it was a view
    if (!isRead) over = next?.over;
    if (next === undefined || over === undefined) return undefined;
    const { base, steps } = shown(node, over), x = isRead ? next.move(node, parent, moved) : parent;
    return base === over && x !== undefined ? showAs(steps, reshape(x, shapeOf(base))) : undefined;
  }
  weak(node: UOp, isApart: boolean): Source<T> | undefined {
    const { base, steps } = shown(node), { over, merged } = this, ofMemory = isMemory(base);
    const isNear = (over ?? merged) !== undefined && still(this.named, this.epochOf) !== undefined;
    const own = shown(isNear ? this.named.handle.uop : base).base;
    const { below } = this, isOwn = below !== undefined && !isFrom(base, below.from); // of a view that has been realized
    if (isOwn || (isNear && (isApart || !ofMemory || !isMemory(own) || !isSameMemory(base, own)))) {
      return new Weak(Strong.links(this, node), this.epochOf, below?.from);
    }
    if (!ofMemory) return undefined;
    const made = madeBy(steps), shape = shapeOf(base);
    const path = this.path().map((named) => ({ ...named, steps: made, shape, ofMemory }));
    return new Weak(path, this.epochOf, versionOf(base));
  }
  isNow(): boolean {
    return false; // it is not realized
  }
  /** What the nearest of those below it that have been realized is a view of. */
  private get below(): Weak<T> | undefined {
    let at = this.next; // views of views may be many
    while (at instanceof Strong) at = at.next as Source<T> | undefined;
    return at as Weak<T> | undefined;
  }
  /** The tensors that `node` is a view of, as far as they are what they were, the nearest first, with what it shows of each. */
  private static links<T extends Handle>(source: Strong<T>, node: UOp): Link<T>[] {
    const links: Link<T>[] = [];
    const steps: Step[] = [];
    let at: Source<T> | undefined = source;
    for (; at instanceof Strong; at = at.next) {
      const { named, merged } = at as Strong<T>, over = at.over ?? (merged && bare(merged.of));
      if (over === undefined) return links;
      const own = at.over === undefined ? stepsOf(merged!) : shown(node, over).steps;
      if (own === undefined || (at.over !== undefined && shown(node, over).base !== over)) return links;
      for (const step of madeBy(own)) append(steps, step);
      if (still(named, source.epochOf) !== undefined && links.length < MAX_PATH) {
        links.push({ ...weakly(named), steps: [...steps], shape: shapeOf(over), ofMemory: false });
      }
      node = over;
    }
    if (!(at instanceof Weak)) return links;
    const whole: Step = { op: Ops.RESHAPE, dtype: node.dtype, rest: [], arg: new ShapeArg(shapeOf(node)) };
    append(steps, whole);
    for (const link of at.named) {
      const all = [...steps];
      for (const step of link.steps) append(all, step);
      links.push({ ...link, steps: all });
    }
    return links.length <= MAX_PATH ? links : [...links.slice(0, MAX_PATH - 1), links[links.length - 1]];
  }
  /** All that it is a view of, the nearest first. */
  private path(): WeaklyNamed<T>[] {
    const path = [weakly(this.named)];
    let at = this.next; // views of views may be many
    for (; at instanceof Strong; at = at.next) path.push(weakly(at.named as Named<T>));
    if (at instanceof Weak) path.push(...at.named as readonly WeaklyNamed<T>[]);
    return path.length <= MAX_PATH ? path : [...path.slice(0, MAX_PATH - 1), path[path.length - 1]];
  }
}

/** Of a view that has been realized: it keeps nothing. */
class Weak<T extends Handle> implements Source<T> {
  readonly over: undefined = undefined;

  /**
   * @param named what it is a view of, the nearest first
   * @param from what it was realized from, in the end; undefined: unknown
   */
  constructor(
    readonly named: readonly Link<T>[],
    private readonly epochOf: (t: T) => number,
    readonly from: VersionOf | undefined,
  ) {}
  /** The nearest that there still is. */
  private get link(): Link<T> | undefined {
    return this.named.find(({ ref, epoch }) => {
      const its = ref.deref();
      return its !== undefined && this.epochOf(its) === epoch;
    });
  }
  get handle(): T | undefined {
    return this.link?.ref.deref();
  }
  move(_node: UOp, parent: UOp, moved: Moved): UOp | undefined {
    return this.moveBy(this.link ?? this.named[this.named.length - 1], parent, moved);
  }
  moveOf(top: T, _node: UOp, parent: UOp, moved: Moved): UOp | undefined {
    const link = this.named.find(({ ref, epoch }) => ref.deref() === top && this.epochOf(top) === epoch);
    return link && this.moveBy(link, parent, moved);
  }
  private moveBy({ steps, shape, ofMemory }: Link<T>, parent: UOp, moved: Moved): UOp | undefined {
    const of = ofMemory ? moved.to : bare(parent);
    // of another tensor than the link was made of
    if (numelOf(of) !== prod(shape)) return undefined;
    let x = reshape(of, shape);
    for (let i = steps.length - 1; i >= 0; i--) {
      const { op, dtype, rest, arg } = steps[i];
      x = uop(op, op === Ops.BITCAST || op === Ops.COMPLEX ? dtype : x.dtype, [x, ...rest], arg);
    }
    return x;
  }
  weak(): Source<T> {
    return this;
  }
  isNow(now: UOp): boolean {
    return now.op === Ops.BUFFER && isFrom(now, this.from) && argOf(now, Ops.BUFFER).version === this.from!.version;
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
  of = bare(of);
  if (isAlias(view.op) && view.src[0] === of) return new Strong(named, next, epochOf, of); // views of views may be many
  let over = of, u = view;
  while (over.op === Ops.RESHAPE) over = over.src[0];
  while (u !== of && u !== over && isAlias(u.op)) u = u.src[0];
  if (u === of || u === over) return new Strong(named, next, epochOf, u);
  if (shown(u).base !== shown(of).base) return undefined;
  const merged = bottom(view) === bottom(of) ? { view, of } : undefined;
  return new Strong(named, next, epochOf, undefined, merged);
}
