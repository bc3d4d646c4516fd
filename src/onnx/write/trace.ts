/**
 * A function as the tensor graph that it computes: called on tensors without memory, of the sizes of its arguments and,
 * for each dynamic axis, of others. In: a function and its arguments; out: graphs of one form, node by node beside each
 * other, before anything is scheduled.
 *
 * @module
 */
import { bufferOf } from "../../device/buffer.ts";
import { readLog } from "../../engine/front/listening.ts";
import { ExportError, ShapeError } from "../../helpers/errors.ts";
import { handlesMade, internals, type TensorBase } from "../../tensor/handle/base.ts";
import { leavesOfTree, replaceTensors } from "../../tensor/jit/jit_arguments.ts";
import { currentCounter } from "../../tensor/nodes/random.ts";
import { movedHandles } from "../../tensor/realize.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { argOf, sameArg } from "../../uop/core/args.ts";
import { mergingAll } from "../../uop/core/build_movement.ts";
import { opName, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { resolve } from "../../uop/graph/resolve.ts";
import { parameterNames, pathsOf } from "../../export/export_names.ts";
import type { DynamicAxis, Shape } from "./traced_sizes.ts";

/** Which axes of which inputs are dynamic: `{ x: { 0: "batch" } }`. */
export type Dynamic = Readonly<Record<string, Readonly<Record<number, string>>>>;
/** What to call things, and what is dynamic. */
export interface TraceOptions {
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
  readonly dynamic?: Dynamic;
}
/** A function that was traced. */
export interface Trace {
  readonly inputs: readonly { readonly name: string; readonly node: UOp; readonly shape: Shape }[];
  readonly outputs: readonly { readonly name: string; readonly node: UOp }[];
  readonly axes: readonly DynamicAxis[];
  /** By node, what it is in each trace, itself first. */
  readonly twins: ReadonlyMap<UOp, readonly UOp[]>;
}

const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;

/** One call on tensors without memory. */
interface Call {
  readonly inputs: readonly UOp[];
  readonly outputs: readonly (readonly [path: string, node: UOp])[];
}

/** Calls the function once. @throws {ExportError} where it does what a graph cannot */
function callOnce(
  action: string,
  f: (...args: never[]) => unknown,
  args: readonly unknown[],
  shapes: readonly (readonly number[])[],
): Call {
  const given: Tensor[] = [], counter = currentCounter(), { look } = readLog, { assigned } = movedHandles;
  const tensors = leavesOfTree(args, action).tensors as Tensor[];
  tensors.forEach((t, i) => given.push(Tensor.empty([...shapes[i]], { dtype: t.dtype, device: t.device as "JS" })));
  const inputs = given.map((t) => baseOf(t.uop)),
    since = handlesMade(),
    moved = movedHandles.assigned = new Set<TensorBase>();
  const reading = (): ExportError =>
    new ExportError(action, {
      reason: "it reads or realizes what it computes from its arguments: a graph has no values while it is made; " +
        "return that tensor, or decide by where()",
    });
  readLog.look = (nodes) => {
    look?.(nodes);
    if (toposort(nodes).some((u) => inputs.includes(u))) throw reading();
  };
  let result: unknown;
  try {
    let next = 0;
    result = f(...replaceTensors(args, () => given[next++]) as never[]);
  } finally {
    readLog.look = look;
    movedHandles.assigned = assigned;
  }
  if (inputs.some((u) => u.op === Ops.BUFFER && bufferOf(argOf(u, Ops.BUFFER).storage)?.isAllocated)) throw reading();
  if (result instanceof Promise) {
    result.catch(() => {}); // this error is the one to tell
    throw new ExportError(action, { reason: "it is async: a graph computes all that it gives, and reads nothing" });
  }
  const [t] = [...moved].filter((t) => internals.isBefore(t, since));
  if (t !== undefined) {
    throw new ExportError(action, {
      reason:
        `it assigns to a tensor of shape [${t.shape.join(", ")}], and a graph has no state: return the new value, ` +
        "and take the old one as an argument; call layers in eval mode",
    });
  }
  if (currentCounter() !== counter) {
    throw new ExportError(action, {
      reason: "it draws random numbers, which a graph would draw once: call it in eval mode, or pass them as arguments",
    });
  }
  const found = pathsOf(result, isTensor);
  if (found.length === 0) throw new ExportError(action, { reason: "it gives no tensor: return what it computes" });
  const memo = new Map<UOp, UOp>();
  return { inputs, outputs: mergingAll(() => found.map(([path, t]) => [path, resolve(t.uop, memo)])) };
}

/** The memory below the shape of a tensor. */
function baseOf(u: UOp): UOp {
  while (u.op === Ops.RESHAPE) u = u.src[0];
  return u;
}

/** Dynamic axes by name, each with the inputs that have it. @throws {ExportError} */
function axesOf(
  action: string,
  dynamic: Dynamic,
  names: readonly string[],
  shapes: readonly (readonly number[])[],
): Map<string, { input: number; axis: number }[]> {
  const out = new Map<string, { input: number; axis: number }[]>();
  for (const [input, axes] of Object.entries(dynamic)) {
    const i = names.indexOf(input);
    if (i < 0) {
      throw new ExportError(action, {
        reason: `\`dynamic\` names input "${input}"; its inputs are ${names.join(", ")}`,
      });
    }
    for (const [key, name] of Object.entries(axes)) {
      const axis = Number(key) < 0 ? Number(key) + shapes[i].length : Number(key);
      if (!Number.isInteger(axis) || axis < 0 || axis >= shapes[i].length) {
        throw new ExportError(action, {
          reason: `\`dynamic\` names axis ${key} of "${input}", which has shape [${shapes[i].join(", ")}]`,
        });
      }
      const places = out.get(name) ?? [], [first] = places;
      if (first !== undefined && shapes[first.input][first.axis] !== shapes[i][axis]) {
        throw new ExportError(action, {
          reason: `dynamic axis "${name}" is ${shapes[first.input][first.axis]} in "${names[first.input]}" and ` +
            `${shapes[i][axis]} in "${input}"`,
        });
      }
      out.set(name, [...places, { input: i, axis }]);
    }
  }
  return out;
}

/** Walks calls beside each other. @throws {ExportError} where they compute different things */
function matchCalls(action: string, calls: readonly Call[], axes: readonly DynamicAxis[]): Map<UOp, readonly UOp[]> {
  const twins = new Map<UOp, readonly UOp[]>(), [first, ...others] = calls;
  const names = axes.map((a) => a.name).join(", ");
  const differ = (u: UOp, v: UOp): ExportError =>
    new ExportError(action, {
      reason: `of other sizes for ${names} it computes something else: ${opName[v.op]}` +
        `${shapeText(v)} in place of ${opName[u.op]}${
          shapeText(u)
        }; leave out of \`dynamic\` what it depends on, or give ` +
        "arguments in which no two axes have one size",
    });
  const stack: (readonly UOp[])[] = [];
  const visit = (all: readonly UOp[]): void => {
    const known = twins.get(all[0]);
    if (known !== undefined) {
      const i = known.findIndex((v, i) => v !== all[i]);
      if (i >= 0) throw differ(known[i], all[i]);
      return;
    }
    const [u] = all;
    for (const v of all) {
      const isInput = first.inputs.includes(u);
      if (u.op !== v.op || u.dtype !== v.dtype || u.src.length !== v.src.length) throw differ(u, v);
      if (
        u.op === Ops.BUFFER &&
        (isInput ? others.some((c, i) => c.inputs[first.inputs.indexOf(u)] !== all[i + 1]) : u !== v)
      ) {
        throw differ(u, v);
      }
      if (!sameArg(u.arg, v.arg) && (u.op === Ops.BUFFER) !== isInput) throw differ(u, v);
    }
    twins.set(u, all);
    stack.push(all);
  };
  first.outputs.forEach(([, node], i) => {
    for (const c of others) if (c.outputs.length !== first.outputs.length) throw differ(node, c.outputs[0][1]);
    visit(calls.map((c) => c.outputs[i][1]));
  });
  for (let all = stack.pop(); all !== undefined; all = stack.pop()) {
    for (let i = 0; i < all[0].src.length; i++) visit(all.map((u) => u.src[i]));
  }
  return twins;
}

function shapeText(u: UOp): string {
  return u.shapeMemo ? ` [${u.shapeMemo.join(", ")}]` : "";
}

/** Names of inputs or outputs: those that were asked for, or the ones that paths say. @throws {ExportError} */
function namesFor(
  action: string,
  kind: string,
  given: readonly string[] | undefined,
  found: readonly string[],
): string[] {
  const names = given ?? found, taken = new Set<string>();
  if (names.length !== found.length) {
    throw new ExportError(action, { reason: `${kind}s: ${found.length} in the function, ${names.length} names` });
  }
  return names.map((name) => {
    if (given !== undefined && taken.has(name)) {
      throw new ExportError(action, { reason: `two ${kind}s are called "${name}"` });
    }
    let own = name;
    for (let i = 1; taken.has(own); i++) own = `${name}_${i}`;
    taken.add(own);
    return own;
  });
}

/** Traces a function. @throws {ExportError} where it does what a graph of ONNX cannot */
export function trace(
  action: string,
  f: (...args: never[]) => unknown,
  args: readonly unknown[],
  options: TraceOptions,
): Trace {
  const tensors = leavesOfTree(args, action).tensors as Tensor[], given = parameterNames(f);
  const symbolic = tensors.find((t) => t.boundShape.some((n, i) => n !== t.shape[i]));
  if (symbolic !== undefined) {
    throw new ExportError(action, {
      reason:
        `an argument has a symbolic size: give plain sizes, and name dynamic axes by { dynamic: { x: { 0: "n" } } }`,
    });
  }
  const paths = args.flatMap((arg, i) =>
    pathsOf(arg, isTensor, given[i] ?? (args.length === 1 ? "x" : `x${i}`)).map(([path]) => path)
  );
  // what is bound is a tensor among the arguments, and no leaf
  if (paths.length > tensors.length) {
    throw new ExportError(action, {
      reason: "an argument is a bound variable, and a graph takes tensors: give sizes by the shapes of tensors, with " +
        'dynamic axes as { dynamic: { x: { 0: "n" } } }, or the number as a tensor of int32',
    });
  }
  const names = namesFor(action, "input", options.inputs, paths), shapes = tensors.map((t) => [...t.shape]);
  const found = axesOf(action, options.dynamic ?? {}, names, shapes), places = [...found.values()];
  const sized = (changes: readonly number[]): number[][] => {
    const out = shapes.map((s) => [...s]);
    places.forEach((list, k) => list.forEach(({ input, axis }) => out[input][axis] += changes[k]));
    return out;
  };
  // sizes as given (an axis of 1 would broadcast), each axis changed alone, and all of them
  const base = places.map(([p]) => Math.max(0, 2 - shapes[p.input][p.axis]));
  const all = [sized(base)], calls = [callOnce(action, f, args, all[0])];
  const call = (changes: readonly number[]): void => {
    const s = sized(changes);
    calls.push(callOnce(action, f, args, s));
    all.push(s);
  };
  const steps = [...found.keys()].map((name, k) => (
    stepOf(action, name, (step) => call(base.map((n, i) => i === k ? n + step : n)))
  ));
  if (found.size > 0) call(base.map((n, i) => n + (3 + i) * steps[i]));
  const axes = [...found].map(([name, [p]]): DynamicAxis => ({
    name,
    input: names[p.input],
    axis: p.axis,
    size: all.map((s) => s[p.input][p.axis]),
  }));
  const outputs = namesFor(
    action,
    "output",
    options.outputs,
    calls[0].outputs.map(([path]) => outputName(path, names)),
  );
  const clash = outputs.find((n) => names.includes(n));
  if (clash !== undefined) {
    throw new ExportError(action, { reason: `an input and an output are called "${clash}": name them by \`outputs\`` });
  }
  return {
    inputs: names.map((name, i) => ({
      name,
      node: calls[0].inputs[i],
      shape: shapes[i].map((_, axis) => all.map((s) => s[i][axis])),
    })),
    outputs: outputs.map((name, i) => ({ name, node: calls[0].outputs[i][1] })),
    axes,
    twins: matchCalls(action, calls, axes),
  };
}

/** The name of an output: its path, or where it has none of its own, one that no input has. */
function outputName(path: string, inputs: readonly string[]): string {
  if (path !== "" && !/^\d/.test(path)) return path;
  let name = `y${path}`;
  for (let i = 2; inputs.includes(name); i++) name = `y${path}_${i}`;
  return name;
}

/** By how much sizes may change, where not by 1: what halves a picture several times and puts it together again. */
const STEPS: readonly number[] = [1, 2, 4, 8, 16, 32];

/**
 * The least step by which a dynamic axis may change, so that the function takes it. @throws {ExportError} where there is
 * none
 */
function stepOf(action: string, name: string, call: (step: number) => void): number {
  let first: ShapeError | undefined;
  for (const step of STEPS) {
    try {
      call(step);
      return step;
    } catch (error) {
      if (!(error instanceof ShapeError)) throw error;
      first ??= error;
    }
  }
  throw new ExportError(action, {
    reason: `of other sizes for ${name} it fails, as by "${first!.message}": leave ${name} out of \`dynamic\``,
    cause: first,
  });
}

/** The shape of a node in each trace. */
export function shapesOf(twins: ReadonlyMap<UOp, readonly UOp[]>, u: UOp): Shape {
  const all = twins.get(u)!.map(shapeOf);
  return all[0].map((_, axis) => all.map((s) => s[axis]));
}
