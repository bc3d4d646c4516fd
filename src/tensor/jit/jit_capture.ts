/**
 * Capturing one call of a jit function. Arguments appear inside as tensors on memory of their own name, so that a tensor
 * that is an argument and closed over, too, is told apart. In: a function and its arguments; out: what replays it
 * (captured.ts), which finish_capture.ts makes of what is heard here.
 *
 * @module
 */
import { ScopeHold } from "../../device/scopes.ts";
import { Recording } from "../../engine/capture.ts";
import { setCapture } from "../../engine/front/listening.ts";
import { runHolding } from "../../helpers/async_local.ts";
import { JitError } from "../../helpers/errors.ts";
import { timed } from "../../helpers/spans.ts";
import { argOf, type BufferArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { bufferNode, nodesMade, rotateInternTable, toposort, type UOp } from "../../uop/core/uop.ts";
import { marked } from "../../uop/graph/extent.ts";
import { resolve, unlabeled } from "../../uop/graph/resolve.ts";
import { isMemory, newestOf, shown } from "../../uop/graph/writes.ts";
import { handlesMade, internals, readHandles, type TensorBase } from "../handle/base.ts";
import { currentCounter } from "../nodes/random.ts";
import { movedHandles, realizedBuffer, replacements } from "../realize.ts";
import { leavesOfTree, replaceTensors } from "./jit_arguments.ts";
import { insideOf, takingOf, writesTo } from "./jit_memory.ts";
import { madeOf, pendingOf, placesLeft, placesNow, realizeResult, storageOf, wrap } from "./jit_places.ts";
import { type Captured, realizeBeside } from "./captured.ts";
import { type CallToCapture, finishCapture, type Heard } from "./finish_capture.ts";
import { Asked, type Required, watchReached } from "./jit_required.ts";

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

/** Thrown where a function that is captured is found to close over an argument, before it has changed anything. */
export class ClosedOver extends Error {
  /** As what the function got in its place is not. */
  constructor(readonly argument: TensorBase) {
    super("a captured function closes over an argument");
  }
}

/** The tensors that a function uses while it is captured. */
class Used extends Set<TensorBase> {
  private refused: Error | undefined;

  /** @param named arguments that the function got under other names @param hasChanged whether it has changed something */
  constructor(private readonly named: ReadonlySet<TensorBase>, private readonly hasChanged: () => boolean) {
    super();
  }
  /** @throws {ClosedOver} @throws {JitError} for one of those, which the function closes over, too */
  override add(t: TensorBase): this {
    if (this.named.has(t) && this.refused === undefined) {
      this.refused = !this.hasChanged() ? new ClosedOver(t) : new JitError("capture a function", {
        reason: `it closes over an argument tensor of shape [${t.shape.join(", ")}], a part of another tensor, and ` +
          "writes to it; take that part inside, or pass a clone()",
      });
    }
    this.check();
    return super.add(t);
  }
  /** Throws again what the function has caught. */
  check(): void {
    if (this.refused !== undefined) throw this.refused;
  }
}

/**
 * Runs `fn` once while listening, and makes what replays it, unless it `moves` an argument, a view of what it closes over
 * and writes, to other memory, or closes over another tensor than before: then what it made is the caller's.
 * @throws {JitError} @throws {ClosedOver}
 */
export function captureCall(call: CallToCapture): { captured: Captured; result: unknown; moves: boolean } {
  // what a capture makes lives as long as it does, whatever scope it was made in
  const capture = (): ReturnType<typeof captureCall> => {
    const versions = call.storages.map((s) => s.version), heard = listen(call), made = finishCapture(call, heard);
    if (heard.isOfOneCall) call.storages.forEach((s, i) => giveBack(heard.given[i], bufferNode(s, versions[i])));
    return made;
  };
  return timed("trace", "capture", () => runHolding(new ScopeHold(undefined), "jit()", capture, () => {}));
}

/** Makes what a call got as an argument the argument: what is computed from it may be in variables, and is not real yet. */
function giveBack(given: TensorBase, argument: UOp): void {
  const inner = unlabeled(given.uop);
  if (inner.op !== Ops.BUFFER || inner === argument || inner.becomes !== undefined) return;
  const { storage, version } = argOf(inner, Ops.BUFFER), { storage: own } = argOf(argument, Ops.BUFFER);
  if (storage === own || storage.version !== version || storage.size !== own.size) return;
  inner.becomes = argument;
  storage.version++; // once the argument is overwritten, it is too late to read either
}

function listen(call: CallToCapture): Heard {
  const { args, leaves, storages } = call, { bound } = leaves;
  call.uses.moveOutAll();
  call.uses.lookAgain();
  realizeBeside((s) => call.uses.isState(s));
  const recording = new Recording(), counter = currentCounter();
  const places = placesNow(), start = nodesMade(), since = replacements.count;
  const taking = takingOf(leaves.tensors, storages, call.uses, call.writes, call.plain);
  const inside = insideOf(leaves, storages, taking);
  const insideStorages = inside.map(storageOf);
  recording.outside = new Map(insideStorages.map((s, i) => [s, storages[i]]));
  const handles = movedHandles.assigned = new Set<TensorBase>();
  const replaced = movedHandles.replaced = new Map<TensorBase, TensorBase>();
  movedHandles.since = handlesMade();
  const reachedBy = watchReached(inside);
  // parts of other tensors that are written, by the function or by what it closes over
  const named = leaves.tensors.filter((t, i) => inside[i] !== t && call.uses.assigns(t) && call.parts.isPart(i));
  const hasChanged = (): boolean =>
    recording.written.size + handles.size + replaced.size > 0 || currentCounter() !== counter ||
    [...places].some(([ref, grad]) => (ref.deref()?.grad ?? undefined) !== grad);
  const read = new Used(new Set(named), hasChanged), asked = new Asked(leaves.tensors);
  let states: ReturnType<typeof placesLeft> = [], left: TensorBase[] = [], lazy: TensorBase[] = [];
  let result: unknown, outputs: TensorBase[], required: Required, reached: number[];
  // what the function computes is its own, also where a tensor outside that is not real is equal to it
  rotateInternTable();
  rotateInternTable();
  setCapture(recording);
  try {
    let next = 0;
    const given = replaceTensors(args, () => inside[next++], (t) => wrap(t, marked(t.uop, bound)));
    readHandles.set = read;
    result = call.fn(...given as unknown[]);
    read.check();
    if (result instanceof Promise) {
      result.catch(() => {}); // this error is the one to tell
      throw new JitError("capture an async function", {
        reason: "jit() takes a synchronous function; await its results outside",
      });
    }
    readHandles.set = undefined;
    for (const t of leavesOfTree(result, "capture a function").tensors) read.add(t);
    const isOlder = (t: TensorBase): boolean => internals.isBefore(t, movedHandles.since);
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
    reached = reachedBy();
    setCapture(undefined);
    movedHandles.assigned = movedHandles.replaced = readHandles.set = undefined;
  }
  if (recording.steps.length === 0 && outputs.length === 0 && left.length === 0) {
    throw new JitError("capture a function", {
      reason: "it realizes nothing: return a tensor computed from the arguments, or realize one inside",
    });
  }
  call.uses.noteHandles(handles, [...inside, ...leaves.tensors]);
  for (const t of lazy) if (!handles.has(t) && !isMemory(shown(t.uop).base)) replacements.watched.add(t);
  // what has been overwritten again, through what this is a view of, goes on to name what it wrote
  const assigned = [...inside.keys()].filter((i) => handles.has(inside[i]) && isNewest(inside[i]));
  const writtenInputs = writesTo(recording, insideStorages, taking, storages);
  const isMoved = (t: TensorBase, i: number): boolean =>
    taking.tied[i] !== 0 && (madeOf(t) ?? insideStorages[i]) !== insideStorages[i];
  for (const i of assigned) internals.refresh(leaves.tensors[i], true);
  const others = new Set<unknown>([...inside, ...leaves.tensors, ...places.values()]);
  const fresh = call.closed.note(read, movedHandles.since, others);
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
    reached,
    since,
    lazy: lazy.map((t) => new WeakRef(t)),
    reads: versionsBelow(lazy.filter((t) => !handles.has(t) && !replaced.has(t))),
    assigned,
    writtenInputs,
    isOfOneCall: fresh !== undefined,
    moves: fresh !== undefined || inside.some((t, i) => isMoved(t, i) && !replaced.has(t)),
    result,
  };
}

/** Whether a tensor shows the newest version of memory. */
function isNewest(t: TensorBase): boolean {
  const { base } = shown(t.uop);
  return base.op === Ops.BUFFER && newestOf(base) === base;
}

/** The versions of memory that tensors, which are not real, are computed from, but for those that can never be. */
function versionsBelow(tensors: readonly TensorBase[]): BufferArg[] {
  const nodes = toposort(pendingOf(tensors).map((t) => resolve(t.uop)));
  return nodes.flatMap((u) => u.op === Ops.BUFFER ? [argOf(u, Ops.BUFFER)] : []);
}

/** What has been assigned to, and is not real yet; of views what they are views of. */
export function pendingWrites(handles: ReadonlySet<TensorBase>): TensorBase[] {
  return [...handles].filter((t) => internals.aliases(t)[0] === t && madeOf(t) === undefined);
}
