/**
 * What arguments of public functions may be, and wrong values for each. A kind says which values of JavaScript could be
 * meant: of those a function may take or refuse any; all others it must refuse, by an error of ours.
 *
 * @module
 */
import { type DType, dtypes, Tensor, Variable } from "../../../mod.ts";
import { isWeak } from "../../../src/tensor/handle/weak_numbers.ts";

/** A kind of argument: its name, and whether a value could be meant as one. */
export interface Kind {
  readonly name: string;
  readonly fits: (x: unknown) => boolean;
  /** What is right must not be tried: it would write a file. */
  readonly guarded?: boolean;
  /** Numbers above are not tried. */
  readonly tooLarge?: number;
  /** All that it may be, where those are a few names. */
  readonly names?: readonly string[];
}

/** An argument of a valid call. */
export interface Arg {
  readonly kind: Kind;
  readonly value: unknown;
  /** Whether it may be left out. */
  readonly optional: boolean;
  /** The options by name, where this is an options object. */
  readonly options?: Readonly<Record<string, Arg>>;
}

const isNumber = (x: unknown): x is number => typeof x === "number";
const isGiven = (x: unknown): x is number => isNumber(x) && !Number.isNaN(x);
const isWhole = (x: unknown): boolean => Number.isInteger(x);
const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;
const isFunction = (x: unknown): boolean => typeof x === "function";
const isText = (x: unknown): boolean => typeof x === "string";
/** A bound variable, which may stand for a size. */
const isBound = (x: unknown): boolean => isTensor(x) && x.ndim === 0 && x.dtype === dtypes.int32;
const isDType = (x: unknown): x is DType => x === dtypes.float16 || (isText(x) && Object.hasOwn(dtypes, x as string));
const isSize = (x: unknown): boolean => isWhole(x) || isBound(x);
/** A list of what fits; holes are looked at, too. */
const listOf = (fits: (x: unknown) => boolean) => (x: unknown): boolean =>
  Array.isArray(x) && Array.from(x as unknown[]).every(fits);
/** What must be an object that somebody made for it. */
const isRecord = (x: unknown): boolean => {
  if (typeof x !== "object" || x === null) return false;
  const proto: unknown = Object.getPrototypeOf(x);
  return proto === null || proto === Object.prototype;
};

function kind(name: string, fits: (x: unknown) => boolean, guarded = false): Kind {
  return { name, fits, guarded };
}
function maker<T>(k: Kind): (value: T) => Arg {
  return (value) => ({ kind: k, value, optional: false });
}

/** An argument that may be left out. */
export function maybe(arg: Arg): Arg {
  return { ...arg, optional: true };
}

/** One of any number of arguments: it may be missing, but `undefined` is no other way to say so. */
export function variadic(arg: Arg): Arg {
  const { kind } = arg;
  return { ...arg, kind: { ...kind, fits: (x) => x === undefined || kind.fits(x) } };
}

/** A tensor. */
export const tensor: (value: Tensor) => Arg = maker(kind("tensor", isTensor));
/** A tensor, or a list that makes one. */
export const listed: (value: Tensor) => Arg = maker(
  kind("tensor or list", (x) => isTensor(x) || Array.isArray(x) || ArrayBuffer.isView(x)),
);
/** A list of tensors. */
export const tensors: (value: Tensor[]) => Arg = maker(kind("tensors", (x) => isTensor(x) || listOf(isTensor)(x)));
const isOperand = (x: unknown): boolean =>
  isTensor(x) || ["number", "boolean", "bigint"].includes(typeof x) || Array.isArray(x) || ArrayBuffer.isView(x);
/** What stands beside a tensor. */
export const operand: (value: unknown) => Arg = maker(kind("operand", isOperand));
/** A list of tensors, and of what stands beside them. */
export const joined: (value: Tensor[]) => Arg = maker(kind("operands", (x) => isTensor(x) || listOf(isOperand)(x)));
/** What data of a tensor may be. */
export const data: (value: unknown) => Arg = maker(
  kind(
    "data",
    (x) =>
      ["number", "boolean", "bigint", "undefined"].includes(typeof x) || x === null || Array.isArray(x) ||
      ArrayBuffer.isView(x) || x instanceof ArrayBuffer,
  ),
);
/** Memory of the host; addresses are trusted, and not tried. */
export const memory: (value: ArrayBufferView) => Arg = maker(
  kind("memory", (x) => ArrayBuffer.isView(x) || x instanceof ArrayBuffer || typeof x === "bigint", true),
);
/** A scalar of JavaScript. */
export const scalar: (value: number | boolean | bigint) => Arg = maker(
  kind("scalar", (x) => ["number", "boolean", "bigint"].includes(typeof x)),
);
/** A whole number. */
export const int: (value: number) => Arg = maker(kind("int", isWhole));
/** A whole number, or Infinity for no limit. */
export const most: (value: number) => Arg = maker(kind("most", (x) => isWhole(x) || x === Infinity));
/** How often something is done: what would take days is not tried. */
export const count: (value: number) => Arg = maker({ name: "count", fits: isWhole, tooLarge: 1000 });
/** A whole number or a bound variable. */
export const size: (value: number) => Arg = maker(kind("size", isSize));
/** A number that means something: a rate, an exponent, a limit. */
export const num: (value: number) => Arg = maker(kind("number", isGiven));
/** A number that elements may be: NaN, too. */
export const value: (value: number) => Arg = maker(kind("value", isNumber));
/** Whether something is a tensor of floats, or of whole numbers that nobody gave a dtype, which pass as such. */
const isFloats = (x: unknown): boolean => isTensor(x) && (x.dtype.isFloat || isWeak(x));
/** A number, or a float tensor with one for each. */
export const limit: (value: number) => Arg = maker(kind("limit", (x) => isGiven(x) || isFloats(x)));
/** A number, a list of them, or a float tensor. */
export const shares: (value: number) => Arg = maker(
  kind("shares", (x) => isGiven(x) || Array.isArray(x) || isFloats(x)),
);
/** True or false. */
export const bool: (value: boolean) => Arg = maker(kind("boolean", (x) => typeof x === "boolean"));
/** A dtype or its name. */
export const dtype: (value: DType | string) => Arg = maker(kind("dtype", isDType));
/** The name of a device. */
export const device: (value: string) => Arg = maker(kind("device", isText));
/** Any text. */
export const text: (value: string) => Arg = maker(kind("text", isText));
/** One of a few names. */
export function choice(value: string, ...others: string[]): Arg {
  const names = [value, ...others];
  return { kind: { ...kind("choice", (x) => names.includes(x as string)), names }, value, optional: false };
}
/** A list of sizes. */
export const shape: (value: unknown) => Arg = maker(
  kind("shape", (x) => isSize(x) || listOf((n) => n === null || isSize(n))(x)),
);
/** An axis or some. */
export const axes: (value: number | readonly number[]) => Arg = maker(
  kind("axes", (x) => isWhole(x) || listOf(isWhole)(x)),
);
/** A size or some, of which null keeps that of the axis. */
export const kept: (value: readonly (number | null)[]) => Arg = maker(
  kind("sizes to keep", (x) => isWhole(x) || listOf((n) => n === null || isWhole(n))(x)),
);
/** An index of one axis, or a list of such. */
export const index: (value: readonly unknown[]) => Arg = maker(
  kind(
    "index",
    (x) => x === null || isWhole(x) || typeof x === "bigint" || isTensor(x) || isText(x) || Array.isArray(x),
  ),
);
/** A list of whole numbers. */
export const ints: (value: readonly number[]) => Arg = maker(kind("ints", (x) => listOf(isWhole)(x)));
/** A list of anything: what is in it must be looked at by its function. */
export const list: (value: readonly unknown[]) => Arg = maker(kind("list", Array.isArray));
const isObject = (x: unknown): x is object => typeof x === "object" && x !== null;
const isIterable = (x: unknown): boolean => isObject(x) && Symbol.iterator in x;
/** Something to iterate over: what comes of it may not be known beforehand. */
export const iterable: (value: Iterable<unknown>) => Arg = maker(kind("iterable", isIterable));
/** Whole numbers to iterate over. */
export const indices: (value: Iterable<number>) => Arg = maker(
  kind("indices", (x) => isTensor(x) || isIterable(x) && [...x as Iterable<unknown>].every(isWhole)),
);
/** A data set: items by number, or to iterate over. */
export const dataset: (value: object) => Arg = maker(
  kind("data set", (x) => isIterable(x) || isObject(x) && (isTensor(x) || "get" in x)),
);
/** A function. */
export const fn: (value: unknown) => Arg = maker(kind("function", isFunction));
/** An object with names that are not known beforehand. */
export const record: (value: object) => Arg = maker(kind("record", isRecord));
/** Anything. */
export const any: (value: unknown) => Arg = maker(kind("any", () => true));
/** A path of a file. */
export const path: (value: string | URL) => Arg = maker(kind("path", (x) => isText(x) || x instanceof URL, true));
/** Bytes in memory. */
export const bytes: (value: Uint8Array) => Arg = maker(kind("bytes", (x) => x instanceof Uint8Array));
/** What one of `tests` takes. */
export function either(value: unknown, ...args: Arg[]): Arg {
  const fits = (x: unknown): boolean => args.some((a) => a.kind.fits(x));
  return { kind: kind(args.map((a) => a.kind.name).join(" or "), fits), value, optional: false };
}
/** An instance of one of these classes. */
export function instance(value: object, ...classes: (abstract new (...args: never[]) => object)[]): Arg {
  return { kind: kind("instance", (x) => classes.some((c) => x instanceof c)), value, optional: false };
}

/** The options object of a call, each with a valid value. */
export function options(named: Readonly<Record<string, Arg>>): Arg {
  const value = Object.fromEntries(Object.entries(named).map(([name, arg]) => [name, arg.value]));
  const fits = (x: unknown): boolean =>
    isRecord(x) && Object.keys(x as object).every((name) => Object.hasOwn(named, name));
  return {
    kind: kind("options", fits),
    value,
    optional: Object.values(named).every((a) => a.optional),
    options: named,
  };
}
/** {@linkcode options}, of which none must be there. */
export function opts(named: Readonly<Record<string, Arg>>): Arg {
  return options(Object.fromEntries(Object.entries(named).map(([name, arg]) => [name, maybe(arg)])));
}

/** An argument in whose place a finite number may stand. */
export function orNumber(arg: Arg): Arg {
  const { kind } = arg;
  return { ...arg, kind: { ...kind, fits: (x) => Number.isFinite(x) || kind.fits(x) } };
}

/** Values to put in an argument's place: a name, and how to make one. */
export const VALUES: readonly (readonly [name: string, make: () => unknown])[] = [
  ["undefined", () => undefined],
  ["null", () => null],
  ["text", () => "text"],
  ["empty text", () => ""],
  ["digits", () => "1"],
  ["float32", () => "float32"],
  ["mean", () => "mean"],
  ["0", () => 0],
  ["-0", () => -0],
  ["1", () => 1],
  ["2", () => 2],
  ["-1", () => -1],
  ["-7", () => -7],
  ["1.5", () => 1.5],
  ["NaN", () => NaN],
  ["Infinity", () => Infinity],
  ["-Infinity", () => -Infinity],
  ["2^31", () => 2 ** 31],
  ["2^53", () => 2 ** 53],
  ["1e300", () => 1e300],
  ["7n", () => 7n],
  ["2n^70", () => 2n ** 70n],
  ["true", () => true],
  ["false", () => false],
  ["a symbol", () => Symbol("wrong")],
  ["a function", () => () => 1],
  ["a function of tensors", () => (x: unknown) => x],
  ["an async function", () => async () => await Promise.resolve(1)],
  ["a class", () => class Wrong {}],
  ["{}", () => ({})],
  ["{ unknown: 1 }", () => ({ unknown: 1 })],
  ["{ keepdim: true }", () => ({ keepdim: true })],
  ["{ dtype }", () => ({ dtype: "float16" })],
  ["null prototype", () => Object.create(null)],
  ["[]", () => []],
  ["[1]", () => [1]],
  ["[0, 1]", () => [0, 1]],
  ["[-1, 2.5]", () => [-1, 2.5]],
  ["[NaN]", () => [NaN]],
  ["[null]", () => [null]],
  ["[undefined]", () => [undefined]],
  ["[text]", () => ["text"]],
  ["[{}]", () => [{}]],
  ["[symbol]", () => [Symbol("wrong")]],
  ["[function]", () => [() => 1]],
  ["a hole", () => new Array(2)],
  ["nested", () => [[1, 2, 3], [4, 5, 6]]],
  ["ragged", () => [[1, 2], [3]]],
  ["deep", () => [[[[[1]]]]]],
  ["cyclic", () => {
    const list: unknown[] = [];
    list.push(list);
    return list;
  }],
  ["pairs", () => [[0, 1], [0, 2]]],
  ["[tensor]", () => [Tensor.ones([2, 3])]],
  ["[tensor, null]", () => [Tensor.ones([2, 3]), null]],
  ["a scalar tensor", () => new Tensor(1)],
  ["a float tensor", () => Tensor.ones([2, 3])],
  ["a tensor of rank 3", () => Tensor.ones([2, 3, 4])],
  ["an int tensor", () => new Tensor([0, 1])],
  ["an int64 tensor", () => new Tensor([[0n, 1n, 0n]])],
  ["a bool tensor", () => new Tensor([true, false, true])],
  ["a half tensor", () => Tensor.ones([2, 3], { dtype: "float16" })],
  ["an fp8 tensor", () => Tensor.ones([2, 3], { dtype: "fp8e4m3" })],
  ["an empty tensor", () => Tensor.ones([0, 3])],
  ["a disposed tensor", () => {
    const t = new Tensor([[1, 2, 3], [4, 5, 6]]).realize();
    t.dispose();
    return t;
  }],
  ["a tensor elsewhere", () => new Tensor([[1.5, 2, 3], [4, 5, 6]], { device: "NULL" })],
  ["a variable", () => new Variable("wrong", 0, 9)],
  ["a bound variable", () => new Variable("bound", 1, 9).bind(2)],
  ["a promise", () => Promise.resolve(1)],
  ["a Float32Array", () => new Float32Array([1, 2])],
  ["a Uint8Array", () => new Uint8Array([1, 2])],
  ["an ArrayBuffer", () => new ArrayBuffer(8)],
  ["a Date", () => new Date(0)],
  ["a Map", () => new Map([["a", 1]])],
  ["a RegExp", () => /a/],
  ["a dtype", () => dtypes.float16],
  ["a URL", () => new URL("https://localhost/")],
  ["throwing text", () => ({
    toString() {
      throw new SyntaxError("a value was turned to text");
    },
  })],
];
