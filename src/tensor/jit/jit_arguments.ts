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

/** Whether a tensor is a variable of the user's, or arithmetic of such: a number that calls may differ in. */
function isBound(t: TensorBase): boolean {
  return isBoundNode(t.uop) && !RANDOM_VARIABLES.includes(firstName(t.uop));
}

function firstName(u: UOp): string {
  while (u.op !== Ops.BIND) u = u.src.find((s) => s.op !== Ops.CONST)!;
  return argOf(u.src[0], Ops.VARIABLE).name;
}

class Walk {
  readonly tensors: TensorBase[] = [];
  readonly parts: string[] = [];
  readonly bound = new Map<string, number>();
  private readonly inside: object[] = [];

  constructor(private readonly action: string) {}

  visit(x: unknown): void {
    const { parts } = this;
    if (x instanceof TensorBase) {
      if (isBound(x)) this.expression(x.uop);
      else {
        this.tensors.push(x);
        parts.push("T");
        for (const e of extentsOf(x.uop) ?? []) if (e !== undefined) this.expression(e);
      }
    } else if (typeof x === "object" && x !== null) this.branch(x);
    else if (typeof x === "function") parts.push(`f${identityOf(x)}`);
    else if (typeof x === "string") parts.push(JSON.stringify(x));
    else parts.push(`${(typeof x)[0]}${Object.is(x, -0) ? "-0" : String(x)}`);
  }

  private branch(x: object): void {
    const { parts, inside } = this;
    const outer = inside.indexOf(x);
    if (outer >= 0) return void parts.push(`^${outer}`);
    if (ArrayBuffer.isView(x) || x instanceof ArrayBuffer) return this.bytes(x);
    inside.push(x);
    if (Array.isArray(x)) {
      parts.push("[");
      for (let i = 0; i < x.length; i++) this.visit(x[i]);
      parts.push("]");
    } else if (x instanceof Map) {
      parts.push("M(");
      for (const [k, v] of x) {
        this.visit(k);
        this.visit(v);
      }
      parts.push(")");
    } else if (x instanceof Set) {
      parts.push("S(");
      for (const v of x) this.visit(v);
      parts.push(")");
    } else if (x instanceof Date) parts.push(`D${x.getTime()}`);
    else {
      const type = x.constructor;
      parts.push(type === Object || type === undefined ? "{" : `${type.name}{`);
      for (const name of Object.keys(x)) {
        parts.push(JSON.stringify(name));
        this.visit((x as Record<string, unknown>)[name]);
      }
      parts.push("}");
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
    this.parts.push(`${name}(${texts.join()})`);
  }

  /** A bound variable, or arithmetic of such: its form is part of the key, values are not. */
  private expression(u: UOp): void {
    if (u.op === Ops.BIND) {
      const { name, min, max } = argOf(u.src[0], Ops.VARIABLE), value = u.src[1].value;
      const known = this.bound.get(name);
      if (known !== undefined && known !== value) {
        throw new JitError(this.action, {
          reason: `its arguments bind variable ${name} to ${known} and to ${value}; use two variables`,
        });
      }
      this.bound.set(name, value);
      this.parts.push(`V${name}[${min},${max}]`);
    } else if (u.op === Ops.CONST) this.parts.push(String(u.arg));
    else {
      this.parts.push(`${opName[u.op]}(`);
      for (const s of u.src) this.expression(s);
      this.parts.push(")");
    }
  }
}

/** Takes a tree apart. @throws {JitError} for a variable with two values, and arrays of numbers too long for a key */
export function leavesOfTree(tree: unknown, action: string): Leaves {
  const walk = new Walk(action);
  walk.visit(tree);
  return { tensors: walk.tensors, key: walk.parts.join(","), bound: walk.bound };
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
  const copies = new Map<object, unknown>();
  /** Fills `copy` with what `fill` visits; gives `x` where nothing was replaced. */
  const copied = <T>(x: object, copy: T, fill: (copy: T, visit: (v: unknown) => unknown) => void): unknown => {
    let changed = false;
    copies.set(x, copy);
    fill(copy, (v) => {
      const made = visit(v);
      changed ||= made !== v;
      return made;
    });
    copies.delete(x);
    return changed ? copy : x;
  };
  const visit = (x: unknown): unknown => {
    if (x instanceof TensorBase) return isBound(x) ? number(x) : next(x);
    if (typeof x !== "object" || x === null || ArrayBuffer.isView(x) || x instanceof Date) return x;
    if (copies.has(x)) return copies.get(x);
    if (Array.isArray(x)) {
      return copied(x, [] as unknown[], (copy, one) => {
        for (let i = 0; i < x.length; i++) copy.push(one(x[i]));
      });
    }
    if (x instanceof Map) {
      return copied(x, new Map<unknown, unknown>(), (copy, one) => {
        for (const [k, v] of x) copy.set(one(k), one(v));
      });
    }
    if (x instanceof Set) {
      return copied(x, new Set<unknown>(), (copy, one) => {
        for (const v of x) copy.add(one(v));
      });
    }
    return copied(x, Object.create(Object.getPrototypeOf(x)) as Record<string, unknown>, (copy, one) => {
      for (const name of Object.keys(x)) copy[name] = one((x as Record<string, unknown>)[name]);
    });
  };
  return visit(tree);
}
