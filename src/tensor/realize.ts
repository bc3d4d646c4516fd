/**
 * What makes lazy tensors real: realize, kernelize, schedule; reading back; assignment; devices; disposal.
 *
 * @module
 */
import { type Buffer, bufferOf, releaseStorage } from "../device/buffer.ts";
import { defaultDevice, type DeviceName, findGroup, knownDevice } from "../device/device.ts";
import { isLate, partsReady } from "../device/parts.ts";
import { relieveHeap, takeTurn } from "../device/pressure.ts";
import type { DTypeName } from "../dtype/dtype.ts";
import { groupName, realizeNodes, realizeUnheard, scheduleItems } from "../engine/front/engine.ts";
import { currentCapture } from "../engine/front/listening.ts";
import type { ExecItem } from "../engine/front/runners.ts";
import {
  ArgumentError,
  byteText,
  DeviceError,
  DisposedError,
  DTypeError,
  JitError,
  ShapeError,
} from "../helpers/errors.ts";
import { prod, stridesOf } from "../helpers/math.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import { spans, tellSpan } from "../helpers/spans.ts";
import { Site } from "../helpers/stack.ts";
import { argOf, Storage } from "../uop/core/args.ts";
import { broadcastTo } from "../uop/core/build_movement.ts";
import { isMovement, Ops } from "../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../uop/core/shape.ts";
import { after, bufferNode, store, toposort, type UOp, uop } from "../uop/core/uop.ts";
import { bare, shapedLike } from "../uop/graph/complex.ts";
import { extentsOf, isBoundNode } from "../uop/graph/extent.ts";
import { unlabeled, wholeOf } from "../uop/graph/resolve.ts";
import {
  isMemory,
  isSameMemory,
  newestOf,
  noteClone,
  noteOpen,
  noteWrite,
  showAs,
  shown,
  takeBack,
  writesTo,
} from "../uop/graph/writes.ts";
import { allBeside } from "./gradients/open_gradients.ts";
import { keepOrigins } from "./gradients/origins.ts";
import { internals, type Operand, type Realizing, realizing, TensorBase } from "./handle/base.ts";
import { asFloats } from "./handle/weak_numbers.ts";
import { cutHere, materializeShape } from "./handle/broadcast.ts";
import { tensorList } from "./handle/dims.ts";
import { ownMemory, unplaced } from "./handle/memory_of.ts";
import { type ArrayOf, type ItemOf, nestedOf, nestedParts, type NestedValues, typedArrayOf } from "./nodes/host.ts";
import type { ElementwiseTensor } from "./ops/elementwise.ts";

/**
 * Handles moved while a jit function runs: assigned ones, those that have been made to name something else, and, while a
 * capture listens, these as they were before. Replays move them on.
 */
export const movedHandles: {
  assigned: Set<TensorBase> | undefined;
  renamed: Set<TensorBase> | undefined;
  replaced: Map<TensorBase, TensorBase> | undefined;
  /** How many handles there were when it began: younger ones are its own. */
  since: number;
} = { assigned: undefined, renamed: undefined, replaced: undefined, since: 0 };

/** While something is done as a whole or not at all: what takes back the writes that it has asked for so far, the last one last. */
let undo: (() => void)[] | undefined;

/** Calls `body`. Where it throws, tensors that it assigned to are what they were before. */
export function wholly<T>(body: () => T): T {
  if (undo !== undefined) return body();
  const list: (() => void)[] = undo = [];
  try {
    return body();
  } catch (error) {
    undo = undefined;
    for (const back of list.reverse()) back();
    throw error;
  } finally {
    undo = undefined;
  }
}

/** How often handles have come to name something else outside of captures. */
export const replacements: {
  count: number;
  /** By storage, the count at which one last left it. */
  readonly at: WeakMap<Storage, number>;
  /** By handle, the count at which it last left what was not real. */
  readonly lazy: WeakMap<TensorBase, number>;
  /** Handles that were not real when a capture read them: it computes them itself, as they were. */
  readonly watched: WeakSet<TensorBase>;
} = { count: 0, at: new WeakMap(), lazy: new WeakMap(), watched: new WeakSet() };

/** Tells captures that have computed `t` themselves that it is something else from now on. */
function noteChanged(t: TensorBase): void {
  if (replacements.watched.has(t)) replacements.lazy.set(t, ++replacements.count);
}

/** The BUFFER below a node's RESHAPEs and symbolic sizes, if it is realized. */
export function realizedBuffer(u: UOp): UOp | undefined {
  const v = unlabeled(u);
  return v.op === Ops.BUFFER ? v : undefined;
}
/** The memory of a realized tensor's node; undefined for one that has none. */
export function realizedMemory(u: UOp): Buffer | undefined {
  const node = realizedBuffer(u);
  return node === undefined ? undefined : bufferOf(argOf(node, Ops.BUFFER).storage);
}

function checkAlive(buffer: UOp, action: string): void {
  const { disposedAt } = argOf(buffer, Ops.BUFFER).storage;
  if (disposedAt !== "") throw new DisposedError(action, { disposedAt: String(disposedAt) });
}

/** What else the functions here may ask of a handle. */
interface Inside {
  liveNode(t: TensorBase, action: string): UOp;
  keep(t: TensorBase): UOp;
}
let inside: Inside;

/** Tells who listens that values have been read. */
function tellRead({ nbytes, device: { name: device } }: Buffer, startMs: number): void {
  if (spans.listener === undefined) return;
  tellSpan(spans.listener, "read", `read ${byteText(nbytes)}`, startMs, performance.now(), device, undefined);
}

/** Makes a handle hold its memory, as those do that were made with values or realized; returns it. */
export function holdMemory<T extends TensorBase>(t: T): T {
  internals.hold(t);
  return t;
}

/**
 * Realizes nodes, those of `tensors` and others, as one schedule, together with the open writes and gradients that read
 * what it overwrites; what they were computed from is remembered where it leads to leaves.
 */
export function realizeOf(
  tensors: readonly TensorBase[],
  nodes: readonly UOp[],
  beside: readonly UOp[] = allBeside(nodes),
): void {
  if (nodes.length + beside.length === 0) return;
  keepOrigins(tensors, beside, () => realizeNodes(nodes, beside));
  if (currentCapture() === undefined) relieveHeap();
}

/**
 * Realizes tensors as one schedule; each then holds its memory. Views stay views, and those that are all of a tensor show
 * what is written to that later, unless they are `asGiven`: arguments of a function. @throws {DisposedError}
 */
export function realizeTensors(tensors: readonly TensorBase[], asGiven = false): void {
  const nodes: UOp[] = [];
  if (tensors.length > 1) {
    for (const t of tensors) if (internals.isView(t)) internals.ownValue(t); // what they are views of moves with them
  }
  for (const t of tensors) {
    internals.ownValue(t);
    const u = inside.liveNode(t, "realize a tensor"), made = realizedBuffer(u);
    if (isBoundNode(u)) continue; // a number, which kernels take as such
    if (made !== undefined) checkAlive(made, "realize a tensor");
    const whole = wholeOf(u), isOver = isMemory(whole) && newestOf(whole) !== whole;
    if (isOver || u.op === Ops.CONST) nodes.push(inside.keep(t)); // what it names is overwritten, maybe now
    else if (made === undefined) nodes.push(u);
  }
  if (nodes.length > 0) realizeOf(tensors, nodes);
  for (const t of tensors) {
    if (isBoundNode(t.uop)) continue;
    if (!asGiven) internals.noteSeen(t);
    internals.hold(t);
  }
}

/** The families that it is written in. */
export interface RealizeTensor extends ElementwiseTensor {}
/** Adds realizing, reading, assignment and devices. */
export abstract class RealizeTensor extends TensorBase {
  static {
    inside = {
      keep: (t) => (t as RealizeTensor).keepValues(),
      liveNode: (t, action) => (t as RealizeTensor).liveNode(action),
    };
    Object.assign(
      realizing,
      {
        noteRenamed: (t) => (t as RealizeTensor).noteRenamed(),
        noteLeft: (storage) => noteLeft(storage),
        copyOut: (t, top, memory, copy) => (t as RealizeTensor).copyOut(top, memory, copy),
        assignView: (t, view, value) => (t as RealizeTensor).assignView(view, value),
      } satisfies Realizing,
    );
  }

  /** Makes this name a copy of what it names. */
  private keepValues(): UOp {
    this.keepCopy(uop(Ops.CONTIGUOUS, this.dtype, [this.uop], nextClone++));
    return this.uop;
  }

  /** This tensor's node, for realizing. @throws {DisposedError} */
  private liveNode(action: string): UOp {
    if (this.disposedAt !== "") throw new DisposedError(action, { disposedAt: String(this.disposedAt) });
    return this.uop;
  }

  /**
   * Computes this (and `others`) now, as one schedule; returns this. Synchronous. Later reads cost nothing. From now on
   * this handle holds the memory: nothing frees it before this is disposed.
   */
  realize(others: readonly TensorBase[] = []): this {
    realizeTensors([this, ...tensorList("realize tensors", others)]);
    return this;
  }

  /**
   * Fixes that this (and `others`) will be kernels of their own, without running them: whatever is computed from these
   * tensors later reads one result, and realizing them launches what is compiled here. Returns this.
   */
  kernelize(others: readonly TensorBase[] = []): this {
    const all = [this, ...tensorList("kernelize", others)] as RealizeTensor[];
    for (const t of all) {
      if (realizedBuffer(t.uop) !== undefined || isMemory(shown(t.uop).base)) continue;
      t.setUop(uop(Ops.CONTIGUOUS, t.dtype, [materializeShape(t.uop, t.shape)], nextClone++));
    }
    const pending = all.map((t) => t.uop).filter((u) => realizedBuffer(u) === undefined);
    if (pending.length > 0) scheduleItems(pending);
    return this;
  }

  /** The steps that realizing this would take, compiled but not run. */
  schedule(): ExecItem[] {
    return scheduleItems([this.liveNode("schedule a tensor")]);
  }

  /** True once the values are in memory. */
  get isRealized(): boolean {
    return isBoundNode(this.uop) || realizedBuffer(this.uop) !== undefined;
  }

  /** The same values in memory of their own, in row-major order. */
  contiguous(): this {
    return this.wrap(uop(Ops.CONTIGUOUS, this.dtype, [materializeShape(this.uop, this.shape)]));
  }
  /** Identity whose gradient is made contiguous. */
  contiguousBackward(): this {
    return this.wrapView(uop(Ops.CONTIGUOUS_BACKWARD, this.dtype, [this.uop]));
  }
  /** The same values, cut off from the gradient. */
  detach(): this {
    return this.wrapView(uop(Ops.DETACH, this.dtype, [this.uop]));
  }
  /**
   * A copy with memory of its own, on `device` if given: of what this is now, whatever is written to it later.
   * @throws {DeviceError} */
  clone<N extends string>(options: { readonly device?: DeviceName<N> } = {}): this {
    checkOptions("clone", options, ["device"]);
    const copy = holdMemory(this.wrapNew(uop(Ops.CONTIGUOUS, this.dtype, [cutHere(this.uop)], nextClone++)));
    noteClone(bare(copy.uop));
    return options.device === undefined ? copy : copy.to(options.device);
  }

  /**
   * A lazy copy on `device` (the default device if absent), or on each of several; itself if it is there.
   * @throws {DeviceError} */
  to<N extends string>(device?: DeviceName<N> | readonly DeviceName<N>[]): this {
    const target = device === undefined
      ? defaultDevice()
      : Array.isArray(device)
      ? groupName(device)
      : knownDevice(device as DeviceName);
    if (deviceOf(this.uop) === target) return this;
    const from = materializeShape(cutHere(this.uop), this.shape);
    return holdMemory(this.wrapNew(uop(Ops.COPY, this.dtype, [from], target)));
  }
  /** Moves this tensor, and its gradient, to `device`. */
  toInPlace<N extends string>(device?: DeviceName<N> | readonly DeviceName<N>[]): this {
    const value = unplaced(this.uop), moved = (value === undefined ? this : this.wrapNew(value)).to(device);
    if (value !== undefined) moved.setUop(ownMemory(moved.uop, nextClone++, moved.device));
    if (moved !== this) this.replace(moved);
    if (this.grad) (this.grad as RealizeTensor).toInPlace(device);
    return this;
  }
  /** On WASM. */
  wasm(): this {
    return this.to("WASM");
  }
  /** On CLANG. */
  clang(): this {
    return this.to("CLANG");
  }
  /** On WEBGPU. */
  webgpu(): this {
    return this.to("WEBGPU");
  }
  /** On CUDA. */
  cuda(): this {
    return this.to("CUDA");
  }
  /** On JS, the host. */
  js(): this {
    return this.to("JS");
  }

  /** The buffer that holds exactly this tensor's values, row-major; realizes it, copying if it is a view. */
  private hostBuffer(action: string): Buffer {
    if (currentCapture() !== undefined) {
      throw new JitError(action, {
        reason: "a function under jit() cannot read values; return the tensor and read it outside",
      });
    }
    const group = findGroup(deviceOf(this.uop) ?? "");
    if (group !== undefined) return (this.to(group.members[0].name) as RealizeTensor).hostBuffer(action);
    this.ownValue();
    let u = this.liveNode(action);
    if (u.op === Ops.CONST) u = this.keepValues();
    if (isBoundNode(u)) u = uop(Ops.CONTIGUOUS, u.dtype, [u], nextClone++); // the variable itself stays one
    if (realizedBuffer(u) === undefined) {
      const beside = allBeside([u]), { base } = shown(u);
      // a write that goes with it is to what is read
      if (beside.some((w) => w.op === Ops.AFTER && isMemory(base) && isSameMemory(w, base))) u = this.keepValues();
      realizeOf([this], [u], beside);
    }
    const node = realizedBuffer(u);
    if (node === undefined) {
      throw new DeviceError(action, { device: this.device, reason: "the tensor did not become a buffer" });
    }
    const { storage, version } = argOf(node, Ops.BUFFER);
    checkAlive(node, action);
    this.noteSeen();
    if (storage.claims === 0) this.hold();
    if (storage.version !== version) realizeNodes([uop(Ops.CONTIGUOUS, this.dtype, [u])]); // throws StaleReadError
    return bufferOf(storage)!;
  }

  /**
   * The values, row-major: Uint8Array for bool, Float16Array for float16, BigInt64Array for int64, BigUint64Array for
   * uint64, Float32Array for bfloat16 and fp8, real and imaginary parts side by side for complex dtypes, else the array of the dtype. Realizes.
   * To the type checker they are an array of numbers, or that of the dtype that is named: `await t.data<"int64">()`.
   */
  async data<D extends DTypeName = never>(): Promise<ArrayOf<D>> {
    if (isLate()) await partsReady();
    const buffer = this.hostBuffer("read a tensor");
    const startMs = performance.now(), bytes = await buffer.copyOutAsync(new Uint8Array(this.nbytes()));
    tellRead(buffer, startMs);
    await takeTurn();
    return typedArrayOf(this.bytesNow(bytes), this.dtype) as ArrayOf<D>;
  }
  /** As {@linkcode data}, at once. @throws {DeviceError} on devices that read only asynchronously */
  dataSync<D extends DTypeName = never>(): ArrayOf<D> {
    const buffer = this.hostBuffer("read a tensor");
    if (buffer.device.allocator.copyOut === undefined) {
      throw new DeviceError("read a tensor synchronously", {
        device: buffer.device.name,
        reason: `${buffer.device.name} reads only asynchronously: use await t.data()`,
      });
    }
    const startMs = performance.now(), bytes = buffer.copyOut(new Uint8Array(this.nbytes()));
    tellRead(buffer, startMs);
    return typedArrayOf(this.bytesNow(bytes), this.dtype) as ArrayOf<D>;
  }
  /** Of the bytes of the largest shape those of the elements that there are. */
  private bytesNow(bytes: Uint8Array): Uint8Array {
    if (extentsOf(this.uop) === null) return bytes;
    return cutBytes(bytes, this.shape, this.boundShape, this.elementSize());
  }
  /** Nested lists, for the type checker of the form that is named (`tolist<number[][]>()`), of numbers (booleans for bool, bigint only beyond 2^53, { re, im } of complex dtypes); a value for rank 0. */
  async tolist<T extends NestedValues = NestedValues>(): Promise<T> {
    const parts = nestedParts(await this.data(), this.boundShape, this.dtype);
    for (let part = parts.next();; part = parts.next()) {
      if (part.done) return part.value as T;
      await takeTurn();
    }
  }
  /** As {@linkcode tolist}, at once. */
  tolistSync<T extends NestedValues = NestedValues>(): T {
    return nestedOf(this.dataSync(), this.boundShape, this.dtype) as T;
  }
  /** Throws unless there is one element. */
  private checkItem(): void {
    const count = prod(this.boundShape);
    if (count !== 1) {
      throw new ShapeError("take the item of", { shapes: [this.shape], reason: `it has ${count} elements, not 1` });
    }
  }
  /**
   * The only value: a number; a boolean for bool, a bigint beyond 2^53, { re, im } for complex dtypes. The type checker is
   * told of these by naming the dtype: `await t.item<"bool">()`. @throws {ShapeError} unless there is exactly one
   */
  async item<D extends DTypeName = "float32">(): Promise<ItemOf<D>> {
    this.checkItem();
    return nestedOf(await this.data(), [], this.dtype) as ItemOf<D>;
  }
  /** As {@linkcode item}, at once. */
  itemSync<D extends DTypeName = "float32">(): ItemOf<D> {
    this.checkItem();
    return nestedOf(this.dataSync(), [], this.dtype) as ItemOf<D>;
  }

  /**
   * Writes `x`, broadcast to this shape, into this tensor's memory, lazily; earlier lazy reads come first. Through a view
   * (a slice, `flip`, `permute`, `reshape`, `detach`, `bitcast`, one of those of another) it is a write to the tensor that
   * the view was made of, which names the new version from then on, whatever has been realized or read; a value gets memory
   * for it. A view names the version that it was made of, or last written; one that is all of the tensor in another shape
   * names what is there from when it is realized. A tensor of its own is what copies a tensor (`expand`, `pad`, `roll`,
   * `cast`, `at` an index tensor), where it is clear that the copy is meant: it was realized, or `x` is computed from it.
   * @throws {ArgumentError} for a copy of which that is not clear
   * @throws {DTypeError} if a tensor `x` has another dtype @throws {DeviceError} if it is on another device
   */
  assign(x: Operand): this {
    const shape = this.shape;
    let value: UOp;
    if (x instanceof TensorBase) {
      x = asFloats(x as this, this.dtype);
      if (x.dtype !== this.dtype) {
        throw new DTypeError("assign dtype", {
          dtypes: [x.dtype],
          reason: `the target is ${this.dtype}; cast the value first`,
        });
      }
      const from = deviceOf(x.uop), to = deviceOf(this.uop);
      if (from !== null && to !== null && from !== to) {
        throw new DeviceError("assign a tensor", {
          device: from,
          reason: `the value is on ${from}, the target on ${to}; use .to("${to}") first`,
        });
      }
      if (x === this) {
        movedHandles.renamed?.add(this); // in another call it may be another one
        return this;
      }
      value = cutHere(x.uop);
    } else value = this.written(x, "assign");
    const given = shapeOf(value);
    if (given.length > shape.length || given.some((n, i) => n !== 1 && n !== shape[shape.length - given.length + i])) {
      throw new ShapeError("assign", { shapes: [given, shape], reason: "the value does not broadcast to the target" });
    }
    if (!this.refresh()) {
      this.checkLost(value);
      this.noteRenamed();
      if (undo !== undefined) undo.push(this.remember());
      const before = this.uop, now = uop(Ops.CONTIGUOUS, this.dtype, [broadcastTo(value, shape)], nextClone++);
      this.setUop(now);
      this.hold();
      noteOpen(bare(now), bare(before));
      return this;
    }
    if (value !== this.uop) this.assignView(this.uop, broadcastTo(value, shape));
    else { // nothing to write, but what this is a view of is to name it
      movedHandles.renamed?.add(this);
      this.refresh(true);
    }
    return this;
  }

  /** Throws where this is a copy that nobody has seen, and `value` owes it nothing: what was copied was meant. */
  private checkLost(value: UOp): void {
    const copied = this.copiedBy();
    if (copied === undefined || toposort(value).includes(this.uop)) return;
    const [method, instead] = copied;
    throw new ArgumentError(`assign to what ${method} gives`, {
      reason:
        `it is a copy, and the tensor that it was made of would not change: ${instead}, or to a clone() of the copy`,
    });
  }

  /** Writes `value` into `view`, a view of this tensor's memory; this, and what it is a view of, then name the new version. */
  private assignView(view: UOp, value: UOp): void {
    if (shapeOf(view).includes(0)) return void this.refresh(true); // nothing to write
    const line = new Site(), after = writeNode(view, value);
    for (const u of [after, after.src[1]]) u.line ??= line;
    if (undo !== undefined) {
      const [base] = after.src, before = writesTo(base);
      for (const t of this.aliases()) undo.push((t as RealizeTensor).remember());
      undo.push(() => takeBack(base, before));
    }
    noteWrite(after.src[0], after);
    this.refresh(true);
    for (const t of this.aliases()) {
      noteChanged(t);
      movedHandles.assigned?.add(t);
    }
  }

  /** Tells a jit function that runs that this is about to name something else. */
  private noteRenamed(): void {
    const { renamed, replaced, since } = movedHandles, old = realizedBuffer(this.uop);
    if (old !== undefined) {
      noteLeft(argOf(old, Ops.BUFFER).storage);
      noteChanged(this);
    } // what a capture has computed it from is not what replays will find
    else if (replaced === undefined || (this.isBefore(since) && !replaced.has(this))) {
      replacements.lazy.set(this, ++replacements.count);
    }
    if ((renamed ?? replaced) === undefined || !this.isBefore(since)) return;
    renamed?.add(this);
    if (replaced !== undefined && !replaced.has(this)) replaced.set(this, this.wrapView(this.uop));
  }

  /** As {@linkcode Realizing} says. While a capture listens, tensors that were there before it move once, and not in each replay. */
  private copyOut(top: TensorBase, memory: UOp, copy: UOp): UOp {
    const { storage } = argOf(memory, Ops.BUFFER);
    noteLeft(storage);
    if (currentCapture() === undefined || !(top as RealizeTensor).isBefore(movedHandles.since)) return copy;
    realizeUnheard([copy]);
    replacements.at.set(storage, ++replacements.count); // what has read it so far would go on with that
    return shown(copy).base;
  }

  /** Makes this handle name, and hold, what `x` names; the shape must be the same. */
  replace(x: TensorBase): this {
    const given: unknown = x;
    if (!(given instanceof TensorBase)) {
      throw new ArgumentError("replace a tensor", { reason: `it takes a tensor, not ${describe(given)}` });
    }
    if (prod(x.shape) !== this.numel() || x.shape.some((n, i) => n !== this.shape[i])) {
      throw new ShapeError("replace", { shapes: [this.shape, x.shape], reason: "the shapes differ" });
    }
    const next = inside.liveNode(x, "replace a tensor");
    this.noteRenamed();
    this.rename(next);
    this.hold();
    return this;
  }

  /**
   * Gives up this handle: using it again throws DisposedError. The memory is freed at once if this was the last handle
   * to hold it; graphs that still need it then throw, naming this line. A tensor holds the memory that it was made with
   * (values, `empty`, `clone`, `to`, a leaf that requires a gradient, a result of `jit`) and what it was realized into.
   * Views hold nothing: disposing one frees nothing, unless it was realized itself.
   */
  dispose(): void {
    if (this.disposedAt !== "") return;
    const line = this.disposedAt = new Site();
    // what a captured function makes belongs to the capture
    const freed = currentCapture() === undefined ? this.letGo() : [], u = this.uop, own = realizedBuffer(u);
    for (const storage of freed) {
      storage.disposedAt = line;
      releaseStorage(storage);
    }
    // memory that was freed says where; what others hold, or nobody has computed, is not named any more
    if (own !== undefined && freed.includes(argOf(own, Ops.BUFFER).storage)) return this.rename(u);
    const { real } = this.dtype, gone = new Storage(this.device, real, this.nbytes() / real.itemsize);
    gone.disposedAt = line;
    this.rename(shapedLike(u, bufferNode(gone)));
  }
  /** `using t = ...` disposes at the end of the block. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Tells jit functions that a handle has left a storage for another one. */
function noteLeft(storage: Storage): void {
  if (movedHandles.replaced === undefined) replacements.at.set(storage, ++replacements.count);
}

/** The bytes of the elements of `shape` that lie within `part`, row by row. */
function cutBytes(bytes: Uint8Array, shape: readonly number[], part: readonly number[], itemsize: number): Uint8Array {
  const out = new Uint8Array(prod(part) * itemsize), strides = stridesOf(shape);
  let to = 0;
  const copy = (axis: number, from: number): void => {
    if (axis === shape.length) {
      out.set(bytes.subarray(from * itemsize, (from + 1) * itemsize), to);
      to += itemsize;
    } else if (strides[axis] === 1 || shape.slice(axis + 1).every((n, i) => n === part[axis + 1 + i])) {
      const n = part[axis] * strides[axis] * itemsize;
      out.set(bytes.subarray(from * itemsize, from * itemsize + n), to);
      to += n;
    } else for (let i = 0; i < part[axis]; i++) copy(axis + 1, from + i * strides[axis]);
  };
  copy(0, 0);
  return out;
}

let nextClone = 1 << 20;

/** The newest version of the memory of `view` once `value` is written to what `view` shows. */
function writeNode(view: UOp, value: UOp): UOp {
  if (view.op === Ops.COMPLEX) return writeNode(view.src[0], bare(value));
  const { base, steps } = shown(view);
  const at = steps.findIndex((s) => s.op === Ops.BITCAST && s.dtype.itemsize !== s.src[0].dtype.itemsize);
  if (at >= 0) { // elements of another size: what is below them is written as a whole
    const whole = steps[at], inner = whole.src[0];
    if (at > 0) {
      const copy = uop(Ops.CONTIGUOUS, whole.dtype, [whole], nextClone++);
      value = writeNode(showAs(steps.slice(0, at), copy), value);
    }
    return writeNode(inner, uop(Ops.BITCAST, inner.dtype, [value]));
  }
  const target = showAs(steps.filter((s) => isMovement(s.op)), base);
  if (value.dtype !== base.dtype) value = uop(Ops.BITCAST, base.dtype, [value]);
  return after(base, store(target, value));
}
