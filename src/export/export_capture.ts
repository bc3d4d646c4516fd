/**
 * A function called as `jit` calls it, with all that an export has to know of it: its capture, what its memory held before,
 * and one recorded call with the values that came out. In: a function and its arguments; out: what `planExport` takes.
 *
 * @module
 */
import { type Buffer, bufferOf } from "../device/buffer.ts";
import type { DType } from "../dtype/dtype.ts";
import { context } from "../helpers/env.ts";
import { ExportError, JitError } from "../helpers/errors.ts";
import { describe } from "../helpers/options.ts";
import { prod } from "../helpers/math.ts";
import type { Capabilities } from "../renderer/renderer.ts";
import { scheduleTarget } from "../schedule/schedule_target.ts";
import { captureOf, jit } from "../tensor/jit/jit.ts";
import type { Captured } from "../tensor/jit/captured.ts";
import { leavesOfTree } from "../tensor/jit/jit_arguments.ts";
import { currentCounter, rngState } from "../tensor/nodes/random.ts";
import { realizedBuffer, realizedMemory } from "../tensor/realize.ts";
import { Tensor } from "../tensor/tensor.ts";
import { Variable } from "../tensor/variable.ts";
import { argOf, type Storage } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { toposort } from "../uop/core/uop.ts";
import { extentsOf } from "../uop/graph/extent.ts";
import { Names, parameterNames, pathsOf, type WeightNames, weightNames } from "./export_names.ts";

/** An argument of the function that is a tensor. */
interface CallInput {
  readonly name: string;
  readonly tensor: Tensor;
  readonly buffer: { readonly dtype: DType; readonly size: number };
  readonly isWritten: boolean;
}

/** A tensor of what the function returns. */
interface CallOutput {
  readonly name: string;
  readonly tensor: Tensor;
  readonly storage: { readonly dtype: DType; readonly size: number };
}

/** A function that was called and captured. */
export interface CapturedCall {
  readonly captured: Captured;
  readonly inputs: readonly CallInput[];
  readonly outputs: readonly CallOutput[];
  /** What weights are called, by their memory. */
  readonly names: WeightNames;
  /** What the memory that a call writes held before the recorded one. */
  readonly before: ReadonlyMap<Buffer, Uint8Array>;
  /** What was found at places that a call reads, by their number among the states. */
  readonly found: ReadonlyMap<number, { readonly buffer: Buffer; readonly data: Uint8Array }>;
  readonly variables: readonly { readonly name: string; readonly min: number; readonly max: number }[];
  readonly test: {
    readonly inputs: readonly Uint8Array[];
    readonly outputs: readonly Uint8Array[];
    readonly counts: readonly number[];
    readonly variables: ReadonlyMap<string, number>;
    readonly counter: number;
    readonly seed: bigint;
  };
}

/** What to call things, and for which machine the graph is scheduled. */
export interface CaptureOptions {
  readonly weights: unknown;
  readonly target: { readonly name: string; readonly caps: Capabilities };
}

/** All bytes of a buffer. */
export async function readBuffer(b: Buffer): Promise<Uint8Array> {
  const out = new Uint8Array(b.nbytes), { copyOut } = b.device.allocator;
  return copyOut === undefined ? await b.copyOutAsync(out) : b.copyOut(out);
}

const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;

/** The memory of a realized tensor. */
function bufferIn(t: Tensor): Buffer | undefined {
  return realizedMemory(t.uop);
}
function storageIn(t: Tensor): Storage | undefined {
  const node = realizedBuffer(t.uop);
  return node === undefined ? undefined : argOf(node, Ops.BUFFER).storage;
}

/** Throws for arguments that an export cannot take. @throws {ExportError} */
function checkArguments(action: string, args: readonly unknown[]): void {
  const seen = new Map<unknown, number>(), at = args.findIndex((x) => ArrayBuffer.isView(x));
  if (at >= 0) {
    throw new ExportError(action, {
      reason: `argument ${at} is ${describe(args[at])}, and inputs are tensors: make it one by new Tensor(data)`,
    });
  }
  for (const [path, t] of pathsOf(args, (x): x is Tensor | Variable => isTensor(x) || x instanceof Variable)) {
    if (t instanceof Variable) {
      throw new ExportError(action, {
        reason: `the size ${t.name} is not bound: pass ${t.name}.bind(n); it is an argument of the export nevertheless`,
      });
    }
    if (seen.has(t)) {
      throw new ExportError(action, {
        reason: `argument ${path} is the tensor of argument ${seen.get(t)}; pass a clone()`,
      });
    }
    seen.set(t, seen.size);
  }
}

/** Variables that arguments bind: of each argument those of its axes, in their order, then others. */
function variablesOf(args: readonly unknown[]): { name: string; min: number; max: number }[] {
  const out = new Map<string, { name: string; min: number; max: number }>();
  for (const [, t] of pathsOf(args, isTensor)) {
    for (const u of toposort([...(extentsOf(t.uop) ?? []).filter((e) => e !== undefined), t.uop])) {
      if (u.op !== Ops.BIND) continue;
      const { name, min, max } = argOf(u.src[0], Ops.VARIABLE);
      out.set(name, { name, min, max });
    }
  }
  return [...out.values()];
}

/** Names of the tensors among the arguments, in the order of their tree. */
function inputNames(
  fn: (...args: never[]) => unknown,
  args: readonly unknown[],
  bound: (t: Tensor) => boolean,
): string[] {
  const given = parameterNames(fn), names = new Names("x"), single = args.length === 1;
  return args.flatMap((arg, i) => {
    const root = given[i] ?? (single ? "x" : `x${i}`);
    return pathsOf(arg, isTensor, root).filter(([, t]) => !bound(t)).map(([path]) => names.take(path));
  });
}

function outputNames(result: unknown): [name: string, tensor: Tensor][] {
  const names = new Names("y"), found = pathsOf(result, isTensor);
  return found.map(([path, t]) => [names.take(path === "" ? "y" : path), t]);
}

/** Elements of a result that a call defines, where they are the first ones; 0 where they are not. */
function definedCount(t: Tensor): number {
  const { shape, boundShape } = t, rest = shape.slice(1);
  return rest.every((n, i) => n === boundShape[i + 1]) ? prod(boundShape as number[]) : 0;
}

/**
 * The target as the schedule sees it: without what kernels would have to be run otherwise on the device that records the
 * call, as several phases in one, and products in one after the other on matrix units.
 */
function schedulingCaps(caps: Capabilities): Capabilities {
  const { grid } = caps;
  return { ...caps, l2: 0, ...(grid === undefined ? {} : { grid: { ...grid, sharedBytes: 0, tensorCores: [] } }) };
}

/** A function that was called until it was captured, to be recorded by one more call. */
export interface Begun {
  record(): Promise<CapturedCall>;
}

/**
 * Calls a function until it is captured; `record` then calls it once more, with what went in and came out recorded: what it
 * closes over is as it was before that call. @throws {ExportError}
 */
export function captureFor(
  action: string,
  fn: (...args: never[]) => unknown,
  args: readonly unknown[],
  { weights, target }: CaptureOptions,
): Begun {
  checkArguments(action, args);
  const made = jit(fn as (...args: unknown[]) => Tensor) as (...args: unknown[]) => unknown;
  const call = (): unknown =>
    context({ TRACEMETA: 1, JIT: 1 }, () => {
      const outer = scheduleTarget.now;
      scheduleTarget.now = { name: target.name, caps: schedulingCaps(target.caps) };
      try {
        return made(...args);
      } catch (error) {
        if (!(error instanceof JitError)) throw error;
        const reason = error.message.replace(/^Cannot .*?: /, "");
        throw new ExportError(action, { reason, cause: error });
      } finally {
        scheduleTarget.now = outer;
      }
    });
  call();
  call();
  const captured = captureOf(made);
  if (captured === undefined) {
    throw new ExportError(action, {
      reason: "no call of it can be captured: arguments are parts of what it writes, or of each other",
    });
  }
  return { record: () => recorded(action, fn, args, { made, call, captured, weights }) };
}

async function recorded(
  action: string,
  fn: (...args: never[]) => unknown,
  args: readonly unknown[],
  { made, call, captured, weights }: {
    readonly made: (...args: unknown[]) => unknown;
    readonly call: () => unknown;
    readonly captured: Captured;
    readonly weights: unknown;
  },
): Promise<CapturedCall> {
  const leaves = leavesOfTree(args, action), tensors = leaves.tensors as Tensor[];
  const bases = [...new Set(captured.replay.targets.flatMap((s) => bufferOf(s)?.base ?? []))];
  const before = new Map<Buffer, Uint8Array>();
  for (const b of bases) before.set(b, await readBuffer(b));
  const inputs: Uint8Array[] = [];
  for (const t of tensors) inputs.push(await readBuffer(bufferIn(t)!));
  const found = new Map<number, { buffer: Buffer; data: Uint8Array }>();
  for (const [i, s] of captured.states.entries()) {
    const t = s.input < 0 ? undefined : s.place.read() as Tensor | undefined, buffer = t && bufferIn(t);
    if (buffer !== undefined) found.set(i, { buffer, data: await readBuffer(buffer) });
  }
  const counter = currentCounter(), seed = BigInt(rngState().seed);
  const result = call();
  if (captureOf(made) !== captured) {
    throw new ExportError(action, { reason: "each call of it is another computation: what it closes over changes" });
  }
  const named = outputNames(result), outputs: Uint8Array[] = [];
  if (named.length === 0 && captured.replay.targets.length === 0 && captured.writtenInputs.size === 0) {
    throw new ExportError(action, { reason: "it gives no tensor: return what it computes" });
  }
  for (const [, t] of named) outputs.push(await readBuffer(bufferIn(t)!));
  // the caller's own memory is as it was
  for (const [b, data] of before) b.device.allocator.copyIn(b.memory, 0, data);
  tensors.forEach((t, i) => captured.writtenInputs.has(i) && bufferIn(t)!.copyIn(inputs[i]));
  const inputName = inputNames(fn, args, (t) => !tensors.includes(t));
  return {
    captured,
    inputs: tensors.map((tensor, i) => {
      const { dtype, size } = bufferIn(tensor)!;
      return { name: inputName[i], tensor, buffer: { dtype, size }, isWritten: captured.writtenInputs.has(i) };
    }),
    outputs: named.map(([name, tensor]) => {
      const { dtype, size } = storageIn(tensor)!;
      return { name, tensor, storage: { dtype, size } };
    }),
    names: weightNames(weights),
    before,
    found,
    variables: variablesOf(args),
    test: {
      inputs,
      outputs,
      counts: named.map(([, t]) => definedCount(t)),
      variables: leaves.bound,
      counter,
      seed,
    },
  };
}
