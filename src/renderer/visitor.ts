/**
 * The walk over a linear program that all writers share: what each uop is (a leaf, an accumulator, an access, a loop, a
 * value), where AFTER leads, what an address is made of, and which value a uop has. A language says what each becomes.
 *
 * @module
 */
import { SpecError } from "../helpers/errors.ts";
import { argOf } from "../uop/core/args.ts";
import { opName, Ops } from "../uop/core/ops.ts";
import type { UOp } from "../uop/core/uop.ts";
import { baseOf, throughAfter } from "../uop/rewrite/walk.ts";
import type { LinearProgram } from "./renderer.ts";

/** What a LOAD or STORE names: an element of a buffer argument or of kernel-local memory. */
export interface Place {
  /** The INDEX. */
  readonly at: UOp;
  /** PARAM or LOCAL. */
  readonly base: UOp;
  /** In elements of the base. */
  readonly index: UOp;
  /** The bool without which nothing is touched. */
  readonly gate: UOp | undefined;
}

/** Is it memory of the kernel that the threads of a group share? */
export function isShared(u: UOp): boolean {
  return u.op === Ops.LOCAL && argOf(u, Ops.LOCAL).scope === "shared";
}

/**
 * Writes one program: `V` is what the language calls a value (a name, a register, a node). Methods that give one have it
 * kept; undefined where the language keeps it elsewhere, or there is none.
 */
export abstract class LinearVisitor<V> {
  /** The values so far. */
  protected readonly values: Map<UOp, V> = new Map();

  /** A walk over one program. @param name of the language, as errors say it */
  constructor(readonly program: LinearProgram, private readonly name: string) {}

  /** A CONST. */
  protected abstract constant(u: UOp): V;
  /** A buffer argument. */
  protected abstract param(u: UOp): V | undefined;
  /** A scalar argument. */
  protected abstract variable(u: UOp): V;
  /** Memory of the kernel. */
  protected abstract local(u: UOp): V | undefined;
  /** Declares an ACC with its first value, `u.src[0]`. */
  protected abstract acc(u: UOp): V | undefined;
  /** The value of an ACC at the LOAD `u`. */
  protected abstract readAcc(u: UOp, acc: UOp): V | undefined;
  /** Another value for an ACC. */
  protected abstract writeAcc(acc: UOp, value: UOp): void;
  /** A LOAD from memory; where its gate is false `u.src[1]`, or 0 without that. */
  protected abstract load(u: UOp, place: Place): V | undefined;
  /** A STORE of `value` to memory. */
  protected abstract store(value: UOp, place: Place): void;
  /** Opens the loop of a RANGE; its counter. */
  protected abstract enterLoop(u: UOp): V;
  /** Closes it. */
  protected abstract leaveLoop(range: UOp): void;
  /** Opens what is done where `u.src[0]` is true. */
  protected abstract enterIf(u: UOp): void;
  /** Closes it. */
  protected abstract leaveIf(u: UOp): void;
  /** Elementwise ops, vectors, and what threads do together. */
  protected abstract compute(u: UOp): V | undefined | void;
  /** A hardware index. */
  protected special(u: UOp): V {
    return this.unknown(u);
  }
  /** Waits for the other threads of the group, where there are some. */
  protected barrier(): void {}
  /** What an address has to know before it is used. */
  protected index(_u: UOp): void {}
  /** The value of a uop that none is kept of. */
  protected unlisted(u: UOp): V {
    throw new SpecError(`${opName[u.op]} is used before it stands in the program ${this.program.name}`);
  }

  /** The value of a uop. */
  protected value(u: UOp): V {
    const x = throughAfter(u), known = this.values.get(x);
    if (known !== undefined) return known;
    return x.op === Ops.CONST ? this.constant(x) : this.unlisted(x);
  }

  /** What an address names. */
  protected placeOf(u: UOp): Place {
    const at = throughAfter(u);
    if (at.op !== Ops.INDEX) throw new SpecError(`${opName[at.op]} is no address in the program ${this.program.name}`);
    return { at, base: baseOf(at), index: at.src[1], gate: at.src.length > 2 ? at.src[2] : undefined };
  }

  /** Refuses a uop. */
  protected unknown(u: UOp): never {
    throw new SpecError(`${this.name} cannot write ${opName[u.op]}`);
  }

  /** Writes all uops in their order. */
  protected walk(): void {
    for (const u of this.program.uops) {
      const value = this.visit(u);
      if (value !== undefined) this.values.set(u, value as V);
    }
  }

  /** What becomes of one uop. */
  private visit(u: UOp): V | undefined | void {
    switch (u.op) {
      case Ops.CONST:
      case Ops.SINK:
      case Ops.GROUP:
      case Ops.TUPLE:
      case Ops.AFTER:
        return;
      case Ops.PARAM:
        return this.param(u);
      case Ops.VARIABLE:
        return this.variable(u);
      case Ops.SPECIAL:
        return this.special(u);
      case Ops.LOCAL:
        return this.local(u);
      case Ops.ACC:
        return this.acc(u);
      case Ops.INDEX:
        return this.index(u);
      case Ops.LOAD: {
        const from = throughAfter(u.src[0]);
        return from.op === Ops.ACC ? this.readAcc(u, from) : this.load(u, this.placeOf(from));
      }
      case Ops.STORE: {
        const to = throughAfter(u.src[0]);
        if (to.op === Ops.ACC) return this.writeAcc(to, u.src[1]);
        const place = this.placeOf(to);
        if (place.gate !== undefined) throw new SpecError(`A gated STORE in the program ${this.program.name}`);
        return this.store(u.src[1], place);
      }
      case Ops.RANGE:
        return this.enterLoop(u);
      case Ops.END:
        return this.leaveLoop(u.src[0]);
      case Ops.IF:
        return this.enterIf(u);
      case Ops.ENDIF:
        return this.leaveIf(u.src[0]);
      case Ops.BARRIER:
        return this.barrier();
      default:
        return this.compute(u);
    }
  }
}
