/**
 * Values of Python and NumPy that checkpoints hold beside tensors, as plain values of ours: sets, complex numbers, slices,
 * dictionaries of other classes, namespaces, paths, numbers and arrays of NumPy. Each is made of its arguments by a
 * function of this file; nothing is imported or run.
 *
 * @module
 */
import { arrayClass, type DType } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import { NUMPY_NAMES } from "../npy.ts";
import type { Bad } from "../source.ts";
import { PyGlobal, PyTuple } from "./pickle.ts";

/** Whatever gets its contents from a state that follows it. */
export abstract class PyBuilt {
  /** Takes the state. @throws {FormatError} where it is none */
  abstract build(state: unknown): void;
}

/** Attributes by name. */
class Namespace extends PyBuilt {
  constructor(readonly values: Map<unknown, unknown>, private readonly bad: Bad) {
    super();
  }
  build(state: unknown): void {
    if (!(state instanceof Map)) throw this.bad("a namespace has no attributes");
    for (const [key, value] of state) this.values.set(key, value);
  }
}

/** A dtype of NumPy, of which the state says in which order the bytes are. */
class NumpyType extends PyBuilt {
  private order: unknown = "<";
  constructor(private readonly code: string, private readonly bad: Bad) {
    super();
  }
  build(state: unknown): void {
    if (!(state instanceof PyTuple)) throw this.bad("a dtype of NumPy has no state");
    this.order = state.items[1];
  }
  /** The dtype. */
  get dtype(): DType {
    const found = NUMPY_NAMES.find(([n]) => n === this.code)?.[1];
    if (found === undefined) {
      throw this.bad(`it has an array of NumPy of ${JSON.stringify(this.code)}, no type of numbers`);
    }
    if (this.order === ">" && found.itemsize > 1) throw this.bad("it has a big-endian array of NumPy");
    return found;
  }
}

/** An array of NumPy: its state is a version, shape, dtype, order and bytes. */
export class NumpyArray extends PyBuilt {
  /** Its elements, which the state brings. */
  found: { dtype: DType; shape: readonly number[]; isFortran: boolean; bytes: Uint8Array } | undefined;
  constructor(private readonly bad: Bad) {
    super();
  }
  build(state: unknown): void {
    const [, size, type, isFortran, bytes] = state instanceof PyTuple ? state.items : [];
    const shape = size instanceof PyTuple ? size.items : undefined;
    const isShape = shape !== undefined && shape.length <= 64 &&
      shape.every((n) => Number.isSafeInteger(n) && n as number >= 0);
    if (!isShape || !(type instanceof NumpyType) || !(bytes instanceof Uint8Array)) {
      throw this.bad("an array of NumPy has no shape, dtype and bytes");
    }
    const { dtype } = type, sizes = shape as readonly number[];
    if (bytes.length !== prod(sizes) * dtype.itemsize) {
      throw this.bad(`an array of NumPy of shape [${sizes.join(", ")}] and dtype ${dtype} has ${bytes.length} bytes`);
    }
    this.found = { dtype, shape: sizes, isFortran: isFortran === true && sizes.length > 1, bytes };
  }
}

/** What a value is for who reads the file, where it is of this file; undefined for others. */
export function plainPart(x: unknown): unknown {
  return x instanceof Namespace ? x.values : undefined;
}

/** The globals of these values, by name. */
export function pythonGlobals(bad: Bad, dictionary: (args: readonly unknown[]) => Map<unknown, unknown>): PyGlobal[] {
  const out: PyGlobal[] = [];
  const add = (names: readonly string[], call?: (args: readonly unknown[]) => unknown): void => {
    for (const name of names) out.push(new PyGlobal(name, call));
  };
  const builtins = (name: string): string[] => [`builtins.${name}`, `__builtin__.${name}`];
  const listOf = ([x]: readonly unknown[]): unknown[] => {
    if (x === undefined) return [];
    if (!Array.isArray(x) && !(x instanceof PyTuple)) throw bad("a set is made of no list");
    return [...(x instanceof PyTuple ? x.items : x)];
  };
  const numbers = (args: readonly unknown[]): unknown[] => {
    if (!args.every((x) => x === null || typeof x === "number")) throw bad("a slice or complex number has no numbers");
    return [...args];
  };
  add([...builtins("set"), ...builtins("frozenset")], listOf);
  add(builtins("complex"), (args) => {
    const [re = 0, im = 0] = numbers(args);
    return new Map<unknown, unknown>([["re", re], ["im", im]]);
  });
  add(builtins("slice"), numbers);
  add(builtins("bytearray"), ([x]) => x instanceof Uint8Array ? x : new Uint8Array());
  // the class of missing values is of no use here; Counter is made of a dictionary, defaultdict gets its items later
  add(["collections.defaultdict"], () => new Map());
  add(["collections.Counter"], ([x]) => x instanceof Map ? x : dictionary([x]));
  for (const name of ["int", "long", "float", "list", "dict", "str", "bool"]) add(builtins(name));
  add(["argparse.Namespace", "types.SimpleNamespace"], () => new Namespace(new Map(), bad));
  for (const module of ["pathlib", "pathlib._local"]) {
    for (const name of ["Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"]) {
      add([`${module}.${name}`], (args) => {
        if (!args.every((x) => typeof x === "string")) throw bad("a path is made of no text");
        return args.join("/").replace(/^\/\//, "/");
      });
    }
  }
  add(["numpy.ndarray"]);
  add(["numpy.dtype"], ([code]) => {
    if (typeof code !== "string") throw bad("a dtype of NumPy has no name");
    return new NumpyType(code, bad);
  });
  for (const module of ["numpy.core.multiarray", "numpy._core.multiarray"]) {
    add([`${module}._reconstruct`], () => new NumpyArray(bad));
    add([`${module}.scalar`], ([type, bytes]) => {
      if (!(type instanceof NumpyType) || !(bytes instanceof Uint8Array)) throw bad("a number of NumPy has no bytes");
      const { dtype } = type;
      if (dtype.isComplex || dtype.itemsize < 4 && dtype.isFloat || bytes.length !== dtype.itemsize) {
        throw bad(`it has a number of NumPy of ${dtype} in ${bytes.length} bytes`);
      }
      if (dtype.isBool) return bytes[0] !== 0;
      const x: unknown = new (arrayClass<Float64Array>(dtype))(bytes.slice().buffer)[0];
      return typeof x === "bigint" && Number.isSafeInteger(Number(x)) ? Number(x) : x;
    });
  }
  return out;
}

/** What to do about a global that is not on the list. */
export function wayAround(name: string): string {
  if (/_rebuild_sparse/.test(name)) return "call .to_dense() on it before it is saved";
  if (/_rebuild_qtensor/.test(name)) return "call .dequantize() on it before it is saved";
  if (/_rebuild_meta/.test(name)) return "a tensor of the meta device has no values";
  return "save what is plain, in Python torch.save(model.state_dict(), path)";
}
