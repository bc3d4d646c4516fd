/**
 * From what was heard of a call to a capture of it: which buffers each call brings, which it makes anew, and which stay;
 * what the call left at gradients and in handles; what it made for itself is freed.
 *
 * @module
 */
import { type Buffer, bufferOf, releaseStorage } from "../../device/buffer.ts";
import type { Recording } from "../../engine/capture.ts";
import { makeReplay } from "../../engine/front/engine.ts";
import { countText, debugPrint } from "../../engine/front/listening.ts";
import type { Replay } from "../../engine/replay.ts";
import { envNumber } from "../../helpers/env.ts";
import { Site } from "../../helpers/stack.ts";
import type { BufferArg, Storage } from "../../uop/core/args.ts";
import { bufferNode, type UOp } from "../../uop/core/uop.ts";
import { shapedLike } from "../../uop/graph/complex.ts";
import { extentsOf, mapExtents, rebound, withExtents } from "../../uop/graph/extent.ts";
import { internals, type TensorBase } from "../handle/base.ts";
import { currentCounter } from "../nodes/random.ts";
import type { ClosedReads } from "./closed_reads.ts";
import { type Leaves, replaceTensors } from "./jit_arguments.ts";
import { type GivenBack, givenBack, type Parts, Sharing, type Taking, type Uses } from "./jit_memory.ts";
import { isFilledAt, madeOf, type placesLeft, shownBy, storageOf, wrap } from "./jit_places.ts";
import { Captured, type Output, type State } from "./captured.ts";
import type { Required } from "./jit_required.ts";
import { variableOf } from "./jit_variables.ts";

/** A call to capture. */
export interface CallToCapture {
  readonly fn: (...args: unknown[]) => unknown;
  readonly args: unknown[];
  readonly leaves: Leaves;
  /** Of the tensors among the arguments. */
  readonly storages: readonly Storage[];
  /** Those that are parts of other tensors. */
  readonly parts: Parts;
  /** What earlier calls used and wrote. */
  readonly uses: Uses;
  /** Positions among the tensors that calls write. */
  readonly writes: ReadonlySet<number>;
  /** Positions of leaves that need not be leaves: their gradients are neither read nor filled. */
  readonly plain: ReadonlySet<number>;
  /** What calls before this one have read besides arguments. */
  readonly closed: ClosedReads;
  readonly reuseOutputs: boolean;
  /** Arguments that the caller gives away, among the tensors. */
  readonly donated: ReadonlySet<number>;
}

/** What was heard of a call. */
export interface Heard {
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
  readonly reached: readonly number[];
  readonly since: number;
  readonly lazy: readonly WeakRef<TensorBase>[];
  readonly reads: readonly BufferArg[];
  readonly assigned: readonly number[];
  readonly writtenInputs: ReadonlyMap<number, number>;
  readonly moves: boolean;
  /** Whether it closes over another tensor than the call before: nothing of it is replayed. */
  readonly isOfOneCall: boolean;
  readonly result: unknown;
}

/** Makes what replays a call of what was heard of it; gives it with the result for the caller. */
export function finishCapture(
  call: CallToCapture,
  heard: Heard,
): { captured: Captured; result: unknown; moves: boolean } {
  const { leaves, reuseOutputs } = call, { moves } = heard;
  const { recording, counter, start, inside, states, taking: { groups, tied } } = heard;
  const { made } = recording, count = inside.length;
  const read = new Set<Buffer>();
  for (const { entries } of recording.steps) for (const e of entries) read.add(recording.buffers[e]);
  const sources = new Map<Buffer, number>();
  inside.forEach((s, i) => groups[i] === i && sources.set(bufferOf(s)!, i));
  const results = heard.outputs.length;
  // the memory of an argument is another one in each call, as what the call made is
  const isOfCall = (t: TensorBase | undefined): boolean => {
    const storage = madeOf(t);
    return storage !== undefined && (made.has(storage) || inside.includes(storage));
  };
  const tensors = [...heard.outputs];
  const isWritten = (t: TensorBase): boolean => heard.handles.has(t);
  /** Which argument a tensor is, and not a copy of what that was before it was written as another one; -1 for none. */
  const givenAt = (t: TensorBase): number => {
    const i = heard.given.indexOf(t), own = i < 0 || tied[i] !== 0 || isWritten(t) ? undefined : madeOf(t);
    return own !== undefined && own !== inside[i] && made.has(own) ? -1 : i;
  };
  // an argument that is a view of another tensor is that again once it has been written
  const placeOf = (t: TensorBase): Storage => inside[givenAt(t)] ?? storageOf(t);
  for (const { before, after } of states) {
    if (after !== before && isOfCall(after)) tensors.push(after!);
  }
  const backBy = (t: TensorBase): GivenBack => ({ isView: !heard.given.includes(t), isWritten: isWritten(t) });
  const storages = tensors.map(placeOf), older = new Set<Storage>();
  for (const s of made) if (s.born < start && !storages.includes(s)) older.add(s);
  const outs = tensors.map((tensor, at): Output => {
    const storage = storages[at], given = givenAt(tensor);
    const input = given < 0 ? inside.indexOf(storage) : given;
    const fresh = input < 0 && made.has(storage) && (at >= results || !reuseOutputs);
    const extents = extentsOf(tensor.uop);
    const back = backBy(tensor);
    if (!fresh) return { tensor, storage, input, back, fresh, first: at, extents };
    const first = storages.indexOf(storage);
    sources.set(bufferOf(storage)!, count + first);
    // replays need only what it is like: the capture does not keep the first result alive
    const like = storage.like();
    return {
      tensor: wrap(tensor, shapedLike(tensor.uop, bufferNode(like))),
      storage: like,
      input,
      back,
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
  const visible = new Set([...storages, ...(moves ? made : older)]);
  releaseInner(made, visible);
  const replay = makeReplay(recording, { sources, visible, older, variable: variableOf(counter, draws) });
  const isClosed = (s: Storage): boolean => !made.has(s) || older.has(s);
  const sharing = new Sharing(
    heard.taking,
    heard.writtenInputs,
    new Set(replay.held.filter(isClosed)),
    new Set(replay.targets.filter(isClosed)),
    heard.given,
    heard.handles,
  );
  call.uses.note(sharing.closed, sharing.state);
  const written = [
    ...[...recording.written].map(([storage, writes]) => ({ storage, writes })),
    ...[...older].filter((s) => s.version > 1).map((storage) => ({ storage, writes: storage.version - 1 })),
  ];
  const all = [...written, ...[...heard.writtenInputs].map(([i, writes]) => ({ storage: call.storages[i], writes }))];
  let next = 0;
  const captured = new Captured(
    leaves.tensors.map((t) => ({ shape: t.shape, dtype: t.dtype.name, device: t.device })),
    replaceTensors(heard.result, () => outs[next++].tensor),
    outs,
    results,
    kept,
    written,
    all.flatMap(({ storage, writes }) => {
      const ago = storage.version - storage.stepped;
      return ago <= writes ? [{ storage, ago }] : [];
    }),
    sharing,
    [...inside.keys()].filter((i) => tied[i] !== 0 && !kept.some(({ place }) => isFilledAt(place, leaves.tensors[i]))),
    heard.assigned,
    [...heard.handles].flatMap((t) => {
      const argument = inside.indexOf(shownBy(t)!);
      if (argument >= 0) return tied[argument] === 0 ? [] : [{ ref: new WeakRef(t), storage: undefined }];
      const isView = internals.aliases(t)[0] !== t;
      if (!isView && madeOf(t)?.disposedAt !== "") return [];
      return [{ ref: new WeakRef(t), storage: isView ? undefined : storageOf(t) }];
    }),
    draws,
    replay,
    heard.lazy,
    heard.reads,
    heirsOf(replay, outs, call),
    heard.required,
    heard.reached,
    heard.since,
  );
  tellCapture(captured.replay, leaves.tensors.length, results);
  // arguments that come back are the caller's own, and sizes are what they are outside
  const back = new Map<Storage, number>(), { bound } = leaves;
  inside.forEach((s, i) => groups[i] === i && back.set(s, i));
  const outside = (t: TensorBase, storage: Storage): UOp =>
    withExtents(shapedLike(t.uop, bufferNode(storage)), mapExtents(extentsOf(t.uop), (e) => rebound(e, bound)));
  const backOf = (t: TensorBase, i: number): TensorBase =>
    extentsOf(t.uop) === null
      ? givenBack(leaves.tensors[i], call.storages[i], t, backBy(t), call.parts.isPart(i))
      : wrap(t, outside(t, call.storages[i]));
  for (const { place, before, after } of states) {
    if (after === undefined || after === before) continue;
    // a gradient of a function that this one calls may be lazy: it is no argument
    const storage = madeOf(after), i = storage && back.get(storage);
    if (i !== undefined) place.write(backOf(after, i));
  }
  const result = replaceTensors(heard.result, (t) => {
    const given = givenAt(t), i = given < 0 ? back.get(placeOf(t)) : given;
    if (i !== undefined) return backOf(t, i);
    if (extentsOf(t.uop) !== null) internals.setUop(t, outside(t, storageOf(t)));
    return t;
  }, (t) => wrap(t, rebound(t.uop, bound)));
  return { captured, result, moves };
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
