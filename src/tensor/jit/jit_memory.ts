/**
 * Which memory the arguments of a jit function share, with one another and with what the function closes over. Where
 * nobody writes it that is of no matter; else a capture holds for calls that share it alike. In: what calls of the function
 * have used and written; out: how a capture takes each argument (by itself, or under a name of its own), and which calls it
 * may serve.
 *
 * @module
 */
import { attachBuffer, Buffer, bufferOf } from "../../device/buffer.ts";
import { getDevice } from "../../device/device.ts";
import type { Recording } from "../../engine/capture.ts";
import { copyBuffer } from "../../engine/front/engine.ts";
import type { UseListener } from "../../engine/front/listening.ts";
import { JitError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { argOf, Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { bufferNode, toposort, type UOp } from "../../uop/core/uop.ts";
import { bare, shapedLike } from "../../uop/graph/complex.ts";
import { extentsOf, mapExtents, marked, withExtents } from "../../uop/graph/extent.ts";
import { resolve } from "../../uop/graph/resolve.ts";
import { nodeView } from "../../uop/graph/view.ts";
import { isMemory, memoryOf, pendingWrite, shown } from "../../uop/graph/writes.ts";
import { internals, type TensorBase } from "../handle/base.ts";
import { realizedBuffer, type RealizeTensor, realizeTensors } from "../realize.ts";
import { type Leaves, leavesOfTree } from "./jit_arguments.ts";
import { isLost, madeOf, shownBy, wrap } from "./jit_places.ts";

/** How a call gives an argument back: as a view that it has made; as what it has written through. */
export interface GivenBack {
  readonly isView: boolean;
  readonly isWritten: boolean;
}

/** A set of tensors that keeps none of them. */
class WeakTensors {
  private readonly known = new WeakSet<TensorBase>();
  private refs: WeakRef<TensorBase>[] = [];

  has(t: TensorBase): boolean {
    return this.known.has(t);
  }
  add(t: TensorBase): void {
    if (this.known.has(t)) return;
    this.known.add(t);
    this.refs.push(new WeakRef(t));
  }
  /** Those that there still are. */
  all(): TensorBase[] {
    this.refs = this.refs.filter((ref) => ref.deref() !== undefined);
    return this.refs.flatMap((ref) => ref.deref() ?? []);
  }
}

/** What calls of a function have used, as far as it was there before them, and what of that they wrote. */
export class Uses {
  private readonly used = new WeakSet<Storage>();
  private readonly written = new WeakSet<Storage>();
  /** What of that was no argument. */
  private readonly state = new WeakSet<Storage>();
  /** What it read, but for arguments. */
  private readonly closed = new WeakSet<Storage>();
  /** What they have assigned to. */
  private readonly handles = new WeakTensors();
  /** Of these those that were no arguments, and that none was a view of. */
  private readonly own = new WeakSet<TensorBase>();
  private readonly read = new WeakSet<TensorBase>();
  /** Whether there is any among what they wrote, or assigned to besides arguments: most functions write nothing. */
  private writes = false;
  private assignsOwn = false;
  /** What those that they have assigned to show now. */
  private named: ReadonlySet<Storage | undefined> = new Set();
  /** Those read that were no arguments. */
  private readonly outer = new WeakTensors();
  /** Tensors that each call so far has had as arguments: whether the function closes over one, too, no call has told. */
  private always: readonly WeakRef<TensorBase>[] | undefined;

  /** Hears a call on `args` that begins after `start` nodes; positions of those that it writes go to `writes`. */
  listen(args: readonly TensorBase[], storages: readonly Storage[], start: number, writes: Set<number>): UseListener {
    const { used, state } = this, brought = new Set<unknown>(storages);
    args.forEach((t, i) => brought.add(wholeOf(t, storages[i])));
    return {
      since: start,
      uses: (storage, isWritten) => {
        if (storage.born < start || storage.born === Infinity) used.add(storage);
        if (!isWritten) return;
        this.noteWritten(storage);
        if (!brought.has(storage)) state.add(storage);
        storages.forEach((s, i) => s === storage && writes.add(i));
      },
    };
  }

  /** Notes what a capture closes over, and what of that it writes. */
  note(closed: Iterable<Storage>, written: Iterable<Storage>): void {
    for (const s of closed) this.used.add(s);
    for (const s of written) {
      this.noteWritten(s);
      this.state.add(s);
    }
  }
  private noteWritten(storage: Storage): void {
    this.writes = true;
    this.written.add(storage);
  }
  /** Notes that these, which were there before a call on `args`, have been read. */
  noteRead(handles: readonly TensorBase[], args: readonly TensorBase[]): void {
    for (const t of handles) {
      this.read.add(t);
      if (!args.includes(t)) this.outer.add(t);
    }
    this.always = this.always?.filter((ref) => args.includes(ref.deref()!)) ?? args.map((t) => new WeakRef(t));
    this.lookAgain();
  }
  /** Notes what memory that which is closed over reads, and what has been assigned to shows, now. */
  lookAgain(): void {
    this.named = new Set(this.handles.all().map(shownBy));
    for (const u of toposort(this.outer.all().map((t) => resolve(t.uop)))) {
      if (u.op === Ops.BUFFER) this.closed.add(argOf(u, Ops.BUFFER).storage);
    }
  }
  /** Whether the function reads memory by what it closes over, which may have got it since. */
  isClosed(memory: Storage | UOp): boolean {
    const known = memory instanceof Storage && this.closed.has(memory);
    return known || this.outer.all().some((t) => memoryBelow(t) === memory);
  }
  /** Notes that a call on `args` has assigned to these. */
  noteHandles(handles: Iterable<TensorBase>, args: readonly TensorBase[]): void {
    const brought = new Set(args.flatMap((t) => internals.aliases(t)));
    for (const t of handles) {
      if (!brought.has(t)) this.noteOwn(t);
      const own = shownBy(t); // it may have moved there in the call
      if (own !== undefined) this.used.add(own);
      this.handles.add(t);
    }
  }

  /** Gives tensors that are written memory that they share with no equal expression, in which they can be written. */
  moveOut(tensors: Iterable<TensorBase>): void {
    const lazy: TensorBase[] = [];
    for (const t of tensors) {
      const old = madeOf(t), isClosed = old !== undefined && this.used.has(old);
      if (old === undefined) continue;
      internals.moveOut(t);
      if (madeOf(t) !== undefined) continue;
      lazy.push(t);
      if (isClosed) this.handles.add(t);
    }
    if (lazy.length > 0) realizeTensors(lazy, true);
  }
  /** As {@linkcode moveOut}, all that calls have assigned to. */
  moveOutAll(): void {
    this.moveOut(this.handles.all().filter((t) => internals.aliases(t)[0] === t));
  }

  /** Whether an argument may be written, by its position or because it is closed over, too. */
  mayBeWritten(t: TensorBase, storage: Storage): boolean {
    return this.written.has(storage) || this.handles.has(t) || this.named.has(storage);
  }
  /** Whether calls have assigned to a tensor, as an argument or not. */
  assigns(t: TensorBase): boolean {
    return this.handles.has(t);
  }
  /** Notes that the function closes over a tensor that it assigns to. */
  noteOwn(t: TensorBase): void {
    this.assignsOwn = true;
    this.own.add(t);
  }
  /** Those of the positions of arguments at which the function assigns to a tensor that it closes over. */
  assignedOf(args: readonly TensorBase[]): number[] {
    return this.assignsOwn ? [...args.keys()].filter((i) => this.own.has(args[i])) : [];
  }
  /**
   * Whether arguments share written memory with a tensor of which only a call without it tells whether the function closes
   * over it, too: this one, run as it is.
   */
  tells(args: readonly TensorBase[]): boolean {
    const { always = [], written } = this;
    return this.writes && always.some((ref) => {
      const t = ref.deref(), memory = t && !args.includes(t) ? memoryBelow(t) : undefined;
      return memory instanceof Storage && written.has(memory) && args.some((x) => memoryBelow(x) === memory);
    });
  }
  /** Whether a call has written to a storage that it closes over. */
  isState(storage: Storage): boolean {
    return this.state.has(storage);
  }
  /** Whether the function may close over an argument. */
  mayBeClosed(t: TensorBase, storage: Storage): boolean {
    return this.used.has(storage) || this.closed.has(storage) || this.named.has(storage) || this.read.has(t) ||
      this.handles.has(t);
  }
}

/** The memory of what a tensor, which may have been realized into memory of its own, is a view of. */
function memoryBelow(t: TensorBase): ReturnType<typeof memoryOf> | undefined {
  const { base } = shown(internals.aliases(t)[0].uop);
  return isMemory(base) ? memoryOf(base) : undefined;
}

/** How a capture takes the memory of its arguments. */
export interface Taking {
  /** By argument, the first one that is the same memory to the capture. */
  readonly groups: readonly number[];
  /** By argument, the number of the storage that it must be, as the capture has taken it by itself; 0 for any. */
  readonly tied: readonly number[];
  /** By argument, the one in its memory that it is a view of; -1 for none. */
  readonly above: readonly number[];
}

/** By argument, the first one that is the same memory, and that it is a view of: a write to it is one to that, too. */
function aboveOf(tensors: readonly TensorBase[], groups: readonly number[]): number[] {
  const shares = new Set(groups.filter((g, i) => groups.indexOf(g) !== i));
  return tensors.map((t, i) => {
    if (!shares.has(groups[i])) return -1;
    const path = internals.aliases(t);
    return tensors.findIndex((x, k) => x !== t && groups[k] === groups[i] && path.includes(x));
  });
}

/**
 * How to take arguments: by themselves those that the function may write and close over, and leaves, but for those at
 * `plain` positions; as one those that share memory that may be written.
 */
export function takingOf(
  tensors: readonly TensorBase[],
  storages: readonly Storage[],
  uses: Uses,
  writes: ReadonlySet<number>,
  plain: ReadonlySet<number>,
): Taking {
  const written = new Set<Storage>(), first = new Map<Storage, number>(), firstTied = new Map<Storage, number>();
  storages.forEach((s, i) => {
    if (writes.has(i) || uses.mayBeWritten(tensors[i], s)) written.add(s);
  });
  const isClosed = new Set(storages.filter((s, i) => written.has(s) && uses.mayBeClosed(tensors[i], s)));
  const groups: number[] = [], tied: number[] = [], positions = new Map<TensorBase, number>();
  storages.forEach((s, i) => {
    const t = tensors[i], same = positions.get(t);
    if (same !== undefined) { // the function may ask whether they are one
      groups.push(groups[same]);
      tied.push(tied[same]);
      return;
    }
    positions.set(t, i);
    const isLeaf = t.requiresGrad === true && !plain.has(i);
    const isTied = isLeaf || (isClosed.has(s) && !isPart(t, s));
    const known = isTied ? firstTied : first;
    if (isTied || written.has(s)) {
      if (!known.has(s)) known.set(s, i);
      groups.push(known.get(s)!);
    } else groups.push(i);
    tied.push(isTied ? s.id : 0);
  });
  return { groups, tied, above: aboveOf(tensors, groups) };
}

/** The memory of what a tensor in `storage` is a part of; undefined where that is all of it. */
function wholeOf(t: TensorBase, storage: Storage): ReturnType<typeof memoryOf> | undefined {
  const [top] = internals.aliases(t);
  if (top === t) return undefined;
  const memory = memoryBelow(t) ?? shown(top.uop).base;
  return memory === storage ? undefined : memory;
}
function isPart(t: TensorBase, storage: Storage): boolean {
  return wholeOf(t, storage) !== undefined;
}

/** Whether what a tensor shows, which is real, is about to be overwritten: a view that was made before. */
export function isOverwritten(t: TensorBase): boolean {
  const storage = madeOf(t);
  return storage !== undefined && pendingWrite(storage) !== undefined;
}

/** The range of elements of memory `whole` that a view of it spans; undefined where that is not known. */
function spanOf(u: UOp, whole: unknown): readonly [min: number, max: number] | undefined {
  const { base, view, moving } = nodeView(u);
  if (view === undefined || moving.length > 0 || !isMemory(base) || memoryOf(base) !== whole) return undefined;
  let min = view.offset, max = view.offset;
  view.shape.forEach((n, i) => {
    const reach = (n - 1) * view.strides[i];
    if (reach < 0) min += reach;
    else max += reach;
  });
  return [min, max];
}

/** Which of the arguments at `positions` show what is lost. */
export function lostOf(tensors: readonly TensorBase[], positions: ReadonlySet<number>): Set<number> {
  return new Set([...positions].filter((i) => isLost(tensors[i])));
}

/**
 * What arguments show before they are realized, where those at `written` are, and calls assign to those at `assigned`: of
 * these, where they show what is lost, what is there now. One that only shares memory with them stays what it was.
 */
export function viewsOf(
  tensors: readonly TensorBase[],
  written: ReadonlySet<number>,
  assigned: ReadonlySet<number>,
): readonly UOp[] {
  if (written.size === 0) return [];
  for (const i of lostOf(tensors, assigned)) internals.refresh(tensors[i]);
  return tensors.map((t) => t.uop);
}

/**
 * The arguments that calls may write and that are parts of other tensors. A call has them as memory of their own, which is then
 * written to what they are parts of.
 */
export class Parts {
  private readonly wholes = new Map<number, ReturnType<typeof memoryOf>>();
  /** Whether no capture can serve: an argument shows what is written through another one, or closed over, or what it is no more. */
  readonly isMixed: boolean;

  /** @param written positions among the tensors @param views what the tensors showed before they were realized */
  constructor(
    private readonly tensors: readonly TensorBase[],
    private readonly storages: readonly Storage[],
    written: ReadonlySet<number>,
    views: readonly UOp[],
    uses: Uses,
  ) {
    for (const i of written) {
      const whole = wholeOf(tensors[i], storages[i]);
      if (whole !== undefined) this.wholes.set(i, whole);
    }
    this.isMixed = uses.assignedOf(tensors).some((i) => this.isPart(i)) ||
      (this.wholes.size > 0 && (this.overlap(views) ||
        [...this.wholes].some(([i, whole]) => uses.isClosed(whole) || !internals.isNow(tensors[i]))));
  }
  has(i: number): boolean {
    return this.wholes.has(i);
  }
  /** Whether an argument, written or not, is a part of another tensor. */
  isPart(i: number): boolean {
    return isPart(this.tensors[i], this.storages[i]);
  }
  /** Whether a capture writes one at one of these positions, of tensors that are one the first. */
  private isWritten(i: number, written: ReadonlyMap<number, number>): boolean {
    return this.storages.some((s, k) => s === this.storages[i] && written.has(k));
  }
  /** Whether an argument shows what is written through another one. */
  private overlap(before: readonly UOp[]): boolean {
    const { tensors, storages } = this;
    for (const [i, whole] of this.wholes) {
      for (let k = 0; k < tensors.length; k++) {
        if (tensors[k] === tensors[i]) continue;
        if (storages[k] === whole) return true;
        if (wholeOf(tensors[k], storages[k]) !== whole) continue;
        const a = spanOf(before[i], whole), b = spanOf(before[k], whole);
        if (a === undefined || b === undefined || (a[0] <= b[1] && b[0] <= a[1])) return true;
      }
    }
    return false;
  }
  /**
   * Takes those at `written`, which a capture has written, where no earlier call had, for parts, too.
   * @throws {JitError} where another argument may show what is written to one of them
   */
  learn(written: ReadonlyMap<number, number>): void {
    this.tensors.forEach((t, i) => {
      const whole = this.wholes.has(i) || !this.isWritten(i, written) ? undefined : wholeOf(t, this.storages[i]);
      if (whole === undefined) return;
      const isShown = this.tensors.some((x, k) =>
        x !== t && (this.storages[k] === whole || wholeOf(x, this.storages[k]) === whole)
      );
      if (isShown) {
        throw new JitError("capture a function", {
          reason: `it assigns to argument tensor ${i}, a part of a tensor of which another argument shows something, ` +
            "and in an earlier call it did not; pass a clone()",
        });
      }
      this.wholes.set(i, whole);
    });
  }
  /** @throws {JitError} where a capture closes over `held`, and writes a part of it at one of these positions */
  check(written: ReadonlyMap<number, number>, held: readonly Storage[]): void {
    for (const [i, whole] of this.wholes) {
      if (!this.isWritten(i, written) || !held.some((s) => s === whole)) continue;
      throw new JitError("call a jit function", {
        reason: `it assigns to argument tensor ${i}, a part of a tensor that it closes over; take that part inside`,
      });
    }
  }
  /** Writes what a call has left in the memory of arguments that it writes, which `result` may be, to what they are parts of. */
  write(written: ReadonlyMap<number, number>, result: unknown): void {
    if (this.wholes.size === 0) return;
    const tops: TensorBase[] = [], values = new Map<TensorBase, UOp>();
    for (const i of this.wholes.keys()) {
      if (!this.isWritten(i, written)) continue;
      const t = this.tensors[i], own = shapedLike(t.uop, bufferNode(this.storages[i]));
      const value = withExtents(own, extentsOf(t.uop));
      (t as RealizeTensor).assign(wrap(t, value));
      tops.push(internals.aliases(t)[0]);
      values.set(t, value);
    }
    if (tops.length === 0) return;
    realizeTensors(tops);
    for (const [t, value] of values) { // what they show is in memory already
      const { uop } = t;
      if (realizedBuffer(uop) !== undefined) continue;
      uop.becomes = value;
      internals.hold(t);
    }
    for (const t of leavesOfTree(result, "call a jit function").tensors) {
      if (!values.has(t) && internals.aliases(t).some((a) => values.has(a))) internals.refresh(t);
    }
  }
}

/** Which calls a capture may serve, by the memory of their arguments. */
export class Sharing {
  /** By argument, what it was, where the capture takes it by itself and has assigned to it. */
  private readonly itself: readonly (WeakRef<TensorBase> | undefined)[];
  private readonly moved: WeakSet<TensorBase>;
  /** Whether arguments are one memory to it. */
  private readonly hasGroups: boolean;

  /**
   * @param taking how it takes arguments
   * @param written those that it writes, of each group the first, and how often
   * @param closed what it closes over
   * @param state what of that it writes
   * @param given the arguments as it got them
   * @param moved tensors that it assigns to: they name what it has written, and views of the same memory do not
   */
  constructor(
    private readonly taking: Taking,
    readonly written: ReadonlyMap<number, number>,
    readonly closed: ReadonlySet<Storage>,
    readonly state: ReadonlySet<Storage>,
    given: readonly TensorBase[],
    moved: ReadonlySet<TensorBase>,
  ) {
    this.itself = given.map((t, i) => taking.tied[i] !== 0 && moved.has(t) ? new WeakRef(t) : undefined);
    this.moved = new WeakSet(moved);
    this.hasGroups = taking.groups.some((g, i) => g !== i);
  }

  /** Those of the storages of arguments that the function may close over. */
  tiedOf(storages: readonly Storage[]): Storage[] {
    return storages.filter((_, i) => this.taking.tied[i] !== 0);
  }

  /** Whether arguments in these storages share what they shared when it was captured, as far as something is written. */
  fits(tensors: readonly TensorBase[], storages: readonly Storage[]): boolean {
    const { taking: { groups, tied, above }, written, closed, state, itself, moved } = this;
    for (let i = 0; i < storages.length; i++) {
      const s = storages[i];
      if (tied[i] !== 0) {
        const own = itself[i], t = tensors[i];
        if (s.id !== tied[i] || (own === undefined ? moved.has(t) : own.deref() !== t)) return false;
      } else if (
        storages[groups[i]] !== s || (state.size > 0 && state.has(s)) || (written.has(groups[i]) && closed.has(s))
      ) return false;
    }
    if (this.hasGroups && !sameArray(aboveOf(tensors, groups), above)) return false;
    for (const i of written.keys()) {
      for (let k = 0; k < storages.length; k++) if (storages[k] === storages[i] && groups[k] !== i) return false;
    }
    return true;
  }
}

/** A copy of memory. */
export function copyOf(storage: Storage): Buffer {
  const from = bufferOf(storage)!, copy = new Buffer(getDevice(storage.device), storage.dtype, storage.size);
  copyBuffer(copy, from);
  return copy;
}

/**
 * What a call gives that is argument `t`, in `storage`: that, realized as results are, or, where the function has made it
 * as a view of that, a view; where `t` is a part of another tensor a copy: results are values. `like` has its shape.
 */
export function givenBack(
  t: TensorBase,
  storage: Storage,
  like: TensorBase,
  { isView, isWritten }: GivenBack,
  isPart: boolean,
): TensorBase {
  if (!isView || !isPart || isWritten) {
    const given = isView ? wrap(t, shapedLike(like.uop, bare(t.uop))) : t;
    internals.noteSeen(given);
    return given;
  }
  const copy = wrap(t, shapedLike(like.uop, bufferNode(storageFor(storage, copyOf(storage)))));
  internals.hold(copy);
  return copy;
}

/** Memory under a name of its own. */
function aliasOf(storage: Storage): Storage {
  const buffer = bufferOf(storage)!;
  return storageFor(storage, buffer.isShared ? copyOf(storage) : buffer.view(0, buffer.size, buffer.dtype));
}
function storageFor(like: Storage, buffer: Buffer): Storage {
  const storage = like.like();
  attachBuffer(storage, buffer);
  return storage;
}

/** The arguments as the function gets them: those that are not taken by themselves have names of their own, as variables have. */
export function insideOf(
  { tensors, bound }: Leaves,
  storages: readonly Storage[],
  { groups, tied, above }: Taking,
): TensorBase[] {
  const aliases = new Map<number, Storage>(), made = new Map<TensorBase, TensorBase>();
  const inside = (i: number): TensorBase => {
    const t = tensors[i], at = groups[i], known = made.get(t);
    if (tied[i] !== 0) return t;
    if (known !== undefined) return known;
    if (!aliases.has(at)) aliases.set(at, aliasOf(storages[i]));
    const extents = mapExtents(extentsOf(t.uop), (e) => marked(e, bound));
    const top = above[i] < 0 ? undefined : inside(above[i]);
    const own = shapedLike(t.uop, top === undefined ? bufferNode(aliases.get(at)!) : bare(top.uop));
    const alias = wrap(top ?? t, withExtents(own, extents));
    made.set(t, alias);
    return alias;
  };
  return tensors.map((_, i) => inside(i));
}

/**
 * The arguments that a call has written, of those that are one memory the first, with the number of writes: what it wrote
 * to copies is written to them.
 * @throws {JitError} where an argument shares written memory in a way that no earlier call has shown
 */
export function writesTo(
  recording: Recording,
  inside: readonly Storage[],
  { groups, tied }: Taking,
  storages: readonly Storage[],
): Map<number, number> {
  const written = new Map<number, number>();
  if (recording.written.size === 0) return written;
  const used = new Set(recording.storages);
  const refuse = (reason: string): never => {
    throw new JitError("capture a function", { reason: `${reason}; pass a clone()` });
  };
  inside.forEach((s, i) => {
    if (groups[i] !== i) return;
    const own = storages[i], writes = recording.written.get(s), isAlias = tied[i] === 0;
    const isClosed = isAlias && used.has(own);
    if (isClosed && writes === undefined && recording.written.has(own)) {
      refuse(`it assigns to a tensor that it closes over and that is argument tensor ${i}, too`);
    }
    if (writes === undefined) return;
    const other = storages.findIndex((x, k) => x === own && groups[k] !== i);
    if (other >= 0) refuse(`it assigns to argument tensor ${i}, which is argument tensor ${other}, too`);
    if (isClosed) refuse(`it assigns to argument tensor ${i}, which it closes over, too`);
    written.set(i, writes);
    recording.written.delete(s);
    if (!isAlias) return;
    const from = bufferOf(s)!, to = bufferOf(own)!;
    if (from.base !== to.base) {
      to.unshare();
      copyBuffer(to, from);
    }
    own.version += writes;
    own.writtenAt = s.writtenAt;
  });
  return written;
}
