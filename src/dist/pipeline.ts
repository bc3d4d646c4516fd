/**
 * Pipeline parallelism: a model in stages, each on a device or in a process of its own, through which micro-batches of a
 * batch go one after the other, forward and back. What the stages do when is a table, made by their number and that of
 * micro-batches alone, so that it is the same on all ranks.
 *
 * @module
 */
import type { Communicator } from "../collectives/communicator.ts";
import { dtypes } from "../dtype/dtype.ts";
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { sameArray } from "../helpers/math.ts";
import { checkChoice, checkInteger, checkOptions, describe } from "../helpers/options.ts";
import { getParameters } from "../state/state_dict.ts";
import { Tensor } from "../tensor/tensor.ts";
import { broadcast, sendReceive } from "./tensor_collectives.ts";
import { currentWorld } from "./world.ts";

/** A part of a model, as a layer is. */
export interface Stage {
  /** What the next stage takes, of what the one before gives. */
  call(x: Tensor): Tensor;
}

/** In which order a stage does its work. */
export type PipelineSchedule = "1F1B" | "GPipe";

/** Options of {@linkcode Pipeline}. */
export interface PipelineOptions {
  /** In how many equal parts of its first dimension a batch goes through. */
  readonly microBatches: number;
  /**
   * "GPipe": all forward, then all backward (Huang et al., arXiv 1811.06965). "1F1B", unless given: backward as soon as it can
   * be, so that stage `s` of `n` holds `n - s` micro-batches at most (Narayanan et al., arXiv 1806.03377).
   */
  readonly schedule?: PipelineSchedule;
  /** Among processes, the shape of what goes from stage to stage for one micro-batch; float32, the same between all. */
  readonly activation?: readonly number[];
  /** The ranks that are the stages, in order: one of `dist.split`; default all. */
  readonly group?: Communicator;
}

/** What a stage does at a time: forward or backward of a micro-batch. */
export interface PipelineOp {
  readonly kind: "forward" | "backward";
  readonly microBatch: number;
}

/** The order of work of one stage. */
function orderOf(schedule: PipelineSchedule, stage: number, stages: number, count: number): PipelineOp[] {
  const ahead = schedule === "GPipe" ? count : Math.min(count, stages - 1 - stage), out: PipelineOp[] = [];
  let forward = 0, backward = 0;
  while (forward < ahead) out.push({ kind: "forward", microBatch: forward++ });
  while (backward < count) {
    if (forward < count) out.push({ kind: "forward", microBatch: forward++ });
    out.push({ kind: "backward", microBatch: backward++ });
  }
  return out;
}

/**
 * What each stage does at each time, one thing at most: a row a time, an entry a stage. A stage works on what its neighbors
 * have made at an earlier time.
 */
export function pipelineTable(
  schedule: PipelineSchedule,
  stages: number,
  microBatches: number,
): (PipelineOp | undefined)[][] {
  const orders = Array.from({ length: stages }, (_, s) => orderOf(schedule, s, stages, microBatches));
  const done = orders.map(() => ({ forward: 0, backward: 0 })), rows: (PipelineOp | undefined)[][] = [];
  while (orders.some((o) => o.length > 0)) {
    const row = orders.map((order, s) => {
      const [op] = order;
      if (op === undefined) return undefined;
      const before = op.kind === "forward" ? done[s - 1]?.forward : done[s + 1]?.backward ?? done[s].forward;
      return before === undefined || before > op.microBatch ? op : undefined;
    });
    row.forEach((op, s) => {
      if (op === undefined) return;
      orders[s].shift();
      done[s][op.kind]++;
    });
    rows.push(row);
  }
  return rows;
}

/** A micro-batch that is on its way through a stage. */
interface Held {
  readonly input: Tensor;
  /** What is differentiated: the output, of the last stage the loss. */
  readonly output: Tensor;
}

/** A stage that this process has, with what it was given and has made. */
interface Own {
  readonly at: number;
  readonly stage: Stage;
  readonly parameters: readonly Tensor[];
  readonly device: string;
  readonly inputs: Map<number, Tensor>;
  readonly gradients: Map<number, Tensor>;
  readonly held: Map<number, Held>;
}

const action = "run a pipeline";

/**
 * A model in stages. `step` runs a batch through them and back, and adds to the gradients of their parameters what the whole
 * batch at once would add; the optimizer's step is the user's. Outputs are computed anew for the way back from what a stage
 * was given, which is all that it keeps of a micro-batch.
 *
 * With a list of stages all are in this process, each on the device of its parameters. With one stage each rank has its own,
 * in the order of ranks.
 *
 * ```ts
 * import { nn, Tensor } from "../../mod.ts";
 * import { Pipeline } from "./dist.ts";
 * const first = new nn.Linear(4, 8), second = new nn.Linear(8, 2);
 * for (const p of [second.weight, second.bias!]) p.replace(p.to("JS:1"));
 * const pipeline = new Pipeline([first, second], { microBatches: 2 });
 * const x = Tensor.ones([6, 4]), y = Tensor.zeros([6], { dtype: "int32" });
 * const loss = await pipeline.step(x, y, (out, y) => out.crossEntropy(y));
 * console.log(first.weight.grad!.shape, loss.shape.length); // [8, 4] 0
 * ```
 */
export class Pipeline {
  private readonly own: readonly Own[];
  private readonly count: number;
  private readonly group: Communicator | undefined;
  /** How many micro-batches each stage of this process has held at once in the last step, at most. */
  readonly mostHeld: number[] = [];

  /** @throws {ArgumentError} for no stages, a bad option, or one stage among processes without the shape that goes between */
  constructor(stages: Stage | readonly Stage[], private readonly options: PipelineOptions) {
    const make = "make Pipeline";
    checkOptions(make, options, ["microBatches", "schedule", "activation", "group"]);
    checkInteger(make, "microBatches", options.microBatches, 1);
    checkChoice(make, "schedule", options.schedule ?? "1F1B", ["1F1B", "GPipe"]);
    const list: readonly Stage[] = Array.isArray(stages) ? stages : [stages];
    const bad = list.find((s) => typeof s?.call !== "function");
    if (list.length === 0 || bad !== undefined) {
      throw new ArgumentError(make, { reason: `it takes stages that have a call(), not ${describe(bad ?? stages)}` });
    }
    this.group = Array.isArray(stages) ? undefined : options.group ?? currentWorld(make).communicator;
    this.count = this.group?.size ?? list.length;
    if (this.count > 1 && this.group !== undefined && options.activation === undefined) {
      throw new ArgumentError(make, {
        reason: "among processes the shape of what goes from stage to stage must be known: give { activation: [...] }",
      });
    }
    this.own = list.map((stage, i) => {
      const parameters = getParameters(stage).filter((p) => p.isFloatingPoint());
      for (const p of parameters) p.requiresGrad ??= true;
      const device = parameters[0]?.device ?? Tensor.empty([1]).device;
      const at = this.group === undefined ? i : this.group.ranks[0];
      return { at, stage, parameters, device, inputs: new Map(), gradients: new Map(), held: new Map() };
    });
  }

  /**
   * Runs `x` through the stages and back. `loss` is that of the last stage for a micro-batch, a mean over it; what is returned
   * is the mean over all of them, on every rank. `x` is read by the first stage alone, `y` by the last.
   *
   * @throws {ShapeError} where a batch does not divide, or an output has another shape than was said
   */
  async step(x: Tensor, y: Tensor, loss: (output: Tensor, y: Tensor) => Tensor): Promise<Tensor> {
    const { microBatches, schedule = "1F1B" } = this.options, [xs, ys] = [x, y].map((t) => this.parts(t));
    const losses: Tensor[] = [];
    this.own.forEach((_, i) => this.mostHeld[i] = 0);
    for (const row of pipelineTable(schedule, this.count, microBatches)) {
      const outputs = new Map<number, Tensor>(), back = new Map<number, Tensor>();
      this.own.forEach((own, i) => {
        const op = row[own.at];
        if (op?.kind === "forward") {
          const made = this.forward(own, op.microBatch, xs, ys, loss);
          if (own.at === this.count - 1) losses.push(made.detach());
          else outputs.set(own.at, made.detach());
          this.mostHeld[i] = Math.max(this.mostHeld[i], own.held.size);
        } else if (op !== undefined) {
          const g = this.backward(own, op.microBatch);
          if (own.at > 0) back.set(own.at, g!);
        }
      });
      await this.pass(row, "forward", outputs);
      await this.pass(row, "backward", back);
    }
    const isLast = this.own.some((o) => o.at === this.count - 1);
    const mean = isLast ? losses.reduce((a, b) => a.add(b)) : Tensor.zeros([]).contiguous();
    return this.group === undefined ? mean : await broadcast(mean.float(), { root: this.count - 1, group: this.group });
  }

  /** The micro-batches of a batch. */
  private parts(t: Tensor): Tensor[] {
    const { microBatches } = this.options, [rows] = t.shape;
    if (t.ndim === 0 || rows % microBatches !== 0) {
      throw new ShapeError(action, {
        shapes: [t.shape],
        reason: `its first dimension does not divide into ${microBatches} micro-batches`,
      });
    }
    return t.chunk(microBatches);
  }

  private forward(
    own: Own,
    at: number,
    xs: readonly Tensor[],
    ys: readonly Tensor[],
    loss: (output: Tensor, y: Tensor) => Tensor,
  ): Tensor {
    const { stage, device, held, inputs } = own, isFirst = own.at === 0, isLast = own.at === this.count - 1;
    const input = (isFirst ? xs[at] : inputs.get(at)!).detach().to(device).contiguous().realize();
    inputs.delete(at);
    if (!isFirst) input.requiresGrad = true;
    let output = stage.call(input);
    const { activation, microBatches } = this.options;
    if (isLast) output = loss(output, ys[at].to(device)).div(microBatches);
    else if (activation !== undefined && !sameArray(activation, output.shape)) {
      throw new ShapeError(action, {
        shapes: [output.shape],
        reason: `stage ${own.at} gives this for a micro-batch, and activation says [${activation.join(", ")}]`,
      });
    }
    held.set(at, { input, output });
    return output.realize();
  }

  /** The gradient of what the stage was given; undefined of the first one. */
  private backward(own: Own, at: number): Tensor | undefined {
    const { input, output } = own.held.get(at)!;
    output.backward(own.gradients.get(at));
    own.held.delete(at);
    own.gradients.delete(at);
    const g = input.grad as Tensor | undefined;
    Tensor.realize([...own.parameters.flatMap((p) => p.grad ? [p.grad] : []), ...g === undefined ? [] : [g]]);
    return g;
  }

  /** Gives what stages have made at this time to their neighbors. */
  private async pass(
    row: readonly (PipelineOp | undefined)[],
    kind: PipelineOp["kind"],
    made: ReadonlyMap<number, Tensor>,
  ): Promise<void> {
    const by = kind === "forward" ? 1 : -1;
    const pairs = row.flatMap((op, from) =>
      op?.kind === kind && from + by >= 0 && from + by < this.count ? [[from, from + by] as const] : []
    );
    if (pairs.length === 0) return;
    const take = (own: Own): Map<number, Tensor> => kind === "forward" ? own.inputs : own.gradients;
    if (this.group === undefined) {
      for (const [from, to] of pairs) {
        take(this.own[to]).set(row[from]!.microBatch, made.get(from)!.detach().to(this.own[to].device).realize());
      }
      return;
    }
    const [own] = this.own, shape = [...this.options.activation!];
    const given = made.get(own.at)?.cast(dtypes.float32) ?? Tensor.zeros(shape, { device: own.device });
    const got = await sendReceive(given.contiguous(), pairs, { group: this.group }), from = own.at - by;
    if (pairs.some(([, to]) => to === own.at)) take(own).set(row[from]!.microBatch, got);
  }
}
