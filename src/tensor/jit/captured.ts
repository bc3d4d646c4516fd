/**
 * A captured call of a jit function, and how it is replayed. What the call left behind in handles is repeated by each
 * replay: assigned tensors move on to their next version, and gradients and replaced tensors, which get other memory in
 * each call, are inputs and results that nobody names. In: what finish_capture.ts has found out about the call.
 *
 * @module
 */
import { attachBuffer, Buffer, bufferOf, detachBuffer, releases, sharing } from "../../device/buffer.ts";
import { getDevice } from "../../device/device.ts";
import type { Call, Replay } from "../../engine/replay.ts";
import { wantsLines, wantsMemoryLines } from "../../helpers/env.ts";
import { DisposedError, JitError } from "../../helpers/errors.ts";
import { Site } from "../../helpers/stack.ts";
import type { BufferArg, Storage } from "../../uop/core/args.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { Ops } from "../../uop/core/ops.ts";
import { bufferNode, type Extents, nodesMade, trimInternTable } from "../../uop/core/uop.ts";
import { shapedLike } from "../../uop/graph/complex.ts";
import { besideOf } from "../../uop/graph/beside.ts";
import { allBeside } from "../gradients/open_gradients.ts";
import { mapExtents, rebound, withExtents } from "../../uop/graph/extent.ts";
import { noted, pendingWrite } from "../../uop/graph/writes.ts";
import { internals, TensorBase } from "../handle/base.ts";
import { reserveCounter } from "../nodes/random.ts";
import { holdMemory, realizeOf, realizeTensors, replacements } from "../realize.ts";
import { type Leaves, replaceTensors } from "./jit_arguments.ts";
import { copyOf, type GivenBack, givenBack, type Parts, type Sharing } from "./jit_memory.ts";
import { isLost, madeOf, pendingOf, type Place, shownBy, storageOf, wrap } from "./jit_places.ts";
import type { Required } from "./jit_required.ts";

/** What an argument tensor was like. */
export interface InputInfo {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly device: string;
}

/** What a capture knows of a place. */
export interface State {
  readonly place: Place;
  /** Number among the sources of what was there before, if the call read it; -1. */
  readonly input: number;
  /** The call found nothing there, and left something. */
  readonly wasEmpty: boolean;
  /** Number among the outputs of what it left there; -1. */
  readonly output: number;
  /** The place whose tensor, as it was before the call, it left there. */
  readonly from: Place | undefined;
  /** What it left there, where that is no output: nothing, or a lazy tensor that reads what was overwritten. */
  readonly left: TensorBase | undefined;
  readonly changes: boolean;
}

/** Whether at a place there is what the call found there. */
function isFound({ place, input, wasEmpty, from, left }: State): boolean {
  if (from !== undefined && from.read() === undefined) return false;
  const found = place.read();
  if (input >= 0) return found !== undefined && !isLost(found);
  if (place.moves) return found !== undefined;
  if (from === undefined && left !== undefined && isLost(left)) return found !== undefined && isLost(found);
  return !wasEmpty || found === undefined;
}

/** Whether each call leaves another tensor there. */
function isLeft({ output, from }: State): boolean {
  return output >= 0 || from !== undefined;
}

/** A tensor that each call gives. */
export interface Output {
  /** What it is like. */
  readonly tensor: TensorBase;
  readonly storage: Storage;
  /** Whether each replay gives new memory. */
  readonly fresh: boolean;
  /** The argument that it is, or -1. */
  readonly input: number;
  /** How it is that. */
  readonly back: GivenBack;
  /** The first output of this storage. */
  readonly first: number;
  /** Its symbolic sizes. */
  readonly extents: Extents | null;
  /** The line of what it gives while somebody hears spans: of the first call since, as taking a stack costs 3 µs. */
  line?: Site;
}

/** Gives back what devices keep for captures that nobody can call any more. */
const graphs = new FinalizationRegistry<readonly { dispose(): void }[]>((list) => {
  for (const g of list) g.dispose();
});

/** The buffers and numbers of one replay. */
class ReplayCall implements Call {
  constructor(
    private readonly buffers: readonly (Buffer | undefined)[],
    readonly counter: number,
    readonly bound: ReadonlyMap<string, number>,
  ) {}
  buffer(source: number): Buffer {
    return this.buffers[source]!;
  }
}

/** A captured call. */
export class Captured {
  private checkedAt = -1;
  private sharedAt = -1;
  private notedAt = -1;
  /** What replays overwrite, but for arguments. */
  private readonly overwrites: ReadonlySet<Storage>;
  /** Whether it writes arguments: most write none. */
  private readonly writesInputs: boolean;
  /** Whether the result is a list of tensors, as most are. */
  private readonly isList: boolean;
  /** Nodes made before it. */
  readonly madeAt: number = nodesMade();

  constructor(
    readonly inputs: readonly InputInfo[],
    readonly result: unknown,
    /** Those of the result, then those of places. */
    readonly outputs: readonly Output[],
    readonly results: number,
    readonly states: readonly State[],
    readonly written: readonly { readonly storage: Storage; readonly writes: number }[],
    /** Weights that an optimizer has stepped, and how many versions ago that is when a call ends. */
    private readonly stepped: readonly { readonly storage: Storage; readonly ago: number }[],
    /** What arguments may share. */
    private readonly sharing: Sharing,
    /** Arguments that are taken as leaves, and whose gradients it neither reads nor fills. */
    readonly plain: readonly number[],
    /** Arguments that are assigned to: they move on to their next version. */
    readonly assigned: readonly number[],
    private readonly handles: readonly { readonly ref: WeakRef<TensorBase>; readonly storage: Storage | undefined }[],
    /** Random numbers that a call draws. */
    readonly draws: number,
    readonly replay: Replay,
    /** Tensors that it closes over and that are not real. */
    private readonly lazy: readonly WeakRef<TensorBase>[],
    /** What they are computed from: another version of that is not theirs. */
    private readonly reads: readonly BufferArg[],
    /** By output, the donated argument whose memory it may have; -1 for none. */
    private readonly heirs: readonly number[],
    private readonly required: Required,
    /** Arguments that gradients come to. */
    readonly reached: readonly number[],
    /** How often handles had come to name something else when it began. */
    private readonly since: number,
  ) {
    this.overwrites = new Set([...replay.targets, ...written.map((w) => w.storage)]);
    this.writesInputs = sharing.written.size > 0;
    this.isList = Array.isArray(result) && result.length === results && result.every((t) => t instanceof TensorBase);
    graphs.register(this, replay.graphs);
  }

  /** Whether a tensor that it closes over names other memory by now, or is computed from what has been overwritten. */
  isOutdated(): boolean {
    for (const { storage, version } of this.reads) if (storage.version !== version) return true;
    if (replacements.count === this.since) return false;
    const { since } = this;
    return this.replay.held.some((s) => (replacements.at.get(s) ?? 0) > since) ||
      this.lazy.some((ref) => (replacements.lazy.get(ref.deref()!) ?? 0) > since);
  }

  /** Arguments that a call writes, and how often. */
  get writtenInputs(): ReadonlyMap<number, number> {
    return this.sharing.written;
  }

  /**
   * Whether the arguments share memory as they did, what required gradients does, and the places hold what the call found
   * there: something, or nothing.
   */
  fits(tensors: readonly TensorBase[], storages: readonly Storage[]): boolean {
    if (!this.sharing.fits(tensors, storages) || this.writesLazy(tensors, storages) || !this.required.fits(tensors)) {
      return false;
    }
    for (const state of this.states) if (!isFound(state)) return false;
    return true;
  }

  /** Whether an argument that it writes is, or has the memory of, a tensor that it closes over and has computed itself. */
  private writesLazy(tensors: readonly TensorBase[], storages: readonly Storage[]): boolean {
    const { lazy, writtenInputs } = this;
    if (lazy.length === 0) return false;
    for (const i of writtenInputs.keys()) {
      for (const ref of lazy) {
        const t = ref.deref();
        if (t !== undefined && replacements.watched.has(t) && (t === tensors[i] || shownBy(t) === storages[i])) {
          return true;
        }
      }
    }
    return false;
  }

  /** The tensors that a call has left at places. */
  gradients(): TensorBase[] {
    const tensors = this.states.filter(isLeft).flatMap(({ place }) => place.read() ?? []);
    realizeTensors(pendingOf(tensors));
    return tensors.filter((t) => madeOf(t) !== undefined);
  }
  /** What puts back what is now at the places that a call changes. */
  remember(): () => void {
    const all = this.states.filter(({ changes }) => changes).map(({ place }) => {
      const t = place.read();
      if (t !== undefined) realizeTensors(pendingOf([t]));
      return [place, t === undefined || !place.moves ? t : wrap(t, t.uop)] as const;
    });
    return () => {
      for (const [place, t] of all) place.write(t);
    };
  }
  /** What a call finds at places and reads, or writes. */
  found(): TensorBase[] {
    return this.states.flatMap(({ place, input }) => {
      const t = input < 0 ? undefined : place.read();
      if (t !== undefined && madeOf(t) === undefined) realizeTensors([t]);
      return t === undefined ? [] : [t];
    });
  }

  /** Throws where memory that it uses has been freed; sees that nobody shares what it writes. @throws {DisposedError} */
  private checkMemory(): void {
    if (this.checkedAt !== releases.count) {
      for (const { disposedAt } of this.replay.held) {
        if (disposedAt !== "") throw new DisposedError("replay a jit function", { disposedAt: String(disposedAt) });
      }
      this.checkedAt = releases.count;
    }
    if (this.sharedAt === sharing.count) return;
    for (const storage of this.replay.targets) bufferOf(storage)?.unshare();
    this.sharedAt = sharing.count;
  }

  /** Does what others have asked to be written to the memory that it reads and writes, or from what it overwrites. */
  catchUp(storages: readonly Storage[]): void {
    const isNew = this.notedAt !== noted.count;
    if (!isNew && !this.writesInputs) return;
    const own = [...this.writtenInputs.keys()].map((i) => storages[i]);
    const isOld = (s: Storage): boolean => this.reads.some(({ storage }) => storage === s);
    const held = isNew ? this.replay.held.filter((s) => !isOld(s)) : [];
    realizeWrites(isNew ? [...held, ...this.sharing.tiedOf(storages), ...own] : own);
    realizeBeside((s) => this.overwrites.has(s) || own.includes(s));
    this.notedAt = noted.count;
  }

  /** Runs the captured steps on these arguments; `donates` whether results may have the memory of donated ones. */
  run(leaves: Leaves, storages: readonly Storage[], donates: boolean, parts: Parts): unknown {
    this.checkMemory();
    if (this.writesInputs) this.ownInputs(storages);
    const { targets } = this.replay, buffers: (Buffer | undefined)[] = [], copies: Buffer[] = [], made: Storage[] = [];
    for (const s of storages) {
      const isWritten = targets.length > 0 && targets.includes(s); // while it is read
      if (isWritten) copies.push(copyOf(s));
      buffers.push(isWritten ? copies[copies.length - 1] : bufferOf(s)!);
    }
    for (let at = 0; at < this.outputs.length; at++) {
      const o = this.outputs[at], heir = donates && o.first === at ? this.heirs[at] : -1;
      made.push(
        o.fresh ? made[o.first] ?? freshStorage(o, heir < 0 ? undefined : inherited(storages, heir)) : o.storage,
      );
      buffers.push(o.fresh ? bufferOf(made[at]) : undefined);
    }
    const moved = this.states.length > 0 ? this.readStates(buffers) : [];
    this.replay.run(new ReplayCall(buffers, reserveCounter(this.draws), leaves.bound));
    for (const c of copies) c.free();
    this.advance(leaves.tensors, storages);
    const tensorAt = (at: number): TensorBase => {
      const output = this.outputs[at], { tensor, input, back, fresh, extents } = output;
      if (input >= 0 && extents === null) {
        return givenBack(leaves.tensors[input], storages[input], tensor, back, parts.isPart(input));
      }
      const node = shapedLike(tensor.uop, bufferNode(input >= 0 ? storages[input] : made[at]));
      const sized = extents === null ? node : withExtents(node, mapExtents(extents, (e) => rebound(e, leaves.bound)));
      if (sized.op !== Ops.BUFFER && wantsLines() && !wantsMemoryLines()) sized.line ??= output.line ??= new Site();
      const t = internals.wrapNew(tensor, sized);
      return fresh ? holdMemory(t) : t;
    };
    for (let i = 0; i < this.states.length; i++) {
      const { place, output, left, changes } = this.states[i];
      if (changes) place.write(output >= 0 ? tensorAt(output) : moved[i] ?? left);
    }
    trimInternTable();
    if (this.results === 1 && this.result instanceof TensorBase) return tensorAt(0);
    if (this.isList) {
      const list: TensorBase[] = [];
      for (let i = 0; i < this.results; i++) list.push(tensorAt(i));
      return list;
    }
    let at = 0;
    return replaceTensors(this.result, () => tensorAt(at++), (t) => wrap(t, rebound(t.uop, leaves.bound)));
  }

  /** Sees that nobody else has the memory of arguments that it writes. */
  private ownInputs(storages: readonly Storage[]): void {
    for (const i of this.writtenInputs.keys()) {
      if (this.replay.targets.includes(storages[i])) {
        throw new JitError("call a jit function", {
          reason: `it assigns to argument tensor ${i}, a result of its own that reuseOutputs writes; pass a clone()`,
        });
      }
      bufferOf(storages[i])!.unshare();
    }
  }

  /** Puts what is at places among the buffers of a call; gives, by place, the tensor of another one that it leaves there. */
  private readStates(buffers: (Buffer | undefined)[]): (TensorBase | undefined)[] {
    const storageAt = (place: Place): Storage => {
      const t = place.read()!;
      if (madeOf(t) === undefined) realizeTensors([t]);
      return storageOf(t);
    };
    for (const { place, input } of this.states) if (input >= 0) buffers[input] = bufferOf(storageAt(place));
    return this.states.map(({ from, left }) =>
      from && wrap(from.read()!, shapedLike(left!.uop, bufferNode(storageAt(from))))
    );
  }

  /** Counts the writes of a call, and moves handles on to what it has written. */
  private advance(tensors: readonly TensorBase[], storages: readonly Storage[]): void {
    for (const { storage, writes } of this.written) storage.version += writes;
    if (this.writesInputs) { for (const [i, writes] of this.writtenInputs) storages[i].version += writes; }
    for (const { storage, ago } of this.stepped) storage.stepped = storage.version - ago;
    for (const i of this.assigned) internals.refresh(tensors[i], true);
    for (const { ref, storage } of this.handles) {
      const t = ref.deref();
      if (t === undefined) continue;
      if (storage === undefined) internals.refresh(t);
      else internals.setUop(t, shapedLike(t.uop, bufferNode(storage)));
    }
  }
}

/** Does the writes to some storages that are not done. */
function realizeWrites(storages: readonly Storage[]): void {
  const writes = storages.map(pendingWrite).filter((u) => u !== undefined);
  realizeOf([], writes);
}

/** Does the open writes and gradients that read what is about to be overwritten. */
export function realizeBeside(isWritten: (storage: Storage) => boolean): void {
  realizeOf([], allBeside([], besideOf([], isWritten), isWritten));
}

/** The memory of a donated argument, if nobody else holds it. */
function inherited(storages: readonly Storage[], input: number): Buffer | undefined {
  const storage = storages[input];
  if (storage.claims > 1 || storages.indexOf(storage) !== storages.lastIndexOf(storage)) return undefined;
  return detachBuffer(storage);
}

function freshStorage({ tensor, storage: like }: Output, memory?: Buffer): Storage {
  const storage = like.like(),
    { device, dtype, size } = like,
    buffer = memory ?? new Buffer(getDevice(device), dtype, size);
  buffer.shape = shapeOf(tensor.uop);
  buffer.use = "result of a jit function";
  if (wantsMemoryLines()) buffer.madeAt = new Site();
  attachBuffer(storage, buffer);
  storage.version = 1;
  return storage;
}
