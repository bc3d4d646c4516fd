/**
 * Programs of the JS device without code from text, for pages whose policy forbids it (a `script-src` without
 * 'unsafe-eval'): each UOp becomes a closure that works on a frame of values, each loop one that runs a list of closures.
 * It computes, checks and counts exactly what codegen.ts writes; several times slower.
 *
 * @module
 */
import type { DType } from "../../src/dtype/dtype.ts";
import { CompileError } from "../../src/helpers/errors.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import type { Place } from "../../src/renderer/visitor.ts";
import { argOf, AxisKind, type ConstValue } from "../../src/uop/core/args.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import { worksTogether } from "./grid.ts";
import { decoding, encoding, flopsOf, type Form, isBig, LaneVisitor, type Value, valueOf } from "./js_lanes.ts";
import { check, type Kernel } from "./js_runtime.ts";

type Memory = { [at: number]: Value };
/** One launch: the lanes of all values, and what the kernel was given. */
interface Frame {
  readonly values: Value[];
  readonly bufs: readonly Memory[];
  readonly vars: readonly Value[];
  readonly locals: readonly Memory[];
  readonly begin: number;
  readonly end: number;
  readonly count: { read: number; written: number; flops: number };
}
type Step = (f: Frame) => void;

function all(steps: readonly Step[]): Step {
  return (f) => {
    for (let i = 0; i < steps.length; i++) steps[i](f);
  };
}

/** Where an INDEX points: its memory, and the slots of its position and gate. */
interface Address {
  readonly name: string;
  readonly memory: (f: Frame) => Memory;
  readonly at: number;
  readonly gate: number | undefined;
  readonly size: number;
  readonly isGlobal: boolean;
}

/** Turns one program into closures; a lane is called by its slot in the frame. */
class Interpreter extends LaneVisitor<number> {
  /** What a frame starts with: the constants. */
  readonly initial: Value[] = [];
  /** The steps of the open blocks, and how each is closed. */
  private readonly blocks: { steps: Step[]; close: (body: Step) => Step }[] = [];
  private steps: Step[] = [];

  private open(close: (body: Step) => Step): void {
    this.blocks.push({ steps: this.steps, close });
    this.steps = [];
  }
  protected close(): void {
    const body = all(this.steps), { steps, close } = this.blocks.pop()!;
    steps.push(close(body));
    this.steps = steps;
  }

  private make(count: number): readonly number[] {
    return Array.from({ length: count }, () => this.initial.push(0) - 1);
  }
  protected literal(d: DType, value: ConstValue): number {
    return this.initial.push(valueOf(d, value)) - 1;
  }

  private address({ base, index, gate: condition }: Place): Address {
    const [at] = this.value(index), gate = condition && this.value(condition)[0];
    if (base.op === Ops.PARAM) {
      const { slot, size } = argOf(base, Ops.PARAM);
      return { name: `b${slot}`, memory: (f) => f.bufs[slot], at, gate, size, isGlobal: true };
    }
    const { id, size } = argOf(base, Ops.LOCAL);
    return { name: `local${id}`, memory: (f) => f.locals[id], at, gate, size, isGlobal: false };
  }

  private copy(from: readonly number[], to: readonly number[]): readonly number[] {
    this.steps.push(({ values }) => {
      for (let l = 0; l < to.length; l++) values[to[l]] = values[from[l]];
    });
    return to;
  }

  protected variable(u: UOp): readonly number[] {
    const position = this.program.vars.indexOf(u), made = this.make(1), [slot] = made;
    this.steps.push(({ values, vars }) => {
      values[slot] = vars[position];
    });
    return made;
  }
  protected local(): undefined {}
  protected acc(u: UOp): readonly number[] {
    return this.copy(this.value(u.src[0]), this.make(u.dtype.count));
  }
  protected readAcc(u: UOp, acc: UOp): readonly number[] {
    return this.copy(this.value(acc), this.make(u.dtype.count));
  }
  protected writeAcc(acc: UOp, value: UOp): void {
    this.copy(this.value(value), this.value(acc));
  }

  protected load(u: UOp, place: Place): readonly number[] {
    const { name, memory, at, gate, size, isGlobal } = this.address(place), decode = decoding(place.base.dtype).run;
    const n = u.dtype.count, nbytes = isGlobal ? u.dtype.itemsize : 0;
    const otherwise = u.src.length > 1 ? this.value(u.src[1]) : undefined, zero = valueOf(u.dtype, 0);
    const to = this.make(n);
    this.steps.push((f) => {
      const { values, count } = f;
      if (gate !== undefined && !values[gate]) {
        for (let l = 0; l < n; l++) values[to[l]] = otherwise === undefined ? zero : values[otherwise[l]];
        return;
      }
      const start = Number(values[at]), elements = memory(f);
      check(start, n, size, name);
      count.read += nbytes;
      for (let l = 0; l < n; l++) values[to[l]] = decode(elements[start + l], 0, 0);
    });
    return to;
  }
  protected store(value: UOp, place: Place): void {
    const from = this.value(value), n = from.length, encode = encoding(place.base.dtype).run;
    const { name, memory, at, size, isGlobal } = this.address(place), nbytes = isGlobal ? value.dtype.itemsize : 0;
    this.steps.push((f) => {
      const start = Number(f.values[at]), elements = memory(f);
      check(start, n, size, name);
      f.count.written += nbytes;
      for (let l = 0; l < n; l++) elements[start + l] = encode(f.values[from[l]], 0, 0);
    });
  }

  protected enterLoop(u: UOp): readonly number[] {
    const end = this.value(u.src[0])[0], made = this.make(1), [counter] = made, big = isBig(u.dtype);
    const thread = u.op === Ops.RANGE && argOf(u, Ops.RANGE).kind === AxisKind.THREAD;
    const first = thread ? argOf(u, Ops.RANGE).first : 0;
    this.open((body) => (f) => {
      const { values } = f, count = Number(values[end]), last = thread ? Math.min(f.end - first, count) : count;
      for (let i = thread ? Math.max(f.begin - first, 0) : 0; i < last; i++) {
        values[counter] = big ? BigInt(i) : i;
        body(f);
      }
    });
    return made;
  }
  protected enterIf(u: UOp): void {
    const [gate] = this.value(u.src[0]);
    this.open((body) => (f) => {
      if (f.values[gate]) body(f);
    });
  }

  protected alu(u: UOp, { run }: Form, lanes: readonly (readonly number[])[]): readonly number[] {
    const to = this.make(lanes.length), flops = flopsOf(u);
    lanes.forEach(([x, y = x, z = x], l) => {
      const slot = to[l];
      this.steps.push(({ values }) => {
        values[slot] = run(values[x], values[y], values[z]);
      });
    });
    if (flops > 0) {
      this.steps.push(({ count }) => {
        count.flops += flops;
      });
    }
    return to;
  }

  build(): Step {
    this.walk();
    return all(this.steps);
  }
}

/** A kernel that runs without code from text. @throws {CompileError} for groups of threads, of which only tests make devices */
export function interpretJs(program: LinearProgram): Kernel {
  if (worksTogether(program)) {
    throw new CompileError(`compile kernel ${program.name} for JS`, {
      reason: "threads that work together take code from text, which the policy of this page forbids",
    });
  }
  const interpreter = new Interpreter(program, "JS"), run = interpreter.build(), { initial } = interpreter;
  return (bufs, vars, begin, end, locals, count) => {
    const memory = { bufs: bufs as readonly Memory[], locals: locals as readonly Memory[] };
    run({ values: initial.slice(), vars, begin, end, count, ...memory });
  };
}
