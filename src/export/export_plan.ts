/**
 * The neutral plan of an export: which arrays there are and where each lies, which kernels run on them in which order, and
 * a recorded call to test what is made of it. In: a function of tensors, and arguments for it; out: plain data that belongs
 * to no device. Writers (c_export.ts, wasm_export.ts, web_export.ts, cuda_export.ts) read the plan and nothing else.
 *
 * @module
 */
import { KernelInfo } from "../codegen/opt/opt.ts";
import { Buffer, bufferOf } from "../device/buffer.ts";
import type { DType } from "../dtype/dtype.ts";
import { CompiledKernel, type ExecItem } from "../engine/front/runners.ts";
import { varNamesOf } from "../engine/exec.ts";
import { ExportError } from "../helpers/errors.ts";
import { prod, roundUp } from "../helpers/math.ts";
import { lineText } from "../helpers/stack.ts";
import type { MemoryLayout } from "../device/allocator.ts";
import { planMemory } from "../schedule/order/memory_plan.ts";
import { constOf } from "../uop/algebra/eval.ts";
import { argOf } from "../uop/core/args.ts";
import { TextArg } from "../uop/core/custom_arg.ts";
import { Ops } from "../uop/core/ops.ts";
import { toposort, type UOp, uop, variable } from "../uop/core/uop.ts";
import { rebuild } from "../uop/rewrite/walk.ts";
import { RANDOM_VARIABLES } from "../tensor/nodes/random.ts";
import { type CapturedCall, readBuffer } from "./export_capture.ts";
import { Names } from "./export_names.ts";

/** What an array is to the caller: given, filled, read only, kept from call to call, or of one call alone. */
export type Space = "input" | "output" | "weight" | "state" | "arena";

/** Memory that kernels use. */
export interface PlanArray {
  /** Unique in the plan; a name in C. */
  readonly name: string;
  /** Where it lies. */
  readonly space: Space;
  /** Of its elements. */
  readonly dtype: DType;
  /** In elements; with symbolic sizes, at most. */
  readonly size: number;
  /** As the caller sees it; sizes that may vary are the largest. */
  readonly shape: readonly number[];
  /** Bytes from the start of the weights or of the state; where in the arena is the writer's to choose. */
  readonly offset: number;
  /** The layer that it is a weight of: its name without the last part. */
  readonly layer: string | undefined;
  /** An input that the function assigns to. */
  readonly isWritten: boolean;
  /** What it holds in the beginning: of weights and state. */
  readonly data: Uint8Array | undefined;
}

/** An array, or a part of one, from byte `offset` on. */
export interface PlanPart {
  /** The position of what it is a part of in `arrays`. */
  readonly array: number;
  /** Bytes from its begin. */
  readonly offset: number;
  /** Of its elements. */
  readonly dtype: DType;
  /** Elements. */
  readonly size: number;
}

/** What a scalar argument of a kernel is in a call. */
export type PlanScalar =
  | { readonly kind: "variable"; readonly name: string }
  /** The counter of random numbers plus an offset, its low 32 bits. */
  | { readonly kind: "counter"; readonly offset: number }
  | { readonly kind: "counterHigh" }
  /** A word of the seed: 0 the high one, 1 the low one. */
  | { readonly kind: "seed"; readonly word: 0 | 1 };

/** A kernel, by its structure alone. */
export interface PlanKernel {
  /** What it computes. */
  readonly ast: UOp;
  /** The user's line of the first step that runs it. */
  readonly line: string | undefined;
  /** Which of its arguments it writes. */
  readonly writes: readonly boolean[];
  /** Operations on floats in a run, at the largest sizes. */
  readonly flops: number;
}

/** One thing after the other. */
export type PlanStep =
  | {
    readonly kind: "kernel";
    readonly kernel: number;
    readonly parts: readonly PlanPart[];
    /** By the name of the variable in the kernel. */
    readonly scalars: ReadonlyMap<string, PlanScalar>;
    readonly line: string | undefined;
  }
  | { readonly kind: "copy"; readonly to: PlanPart; readonly from: PlanPart; readonly nbytes: number };

/** A size that calls may differ in. */
export interface PlanVariable {
  /** As in the function. */
  readonly name: string;
  /** The least value, inclusive. */
  readonly min: number;
  /** The largest value, inclusive. */
  readonly max: number;
}

/** A call as it was when it was recorded. */
export interface PlanTest {
  /** Of each input and output, by the number of the array. */
  readonly inputs: ReadonlyMap<number, Uint8Array>;
  /** Bytes of outputs, by position in `arrays`. */
  readonly outputs: ReadonlyMap<number, Uint8Array>;
  /** Leading elements of an output that are compared: those beyond a symbolic size are undefined. */
  readonly counts: ReadonlyMap<number, number>;
  /** Sizes by name. */
  readonly variables: ReadonlyMap<string, number>;
  /** Random numbers before it. */
  readonly counter: number;
  /** What random numbers followed from. */
  readonly seed: bigint;
}

/** All that writers are told. */
export interface ExportPlan {
  /** What this is. */
  readonly format: "dinograd plan";
  /** Of the format. */
  readonly version: 1;
  /** Of files and functions. */
  readonly name: string;
  /** All memory. */
  readonly arrays: readonly PlanArray[];
  /** Each once. */
  readonly kernels: readonly PlanKernel[];
  /** What runs, in this order. */
  readonly steps: readonly PlanStep[];
  /** Arguments of a run besides arrays. */
  readonly variables: readonly PlanVariable[];
  /** Random numbers that a call draws. */
  readonly draws: number;
  /** Bytes of all weights. */
  readonly weightBytes: number;
  /** Bytes of what runs leave for later ones. */
  readonly stateBytes: number;
  /** The recorded call. */
  readonly test: PlanTest;
}

/** Weights, and what else has a place of its own, begin at multiples of this. */
export const EXPORT_ALIGN = 64;

/** The arrays of a space, with their numbers. */
export function arraysOf(plan: ExportPlan, space: Space): [number: number, array: PlanArray][] {
  return [...plan.arrays.entries()].filter(([, a]) => a.space === space);
}

/** The weights, and then the state in the beginning, as the file beside an export holds them. */
export function weightFile(plan: ExportPlan): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(plan.weightBytes + plan.stateBytes);
  for (const a of plan.arrays) {
    if (a.data !== undefined) out.set(a.data, a.space === "state" ? plan.weightBytes + a.offset : a.offset);
  }
  return out;
}

/** Where each array of the arena lies: a block and an offset in it. Blocks are one where `arenas`, else one a buffer. */
export function placesOf(plan: ExportPlan, layout: MemoryLayout): {
  readonly blocks: readonly number[];
  readonly places: ReadonlyMap<number, { readonly block: number; readonly offset: number }>;
} {
  const inner = arraysOf(plan, "arena"), at = new Map(inner.map(([n], i) => [n, i]));
  const partsOf = (s: PlanStep): readonly PlanPart[] => s.kind === "kernel" ? s.parts : [s.to, s.from];
  const { blocks, places } = planMemory({
    entries: inner.map(([, a]) => (
      { device: "", dtype: a.dtype, size: a.size, slot: undefined, kept: false, view: undefined }
    )),
    items: plan.steps.map((s) => ({ entries: partsOf(s).flatMap((p) => at.get(p.array) ?? []) })),
  }, () => layout);
  return {
    blocks: blocks.map((b) => b.nbytes),
    places: new Map(inner.flatMap(([n], i) => places[i] === undefined ? [] : [[n, places[i]!]])),
  };
}

/** A plan while it is made. */
class Planner {
  readonly arrays: PlanArray[] = [];
  readonly kernels: PlanKernel[] = [];
  readonly steps: PlanStep[] = [];
  readonly variables = new Map<string, PlanVariable>();
  private readonly kernelAt = new Map<UOp, number>();
  private readonly arrayAt = new Map<Buffer, number>();
  private readonly names = new Names();
  private readonly bytes = { weight: 0, state: 0 };

  /** Of the call that is planned now. */
  private call: CapturedCall;

  constructor(private readonly action: string, private readonly calls: readonly CapturedCall[]) {
    this.call = calls[0];
  }

  /** Begins with the next call: what it is given and gives has names of its own, weights and state are shared. */
  begin(call: CapturedCall): void {
    this.call = call;
    this.given = new Names();
    this.steps.length = 0;
    this.variables.clear();
    this.variableNames.clear();
    for (const { name } of call.variables) this.variableName(name);
  }
  private given = new Names();
  private readonly variableNames = new Map<string, string>();

  /** What a variable is called in the export: no array that this call is given or gives has that name. */
  variableName(name: string): string {
    let known = this.variableNames.get(name);
    if (known === undefined) this.variableNames.set(name, known = this.given.take(name));
    return known;
  }

  private add(wanted: string, space: Space, like: { readonly dtype: DType; readonly size: number }, more: {
    readonly shape?: readonly number[];
    readonly isWritten?: boolean;
    readonly data?: Uint8Array;
  } = {}): number {
    const { dtype, size } = like, { shape = [size], isWritten = false, data } = more;
    let offset = 0;
    if (space === "weight" || space === "state") {
      offset = this.bytes[space];
      this.bytes[space] = roundUp(offset + size * dtype.itemsize, EXPORT_ALIGN);
    }
    const dot = wanted.lastIndexOf("."), layer = dot < 0 ? undefined : wanted.slice(0, dot);
    const names = space === "input" || space === "output" ? this.given : this.names;
    this.arrays.push({ name: names.take(wanted), layer, space, dtype, size, shape, offset, isWritten, data });
    return this.arrays.length - 1;
  }
  private whole(array: number): PlanPart {
    const { dtype, size } = this.arrays[array];
    return { array, offset: 0, dtype, size };
  }

  /** Arrays of all that has a name: arguments, results, and what the function closes over. */
  async nameArrays(): Promise<{ readonly inputs: number[]; readonly outputs: number[] }> {
    const { call } = this, { replay } = call.captured;
    const inputs = call.inputs.map(({ name, tensor, buffer, isWritten }) =>
      this.add(name, "input", buffer, { shape: tensor.shape, isWritten })
    );
    const outputs = call.outputs.map(({ name, tensor, storage }) =>
      this.add(name, "output", storage, { shape: tensor.shape })
    );
    const targets = new Set(this.calls.flatMap((c) => [...c.captured.replay.targets]));
    for (const s of [...replay.held, ...replay.constants]) {
      const base = bufferOf(s)?.base;
      if (base === undefined || this.arrayAt.has(base)) continue;
      const isState = [...targets].some((t) => bufferOf(t)?.base === base), known = call.names.get(base);
      const wanted = known?.name ?? (isState ? "state" : replay.constants.includes(s) ? "constant" : "weight");
      const data = call.before.get(base) ?? await readBuffer(base);
      const shape = known !== undefined && prod(known.shape) === base.size ? known.shape : [base.size];
      this.arrayAt.set(base, this.add(wanted, isState ? "state" : "weight", base, { shape, data }));
    }
    return { inputs, outputs };
  }

  /** Sources of a replay as arrays, and copies that go around: results that are older than the call, gradients that go on. */
  sources(inputs: readonly number[], outputs: readonly number[]): { bySource: Map<number, number>; after: PlanStep[] } {
    const { captured, outputs: results } = this.call, bySource = new Map<number, number>(), after: PlanStep[] = [];
    inputs.forEach((array, i) => bySource.set(i, array));
    const count = inputs.length, firsts = new Map<number, number>();
    const copy = (to: number, from: PlanPart): void => {
      const { size, dtype } = this.arrays[to];
      after.push({ kind: "copy", to: this.whole(to), from, nbytes: size * dtype.itemsize });
    };
    captured.outputs.forEach((o, i) => {
      const known = firsts.get(o.first), array = i < results.length ? outputs[i] : undefined;
      if (!o.fresh) {
        if (array === undefined) return;
        if (o.input >= 0) return copy(array, this.whole(inputs[o.input]));
        return copy(array, this.partOf(bufferOf(o.storage)!, undefined));
      }
      if (known !== undefined && i !== o.first) {
        if (array !== undefined) copy(array, this.whole(known));
        return;
      }
      const at = array ?? this.add("gradient", "arena", o.storage, { shape: o.tensor.shape });
      firsts.set(o.first, at);
      bySource.set(count + o.first, at);
    });
    for (const [i, s] of captured.states.entries()) {
      if (s.from !== undefined) {
        throw new ExportError(this.action, {
          reason:
            "it moves a tensor from one place to another in each call (replace, or gradients that change places); " +
            "use assign",
        });
      }
      if (s.input < 0) continue;
      const { buffer, data } = this.call.found.get(i)!, isKept = s.output >= 0;
      const array = this.add("gradient", isKept ? "state" : "weight", buffer, { data });
      bySource.set(s.input, array);
      if (!isKept) continue;
      const from = firsts.get(captured.outputs[s.output].first);
      if (from !== undefined) copy(array, this.whole(from));
    }
    return { bySource, after };
  }

  /** What a buffer of a step is. */
  partOf(b: Buffer, source: number | undefined): PlanPart {
    if (source !== undefined) return { array: source, offset: 0, dtype: b.dtype, size: b.size };
    const known = this.arrayAt.get(b.base);
    if (known !== undefined) return { array: known, offset: b.offset, dtype: b.dtype, size: b.size };
    let own = this.arrayAt.get(b);
    if (own === undefined) this.arrayAt.set(b, own = this.add(`t${this.arrayAt.size}`, "arena", b));
    return this.whole(own);
  }

  /** The steps of the replay. */
  async addSteps(bySource: ReadonlyMap<number, number>): Promise<void> {
    let device: string | undefined;
    for (const { items, patches, vars } of this.call.captured.replay.steps) {
      for (const [launch, item] of items.entries()) {
        const sources = new Map(patches.flatMap((p) => {
          return p.launch === launch ? [[p.slot, bySource.get(p.source)!] as const] : [];
        }));
        const parts = item.bufs.map((b, slot) => this.partOf(b, sources.get(slot)));
        const { runner } = item;
        if (runner instanceof CompiledKernel) {
          if (device !== undefined && device !== runner.device) {
            throw new ExportError(this.action, {
              reason: `it computes on ${device} and on ${runner.device}; move all to one device before`,
            });
          }
          device = runner.device;
          const moving = new Map(vars.flatMap((v) => v.launch === launch ? [[v.position, v.value] as const] : []));
          this.addKernel(item, parts, moving);
        } else if (runner.kind === "BufferCopy" || runner.kind === "BufferXfer") {
          if (this.arrays[parts[1].array].space !== "weight" && runner.to !== runner.from) {
            throw new ExportError(this.action, {
              reason: `it copies from ${runner.from} to ${runner.to}; move all to one device before`,
            });
          }
          this.steps.push({ kind: "copy", to: parts[0], from: parts[1], nbytes: item.bufs[0].nbytes });
        } else if (runner.kind === "CustomOp") await this.addFill(item, parts[0]);
      }
    }
  }

  /** What the host fills is the same in each call: a weight, and a copy. */
  private async addFill({ runner, bufs: [b] }: ExecItem, to: PlanPart): Promise<void> {
    const made = new Buffer(b.device, b.dtype, b.size);
    if (runner.kind === "CustomOp") runner.fn([made]);
    const data = await readBuffer(made);
    made.free();
    const from = this.whole(this.add("filled", "weight", b, { data }));
    this.steps.push({ kind: "copy", to, from, nbytes: b.nbytes });
  }

  private addKernel(
    item: ExecItem,
    parts: readonly PlanPart[],
    moving: ReadonlyMap<
      number,
      (call: { buffer(n: number): Buffer; counter: number; bound: Map<string, number> }) => number
    >,
  ): void {
    const runner = item.runner as CompiledKernel, { linear } = runner.program;
    if (runner.ast.arg instanceof TextArg) {
      throw new ExportError(this.action, {
        reason: `kernel ${linear.name} is given as text in ${runner.ast.arg.language}; give it as a function of nodes`,
      });
    }
    const scalars = new Map<string, PlanScalar>(), renamed = new Map<string, string>();
    const names = varNamesOf(item), inKernel = linear.vars.map((v) => argOf(v, Ops.VARIABLE).name);
    const own = new Names("n");
    names.forEach((name, position) => {
      const value = moving.get(position);
      if (value === undefined) return; // the same in all calls
      const word = name.slice(0, name.lastIndexOf("_")), random = RANDOM_VARIABLES.indexOf(word);
      let scalar: PlanScalar;
      if (random === 0) {
        const offset = value({ buffer: () => item.bufs[0], counter: 0, bound: new Map() });
        scalar = { kind: "counter", offset };
      } else if (random === 1) scalar = { kind: "counterHigh" };
      else if (random > 1) scalar = { kind: "seed", word: random === 2 ? 0 : 1 };
      else scalar = { kind: "variable", name: this.variableName(word) };
      const short = own.take(scalar.kind === "variable" ? scalar.name : scalar.kind);
      renamed.set(inKernel[position], short);
      scalars.set(short, scalar);
    });
    const bare = runner.ast.arg instanceof KernelInfo
      ? uop(Ops.SINK, runner.ast.dtype, runner.ast.src, new KernelInfo(runner.ast.arg.name))
      : runner.ast;
    const ast = rebuild(bare, (u) => {
      if (u.op !== Ops.VARIABLE) return undefined;
      const { name, min, max } = argOf(u, Ops.VARIABLE), short = renamed.get(name);
      if (short !== undefined) return variable(short, min, max, u.dtype);
      return constOf(item.vars.get(item.varNames[Number(name.slice(1))]) ?? 0, u.dtype);
    });
    for (const u of toposort([ast])) {
      if (u.op !== Ops.VARIABLE) continue;
      const { name, min, max } = argOf(u, Ops.VARIABLE), scalar = scalars.get(name);
      if (scalar?.kind === "variable") this.variables.set(scalar.name, { name: scalar.name, min, max });
    }
    const line = item.site === undefined ? undefined : lineText(item.site);
    let kernel = this.kernelAt.get(ast);
    if (kernel === undefined) {
      this.kernelAt.set(ast, kernel = this.kernels.length);
      const writes = linear.params.map((p) => p?.writes ?? false);
      this.kernels.push({ ast, line, writes, flops: linear.flops });
    }
    this.steps.push({ kind: "kernel", kernel, parts, scalars, line });
  }

  get sizes(): { readonly weightBytes: number; readonly stateBytes: number } {
    return { weightBytes: this.bytes.weight, stateBytes: this.bytes.state };
  }
}

/** A call of a plan: an entry point of its own. */
export interface PlanEntry {
  /** What it is called; empty for the only one. */
  readonly name: string;
  /** The plan as this entry sees it: arrays that are given to others are not in use. */
  readonly plan: ExportPlan;
}

/** The function that an entry point is; `run` where it is the only one. */
export function entryName({ name }: PlanEntry): string {
  return name || "run";
}

/** The plans of calls that were captured, which share weights and state. @throws {ExportError} for what has no place outside of this process */
export async function planExports(
  action: string,
  name: string,
  calls: readonly (readonly [entry: string, call: CapturedCall])[],
): Promise<PlanEntry[]> {
  const planner = new Planner(action, calls.map(([, call]) => call));
  const made: {
    entry: string;
    own: Set<number>;
    steps: PlanStep[];
    more: Pick<ExportPlan, "variables" | "draws" | "test">;
  }[] = [];
  for (const [entry, call] of calls) {
    planner.begin(call);
    const { inputs, outputs } = await planner.nameArrays();
    const { bySource, after } = planner.sources(inputs, outputs);
    await planner.addSteps(bySource);
    const fill = (list: readonly Uint8Array[], numbers: readonly number[]): Map<number, Uint8Array> => {
      return new Map(numbers.map((n, i) => [n, list[i]]));
    };
    const variables = new Map(call.variables.map((v) => {
      const name = planner.variableName(v.name);
      return [name, { ...v, name }];
    }));
    for (const [name, v] of planner.variables) variables.set(name, v); // in the order of the arguments, not of kernels
    made.push({
      entry,
      own: new Set([...inputs, ...outputs]),
      steps: [...planner.steps, ...after],
      more: {
        variables: [...variables.values()],
        draws: call.captured.draws,
        test: {
          inputs: fill(call.test.inputs, inputs),
          outputs: fill(call.test.outputs, outputs),
          counts: new Map(outputs.map((n, i) => [n, call.test.counts[i]])),
          variables: new Map([...call.test.variables].map(([name, value]) => [planner.variableName(name), value])),
          counter: call.test.counter,
          seed: call.test.seed,
        },
      },
    });
  }
  const { arrays, kernels, sizes } = planner;
  return made.map(({ entry, own, steps, more }) => ({
    name: entry,
    plan: {
      format: "dinograd plan",
      version: 1,
      name,
      // what others are given has no place in this one
      arrays: arrays.map((a, n) =>
        (a.space === "input" || a.space === "output") && !own.has(n) ? { ...a, space: "arena" as const } : a
      ),
      kernels,
      steps,
      ...sizes,
      ...more,
    },
  }));
}
