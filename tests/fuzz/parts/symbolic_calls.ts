/**
 * Calls with sizes that are variables: a valid call of a public function, a little changed, of which axes and sizes of
 * one length are to be symbolic together. In: a call of the tables; out: the same call at any length, given as a number
 * or as a bound variable.
 *
 * @module
 */
import { type DType, dtypes, Tensor } from "../../../mod.ts";
import type { Target } from "../arguments.ts";
import type { Arg } from "./argument_kinds.ts";
import type { Call } from "./argument_makers.ts";
import { Random } from "../../support/random.ts";

/** A length: a number, or a bound variable. */
export type Length = number | Tensor;

/** Where a length stands in a call: behind which keys (0 is `this`), and along which axis of the tensor there. */
export interface Place {
  readonly path: readonly (number | string)[];
  readonly axis?: number;
  readonly length: number;
}

/** What is tried: a function, its changed arguments, and the places of each variable. */
export interface SymbolicCase {
  readonly target: Target;
  readonly seed: number;
  /** By variable. */
  readonly places: readonly (readonly Place[])[];
  readonly bounds: readonly (readonly [min: number, max: number])[];
  /** Lengths of the variables, one row after the other. */
  readonly lengths: readonly (readonly number[])[];
  readonly text: string;
}

type Tree = unknown;
const isRecord = (x: unknown): x is Record<string, Tree> =>
  typeof x === "object" && x !== null && Object.getPrototypeOf(x) === Object.prototype;

/** All leaves of a call with the way to them. */
function* leaves(x: Tree, path: readonly (number | string)[] = []): Generator<[readonly (number | string)[], unknown]> {
  if (Array.isArray(x)) { for (const [i, y] of x.entries()) yield* leaves(y, [...path, i]); }
  else if (isRecord(x)) { for (const [key, y] of Object.entries(x)) yield* leaves(y, [...path, key]); }
  else yield [path, x];
}

function replaced(x: Tree, path: readonly (number | string)[], value: unknown): Tree {
  if (path.length === 0) return value;
  const [key, ...rest] = path;
  if (Array.isArray(x)) return x.with(Number(key), replaced(x[Number(key)], rest, value));
  const record = x as Record<string, Tree>;
  return { ...record, [key]: replaced(record[key], rest, value) };
}

// ---- changed arguments

/** Arguments of the valid call, of which some options are others, and some are left out: the same for each seed. */
function changedArgs({ args }: Call, r: Random): unknown[] {
  const values = args.map((arg) => changedArg(arg, r));
  while (values.length > 0 && args[values.length - 1].optional && r.int(0, 3) === 0) values.pop();
  return values;
}

function changedArg(arg: Arg, r: Random): unknown {
  const { kind, value, options } = arg;
  if (options !== undefined) {
    const kept = Object.entries(options).filter(([, o]) => r.int(0, 1) === 0 || !o.optional);
    return Object.fromEntries(kept.map(([name, o]) => [name, changedArg(o, r)]));
  }
  if (r.int(0, 2) > 0) return value;
  if (arg.optional && r.int(0, 2) === 0) return undefined;
  if (kind.names !== undefined) return r.pick(kind.names);
  if (typeof value === "boolean") return r.int(0, 1) === 0;
  if ((kind.name === "int" || kind.name === "axes") && typeof value === "number") return r.pick([0, 1, -1, 2, -2]);
  return value;
}

// ---- places of lengths

/** The places of a call that hold a length which might be a variable. */
function placesOf(tree: readonly Tree[], args: readonly Arg[], variable: Tensor): Place[] {
  const found: Place[] = [];
  for (const [path, x] of leaves(tree)) {
    if (x instanceof Tensor) {
      if (x.device === "NULL") continue;
      x.shape.forEach((length, axis) => length > 0 && found.push({ path, axis, length }));
    } else if (typeof x === "number" && x > 0 && x < 10 && Number.isInteger(x) && Number(path[0]) > 0) {
      const [at, ...rest] = path, arg = args[Number(at) - 1];
      const into = typeof rest[0] === "string" ? arg.options?.[rest[0]] : arg;
      const inner = typeof rest[0] === "string" ? rest.slice(1) : rest;
      if (into === undefined || !SIZES.test(into.kind.name) || inner.length > 1) continue;
      const given = inner.length === 0 ? x : tree[Number(at)];
      const trial = inner.length === 0 ? variable : replaced(given, rest, variable);
      if (into.kind.fits(trial)) found.push({ path, length: x });
    }
  }
  return found;
}
/** Kinds of arguments that are sizes. */
const SIZES = /size|shape/;

/** Functions whose labels are those of the valid call, or that drop an axis of length 1: no length is below the call's. */
const WHOLE = new Set(["multilabelMarginLoss", "squeeze", "cov", "corrcoef"]);

const spelled = (p: Place): string => `${p.path.join(".")}${p.axis === undefined ? "" : `[${p.axis}]`}`;

/** What a case is to be: places of one or two variables, their bounds, and lengths to try. */
export function drawCase(target: Target, seed: number, r: Random, variable: Tensor): SymbolicCase | undefined {
  const call = target.make(), args = changedArgs(call, new Random(seed));
  const all = placesOf([call.self, ...args], call.args, variable);
  if (all.length === 0) return undefined;
  const groups: Place[][] = [];
  for (let count = r.int(0, 2) === 0 ? 2 : 1; count > 0; count--) {
    const first = r.pick(all);
    if (groups.flat().includes(first)) continue;
    const own = first.length === 1 ? 1 : r.pick([0.5, 0.9]);
    const more = all.filter((p) => p !== first && p.length === first.length && !groups.flat().includes(p));
    groups.push([first, ...more.filter(() => first.length === 1 ? r.int(0, 2) === 0 : r.next() < own)]);
  }
  const bounds = groups.map(([{ length }]): [number, number] => {
    const min = WHOLE.has(target.name) ? length : r.pick([1, 1, Math.max(length - 1, 1), length, length, 0]);
    return [min, Math.max(length, min) + r.int(1, 4)];
  });
  const lengths = [groups.map(([{ length }]) => length)];
  for (let i = 0; i < 3; i++) lengths.push(bounds.map(([min, max]) => r.int(min, max)));
  const text = `${target.name}(${describeArgs(args)}) ` +
    groups.map((g, i) => `${g.map(spelled).join(" ")} in [${bounds[i].join(", ")}]`).join("; ");
  return { target, seed, places: groups, bounds, lengths, text };
}

function describeArgs(args: readonly unknown[]): string {
  const one = (x: unknown): string =>
    x instanceof Tensor
      ? `${x.dtype}[${x.shape.join()}]`
      : Array.isArray(x)
      ? `[${x.map(one).join(", ")}]`
      : isRecord(x)
      ? `{ ${Object.entries(x).map(([k, v]) => `${k}: ${one(v)}`).join(", ")} }`
      : String(x);
  return args.map(one).join(", ");
}

// ---- the call at lengths

/** Memory of a tensor, with room along its symbolic axes. */
export interface Room {
  readonly path: readonly (number | string)[];
  readonly memory: Tensor;
  /** The variable of each axis, or undefined. */
  readonly variables: readonly (number | undefined)[];
}

/** A call whose tensors have room: what {@linkcode atLengths} cuts. */
export interface RoomyCall {
  readonly tree: readonly Tree[];
  readonly rooms: readonly Room[];
  readonly training: boolean;
}

/** Values of a tensor where axes are longer: it repeats, floats grow where they do, so that nothing there goes unseen. */
async function roomFor(x: Tensor, sizes: readonly number[], salt: number): Promise<Tensor> {
  if (x.dtype.isComplex) {
    return Tensor.complex(await roomFor(x.real(), sizes, salt), await roomFor(x.imag(), sizes, salt + 1)).realize();
  }
  const flat = [...await x.contiguous().data() as ArrayLike<number | bigint | boolean> & Iterable<number>];
  const isFlat = x.dtype.isFloat && flat.every((v) => v === flat[0]), strides = x.shape.map(() => 1);
  for (let a = x.ndim - 2; a >= 0; a--) strides[a] = strides[a + 1] * x.shape[a + 1];
  const count = sizes.reduce((a, b) => a * b, 1);
  const values = Array.from({ length: count }, (_, i) => {
    let rest = i, from = 0, beyond = 0;
    for (let a = sizes.length - 1; a >= 0; a--) {
      const at = rest % sizes[a];
      rest = Math.floor(rest / sizes[a]);
      from += at % x.shape[a] * strides[a];
      beyond += Math.floor(at / x.shape[a]);
    }
    const value = flat[from];
    if (!x.dtype.isFloat) return beyond > 0 && typeof value === "boolean" ? !value : value;
    const place = sizes.length === 1 ? i / count : (i * 0.618 + salt * 0.37) % 1; // lists ascend
    const own = isFlat ? flat[0] * (0.15 + 0.7 * place) : Number(value);
    return own + 1.75 * beyond;
  });
  const dtype: DType = x.dtype;
  if (dtype === dtypes.bool) return new Tensor(values.map(Boolean)).reshape([...sizes]).realize();
  return new Tensor(values as number[], { dtype }).reshape([...sizes]).realize();
}

/** The call of a case, with memory of its own. */
export async function roomyCall({ target, seed, places, bounds }: SymbolicCase): Promise<RoomyCall> {
  const call = target.make(), tree = [call.self, ...changedArgs(call, new Random(seed))], rooms: Room[] = [];
  for (const [path, x] of leaves(tree)) {
    if (!(x instanceof Tensor) || x.device === "NULL") continue;
    const here = (axis: number) => (p: Place) => p.axis === axis && p.path.join() === path.join();
    const variables = x.shape.map((_, axis) => {
      const i = places.findIndex((group) => group.some(here(axis)));
      return i < 0 ? undefined : i;
    });
    const sizes = x.shape.map((n, axis) => variables[axis] === undefined ? n : bounds[variables[axis]!][1]);
    rooms.push({ path, memory: await roomFor(x, sizes, rooms.length), variables });
  }
  return { tree, rooms, training: call.training === true };
}

/** `this` and the arguments at these lengths; `memory` stands for the rooms'. */
export function atLengths(
  c: SymbolicCase,
  call: RoomyCall,
  lengths: readonly Length[],
  memory: readonly Tensor[] = call.rooms.map((room) => room.memory),
): readonly Tree[] {
  let tree: Tree = call.tree;
  for (const [i, { path, variables }] of call.rooms.entries()) {
    const cuts = variables.map((v) => v === undefined ? null : [0, lengths[v]] as const);
    tree = replaced(tree, path, cuts.every((x) => x === null) ? memory[i] : memory[i].shrink(cuts));
  }
  c.places.forEach((group, v) => {
    for (const { path, axis } of group) if (axis === undefined) tree = replaced(tree, path, lengths[v]);
  });
  return tree as readonly Tree[];
}
