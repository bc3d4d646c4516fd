/**
 * Steps of a model that takes back what it gave: decoders with caches of keys and values, recurrent networks with their
 * state. In: a model and which outputs are which inputs of the next step; out: an object that is called step by step. What
 * grows by a few positions each step lies in memory of the largest length, and how much of it is filled is a variable, so
 * that one capture serves all lengths.
 *
 * @module
 */
import { type DeviceName, getDevice } from "../device/device.ts";
import { dtypes } from "../dtype/dtype.ts";
import { prod } from "../helpers/math.ts";
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { checkFunction, checkInteger, checkOptions, describe, isPlain } from "../helpers/options.ts";
import { jit, type JitFunction, type JitStats } from "../tensor/jit/jit.ts";
import type { Index } from "../tensor/index/symbolic_index.ts";
import { Tensor } from "../tensor/tensor.ts";
import { Variable } from "../tensor/variable.ts";
import type { OnnxInput, OnnxModel, OnnxOutput, OnnxPort } from "./model.ts";
import { ON_SIZES, type Size } from "./values/variable_sizes.ts";
import { elementTypeNamed } from "./wire/element_types.ts";

/** Inputs of a model, by name. */
export type OnnxInputs = Readonly<Record<string, OnnxInput>>;
/** Outputs of a model, by name. */
export type OnnxOutputs = Record<string, OnnxOutput>;

/** Options of {@linkcode session}. */
export interface SessionOptions {
  /**
   * By input, the output that it is in the next step. Unless given, `past…` is `present…` of the same name, and there is
   * at least one such pair.
   */
  readonly keeps?: Readonly<Record<string, string>>;
  /** How many positions there is room for along axes that grow; 512 unless given. */
  readonly length?: number;
  /** What a step gives, computed in the same capture: of the outputs that are not kept, which it gives unless given. */
  readonly gives?: (outputs: OnnxOutputs) => OnnxOutputs;
}

/** An output that becomes an input. */
interface Pair {
  readonly input: OnnxPort;
  readonly output: string;
  /** The axis that grows, or -1 where the output takes the place of the input. */
  readonly axis: number;
}
type Tensors = Readonly<Record<string, Tensor>>;
/** Axes that are as long as all positions, by input. */
type Whole = Readonly<Record<string, number>>;
interface Stepped {
  readonly given: OnnxOutputs;
  readonly kept: Tensors;
}

const ACTION = "step an ONNX model";

/** Outputs by inputs: as given, or as caches are called. */
function pairsOf(model: OnnxModel, keeps: unknown): Pair[] {
  const outputs = new Map(model.outputs.map((p) => [p.name, p]));
  if (keeps !== undefined && !isPlain(keeps)) {
    throw new ArgumentError(ACTION, {
      reason: `keeps is outputs by input, as { state: "stateN" }, not ${describe(keeps)}`,
    });
  }
  const named = keeps ?? Object.fromEntries(
    model.inputs.flatMap(({ name }) => {
      const found = [name.replace(/^past_key_values/, "present"), name.replace(/^past/, "present")]
        .find((to) => to !== name && outputs.has(to));
      return found === undefined ? [] : [[name, found]];
    }),
  );
  const pairs = Object.entries(named).map(([name, to]): Pair => {
    const input = model.inputs.find((p) => p.name === name), output = outputs.get(String(to));
    if (input === undefined || output === undefined) {
      const names = (input === undefined ? model.inputs : model.outputs).map((p) => p.name).join(", ");
      throw new ArgumentError(ACTION, {
        reason: `it has no ${input === undefined ? `input "${name}"` : `output "${to}"`} to keep, but ${names}`,
      });
    }
    const axis = input.shape?.findIndex((n, i) => typeof n === "string" && n !== output.shape?.[i]) ?? -1;
    return { input, output: output.name, axis: output.shape === undefined ? -1 : axis };
  });
  if (pairs.length === 0) {
    throw new ArgumentError(ACTION, {
      reason: `none of its inputs is called past…; say which output is which input: { keeps: { input: "output" } }`,
    });
  }
  return pairs;
}

/** A slice along one axis, all of the others. */
function along(rank: number, axis: number, from: Size, to: Size): Index[] {
  return Array.from({ length: rank }, (_, i) => i === axis ? [from, to] : ":");
}

/** What of an input is part of what is captured. */
function formOf(x: OnnxInput): string {
  return x instanceof Tensor ? `${x.dtype} [${x.shape}]` : Array.isArray(x) ? `[${x.map(formOf)}]` : JSON.stringify(x);
}

/** What a captured step depends on. */
function keyOf(inputs: OnnxInputs): string {
  return Object.keys(inputs).sort().map((name) => `${name}: ${formOf(inputs[name])}`).join("; ");
}
/** The shape of an input; of lists as their first elements say. */
function shapeOf(x: OnnxInput | undefined): readonly number[] {
  return x instanceof Tensor ? x.shape : Array.isArray(x) ? [x.length, ...shapeOf(x[0])] : [];
}
/** An input in memory that has room for `length` positions along an axis, zeros behind its own. */
function roomFor(x: OnnxInput, port: OnnxPort, axis: number, length: number): Tensor {
  const t = x instanceof Tensor ? x : new Tensor(x as number[], { dtype: elementTypeNamed(port.type)?.dtype });
  const shape = t.shape.with(axis, length), n = t.shape[axis];
  if (getDevice(t.device).allocator.copyOut === undefined) {
    return t.pad(t.shape.map((_, i): [number, number] => [0, i === axis ? length - n : 0])).contiguous();
  }
  // on the host: a kernel would be one for each length
  const from = t.dataSync() as Float32Array, inner = prod(t.shape.slice(axis + 1));
  const to = new (from.constructor as Float32ArrayConstructor)(prod(shape));
  for (let k = 0; k * n * inner < from.length; k++) {
    to.set(from.subarray(k * n * inner, (k + 1) * n * inner), k * length * inner);
  }
  return new Tensor(to, { dtype: t.dtype, device: t.device as DeviceName }).reshape(shape);
}

/** A model that is called step by step: see {@linkcode session}. */
export class OnnxSession {
  private readonly pairs: readonly Pair[];
  private readonly length: number;
  private readonly begins: JitFunction<[OnnxInputs], OnnxOutputs>;
  private readonly continues: JitFunction<[Tensor, number, Whole, OnnxInputs, Tensors, Tensors], Stepped>;
  private readonly starts: Map<number, Variable> = new Map();
  /** How many positions a step adds, by the shapes of its inputs; undefined where the model refuses such. */
  private readonly adds: Map<string, number | undefined> = new Map();
  /** Axes of inputs that were as long as what was filled after the first step. */
  private whole: Whole = {};
  private caches: Record<string, Tensor> = {};
  private states: Record<string, Tensor> = {};
  private filled = 0;
  private isBegun = false;

  /** Use {@linkcode session}. */
  constructor(private readonly model: OnnxModel, options: SessionOptions) {
    const { keeps, length = 512, gives } = checkOptions(ACTION, options, ["keeps", "length", "gives"]);
    this.length = checkInteger(ACTION, "length", length, 1);
    this.pairs = pairsOf(model, keeps);
    const result = gives === undefined ? undefined : checkFunction(ACTION, "gives", gives);
    const given = (all: OnnxOutputs): OnnxOutputs => {
      const kept = new Set(this.pairs.map((p) => p.output));
      const rest = Object.fromEntries(Object.entries(all).filter(([name]) => !kept.has(name)));
      return result === undefined ? rest : result(rest);
    };
    this.begins = jit((inputs: OnnxInputs) => {
      const all = model.call(inputs);
      return { ...Object.fromEntries(this.pairs.map((p) => [`kept ${p.input.name}`, all[p.output]])), ...given(all) };
    });
    this.continues = jit(
      (at: Tensor, count: number, whole: Whole, inputs: OnnxInputs, states: Tensors, caches: Tensors) => {
        const all = this.call(at, count, whole, inputs, states, caches), kept: Record<string, Tensor> = {};
        for (const { input: { name }, output, axis } of this.pairs) {
          const t = all[output] as Tensor;
          if (axis < 0) kept[name] = t;
          else {caches[name].setAt(
              along(t.ndim, axis, at, at.add(count)),
              t.at(...along(t.ndim, axis, at, at.add(count))),
            );}
        }
        const made = { given: given(all), kept };
        Tensor.realize([
          ...[...Object.values(made.given), ...Object.values(kept)].filter((x) => x instanceof Tensor),
          ...Object.values(caches),
        ]);
        return made;
      },
    );
  }

  /** How many positions are kept along axes that grow. */
  get position(): number {
    return this.filled;
  }

  /** Of steps after the first of each text: how many were captured, how many replayed. */
  get stats(): JitStats {
    return this.continues.stats;
  }

  /** Forgets what was kept; captures stay. */
  reset(): void {
    this.filled = 0;
    this.states = {};
    this.isBegun = false;
  }

  /**
   * One step: outputs that are not kept, for inputs by name. Those that are kept may be given, too, where the first step
   * needs more than none of it. Inputs that are tensors may have other values in each step; other values are part of what
   * is captured, as under `jit`.
   *
   * @throws {ArgumentError} for inputs that are absent, and where there is no room for more positions
   */
  step(inputs: OnnxInputs): OnnxOutputs {
    if (!isPlain(inputs)) throw new ArgumentError(ACTION, { reason: `give inputs by name, not ${describe(inputs)}` });
    return this.isBegun ? this.next(inputs) : this.first(inputs);
  }

  private call(
    at: Tensor,
    count: number,
    whole: Whole,
    inputs: OnnxInputs,
    states: Tensors,
    caches: Tensors,
  ): OnnxOutputs {
    const all: Record<string, OnnxInput> = { ...states };
    for (const { input: { name }, axis } of this.pairs) {
      if (axis >= 0) all[name] = caches[name].at(...along(caches[name].ndim, axis, 0, at));
    }
    const cut = Object.entries(whole).map(([name, axis]) => {
      const x = inputs[name] as Tensor;
      return [name, x.at(...along(x.ndim, axis, 0, at.add(count)))];
    });
    return this.model.call({ ...all, ...inputs, ...Object.fromEntries(cut) });
  }

  /** Nothing is kept yet: what grows has no elements, what does not and has free axes that nothing tells neither. */
  private first(inputs: OnnxInputs): OnnxOutputs {
    const sizes = new Map<string, number>(), all: Record<string, OnnxInput> = { ...inputs };
    for (const { name, shape } of this.model.inputs) {
      const x = inputs[name];
      shape?.forEach((n, i) => typeof n === "string" && x instanceof Tensor && sizes.set(n, x.shape[i]));
    }
    for (const { input, axis } of this.pairs) {
      if (inputs[input.name] !== undefined) continue;
      const shape = input.shape?.map((n, i) => i === axis ? 0 : typeof n === "number" ? n : sizes.get(n) ?? 0) ?? [0];
      const dtype = elementTypeNamed(input.type)?.dtype ?? dtypes.float32;
      all[input.name] = Tensor.zeros(shape, { dtype, device: this.model.device }).contiguous();
    }
    const out = this.begins(all), written: Tensor[] = [], counts = new Set<number>();
    for (const { input: { name }, axis } of this.pairs) {
      const t = out[`kept ${name}`] as Tensor;
      delete out[`kept ${name}`];
      if (axis < 0) {
        this.states[name] = t;
        continue;
      }
      const count = t.shape[axis], shape = t.shape.with(axis, this.length);
      counts.add(count);
      if (count > this.length) throw this.full(count);
      if (String(this.caches[name]?.shape) !== String(shape)) {
        this.caches[name] = Tensor.zeros(shape, { dtype: t.dtype, device: t.device as DeviceName }).contiguous()
          .realize();
      }
      written.push(this.caches[name].setAt(along(t.ndim, axis, 0, count), t));
    }
    if (counts.size > 1) {
      throw new ShapeError(ACTION, { shapes: [], reason: `what it keeps grew by ${[...counts].join(" and ")}` });
    }
    Tensor.realize([...written, ...Object.values(this.states)]);
    [this.filled = 0] = counts;
    const kept = new Set(this.pairs.map((p) => p.input.name)),
      axes = this.model.inputs.map(({ name, shape = [] }) => {
        const sizes = kept.has(name) ? [] : shapeOf(inputs[name]);
        return [name, shape.findLastIndex((n, i) => typeof n === "string" && sizes[i] === this.filled)] as const;
      });
    this.whole = Object.fromEntries(axes.filter(([, axis]) => axis >= 0));
    this.isBegun = true;
    return out;
  }

  private next(given: OnnxInputs): OnnxOutputs {
    const { count, whole, inputs } = this.grown(given) ?? { count: this.countOf(given, {}), whole: {}, inputs: given };
    if (this.filled + count > this.length) throw this.full(this.filled + count);
    const start = this.startOf(count).bind(this.filled);
    const { given: made, kept } = this.continues(start, count, whole, inputs, this.states, this.caches);
    // an output without elements stands for what it was
    for (const [name, t] of Object.entries(kept)) if (t.numel() > 0) this.states[name] = t;
    this.filled += count;
    return made;
  }

  /**
   * Where inputs are as long as all positions, as masks of decoders are: these with room for all positions, which the
   * variable cuts, so that they have one shape in every step; undefined where the model says that they are not.
   */
  private grown(given: OnnxInputs): { count: number; whole: Whole; inputs: OnnxInputs } | undefined {
    const more = Object.entries(this.whole).map(([name, axis]) => {
      return { name, axis, count: (shapeOf(given[name])[axis] ?? 0) - this.filled };
    });
    const count = Math.max(0, ...more.map((m) => m.count)), used = more.filter((m) => m.count === count);
    if (count === 0) return undefined;
    if (this.filled + count > this.length) throw this.full(this.filled + count);
    const whole = Object.fromEntries(used.map(({ name, axis }) => [name, axis])), inputs = { ...given };
    const ports = new Map(this.model.inputs.map((p) => [p.name, p]));
    for (const { name, axis } of used) inputs[name] = roomFor(given[name], ports.get(name)!, axis, this.length);
    const key = keyOf(inputs);
    if (!this.adds.has(key)) {
      try {
        this.countOf(inputs, whole, count);
      } catch {
        this.adds.set(key, undefined); // sizes that only looked so
      }
    }
    return this.adds.get(key) === count ? { count, whole, inputs } : undefined;
  }

  /** How many positions a step with such inputs adds: what the model's own graph says. */
  private countOf(inputs: OnnxInputs, whole: Whole, expected = 1): number {
    const grows = this.pairs.find((p) => p.axis >= 0);
    if (grows === undefined) return 0;
    const key = keyOf(inputs);
    let count = this.adds.get(key);
    if (count === undefined) {
      const at = this.startOf(expected).bind(Math.min(this.filled, this.length - expected));
      const out = this.call(at, expected, whole, inputs, this.states, this.caches)[grows.output] as Tensor;
      const found = ON_SIZES.Sub(out.symbolicShape[grows.axis], at);
      if (typeof found !== "number" || found < 0) {
        throw new ShapeError(ACTION, {
          shapes: [out.shape],
          axis: grows.axis,
          reason: `"${grows.output}" is not "${grows.input.name}" and a fixed number of positions behind it`,
        });
      }
      this.adds.set(key, count = found);
    }
    return count;
  }
  private startOf(count: number): Variable {
    let start = this.starts.get(count);
    if (start === undefined) {
      this.starts.set(count, start = new Variable("position", 0, Math.max(0, this.length - count)));
    }
    return start;
  }
  private full(count: number): ArgumentError {
    return new ArgumentError(ACTION, {
      reason:
        `there is room for ${this.length} positions, and this would be ${count}; give a larger { length }, or reset()`,
    });
  }
}

/**
 * A model that is called step by step, with what it gave before. The first step runs, the second is captured, all later
 * ones of such inputs are replayed, however long what is kept has become.
 *
 * ```ts ignore files
 * import { Tensor } from "../../mod.ts";
 * import * as onnx from "./onnx.ts";
 * const decoder = onnx.session(await onnx.load("decoder.onnx"), { keeps: { state: "stateN" } });
 * const { logits } = decoder.step({ input_ids: new Tensor([[1]], { dtype: "int64" }) });
 * ```
 *
 * @throws {ArgumentError} where inputs and outputs that are kept are not those of the model
 */
export function session(model: OnnxModel, options: SessionOptions = {}): OnnxSession {
  return new OnnxSession(model, options);
}
