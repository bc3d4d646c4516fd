/**
 * `jit`: the first call runs, the second is captured, later calls replay the captured launches with the inputs swapped
 * and fresh outputs: no scheduling, no compilation. Tensors may sit in nested objects and arrays; every other leaf of the
 * arguments is part of the key.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { attachBuffer, Buffer, bufferOf, releases, sharing, trackStorages } from "../device/buffer.ts";
import { getDevice } from "../device/device.ts";
import type { Graph, Launch } from "../device/program.ts";
import { countText, debugPrint } from "../engine/debug.ts";
import { CompiledKernel, ExecItem, runItems, varNamesOf, varValues } from "../engine/exec.ts";
import { currentCapture, realizeNodes, setCapture } from "../engine/realize.ts";
import { GlobalCounters } from "../engine/stats.ts";
import { envNumber, wantsLines } from "../helpers/env.ts";
import { ArgumentError, DisposedError, JitError } from "../helpers/errors.ts";
import { sameArray } from "../helpers/math.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import { userLine } from "../helpers/stack.ts";
import { type BufferArg, Storage } from "../uop/args.ts";
import { reshape } from "../uop/movement.ts";
import { Ops } from "../uop/ops.ts";
import { bufferNode, trimInternTable, type UOp, uop } from "../uop/uop.ts";
import { TensorBase } from "./base.ts";
import { currentCounter, RANDOM_VARIABLES, reserveCounter, seedKey } from "./random.ts";
import { assignedHandles, holdMemory, realizedBuffer, realizeTensors } from "./realize.ts";

const WORD = 2 ** 32;

/** Options of {@linkcode jit}. */
export interface JitOptions {
  /** Replays write their outputs into the same memory each time: an earlier result changes. Default false. */
  readonly reuseOutputs?: boolean;
}

/** Every tensor of a tree of objects and arrays, in a fixed order; other leaves go into `key`. */
function collect(tree: unknown, into: TensorBase[], key: string[], depth = 0): void {
  if (tree instanceof TensorBase) {
    into.push(tree);
    key.push("T");
  } else if (Array.isArray(tree)) {
    key.push("[");
    for (const x of tree) collect(x, into, key, depth + 1);
    key.push("]");
  } else if (typeof tree === "object" && tree !== null && depth < 16) {
    key.push("{");
    for (const name of Object.keys(tree)) {
      key.push(JSON.stringify(name));
      collect((tree as Record<string, unknown>)[name], into, key, depth + 1);
    }
    key.push("}");
  } else key.push(typeof tree === "function" ? "f" : `${typeof tree}:${String(tree)}`);
}

/** The same tree with its tensors replaced, in the order of {@linkcode collect}. */
function replaceTensors(tree: unknown, next: () => TensorBase): unknown {
  if (tree instanceof TensorBase) return next();
  if (Array.isArray(tree)) return tree.map((x) => replaceTensors(x, next));
  if (typeof tree === "object" && tree !== null) {
    return Object.fromEntries(Object.entries(tree).map(([k, v]) => [k, replaceTensors(v, next)]));
  }
  return tree;
}

/** Exposes what handles keep protected: the JIT moves handles on to new versions. */
interface Movable {
  setUop(u: UOp): void;
  wrap(u: UOp): TensorBase;
}

function storageOf(t: TensorBase): Storage {
  return (realizedBuffer(t.uop)!.arg as BufferArg).storage;
}

/** Where a buffer of a captured launch comes from at replay. */
type Source = { readonly kind: "input" | "output"; readonly at: number };
interface Patch {
  readonly launch: number;
  readonly slot: number;
  readonly source: Source;
}
/** A scalar argument that random draws bind. */
interface RandomPatch {
  readonly launch: number;
  readonly position: number;
  readonly word: "rng" | "rngHigh" | "rngKey0" | "rngKey1";
  /** For "rng": distance of the draw from the counter at capture. */
  readonly offset: number;
}
interface Segment {
  readonly graph: Graph;
  /** The launches of the graph, one by one: for DEBUG >= 2 and JIT=2. */
  readonly items: readonly ExecItem[];
  readonly patches: readonly Patch[];
  readonly vars: readonly RandomPatch[];
  readonly kernels: number;
  readonly flops: number;
  readonly bytes: number;
}
type Step = Segment | { readonly item: ExecItem; readonly sources: readonly (Source | undefined)[] };

interface InputInfo {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly device: string;
}

/** A tensor of the result. */
interface Output {
  /** What results are like; the tensor itself where replays give the same memory again. */
  readonly tensor: TensorBase;
  readonly storage: Storage;
  /** Whether each replay gives new memory. */
  readonly fresh: boolean;
  /** The argument that it is, or -1. */
  readonly input: number;
  /** The first output of this storage. */
  readonly first: number;
}

/** Gives back what devices keep for captures that nobody can call any more. */
const graphs = new FinalizationRegistry<readonly Graph[]>((list) => {
  for (const g of list) g.dispose();
});

class Captured {
  readonly steps: Step[] = [];
  /** `releases` when the storages were last seen to be alive. */
  checkedAt = -1;
  /** `sharing` when what replays write was last seen to be shared with nobody. */
  sharedAt = -1;
  constructor(
    readonly inputs: readonly InputInfo[],
    readonly result: unknown,
    readonly outputs: readonly Output[],
    readonly held: readonly Storage[],
    readonly written: readonly { readonly storage: Storage; readonly writes: number }[],
    readonly handles: readonly { readonly ref: WeakRef<TensorBase>; readonly storage: Storage }[],
    readonly draws: number,
    /** What replays write, besides fresh outputs. */
    readonly targets: readonly Storage[],
  ) {}
}

/** Realizes the inputs and gives each a buffer of its own. */
function prepareInputs(tensors: readonly TensorBase[]): TensorBase[] {
  const lazy = tensors.filter((t) => realizedBuffer(t.uop) === undefined);
  if (lazy.length > 0) realizeTensors(lazy);
  const seen = new Set<Storage>();
  return tensors.map((t, i) => {
    const u = t.uop;
    const node = realizedBuffer(u);
    if (node === undefined) throw new JitError("call a jit function", { reason: `argument tensor ${i} has no buffer` });
    const { storage, version } = node.arg as BufferArg;
    if (storage.disposedAt !== "") {
      throw new DisposedError("call a jit function", { disposedAt: String(storage.disposedAt) });
    }
    if (storage.version !== version) realizeNodes([uop(Ops.CONTIGUOUS, t.dtype, [u])]); // throws StaleReadError
    if (!seen.has(storage)) {
      seen.add(storage);
      return t;
    }
    const copy = (t as unknown as Movable).wrap(uop(Ops.CONTIGUOUS, t.dtype, [u]));
    const arg = uop(Ops.CONTIGUOUS, t.dtype, [u], -1 - i); // a buffer of its own: the argument is passed twice
    (copy as unknown as Movable).setUop(arg);
    realizeNodes([arg]);
    seen.add(storageOf(copy));
    return copy;
  });
}

function infoOf(t: TensorBase): InputInfo {
  return { shape: t.shape, dtype: t.dtype.name, device: t.device };
}

/** Runs `fn` once while listening, and makes what replays it. */
function captureCall(
  fn: (...args: unknown[]) => unknown,
  args: unknown[],
  inputs: readonly TensorBase[],
  options: JitOptions,
): { captured: Captured; result: unknown } {
  const items: ExecItem[] = [];
  const held: Storage[] = [];
  const written = new Map<Storage, number>(), targets: Storage[] = [];
  const counter = currentCounter();
  const handles = assignedHandles.list = new Set<TensorBase>();
  // what a capture makes lives as long as it does, whatever scope it was made in
  const tracked = trackStorages(undefined);
  setCapture({
    take: (device, nbytes) => {
      const storage = new Storage(device, dtypes.uint8, nbytes);
      const buffer = new Buffer(getDevice(device), dtypes.uint8, nbytes);
      buffer.use = "intermediates of a jit function";
      attachBuffer(storage, buffer);
      held.push(storage);
      return buffer;
    },
    add: (more, bound) => {
      items.push(...more);
      held.push(...bound.storages.filter((s) => s !== undefined));
      targets.push(...bound.made, ...bound.written.map((w) => w.storage));
      for (const { storage, writes } of bound.written) written.set(storage, (written.get(storage) ?? 0) + writes);
    },
  });
  let result: unknown;
  const outputs: TensorBase[] = [];
  try {
    result = fn(...args);
    if (result instanceof Promise) {
      result.catch(() => {}); // this error is the one to tell
      throw new JitError("capture an async function", {
        reason: "jit() takes a synchronous function; await its results outside",
      });
    }
    collect(result, outputs, []);
    realizeTensors(outputs);
  } finally {
    setCapture(undefined);
    assignedHandles.list = undefined;
    trackStorages(tracked);
  }
  if (!items.some((i) => i.runner instanceof CompiledKernel)) {
    throw new JitError("capture a function", {
      reason: "it realizes nothing: return a tensor computed from the arguments, or realize one inside",
    });
  }
  const inputStorages = inputs.map(storageOf);
  inputStorages.forEach((s, i) => {
    if (written.has(s)) {
      throw new JitError("capture a function", {
        reason: `it assigns to argument tensor ${i}; close over the tensor instead of passing it`,
      });
    }
  });
  const made = new Set(held);
  const before = new Set<Storage>([...inputStorages, ...written.keys()]);
  const outputStorages = outputs.map(storageOf), freed = new Set<Storage>();
  const outs = outputs.map((tensor, at): Output => {
    const storage = outputStorages[at], input = inputStorages.indexOf(storage);
    const fresh = options.reuseOutputs !== true && input < 0 && made.has(storage) && !before.has(storage);
    if (!fresh) return { tensor, storage, input, fresh, first: at };
    freed.add(storage);
    // replays need only what it is like: the capture does not keep the first result alive
    const like = new Storage(storage.device, storage.dtype, storage.size);
    const empty = (tensor as unknown as Movable).wrap(reshape(bufferNode(like), tensor.shape));
    return { tensor: empty, storage: like, input, fresh, first: outputStorages.indexOf(storage) };
  });
  let next = 0;
  const captured = new Captured(
    inputs.map(infoOf),
    replaceTensors(result, () => outs[next++].tensor),
    outs,
    held.filter((s) => !freed.has(s) && !inputStorages.includes(s)),
    [...written].map(([storage, writes]) => ({ storage, writes })),
    [...handles].filter((t) => realizedBuffer(t.uop) !== undefined).map((t) => ({
      ref: new WeakRef(t),
      storage: storageOf(t),
    })),
    currentCounter() - counter,
    targets.filter((s) => !freed.has(s)),
  );
  const sources = new Map<Buffer, Source>();
  inputStorages.forEach((s, at) => sources.set(bufferOf(s)!, { kind: "input", at }));
  outs.forEach((o, at) => o.fresh && sources.set(bufferOf(outputStorages[at])!, { kind: "output", at: o.first }));
  captured.steps.push(...makeSteps(items, sources, counter));
  if (envNumber("DEBUG") >= 1) {
    const kernels = items.filter((i) => i.runner instanceof CompiledKernel).length;
    debugPrint(
      `captured ${countText(kernels, "kernel")} and ${countText(items.length - kernels, "other step")} ` +
        `in ${countText(captured.steps.length, "part")}; ${countText(inputs.length, "argument tensor")}, ` +
        `${countText(outs.length, "result")}`,
    );
  }
  graphs.register(captured, captured.steps.flatMap((s) => "graph" in s ? [s.graph] : []));
  return { captured, result };
}

function makeSteps(items: readonly ExecItem[], sources: ReadonlyMap<Buffer, Source>, counter: number): Step[] {
  const steps: Step[] = [];
  for (let i = 0; i < items.length;) {
    const { runner, bufs } = items[i];
    if (!(runner instanceof CompiledKernel)) {
      steps.push({ item: items[i], sources: bufs.map((b) => sources.get(b)) });
      i++;
      continue;
    }
    const device = getDevice(runner.device);
    const launches: Launch[] = [], patches: Patch[] = [], start = i;
    const vars: RandomPatch[] = [];
    let flops = 0, bytes = 0;
    for (; i < items.length; i++) {
      const it = items[i];
      if (!(it.runner instanceof CompiledKernel) || it.runner.device !== runner.device) break;
      const { program } = it.runner as CompiledKernel;
      const launch = launches.length;
      const values = varValues(it);
      launches.push({ program, buffers: it.bufs, vars: values });
      flops += program.linear.flops;
      bytes += program.linear.bytes;
      it.bufs.forEach((b, slot) => {
        const source = sources.get(b);
        if (source !== undefined) patches.push({ launch, slot, source });
      });
      varNamesOf(it).forEach((name, position) => {
        const word = name.slice(0, name.indexOf("_")) as RandomPatch["word"];
        if (!RANDOM_VARIABLES.includes(word)) return;
        const offset = word === "rng" ? (values[position] - counter % WORD + WORD) % WORD : 0;
        vars.push({ launch, position, word, offset });
      });
    }
    const own = items.slice(start, i);
    steps.push({ graph: device.graph(launches), items: own, patches, vars, kernels: launches.length, flops, bytes });
  }
  return steps;
}

/** What a random argument is now: draws go on from where the host counter stands, under the present seed. */
function randomWord(v: RandomPatch, counter: number): number {
  if (v.word === "rng") return (counter + v.offset) % WORD;
  if (v.word === "rngHigh") return Math.floor(counter / WORD);
  return seedKey()[v.word === "rngKey0" ? 0 : 1].src[1].value;
}

/** Throws where a captured tensor has been disposed since. */
function checkHeld(c: Captured): void {
  if (c.checkedAt === releases.count) return;
  for (const storage of c.held) {
    const { disposedAt } = storage;
    // a fresh output of the capture is no longer of use: each replay makes its own
    if (disposedAt !== "" && !c.outputs.some((o) => o.fresh && o.storage === storage)) {
      throw new DisposedError("replay a jit function", { disposedAt: String(disposedAt) });
    }
  }
  c.checkedAt = releases.count;
}

/** Runs the launches of a segment one by one, with this replay's buffers and numbers. */
function runSingly(step: Segment, bufferAt: (s: Source) => Buffer, counter: number): void {
  const bufs = step.items.map((it) => [...it.bufs]), vars = step.items.map((it) => new Map(it.vars));
  for (const p of step.patches) bufs[p.launch][p.slot] = bufferAt(p.source);
  for (const v of step.vars) {
    vars[v.launch].set(varNamesOf(step.items[v.launch])[v.position], randomWord(v, counter));
  }
  runItems(step.items.map((it, i) => new ExecItem(it.runner, bufs[i], it.varNames, vars[i], it.line)));
}

function freshStorage({ tensor, storage: { device, dtype, size } }: Output): Storage {
  const storage = new Storage(device, dtype, size), buffer = new Buffer(getDevice(device), dtype, size);
  buffer.shape = tensor.shape;
  buffer.use = "result of a jit function";
  if (wantsLines()) buffer.line = userLine();
  attachBuffer(storage, buffer);
  storage.version = 1;
  return storage;
}

/** Gives tensors that share memory which replays write, as slices of results, memory of their own. */
function partTargets(c: Captured): void {
  if (c.sharedAt === sharing.count) return;
  for (const storage of c.targets) bufferOf(storage)?.unshare();
  c.sharedAt = sharing.count;
}

function replay(c: Captured, inputs: readonly TensorBase[]): unknown {
  checkHeld(c);
  partTargets(c);
  const singly = envNumber("DEBUG") >= 2 || envNumber("JIT") >= 2 || envNumber("VALIDATE_WITH_JS") > 0;
  const inputBuffers = inputs.map((t) => bufferOf(storageOf(t))!);
  const fresh: Storage[] = [];
  for (const o of c.outputs) fresh.push(o.fresh ? fresh[o.first] ?? freshStorage(o) : o.storage);
  const bufferAt = (s: Source): Buffer => s.kind === "input" ? inputBuffers[s.at] : bufferOf(fresh[s.at])!;
  const counter = reserveCounter(c.draws);
  for (const step of c.steps) {
    if ("item" in step) {
      const { item, sources } = step;
      const bufs = item.bufs.map((b, i) => sources[i] === undefined ? b : bufferAt(sources[i]));
      runItems([new ExecItem(item.runner, bufs, item.varNames, item.vars, item.line)]);
      continue;
    }
    if (singly) {
      runSingly(step, bufferAt, counter);
      continue;
    }
    for (const p of step.patches) step.graph.setBuffer(p.launch, p.slot, bufferAt(p.source));
    for (const v of step.vars) step.graph.setVar(v.launch, v.position, randomWord(v, counter));
    step.graph.run();
    GlobalCounters.kernelCount += step.kernels;
    GlobalCounters.globalOps += step.flops;
    GlobalCounters.globalMem += step.bytes;
  }
  for (const { storage, writes } of c.written) storage.version += writes;
  for (const { ref, storage } of c.handles) {
    const t = ref.deref();
    if (t !== undefined) (t as unknown as Movable).setUop(reshape(bufferNode(storage), t.shape));
  }
  trimInternTable();
  let at = 0;
  return replaceTensors(c.result, () => {
    const { tensor, input, fresh: isFresh } = c.outputs[at];
    const storage = input >= 0 ? storageOf(inputs[input]) : fresh[at];
    at++;
    const t = (tensor as unknown as Movable).wrap(reshape(bufferNode(storage), tensor.shape));
    return isFresh ? holdMemory(t) : t;
  });
}

function checkInputs(c: Captured, inputs: readonly TensorBase[]): void {
  c.inputs.forEach((want, i) => {
    const got = infoOf(inputs[i]);
    if (sameArray(want.shape, got.shape) && want.dtype === got.dtype && want.device === got.device) return;
    const text = (x: InputInfo): string => `[${x.shape.join(", ")}] ${x.dtype} on ${x.device}`;
    throw new JitError("replay a jit function", {
      reason: `argument tensor ${i} is ${text(got)}, it was captured with ${
        text(want)
      }; use one jit() for each shape, or pad`,
    });
  });
}

/**
 * A function that captures the kernels `fn` runs and replays them. Tensors among the arguments are inputs, anything else
 * is part of the key (another value captures anew); what `fn` closes over is state. Outputs are fresh each time.
 *
 * @throws {JitError} for async functions, functions that read values or realize nothing, and inputs of another shape
 */
export function jit<A extends unknown[], R>(fn: (...args: A) => R, options: JitOptions = {}): (...args: A) => R {
  checkOptions("make a jit function", options, ["reuseOutputs"]);
  if (typeof fn !== "function") {
    throw new ArgumentError("make a jit function", { reason: `it takes a function, not ${describe(fn)}` });
  }
  if (fn.constructor.name === "AsyncFunction") {
    throw new JitError("capture an async function", {
      reason: "jit() takes a synchronous function; await its results outside",
    });
  }
  const states = new Map<string, { calls: number; captured: Captured | undefined }>();
  const run = (args: unknown[]): unknown => {
    const result = (fn as unknown as (...args: unknown[]) => unknown)(...args);
    if (result instanceof Promise) {
      result.catch(() => {}); // this error is the one to tell
      throw new JitError("capture an async function", {
        reason: "jit() takes a synchronous function; await its results outside",
      });
    }
    const outputs: TensorBase[] = [];
    collect(result, outputs, []);
    realizeTensors(outputs);
    return result;
  };
  return (...args: A): R => {
    if (envNumber("JIT") === 0 || currentCapture() !== undefined) return fn(...args);
    const tensors: TensorBase[] = [], key: string[] = [];
    collect(args, tensors, key);
    const inputs = prepareInputs(tensors);
    let at = 0;
    const distinct = inputs.every((t, i) => t === tensors[i]) ? args : replaceTensors(args, () => inputs[at++]) as A;
    const id = key.join(",");
    let state = states.get(id);
    if (state === undefined) states.set(id, state = { calls: 0, captured: undefined });
    if (state.captured !== undefined) {
      checkInputs(state.captured, inputs);
      return replay(state.captured, inputs) as R;
    }
    if (state.calls++ === 0) return run(distinct) as R;
    const { captured, result } = captureCall(
      fn as unknown as (...args: unknown[]) => unknown,
      distinct,
      inputs,
      options,
    );
    state.captured = captured;
    return result as R;
  };
}
