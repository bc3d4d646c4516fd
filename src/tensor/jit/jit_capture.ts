/**
 * One captured call of a jit function: from a function and its arguments to what replays it. Arguments appear inside as
 * tensors on memory of their own name, so that a tensor that is an argument and closed over, too, is told apart. What the
 * call left behind in handles is repeated by each replay: assigned tensors move on to their next version, and gradients
 * and replaced tensors, which get other memory in each call, are inputs and results that nobody names.
 *
 * @module
 */
import {
  attachBuffer,
  Buffer,
  bufferOf,
  detachBuffer,
  releases,
  releaseStorage,
  sharing,
} from "../../device/buffer.ts";
import { getDevice } from "../../device/device.ts";
import { ScopeHold } from "../../device/scopes.ts";
import { Recording } from "../../engine/capture.ts";
import { countText, debugPrint } from "../../engine/debug.ts";
import { setCapture } from "../../engine/realize_nodes.ts";
import { type Call, Replay } from "../../engine/replay.ts";
import { runHolding } from "../../helpers/async_local.ts";
import { envNumber, wantsLines } from "../../helpers/env.ts";
import { DisposedError, JitError } from "../../helpers/errors.ts";
import { Site, userLine } from "../../helpers/stack.ts";
import { argOf, Storage } from "../../uop/core/args.ts";
import { reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import {
  bufferNode,
  type Extents,
  nodesMade,
  rotateInternTable,
  trimInternTable,
  type UOp,
} from "../../uop/core/uop.ts";
import { besideOf } from "../../uop/graph/beside.ts";
import { extentsOf, mapExtents, marked, rebound, withExtents } from "../../uop/graph/extent.ts";
import { isMemory, noted, pendingWrite, shown } from "../../uop/graph/writes.ts";
import { handlesMade, readHandles, TensorBase } from "../handle/base.ts";
import { currentCounter, reserveCounter } from "../nodes/random.ts";
import { holdMemory, movedHandles, realizedBuffer, realizeOf, realizeTensors, replacements } from "../realize.ts";
import { type Leaves, leavesOfTree, replaceTensors } from "./jit_arguments.ts";
import { copyOf, insideOf, Sharing, type Taking, takingOf, type Uses, writesTo } from "./jit_memory.ts";
import {
  isFilledAt,
  madeOf,
  type Movable,
  ownOf,
  pendingOf,
  type Place,
  placesLeft,
  placesNow,
  realizeResult,
  storageOf,
  wrap,
} from "./jit_places.ts";
import { Asked, type Required } from "./jit_required.ts";
import { variableOf } from "./jit_variables.ts";

/** What an argument tensor was like. */
export interface InputInfo {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly device: string;
}

/** @throws {JitError} where the function has disposed of an argument */
export function checkAlive(inputs: readonly TensorBase[]): void {
  inputs.forEach((t, i) => {
    const node = realizedBuffer(t.uop), at = node === undefined ? "" : argOf(node, Ops.BUFFER).storage.disposedAt;
    if (at === "") return;
    throw new JitError("capture a function", {
      reason: `it disposes of argument tensor ${i} (at ${at}), which is the caller's; dispose of it outside`,
    });
  });
}

/** What a capture knows of a place. */
interface State {
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

/** Whether each call leaves another tensor there. */
function isLeft({ output, from }: State): boolean {
  return output >= 0 || from !== undefined;
}

/** A tensor that each call gives. */
interface Output {
  /** What it is like. */
  readonly tensor: TensorBase;
  readonly storage: Storage;
  /** Whether each replay gives new memory. */
  readonly fresh: boolean;
  /** The argument that it is, or -1. */
  readonly input: number;
  /** The first output of this storage. */
  readonly first: number;
  /** Its symbolic sizes. */
  readonly extents: Extents | null;
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
  /** Nodes made before it. */
  readonly madeAt: number = nodesMade();

  constructor(
    readonly inputs: readonly InputInfo[],
    private readonly result: unknown,
    /** Those of the result, then those of places. */
    private readonly outputs: readonly Output[],
    private readonly results: number,
    private readonly states: readonly State[],
    readonly written: readonly { readonly storage: Storage; readonly writes: number }[],
    /** What arguments may share. */
    private readonly sharing: Sharing,
    /** Arguments that are taken as leaves, and whose gradients it neither reads nor fills. */
    readonly plain: readonly number[],
    /** Arguments that are assigned to: they move on to their next version. */
    private readonly assigned: readonly number[],
    private readonly handles: readonly { readonly ref: WeakRef<TensorBase>; readonly storage: Storage | undefined }[],
    /** Random numbers that a call draws. */
    readonly draws: number,
    readonly replay: Replay,
    /** Tensors that it closes over and that are not real. */
    private readonly lazy: readonly WeakRef<TensorBase>[],
    /** By output, the donated argument whose memory it may have; -1 for none. */
    private readonly heirs: readonly number[],
    private readonly required: Required,
    /** How often handles had come to name something else when it began. */
    private readonly since: number,
  ) {
    this.overwrites = new Set([...replay.targets, ...written.map((w) => w.storage)]);
    graphs.register(this, replay.graphs);
  }

  /** Whether a tensor that it closes over names other memory by now. */
  isOutdated(): boolean {
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
    return this.sharing.fits(storages) && this.required.fits(tensors) &&
      this.states.every(({ place, input, wasEmpty, from }) => {
        if (from !== undefined && from.read() === undefined) return false;
        if (input >= 0 || place.moves) return place.read() !== undefined;
        return !wasEmpty || place.read() === undefined;
      });
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
    const own = [...this.writtenInputs.keys()].map((i) => storages[i]), isNew = this.notedAt !== noted.count;
    if (!isNew && own.length === 0) return;
    realizeWrites(isNew ? [...this.replay.held, ...this.sharing.tiedOf(storages), ...own] : own);
    realizeBeside((s) => this.overwrites.has(s) || own.includes(s));
    this.notedAt = noted.count;
  }

  /** Runs the captured steps on these arguments; `donates` whether results may have the memory of donated ones. */
  run(leaves: Leaves, storages: readonly Storage[], donates: boolean): unknown {
    this.checkMemory();
    for (const i of this.writtenInputs.keys()) {
      if (this.replay.targets.includes(storages[i])) {
        throw new JitError("call a jit function", {
          reason: `it assigns to argument tensor ${i}, a result of its own that reuseOutputs writes; pass a clone()`,
        });
      }
      bufferOf(storages[i])!.unshare();
    }
    const buffers: (Buffer | undefined)[] = storages.map((s) => bufferOf(s)!);
    const copies: Buffer[] = [];
    for (let i = 0; i < storages.length; i++) {
      if (!this.replay.targets.includes(storages[i])) continue; // written while it is read
      copies.push(buffers[i] = copyOf(storages[i]));
    }
    const made: Storage[] = [];
    for (const [at, o] of this.outputs.entries()) {
      const heir = donates && o.first === at ? this.heirs[at] : -1;
      made.push(
        o.fresh ? made[o.first] ?? freshStorage(o, heir < 0 ? undefined : inherited(storages, heir)) : o.storage,
      );
      buffers.push(o.fresh ? bufferOf(made[made.length - 1]) : undefined);
    }
    for (const { place, input } of this.states) {
      if (input < 0) continue;
      const t = place.read()!;
      if (madeOf(t) === undefined) realizeTensors([t]);
      buffers[input] = bufferOf(storageOf(t));
    }
    const moved = this.states.map(({ from, left }) => {
      if (from === undefined) return undefined;
      const t = from.read()!;
      if (madeOf(t) === undefined) realizeTensors([t]);
      return wrap(t, reshape(bufferNode(storageOf(t)), left!.shape));
    });
    this.replay.run(new ReplayCall(buffers, reserveCounter(this.draws), leaves.bound));
    for (const c of copies) c.free();
    for (const { storage, writes } of this.written) storage.version += writes;
    for (const [i, writes] of this.writtenInputs) storages[i].version += writes;
    for (const i of this.assigned) (leaves.tensors[i] as unknown as Movable).refresh(true);
    for (const { ref, storage } of this.handles) {
      const t = ref.deref();
      if (t === undefined) continue;
      if (storage === undefined) (t as unknown as Movable).refresh();
      else (t as unknown as Movable).setUop(reshape(bufferNode(storage), t.shape));
    }
    const tensorAt = (at: number): TensorBase => {
      const { tensor, input, fresh, extents } = this.outputs[at];
      if (input >= 0 && extents === null) return ownOf(leaves.tensors[input], tensor.shape);
      const storage = input >= 0 ? storages[input] : made[at];
      const sizes = mapExtents(extents, (e) => rebound(e, leaves.bound));
      const t = wrap(tensor, withExtents(reshape(bufferNode(storage), tensor.shape), sizes));
      return fresh ? holdMemory(t) : t;
    };
    for (const [i, { place, output, left, changes }] of this.states.entries()) {
      if (changes) place.write(output >= 0 ? tensorAt(output) : moved[i] ?? left);
    }
    trimInternTable();
    if (this.results === 1 && this.result instanceof TensorBase) return tensorAt(0);
    let at = 0;
    return replaceTensors(this.result, () => tensorAt(at++), (t) => wrap(t, rebound(t.uop, leaves.bound)));
  }
}

/** Does the writes to some storages that are not done. */
function realizeWrites(storages: readonly Storage[]): void {
  const writes = storages.map(pendingWrite).filter((u) => u !== undefined);
  realizeOf([], writes);
}

/** Does the open writes that read what is about to be overwritten. */
function realizeBeside(isWritten: (storage: Storage) => boolean): void {
  realizeOf([], besideOf([], isWritten));
}

/** The memory of a donated argument, if nobody else holds it. */
function inherited(storages: readonly Storage[], input: number): Buffer | undefined {
  const storage = storages[input];
  if (storage.claims > 1 || storages.indexOf(storage) !== storages.lastIndexOf(storage)) return undefined;
  return detachBuffer(storage);
}

function freshStorage({ tensor, storage: { device, dtype, size } }: Output, memory?: Buffer): Storage {
  const storage = new Storage(device, dtype, size), buffer = memory ?? new Buffer(getDevice(device), dtype, size);
  buffer.shape = tensor.shape;
  buffer.use = "result of a jit function";
  if (wantsLines()) buffer.line = userLine();
  attachBuffer(storage, buffer);
  storage.version = 1;
  return storage;
}

/** A call to capture. */
export interface CallToCapture {
  readonly fn: (...args: unknown[]) => unknown;
  readonly args: unknown[];
  readonly leaves: Leaves;
  /** Of the tensors among the arguments. */
  readonly storages: readonly Storage[];
  /** What earlier calls used and wrote. */
  readonly uses: Uses;
  /** Positions among the tensors that calls write. */
  readonly writes: ReadonlySet<number>;
  /** Positions of leaves that need not be leaves: their gradients are neither read nor filled. */
  readonly plain: ReadonlySet<number>;
  readonly reuseOutputs: boolean;
  /** Arguments that the caller gives away, among the tensors. */
  readonly donated: ReadonlySet<number>;
}

/** Runs `fn` once while listening, and makes what replays it. @throws {JitError} */
export function captureCall(call: CallToCapture): { captured: Captured; result: unknown } {
  // what a capture makes lives as long as it does, whatever scope it was made in
  return runHolding(new ScopeHold(undefined), "jit()", () => finish(call, listen(call)), () => {});
}

function listen(call: CallToCapture): Heard {
  const { args, leaves, storages } = call, { bound } = leaves;
  call.uses.moveOutAll();
  realizeBeside((s) => call.uses.isState(s) || storages.some((own, i) => own === s && call.writes.has(i)));
  const recording = new Recording(), counter = currentCounter();
  const places = placesNow(), start = nodesMade(), since = replacements.count;
  const taking = takingOf(leaves.tensors, storages, call.uses, call.writes, call.plain);
  const inside = insideOf(leaves, storages, taking);
  const insideStorages = inside.map(storageOf);
  const handles = movedHandles.assigned = new Set<TensorBase>();
  const replaced = movedHandles.replaced = new Map<TensorBase, TensorBase>();
  movedHandles.since = handlesMade();
  const read = readHandles.set = new Set<TensorBase>(), asked = new Asked(leaves.tensors);
  let states: ReturnType<typeof placesLeft> = [], left: TensorBase[] = [], lazy: TensorBase[] = [];
  let result: unknown, outputs: TensorBase[], required: Required;
  // what the function computes is its own, also where a tensor outside that is not real is equal to it
  rotateInternTable();
  rotateInternTable();
  setCapture(recording);
  try {
    let next = 0;
    const given = replaceTensors(args, () => inside[next++], (t) => wrap(t, marked(t.uop, bound)));
    result = call.fn(...given as unknown[]);
    if (result instanceof Promise) {
      result.catch(() => {}); // this error is the one to tell
      throw new JitError("capture an async function", {
        reason: "jit() takes a synchronous function; await its results outside",
      });
    }
    readHandles.set = undefined;
    for (const t of leavesOfTree(result, "capture a function").tensors) read.add(t);
    const isOlder = (t: TensorBase): boolean => (t as unknown as Movable).isBefore(movedHandles.since);
    required = asked.end(inside, read, isOlder);
    lazy = [...read].filter((t) => isOlder(t) && (madeOf(t) === undefined || (replacements.lazy.get(t) ?? 0) > since));
    checkAlive(inside);
    states = placesLeft(places, replaced, start);
    left = states.flatMap(({ before, after }) => after !== undefined && after !== before ? [after] : []);
    const others = [...pendingOf(left), ...pendingWrites(handles)];
    result = realizeResult(result, others, start, insideStorages, inside);
    outputs = [...leavesOfTree(result, "capture a function").tensors];
  } finally {
    asked.stop();
    setCapture(undefined);
    movedHandles.assigned = movedHandles.replaced = readHandles.set = undefined;
  }
  if (recording.items.length === 0 && outputs.length === 0 && left.length === 0) {
    throw new JitError("capture a function", {
      reason: "it realizes nothing: return a tensor computed from the arguments, or realize one inside",
    });
  }
  call.uses.noteHandles(handles);
  for (const t of lazy) if (!handles.has(t) && !isMemory(shown(t.uop).base)) replacements.watched.add(t);
  const assigned = [...inside.keys()].filter((i) => handles.has(inside[i]));
  const writtenInputs = writesTo(recording, insideStorages, taking, storages);
  for (const i of assigned) (leaves.tensors[i] as unknown as Movable).refresh(true);
  return {
    recording,
    counter,
    start,
    inside: insideStorages,
    given: inside,
    taking,
    outputs,
    states,
    handles,
    required,
    since,
    lazy: lazy.map((t) => new WeakRef(t)),
    assigned,
    writtenInputs,
    result,
  };
}

/** What has been assigned to, and is not real yet; of views what they are views of. */
export function pendingWrites(handles: ReadonlySet<TensorBase>): TensorBase[] {
  return [...handles].filter((t) => (t as unknown as Movable).aliases()[0] === t && madeOf(t) === undefined);
}

interface Heard {
  readonly recording: Recording;
  readonly counter: number;
  /** Nodes made before the call. */
  readonly start: number;
  readonly inside: readonly Storage[];
  /** The arguments as the function got them. */
  readonly given: readonly TensorBase[];
  readonly taking: Taking;
  readonly outputs: readonly TensorBase[];
  readonly states: ReturnType<typeof placesLeft>;
  readonly handles: ReadonlySet<TensorBase>;
  readonly required: Required;
  readonly since: number;
  readonly lazy: readonly WeakRef<TensorBase>[];
  readonly assigned: readonly number[];
  readonly writtenInputs: ReadonlyMap<number, number>;
  readonly result: unknown;
}

/** The storage that a handle names, or shows. */
function shownBy(t: TensorBase): Storage | undefined {
  const { base } = shown(t.uop);
  return base.op === Ops.BUFFER ? argOf(base, Ops.BUFFER).storage : undefined;
}

function finish(call: CallToCapture, heard: Heard): { captured: Captured; result: unknown } {
  const { leaves, reuseOutputs } = call;
  const { recording, counter, start, inside, states, taking: { groups, tied } } = heard;
  const { made } = recording, count = inside.length;
  const read = new Set<Buffer>();
  for (const item of recording.items) for (const b of item.bufs) read.add(b);
  const sources = new Map<Buffer, number>();
  inside.forEach((s, i) => groups[i] === i && sources.set(bufferOf(s)!, i));
  const results = heard.outputs.length;
  // the memory of an argument is another one in each call, as what the call made is
  const isOfCall = (t: TensorBase | undefined): boolean => {
    const storage = madeOf(t);
    return storage !== undefined && (made.has(storage) || inside.includes(storage));
  };
  const tensors = [...heard.outputs];
  // an argument that is a view of another tensor is that again once it has been written
  const placeOf = (t: TensorBase): Storage => inside[heard.given.indexOf(t)] ?? storageOf(t);
  for (const { before, after } of states) {
    if (after !== before && isOfCall(after)) tensors.push(after!);
  }
  const storages = tensors.map(placeOf), older = new Set<Storage>();
  for (const s of made) if (s.born < start && !storages.includes(s)) older.add(s);
  const outs = tensors.map((tensor, at): Output => {
    const storage = storages[at], input = inside.indexOf(storage);
    const fresh = input < 0 && made.has(storage) && (at >= results || !reuseOutputs);
    const extents = extentsOf(tensor.uop);
    if (!fresh) return { tensor, storage, input, fresh, first: at, extents };
    const first = storages.indexOf(storage);
    sources.set(bufferOf(storage)!, count + first);
    // replays need only what it is like: the capture does not keep the first result alive
    const like = new Storage(storage.device, storage.dtype, storage.size);
    return {
      tensor: wrap(tensor, reshape(bufferNode(like), tensor.shape)),
      storage: like,
      input,
      fresh,
      first,
      extents,
    };
  });
  let nextOutput = results, nextSource = count + outs.length;
  const kept = states.flatMap(({ place, before, after }): State[] => {
    const changes = after !== before;
    const found = madeOf(before), buffer = found === undefined ? undefined : bufferOf(found);
    let input = -1;
    if (buffer !== undefined && read.has(buffer) && !sources.has(buffer)) sources.set(buffer, input = nextSource++);
    const isOutput = changes && isOfCall(after);
    const output = isOutput ? nextOutput++ : -1;
    const storage = changes && !isOutput ? madeOf(after) : undefined;
    const from = storage && states.find((s) => madeOf(s.before) === storage)?.place;
    if (!changes && input < 0) return [];
    return [{
      place,
      input,
      wasEmpty: before === undefined && changes,
      output,
      from,
      left: isOutput ? undefined : after,
      changes,
    }];
  });
  const draws = currentCounter() - counter;
  const visible = new Set([...storages, ...older]);
  releaseInner(made, visible);
  const replay = new Replay(recording, { sources, visible, older, variable: variableOf(counter, draws) });
  const isClosed = (s: Storage): boolean => !made.has(s) || older.has(s);
  const sharing = new Sharing(
    heard.taking,
    heard.writtenInputs,
    new Set(replay.held.filter(isClosed)),
    new Set(replay.targets.filter(isClosed)),
  );
  call.uses.note(sharing.closed, sharing.state);
  let next = 0;
  const captured = new Captured(
    leaves.tensors.map((t) => ({ shape: t.shape, dtype: t.dtype.name, device: t.device })),
    replaceTensors(heard.result, () => outs[next++].tensor),
    outs,
    results,
    kept,
    [
      ...[...recording.written].map(([storage, writes]) => ({ storage, writes })),
      ...[...older].filter((s) => s.version > 1).map((storage) => ({ storage, writes: storage.version - 1 })),
    ],
    sharing,
    [...inside.keys()].filter((i) => tied[i] !== 0 && !kept.some(({ place }) => isFilledAt(place, leaves.tensors[i]))),
    heard.assigned,
    [...heard.handles].flatMap((t) => {
      const argument = inside.indexOf(shownBy(t)!);
      if (argument >= 0) return tied[argument] === 0 ? [] : [{ ref: new WeakRef(t), storage: undefined }];
      const isView = (t as unknown as Movable).aliases()[0] !== t;
      if (!isView && madeOf(t)?.disposedAt !== "") return [];
      return [{ ref: new WeakRef(t), storage: isView ? undefined : storageOf(t) }];
    }),
    draws,
    replay,
    heard.lazy,
    heirsOf(replay, outs, call),
    heard.required,
    heard.since,
  );
  tellCapture(captured.replay, leaves.tensors.length, results);
  // arguments that come back are the caller's own, and sizes are what they are outside
  const back = new Map<Storage, number>(), { bound } = leaves;
  inside.forEach((s, i) => groups[i] === i && back.set(s, i));
  const outside = (t: TensorBase, storage: Storage): UOp =>
    withExtents(reshape(bufferNode(storage), t.shape), mapExtents(extentsOf(t.uop), (e) => rebound(e, bound)));
  const backOf = (t: TensorBase, i: number): TensorBase =>
    extentsOf(t.uop) === null ? ownOf(leaves.tensors[i], t.shape) : wrap(t, outside(t, call.storages[i]));
  for (const { place, before, after } of states) {
    const i = after === before ? undefined : back.get(madeOf(after)!);
    if (i !== undefined) place.write(backOf(after!, i));
  }
  const result = replaceTensors(heard.result, (t) => {
    const i = back.get(placeOf(t));
    if (i !== undefined) return backOf(t, i);
    if (extentsOf(t.uop) !== null) (t as unknown as Movable).setUop(outside(t, storageOf(t)));
    return t;
  }, (t) => wrap(t, rebound(t.uop, bound)));
  return { captured, result };
}

/** Which donated argument each output may take the memory of: one of its size that no step uses any more when it is written. */
function heirsOf(replay: Replay, outputs: readonly Output[], { donated, storages }: CallToCapture): number[] {
  const free = new Set(donated);
  for (const { input } of outputs) free.delete(input);
  return outputs.map(({ fresh, first, storage }, at) => {
    const written = replay.uses.get(storages.length + at)?.[0] ?? -1;
    if (!fresh || first !== at || written < 0) return -1;
    for (const i of free) {
      const { device, dtype, size } = storages[i], last = replay.uses.get(i)?.[1] ?? -1;
      if (device !== storage.device || dtype !== storage.dtype || size !== storage.size || last >= written) continue;
      free.delete(i);
      return i;
    }
    return -1;
  });
}

/** Frees what the call made for itself: handles on it say so when they are used. */
function releaseInner(made: ReadonlySet<Storage>, visible: ReadonlySet<Storage>): void {
  const at = new Site("the end of the captured call, which keeps nothing but what it returns and assigns, at ");
  for (const storage of made) {
    if (visible.has(storage)) continue;
    if (storage.disposedAt === "") storage.disposedAt = at;
    releaseStorage(storage);
  }
}

function tellCapture({ kernels, steps }: Replay, inputs: number, results: number): void {
  if (envNumber("DEBUG") < 1) return;
  const others = steps.filter((s) => s.graph === undefined).length;
  debugPrint(
    `captured ${countText(kernels, "kernel")} and ${countText(others, "other step")} ` +
      `in ${countText(steps.length, "part")}; ${countText(inputs, "argument tensor")}, ${countText(results, "result")}`,
  );
}
