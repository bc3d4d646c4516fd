/**
 * The arguments and results of a jit function as trees: which tensors and bound variables they hold, and a key of
 * everything else. Objects of any class, arrays, maps and sets are walked; cycles are followed once.
 *
 * @module
 */
import { JitError } from "../../helpers/errors.ts";
import { argOf } from "../../uop/core/args.ts";
import { opName, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { extentsOf, isBoundNode } from "../../uop/graph/extent.ts";
import { TensorBase } from "../handle/base.ts";
import { RANDOM_VARIABLES } from "../nodes/random.ts";

/** A tree taken apart. */
export interface Leaves {
  /** In the order of the tree. */
  readonly tensors: readonly TensorBase[];
  /** Equal for trees that differ at most in the memory of their tensors and the values of their variables. */
  readonly key: string;
  /** Values of the bound variables in it, by name. */
  readonly bound: ReadonlyMap<string, number>;
}

/** Numbers of an array argument that may be part of a key. */
const MAX_NUMBERS = 4096;

const identities = new WeakMap<object, number>();
let nextIdentity = 1;

function identityOf(x: object): number {
  let id = identities.get(x);
  if (id === undefined) identities.set(x, id = nextIdentity++);
  return id;
}

/** Whether a tensor's node is a variable of the user's, or arithmetic of such: a number that calls may differ in. */
function isBound(u: UOp): boolean {
  return isBoundNode(u) && !RANDOM_VARIABLES.includes(firstName(u));
}

function firstName(u: UOp): string {
  while (u.op !== Ops.BIND) u = u.src.find((s) => s.op !== Ops.CONST)!;
  return argOf(u.src[0], Ops.VARIABLE).name;
}

const NONE: ReadonlyMap<string, number> = new Map();

/** Runs in each call of a jit function, most of which have tensors alone. */
class Walk implements Leaves {
  readonly tensors: TensorBase[] = [];
  key = "";
  private values: Map<string, number> | undefined = undefined;
  private readonly inside: object[] = [];

  constructor(private readonly action: string) {}

  get bound(): ReadonlyMap<string, number> {
    return this.values ?? NONE;
  }

  visit(x: unknown): void {
    if (x instanceof TensorBase) {
      const u = x.uop;
      if (isBound(u)) return this.expression(u);
      this.tensors.push(x);
      this.key += "T,";
      const extents = extentsOf(u);
      if (extents !== null) { for (const e of extents) if (e !== undefined) this.expression(e); }
    } else if (typeof x === "object" && x !== null) this.branch(x);
    else if (typeof x === "function") this.key += `f${identityOf(x)},`;
    else if (typeof x === "string") this.key += `${JSON.stringify(x)},`;
    else this.key += `${(typeof x)[0]}${Object.is(x, -0) ? "-0" : String(x)},`;
  }

  private branch(x: object): void {
    const { inside } = this, outer = inside.indexOf(x);
    if (outer >= 0) return void (this.key += `^${outer},`);
    inside.push(x);
    if (Array.isArray(x)) {
      this.key += "[";
      for (let i = 0; i < x.length; i++) this.visit(x[i]);
      this.key += "],";
    } else if (ArrayBuffer.isView(x) || x instanceof ArrayBuffer) this.bytes(x);
    else if (x instanceof Map) {
      this.key += "M(";
      for (const [k, v] of x) {
        this.visit(k);
        this.visit(v);
      }
      this.key += "),";
    } else if (x instanceof Set) {
      this.key += "S(";
      for (const v of x) this.visit(v);
      this.key += "),";
    } else if (x instanceof Date) this.key += `D${x.getTime()},`;
    else {
      const type = x.constructor;
      this.key += type === Object || type === undefined ? "{" : `${type.name}{`;
      for (const name of Object.keys(x)) {
        this.key += `${JSON.stringify(name)},`;
        this.visit((x as Record<string, unknown>)[name]);
      }
      this.key += "},";
    }
    inside.pop();
  }

  private bytes(x: ArrayBufferView | ArrayBuffer): void {
    const name = x.constructor.name;
    const numbers = Array.isArray(x) || !("length" in x) ? undefined : x as unknown as ArrayLike<number>;
    if (numbers === undefined || numbers.length > MAX_NUMBERS) {
      throw new JitError(this.action, {
        reason: `an argument is a ${name} of ${x.byteLength} bytes, whose values would be part of the key; ` +
          "pass a tensor: new Tensor(values)",
      });
    }
    const texts = Array.from(numbers, (v) => Object.is(v, -0) ? "-0" : String(v));
    this.key += `${name}(${texts.join()}),`;
  }

  /** A bound variable, or arithmetic of such: its form is part of the key, values are not. */
  private expression(u: UOp): void {
    if (u.op === Ops.BIND) {
      const { name, min, max } = argOf(u.src[0], Ops.VARIABLE), value = u.src[1].value;
      const known = this.values?.get(name);
      if (known !== undefined && known !== value) {
        throw new JitError(this.action, {
          reason: `its arguments bind variable ${name} to ${known} and to ${value}; use two variables`,
        });
      }
      (this.values ??= new Map()).set(name, value);
      this.key += `V${name}[${min},${max}],`;
    } else if (u.op === Ops.CONST) this.key += `${u.arg},`;
    else {
      this.key += `${opName[u.op]}(`;
      for (const s of u.src) this.expression(s);
      this.key += "),";
    }
  }
}

/** Takes a tree apart. @throws {JitError} for a variable with two values, and arrays of numbers too long for a key */
export function leavesOfTree(tree: unknown, action: string): Leaves {
  const walk = new Walk(action);
  walk.visit(tree);
  return walk;
}

/** Runs for each result of a jit function, most of which are lists of tensors. */
class Replacing {
  /** Branches that are open, and their copies. */
  private readonly open: object[] = [];
  private readonly copies: unknown[] = [];

  constructor(
    private readonly next: (t: TensorBase) => TensorBase,
    private readonly number: (t: TensorBase) => TensorBase,
  ) {}

  visit(x: unknown): unknown {
    if (x instanceof TensorBase) return isBound(x.uop) ? this.number(x) : this.next(x);
    if (typeof x !== "object" || x === null || ArrayBuffer.isView(x) || x instanceof Date) return x;
    const outer = this.open.indexOf(x);
    if (outer >= 0) return this.copies[outer];
    this.open.push(x);
    const made = this.branch(x);
    this.open.pop();
    this.copies.pop();
    return made;
  }

  /** A copy of what has just been opened; itself where nothing was replaced. */
  private branch(x: object): unknown {
    let changed = false;
    const one = (v: unknown): unknown => {
      const made = this.visit(v);
      changed ||= made !== v;
      return made;
    };
    if (Array.isArray(x)) {
      const copy: unknown[] = [];
      this.copies.push(copy);
      for (let i = 0; i < x.length; i++) copy.push(one(x[i]));
      return changed ? copy : x;
    }
    if (x instanceof Map) {
      const copy = new Map<unknown, unknown>();
      this.copies.push(copy);
      for (const [k, v] of x) copy.set(one(k), one(v));
      return changed ? copy : x;
    }
    if (x instanceof Set) {
      const copy = new Set<unknown>();
      this.copies.push(copy);
      for (const v of x) copy.add(one(v));
      return changed ? copy : x;
    }
    const copy = Object.create(Object.getPrototypeOf(x)) as Record<string, unknown>;
    this.copies.push(copy);
    for (const name of Object.keys(x)) copy[name] = one((x as Record<string, unknown>)[name]);
    return changed ? copy : x;
  }
}

/**
 * The same tree with its tensors replaced, in the order of {@linkcode leavesOfTree}, and its bound variables by `number`;
 * objects keep their class, and what holds no tensor is itself.
 */
export function replaceTensors(
  tree: unknown,
  next: (t: TensorBase) => TensorBase,
  number: (t: TensorBase) => TensorBase = (t) => t,
): unknown {
  return new Replacing(next, number).visit(tree);
}
