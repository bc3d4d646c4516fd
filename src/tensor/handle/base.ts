/**
 * The base of Tensor and of its families of methods: a handle on a node of the lazy graph, and what every family needs to
 * build nodes: wrapping, operands of all kinds, promotion and broadcasting.
 *
 * @module
 */
import { findGroup } from "../../device/device.ts";
import { currentScope, noteHandle, notePointed, pendingScopes } from "../../device/scopes.ts";
import { complexOf, type DType, dtypes } from "../../dtype/dtype.ts";
import { promote, promoteScalar } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { CALLED, checkBoolean, describe } from "../../helpers/options.ts";
import type { Line } from "../../helpers/stack.ts";
import { checkShards } from "../../engine/front/engine.ts";
import { argOf, type Storage } from "../../uop/core/args.ts";
import { reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { meshes } from "../../uop/core/sharding.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { bare, shapedLike } from "../../uop/graph/complex.ts";
import { extentsOf, extentText, isBoundNode, namedShape, withExtents } from "../../uop/graph/extent.ts";
import { isGone, isStale } from "../../uop/graph/lost.ts";
import { takeLine, unlabeled, unshaped, wholeOf } from "../../uop/graph/resolve.ts";
import {
  folded,
  isAlias,
  isMemory,
  isSameMemory,
  isSameVersion,
  newestOf,
  showAs,
  shown,
} from "../../uop/graph/writes.ts";
import { broadcastNodes, checkSameDevice, cutHere, isScalarLeaf } from "./broadcast.ts";
import { type ComplexValue, isComplexValue, isList, type TypedArray } from "../nodes/host.ts";
import { CAST_COPY, hasIdentity, hasValues, isTurned, noteCopied, ownMemory } from "./memory_of.ts";
import { castNode, checkFits, checkScalar, complexConst, inferDType, scalarConst } from "../nodes/scalars.ts";
import { moveAll, type Named, type Source, sourceOf } from "./aliases.ts";
import { claim, moveClaim, placeOf, unclaim } from "./claims.ts";
import { noGradient } from "./weak_numbers.ts";

/** Nested lists of numbers, booleans, bigints or complex numbers, or of TypedArrays; all lists of a level have one length. */
export type NestedArray = readonly (number | boolean | bigint | ComplexValue | NestedArray | TypedArray)[];
/** What stands beside a tensor in an operation. */
export type Operand = TensorLike | number | boolean | bigint | ComplexValue;
/** A tensor, or what makes one: positions, samples, weights, labels. */
export type TensorLike = TensorBase | NestedArray | TypedArray;

/** Of values that only happened to be another tensor's memory: what that was, and what they moved to. */
const parted = new WeakMap<TensorBase, readonly [from: UOp, to: UOp]>();
/** How copies of the memory of other tensors were made, and how that memory is written instead. */
const copies = new WeakMap<TensorBase, readonly [method: string, instead: string]>();

/** Handles that require gradients: leaves that `backward()` may fill. Weak: dropping the tensor drops the entry. */
export const gradLeaves: Set<WeakRef<TensorBase>> = new Set();
/** Those that did, and do no more. */
export const frozenLeaves: Set<WeakRef<TensorBase>> = new Set();
let nextIdentity = 1;
let nextSerial = 0;
/** While `set` is given, the handles that are used are put into it. */
export const readHandles: { set: Set<TensorBase> | undefined } = { set: undefined };

/** What captures know of which tensors require gradients. */
export const requiring: {
  /** Handles that captures depend on. */
  readonly known: WeakSet<TensorBase>;
  /** How often it has changed for one of them. */
  count: number;
  /** While it is given, handles for which it is asked, or changed, and what it was before that. */
  asked: Map<TensorBase, boolean> | undefined;
  /** Told when a gradient is taken with respect to all that require one. */
  taken: boolean;
} = { known: new WeakSet(), count: 0, asked: undefined, taken: false };

/** How many handles have been made. */
export function handlesMade(): number {
  return nextSerial;
}

function epochOf(t: TensorBase): number {
  return epochs(t);
}
let epochs: (t: TensorBase) => number;

/** Whether a tensor is a value that only happens to be what is in memory, or ends in another order of what has become memory. */
let isOfValue: (t: TensorBase) => boolean;

/** What the tensors of `path` are where the first is `top`, and below that `from` has become `to`: see {@linkcode moveAll}. */
let movedBy: (path: readonly TensorBase[], from: UOp, to: UOp, top: UOp) => (UOp | undefined)[];

/** What realizing, which is above this, does where handles come to name something else. */
export interface Realizing {
  /** Tells jit functions that `t` is about to name something else. */
  noteRenamed(t: TensorBase): void;
  /** Tells jit functions that a handle has left a storage for another one. */
  noteLeft(storage: Storage): void;
  /** Makes `copy` the memory of `top`, which `t` shows, instead of `memory`, which is another tensor's, too; gives what it is now. */
  copyOut(t: TensorBase, top: TensorBase, memory: UOp, copy: UOp): UOp;
  /** Writes `value` into `view`, a view of the memory of `t`, which then names the new version, as does what it is a view of. */
  assignView(t: TensorBase, view: UOp, value: UOp): void;
}
/** Set by realize.ts. */
export const realizing: Realizing = {} as Realizing;

/** What handles keep protected, for those who move them on to other nodes: realizing, the JIT, transforms, rows of methods. */
export interface Internals {
  wrap<T extends TensorBase>(t: T, u: UOp): T;
  wrapView<T extends TensorBase>(t: T, u: UOp): T;
  wrapNew<T extends TensorBase>(t: T, u: UOp): T;
  setUop(t: TensorBase, u: UOp): void;
  rename(t: TensorBase, u: UOp): void;
  refresh(t: TensorBase, all?: boolean): boolean;
  moveOut(t: TensorBase): void;
  isNow(t: TensorBase): boolean;
  isView(t: TensorBase): boolean;
  isBefore(t: TensorBase, count: number): boolean;
  aliases(t: TensorBase): TensorBase[];
  hold(t: TensorBase): void;
  noteSeen(t: TensorBase): void;
  settle(t: TensorBase): void;
  ownValue(t: TensorBase): void;
}
/** Of the methods of {@linkcode TensorBase} that have these names. */
export let internals: Internals;

/** A handle on a node of the lazy graph. */
export abstract class TensorBase {
  private node: UOp;
  private wantsGrad: boolean | undefined;
  private leafRef: WeakRef<TensorBase> | undefined;
  private holds: boolean;
  /** What this is a view of. */
  private source: Source<TensorBase> | undefined;
  /** Whether this has been realized, and is all of its tensor in order: it is what is there now. */
  private follows: boolean;
  /** Whether this is a value that only happens to be what is in memory: a sum over one element. */
  private isValue: boolean;
  /** How many handles were made before this one. */
  private readonly serial: number;
  /** How often this handle has been made to name another tensor. */
  private epoch: number;
  /** Where this was disposed of; "" until then. */
  protected disposedAt: Line;
  /** The gradient that `backward()` filled, of this shape; undefined until then. */
  grad: this | undefined;
  static {
    /** How errors call a size that is a variable; undefined for other tensors. */
    const get = function (this: TensorBase): string | undefined {
      return isBoundNode(this.uop) ? `the variable ${extentText(this.uop)}` : undefined;
    };
    Object.defineProperty(this.prototype, CALLED, { get });
    epochs = (t) => t.epoch;
    isOfValue = (t) => t.isValue || isTurned(t.node);
    movedBy = (path, from, to, top) =>
      moveAll(path.map((t) => ({ was: t.present, source: t.source })), { from, to }, top);
    internals = {
      wrap: (t, u) => t.wrap(u),
      wrapView: (t, u) => t.viewOf(u),
      wrapNew: (t, u) => t.wrapNew(u),
      setUop: (t, u) => t.setUop(u),
      rename: (t, u) => t.rename(u),
      refresh: (t, all) => t.refresh(all),
      moveOut: (t) => t.moveOut(),
      isNow: (t) => t.isNow(),
      isView: (t) => t.source !== undefined,
      isBefore: (t, count) => t.isBefore(count),
      aliases: (t) => t.aliases(),
      hold: (t) => t.hold(),
      noteSeen: (t) => t.noteSeen(),
      settle: (t) => t.settle(),
      ownValue: (t) => t.ownValue(),
    };
  }

  /** A handle on `node`. */
  protected constructor(node: UOp) {
    this.node = node;
    this.wantsGrad = undefined;
    this.leafRef = undefined;
    this.holds = false;
    this.source = undefined;
    this.follows = false;
    this.isValue = false;
    this.serial = nextSerial++;
    this.epoch = 0;
    this.disposedAt = "";
    this.grad = undefined;
    node.names++;
    if (node.extentMemo === undefined) extentsOf(node); // what has no extent is refused here
    takeLine(node);
    if (meshes.count > 0 && findGroup(deviceOf(node) ?? "") !== undefined) checkShards(bare(node));
    if (pendingScopes.size > 0) noteHandle(placeOf(node));
  }

  /** The graph node. Realized nodes are read through what they became. */
  get uop(): UOp {
    if (readHandles.set !== undefined) readHandles.set.add(this);
    return this.present;
  }
  /** As {@linkcode uop}, where nobody reads it. */
  private get present(): UOp {
    if (this.follows) this.follow();
    const { node } = this;
    if (node.becomes === undefined) return node;
    let u = node.becomes;
    while (u.becomes !== undefined) u = u.becomes;
    if (this.source !== undefined) this.source = this.source.weak(node, this.isApart(node));
    if (u.op === Ops.RESHAPE) u.names++; // a shape of memory is a node of its own
    return this.node = u;
  }
  /** Points the handle at another node of the same shape and dtype. */
  protected setUop(u: UOp): void {
    if (this.holds) moveClaim(this.node, u);
    // the memory of what it named is made at the same line
    if (u.op === Ops.CONTIGUOUS && u.src[0] === this.node) u.line ??= this.node.line;
    this.node = u;
    u.names++;
    this.isValue = false;
    notePointed(this, this.serial, currentScope());
  }

  /** Points the handle at a value, which may be another tensor's: it is not memory that this could write to. */
  protected setValue(u: UOp): void {
    // what another tensor's memory holds now is copied: that one may be written later; so is what a view of this shows
    const { base } = shown(u), isOthers = isMemory(base) || base === shown(this.present).base;
    this.setUop(isOthers ? uop(Ops.CONTIGUOUS, this.dtype, [u], nextIdentity++) : u);
    this.isValue = true;
  }

  /** Whether this is one of the first `count` handles. */
  protected isBefore(count: number): boolean {
    return this.serial < count;
  }

  /** Points the handle at what another tensor names. */
  protected rename(u: UOp): void {
    this.follows = false;
    this.setUop(u);
    this.source = undefined;
    this.epoch++;
  }

  /** Whether what this, a view that was `node`, is a view of is a value, or by now in other memory than `node` shows. */
  private isApart(node: UOp): boolean {
    const [top] = this.aliases();
    return isOfValue(top) || (top !== this && !isSameMemory(shown(top.present).base, shown(node).base));
  }
  /** The tensors that this is a view of, from the first on, and this. */
  protected aliases(): TensorBase[] {
    const path: TensorBase[] = [this];
    for (let t = this.source?.handle; t !== undefined; t = t.source?.handle) path.push(t);
    return path.reverse();
  }
  /**
   * Makes this name the newest version of its memory, for a write, or, with `all`, what it is a view of, too. Values that
   * others see through views get memory. False where this is a value, and no view: nobody else sees it.
   */
  protected refresh(all = false, isRead = false): boolean {
    const path = this.aliases(), [top] = path;
    const { base, steps } = shown(top.present), hasMemory = isMemory(base) && !isOfValue(top);
    if (path.length > 1 && this.part(path, base, hasMemory)) return this.refresh(all, isRead);
    let moved: (UOp | undefined)[];
    if (hasMemory) {
      let now = newestOf(base);
      // an equal expression has become the same memory: this one moves out
      if (!isRead && now.op === Ops.BUFFER && argOf(now, Ops.BUFFER).storage.names > 1) {
        now = realizing.copyOut(this, top, now, uop(Ops.CONTIGUOUS, base.dtype, [now], nextIdentity++));
      }
      const made = now === base ? top.present : showAs(steps, reshape(now, shapeOf(base)));
      moved = movedBy(path, base, now, made);
    } else if (path.length === 1) return false;
    else {
      const inMemory = (u: UOp): UOp =>
        uop(Ops.CONTIGUOUS, u.dtype, [isScalarLeaf(u) ? reshape(u, shapeOf(u)) : u], nextIdentity++);
      const whole = inMemory(top.present);
      if (top.isValue) parted.set(top, [base, whole]);
      moved = movedBy(path, top.present, whole, whole);
      if (!top.isValue && moved.includes(undefined)) { // a part that builders have merged with what that is a part of
        const below = inMemory(base);
        moved = movedBy(path, base, below, showAs(steps, below));
      }
      top.hold();
    }
    if (moved[0] !== top.present) top.setUop(moved[0]!);
    for (let i = 1; i < path.length; i++) {
      const t = path[i], made = moved[i];
      if (made === undefined) {
        throw new ArgumentError("write to a view", {
          reason: "the tensor that it is a view of has other memory by now; make the view again",
        });
      }
      if (made === t.node || (t !== this && !all)) continue;
      t.letGo(); // what it was realized into
      t.node = made;
      made.names++;
      notePointed(t, t.serial, currentScope());
      t.source = sourceOf(made, moved[i - 1]!, path[i - 1].named(), path[i - 1].source, epochOf);
    }
    return true;
  }
  /**
   * Where what views are views of is lost, memory of its own for the nearest that has been realized: nobody can see more of
   * the tensor. Tells whether there is one.
   */
  private part(path: readonly TensorBase[], base: UOp, hasMemory: boolean): boolean {
    const own = path.findLast((t) => {
      const whole = wholeOf(t.present);
      return whole.op === Ops.BUFFER && !isGone(whole) && !(isMemory(base) && isSameMemory(whole, base));
    });
    // looked for last: it reads all writes that are not done, and views that have been written have no memory of their own
    if (own === undefined || !isStale(hasMemory ? newestOf(base) : path[0].present)) return false;
    own.ownMemory();
    return true;
  }
  /** Makes a view that has been realized name memory of its own, and be a view of nothing. */
  private ownMemory(): void {
    this.source = undefined;
    if (extentsOf(this.node) === null) this.setUop(shapedLike(this.node, unshaped(this.uop)));
  }
  /** Makes what a function gives, which is realized, a value, unless it is all of a tensor: what is written to it later is not written elsewhere. */
  protected settle(): void {
    this.noteSeen();
    if (this.source === undefined || this.follows) return;
    this.ownMemory();
    this.epoch++; // views of this that there are stay what they are
  }
  /** Whether this, a view that has been realized, is what it shows now. */
  protected isNow(): boolean {
    const { base } = shown(this.aliases()[0].present);
    return isMemory(base) && (this.source?.isNow(newestOf(base)) ?? true);
  }
  /** Makes what this names, which is realized, memory that a write through this alone can see. */
  protected moveOut(): void {
    const { base } = shown(this.uop);
    const isOthers = this.isValue || (base.op === Ops.BUFFER && argOf(base, Ops.BUFFER).storage.names > 1);
    if (!isOthers) return;
    if (base.op === Ops.BUFFER) realizing.noteLeft(argOf(base, Ops.BUFFER).storage);
    this.setUop(uop(Ops.CONTIGUOUS, this.dtype, [this.uop], nextIdentity++));
  }
  /** Has a value that only happens to be another tensor's memory, and is all of it, ask for its own: that may be written later. */
  protected ownValue(): void {
    if (!this.isValue && this.source === undefined) return;
    const [top] = this.aliases(), { base } = shown(top.present), own = wholeOf(this.present);
    if (top !== this && !top.isValue && top.hasParted(base, shown(this.present).base)) {
      return void this.refresh(false, true);
    }
    if (!top.isValue || !isMemory(base) || !isMemory(own) || !isSameMemory(own, base)) return;
    if (top !== this) return void this.refresh();
    const copy = uop(Ops.CONTIGUOUS, this.dtype, [this.uop]);
    const made = own.op === Ops.BUFFER ? realizing.copyOut(this, this, own, copy) : copy;
    parted.set(this, [base, made]);
    noteCopied(this, this.node, made);
    this.setUop(made === copy ? copy : withExtents(shapedLike(this.uop, made), extentsOf(this.node)));
  }
  /** Whether this, in the memory of `base`, is still the value that was in `from`, which a view of it shows. */
  private hasParted(base: UOp, from: UOp): boolean {
    const known = parted.get(this);
    if (known === undefined) return false;
    const own = shown(known[1]).base;
    return isSameVersion(from, known[0]) && isSameVersion(base, own) && isMemory(own) && newestOf(own) === own;
  }
  /** Points the handle at a copy of what it names: a view stays one. */
  protected keepCopy(copy: UOp): void {
    if (this.source === undefined) return this.rename(copy);
    const source = this.source.weak(this.node, this.isApart(this.node));
    this.follows = false;
    this.setUop(copy);
    this.source = source;
  }
  /** What makes this name again what it names now. */
  protected remember(): () => void {
    const { node, source, isValue } = this;
    return () => {
      this.setUop(node);
      this.source = source;
      this.isValue = isValue;
    };
  }
  /**
   * Of what has been realized: a value is memory of its own from now on, and a view that is all of its tensor in order names
   * what is there.
   */
  protected noteSeen(): void {
    if (this.source === undefined) this.isValue &&= !isMemory(wholeOf(this.present));
    if (this.source === undefined || this.follows) return;
    const path = this.aliases(), [top] = path, { base } = shown(top.present);
    if (top === this || !isMemory(base) || !isMemory(wholeOf(this.present)) || !this.isOfNow(base)) return;
    const now = top.present, own = this.source.moveOf(top, this.node, now, { from: base, to: base });
    const made = own ?? movedBy(path, base, base, now)[path.length - 1];
    this.follows = made !== undefined && wholeOf(folded(made)) === wholeOf(folded(top.present));
  }
  /** Makes this name what is in its memory now. */
  private follow(): void {
    const own = wholeOf(this.node), [top] = this.aliases();
    if (!isMemory(own)) return;
    const { base } = shown(top === this ? own : top.present); // it may have moved to other memory
    if (!isMemory(base) || this.isOfNow(base)) return;
    this.follows = false;
    this.refresh(false, true);
    this.follows = true;
  }
  /** Whether this, which has been realized, is what there is in the memory of `base`: in that, or in memory of its own. */
  private isOfNow(base: UOp): boolean {
    const own = wholeOf(this.node);
    return isSameMemory(base, own) ? newestOf(own) === own : this.source?.isNow(newestOf(base)) === true;
  }
  /** This, as what it names now. */
  private named(): Named<TensorBase> {
    return { handle: this, epoch: this.epoch };
  }

  /** Makes this handle hold the memory that it names, or will name: see claims.ts. */
  protected hold(): void {
    if (this.holds) return;
    this.holds = true;
    claim(this.node);
  }
  /** Lets this handle be realized without holding anything: it stands for another one. */
  protected borrow(): this {
    this.holds = true;
    return this;
  }
  /** Gives up this handle's claim; gives what nobody holds any more. */
  protected letGo(): Storage[] {
    if (!this.holds) return [];
    this.holds = false;
    return unclaim(this.node);
  }

  /** A tensor of this class on a node that is a value, also where that is no other than what is in some memory. */
  protected wrap(u: UOp): this {
    const t = this.wrapNew(cutHere(u));
    t.isValue = isMemory(shown(u).base);
    return t;
  }
  /** As `wrap`, for memory of its own. */
  protected wrapNew(u: UOp): this {
    return new (this.constructor as new (u: UOp) => this)(u);
  }
  /** As `wrap`, for a view of this: what is written to it is written here. */
  protected wrapView(u: UOp): this {
    return this.viewOf(cutHere(u));
  }
  /** As `wrapView`, of the node as it is: the JIT, which moves handles on, computes nothing. */
  private viewOf(u: UOp): this {
    const t = this.wrapNew(u), { node } = this;
    if (isAlias(u.op) || isAlias(node.op) || u === node) {
      t.source = sourceOf(u, node, this.named(), this.source, epochOf);
    }
    return t;
  }

  /** As `wrap`, for what copies elements of this: a write to all of it that reaches nobody is refused. */
  protected wrapCopy(u: UOp, method: string, instead: string): this {
    const t = this.wrap(u);
    if (hasValues(this.node)) copies.set(t, [method, instead]);
    return t;
  }
  /** How this was copied from the memory of another tensor, which a write to this does not change; undefined: it was not, or was seen. */
  protected copiedBy(): readonly [method: string, instead: string] | undefined {
    const uop = this.uop.op === Ops.DETACH ? this.uop.src[0] : this.uop, known = copies.get(this);
    if (!this.isValue && unlabeled(uop).op === Ops.BUFFER) return undefined;
    if (known !== undefined) return known;
    if ((uop.op !== Ops.CAST && uop.op !== Ops.EXPAND) || !hasValues(uop.src[0])) return undefined;
    return uop.op === Ops.CAST ? CAST_COPY : ["expand", "assign to that tensor"];
  }

  /** The size of each axis (of a symbolic one the largest, see `Variable`); an array of its own. */
  get shape(): number[] {
    return namedShape(this.node);
  }

  /** The dtype of the elements. */
  get dtype(): DType {
    return this.node.dtype;
  }
  /**
   * Canonical device name, e.g. "WASM"; constants have that of their consumer, and say the default: one that is made to
   * require gradients has that from then on.
   */
  get device(): string {
    return deviceOf(this.uop) ?? this.constantDevice();
  }
  /** What `device` says for a node that lives nowhere yet. */
  protected abstract constantDevice(): string;
  /** How many axes there are. */
  get ndim(): number {
    return shapeOf(this.node).length;
  }
  /** Elements; of a symbolic axis, as in `shape`, the most that there may be. */
  numel(): number {
    return prod(shapeOf(this.node));
  }
  /** Bytes of all elements. */
  nbytes(): number {
    return this.numel() * this.dtype.itemsize;
  }
  /** Bytes of one element. */
  elementSize(): number {
    return this.dtype.itemsize;
  }
  /** Whether the dtype is a float, and no complex one. */
  isFloatingPoint(): boolean {
    return this.dtype.isFloat && !this.dtype.isComplex;
  }

  /** Whether `backward()` fills `grad`. Setting it true makes this a leaf with storage of its own. */
  get requiresGrad(): boolean | undefined {
    if (requiring.asked !== undefined) this.noteAsked(requiring.asked);
    return this.wantsGrad;
  }
  set requiresGrad(value: boolean | undefined) {
    if (value !== undefined && value !== null) checkBoolean("set requiresGrad", "it", value);
    if (value && !this.dtype.isFloat) {
      throw new DTypeError("require a gradient of dtype", { dtypes: [this.dtype], reason: noGradient(this) });
    }
    if (requiring.asked !== undefined) this.noteAsked(requiring.asked);
    if ((value === true) !== (this.wantsGrad === true) && requiring.known.has(this)) requiring.count++;
    this.wantsGrad = value;
    const ref = this.leafRef, isLeaf = ref !== undefined && gradLeaves.has(ref);
    if (value && !isLeaf) {
      if (!hasIdentity(this.uop)) {
        this.setUop(ownMemory(this.uop, nextIdentity++, this.constantDevice()));
        this.source = undefined;
        this.hold();
      } else if (this.source !== undefined) {
        const { base } = shown(this.aliases()[0].present), own = wholeOf(this.present);
        if (!isMemory(base) || !isSameMemory(base, own)) this.source = undefined; // realized, it has its own
      }
      gradLeaves.add(this.leafRef ??= new WeakRef<TensorBase>(this));
      frozenLeaves.delete(this.leafRef);
    } else if (!value && isLeaf) {
      gradLeaves.delete(ref);
      frozenLeaves.add(ref);
    }
  }

  /** Tells who listens whether this requires a gradient, as it was before anything changed that. */
  private noteAsked(asked: Map<TensorBase, boolean>): void {
    if (!asked.has(this)) asked.set(this, this.wantsGrad === true);
  }

  /** This operand as a tensor. A scalar takes the dtype it would have beside `this`. Lists are made tensors. */
  protected operand(x: Operand, action?: string): TensorBase {
    if (x instanceof TensorBase) return x;
    if (isList(x)) return this.fromList(x);
    if (isComplexValue(x)) return this.wrap(complexConst(x, inferDType([x], this.dtype)));
    checkScalar(x, action);
    const dtype = promoteScalar(this.dtype, x);
    checkFits(x, dtype, action);
    return this.wrap(scalarConst(x, dtype));
  }
  /** A tensor of a list, on this device: as operand beside this, or in `dtype`, as values to be written. */
  protected abstract fromList(x: NestedArray | TypedArray, dtype?: DType): TensorBase;

  /** The node of a value that is to be written into this: in this dtype, converted once. @throws as `operand` */
  protected written(x: Operand, action: string): UOp {
    if (x instanceof TensorBase) {
      checkSameDevice(action, this.uop, x.uop);
      return cutHere(castNode(x.uop, this.dtype));
    }
    if (isList(x)) return castNode(this.fromList(x, this.dtype).uop, this.dtype);
    if (isComplexValue(x)) return castNode(complexConst(x, complexOf(this.dtype)), this.dtype);
    checkScalar(x, action);
    checkFits(x, this.dtype, action);
    return typeof x === "number" ? castNode(constant(x, dtypes.float64), this.dtype) : scalarConst(x, this.dtype);
  }

  /**
   * The nodes of this and `x`, promoted to one dtype and broadcast to one shape. Scalars stay rank-0 constants.
   * @throws {ShapeError} if the shapes do not broadcast @throws {DeviceError} if both live somewhere, on two devices
   * @throws {DTypeError} for a bigint beyond an integer dtype; a number wraps there
   */
  protected broadcasted(action: string, x: Operand, reverse = false): [UOp, UOp] {
    const other = this.operand(x, action);
    const isScalar = typeof x !== "object", dtype = isScalar ? other.dtype : promote(this.dtype, other.dtype);
    let a = this.uop.cast(dtype), b = isScalar ? other.uop : other.uop.cast(dtype);
    if (!isScalar) checkSameDevice(action, a, b);
    [a, b] = broadcastNodes(action, [a, b]) as [UOp, UOp];
    return reverse ? [b, a] : [a, b];
  }
}

/** Whether something is a tensor. */
export function isTensor(x: unknown): x is TensorBase {
  return x instanceof TensorBase;
}

/** The tensor given as the argument `name`. @throws {ArgumentError} for anything else */
export function checkTensor<T extends TensorBase>(action: string, name: string, x: T): T {
  if (x instanceof TensorBase) return x;
  throw new ArgumentError(action, { reason: `${name} must be a tensor, not ${describe(x)}` });
}

/** The tensor given as the argument `name`, or undefined where there is none. @throws {ArgumentError} for anything else */
export function maybeTensor<T extends TensorBase>(action: string, name: string, x?: T | null): T | undefined {
  return x === undefined || x === null ? undefined : checkTensor(action, name, x);
}
