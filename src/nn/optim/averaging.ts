/**
 * Averages of weights over training steps, which often do better than the last ones: exponential moving averages
 * (Polyak and Juditsky, 1992), or plain means (Izmailov et al., arXiv 1803.05407). In: a model; out: tensors beside it,
 * which an update moves and which take the place of the weights for as long as wanted. Works within a captured step.
 *
 * @module
 */
import { currentCapture } from "../../engine/front/listening.ts";
import { ArgumentError, JitError } from "../../helpers/errors.ts";
import { checkBoolean, checkFunction, checkOptions, describe } from "../../helpers/options.ts";
import { hasState } from "../../helpers/stateful.ts";
import { getStateDict } from "../../state/state_dict.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { checkRange } from "./optimizer.ts";

/** Options of {@linkcode EMA}. */
export interface EMAOptions {
  /** What is kept of the average at each update, in [0, 1]; 0.999 unless given. */
  readonly decay?: number;
  /** Whether the first updates keep less, (1 + n) / (10 + n) of the n-th; false unless given. */
  readonly warmup?: boolean;
}

/** A weight, its average, and whether it is averaged or copied, as statistics and counters are. */
interface Pair {
  readonly own: Tensor;
  readonly average: Tensor;
  readonly isAveraged: boolean;
}

/** The mean of the weights of a model over the updates (SWA); the first one takes them as they are. */
export class AveragedModel {
  static {
    hasState(this.prototype, (a) => ({
      average: Object.fromEntries([...a.#pairs].map(([name, p]) => [name, p.average])),
      updates: a.updates,
    }));
  }
  /** How many updates there were: float32 `[1]`. */
  readonly updates: Tensor;
  readonly #pairs: ReadonlyMap<string, Pair>;
  /** The weights while the averages are in their place. */
  #saved: readonly Tensor[] | undefined;

  /** Of the tensors of `model`, an object, or a list of tensors. @throws {ArgumentError} where there are none */
  constructor(model: unknown) {
    const tensors = Object.entries(getStateDict(model));
    if (tensors.length === 0) {
      throw new ArgumentError("average a model", { reason: `there are no tensors in ${describe(model)}` });
    }
    const pairs = new Map<string, Pair>(), known = new Set<Tensor>();
    for (const [name, own] of tensors) {
      if (known.has(own)) continue;
      known.add(own);
      const isAveraged = own.dtype.isFloat && own.requiresGrad !== false;
      // a small step toward the weights is lost in the smaller floats
      const wide = isAveraged && own.dtype.itemsize < 4 ? own.detach().cast(dtypes.float32) : own.detach();
      const average = wide.clone();
      average.requiresGrad = false;
      pairs.set(name, { own, average, isAveraged });
    }
    this.#pairs = pairs;
    this.updates = new Tensor([0], { dtype: "float32", device: tensors[0][1].device, requiresGrad: false });
    Tensor.realize([this.updates, ...[...pairs.values()].map((p) => p.average)]);
  }

  /** The averages, by the names of the weights. */
  get average(): Record<string, Tensor> {
    return Object.fromEntries([...this.#pairs].map(([name, p]) => [name, p.average]));
  }
  /** Of the weights that come in, the share that they have after `n` updates. */
  protected share(n: Tensor): Tensor {
    return n.add(1).reciprocal();
  }

  /** Takes the weights as they are now into the averages: call it after the optimizer's step, within jit or not. */
  update(): void {
    if (this.#saved !== undefined) {
      throw new ArgumentError("update an average", {
        reason: "its averages are in place of the weights; restore() first",
      });
    }
    Tensor.noGrad(() => {
      const n = this.updates, all = n.eq(0).where(1, this.share(n)).reshape([]), moved: Tensor[] = [];
      for (const { own, average, isAveraged } of this.#pairs.values()) {
        const now = own.cast(average.dtype);
        const share = all.to(average.device).cast(average.dtype.isFloat ? average.dtype.real : dtypes.float32);
        moved.push(average.assign(isAveraged ? average.add(now.sub(average).mul(share)) : now));
      }
      moved.push(n.assign(n.add(1)));
      Tensor.realize(moved);
    });
  }

  private write(values: readonly Tensor[]): void {
    Tensor.noGrad(() => {
      const owns = [...this.#pairs.values()].map((p) => p.own);
      owns.forEach((t, i) => t.assign(values[i].cast(t.dtype)));
      Tensor.realize(owns);
    });
  }
  /** Puts the averages in place of the weights, until `restore`: for captured functions, too. @throws {JitError} under jit */
  apply(): void {
    if (currentCapture() !== undefined) {
      throw new JitError("put averages in place of weights", {
        reason: "a function under jit() would keep that; do it outside",
      });
    }
    if (this.#saved !== undefined) return;
    const pairs = [...this.#pairs.values()], saved = pairs.map((p) => p.own.detach().clone());
    Tensor.realize(saved);
    this.write(pairs.map((p) => p.average));
    this.#saved = saved;
  }
  /** Puts the weights back. */
  restore(): void {
    const saved = this.#saved;
    if (saved === undefined) return;
    this.write(saved);
    this.#saved = undefined;
    for (const t of saved) t.dispose();
  }
  /** Runs `fn`, which may be async, with the averages in place of the weights. */
  use<T>(fn: () => T): T {
    checkFunction("use averages", "fn", fn);
    if (this.#saved !== undefined) return fn();
    this.apply();
    let isLater = false;
    try {
      const result = fn();
      if (!(result instanceof Promise)) return result;
      isLater = true;
      return result.finally(() => this.restore()) as T;
    } finally {
      if (!isLater) this.restore();
    }
  }
  /** Writes the averages into another model of the same names. @throws {ArgumentError} naming what that lacks */
  copyTo(model: unknown): void {
    const targets = getStateDict(model), written: Tensor[] = [];
    for (const name of this.#pairs.keys()) {
      if (!Object.hasOwn(targets, name)) {
        throw new ArgumentError("copy averages", { reason: `the model has no ${name}` });
      }
    }
    Tensor.noGrad(() => {
      for (const [name, { average }] of this.#pairs) {
        const to = targets[name];
        written.push(to.assign(average.cast(to.dtype).to(to.device)));
      }
      Tensor.realize(written);
    });
  }
}

/**
 * The exponential moving average of the weights of a model: at each update `decay` of it stays. The first one takes the
 * weights as they are.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const model = { w: new Tensor([1, 3], { requiresGrad: true }) };
 * const ema = new nn.EMA(model, { decay: 0.5 });
 * ema.update();
 * Tensor.noGrad(() => model.w.assign(new Tensor([3.0, 5.0], { dtype: "float32" })).realize());
 * ema.update();
 * console.log(await ema.use(() => model.w.tolist()), await model.w.tolist()); // [2, 4] [3, 5]
 * ```
 */
export class EMA extends AveragedModel {
  readonly decay: number;
  readonly warmup: boolean;

  /** @throws {ArgumentError} for a decay outside [0, 1] */
  constructor(model: unknown, options: EMAOptions = {}) {
    checkOptions("make EMA", options, ["decay", "warmup"]);
    super(model);
    this.decay = checkRange("EMA", "decay", options.decay ?? 0.999, 0, 1);
    this.warmup = options.warmup !== undefined && checkBoolean("make EMA", "warmup", options.warmup);
  }
  protected override share(n: Tensor): Tensor {
    if (!this.warmup) return n.onesLike().mul(1 - this.decay);
    return n.add(1).div(n.add(10)).minimum(this.decay).neg().add(1);
  }
}
