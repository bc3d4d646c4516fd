/**
 * What all optimizers share. Each takes parameters and statistics, and updates those that require a gradient; `step()`
 * realizes the parameters, the optimizer's state, pending assignments of the others, the losses whose `backward()` filled
 * the gradients, and the gradients of other leaves that read what it overwrites, in one schedule.
 *
 * All outputs for one parameter (the parameter and its moments) are elementwise functions of old values, so that one
 * kernel can write them together. What changes from step to step (learning rate, bias corrections) are tensors, so
 * that a captured step advances when it is replayed.
 *
 * @module
 */
import { type DeviceName, knownDevice } from "../../device/device.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { currentCapture } from "../../engine/front/listening.ts";
import { ArgumentError, DeviceError, JitError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkOptions, describe } from "../../helpers/options.ts";
import { hasState } from "../../helpers/stateful.ts";
import { getStateDict, namesHeard } from "../../state/state_dict.ts";
import { forgetLosses, lossesOf } from "../../tensor/gradients/backward.ts";
import { gradsReading } from "../../tensor/gradients/open_gradients.ts";
import { endGraphs, forgetOrigin } from "../../tensor/gradients/origins.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { tensorList } from "../../tensor/handle/dims.ts";
import { placedOf } from "../../tensor/handle/placed.ts";
import { wholly } from "../../tensor/realize.ts";
import { gathered } from "../../tensor/shard.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { deviceOf } from "../../uop/core/shape.ts";
import { KnownNumbers } from "./kept.ts";

/** Options that every optimizer takes. */
export interface OptimizerOptions {
  /** Learning rate: a number, or a 1-element tensor that the optimizer keeps and reads at each step. */
  readonly lr?: number | Tensor;
  /** Pull of the weights toward zero; 0 unless given. */
  readonly weightDecay?: number;
  /** Where the optimizer's state lives and updates are computed; with each parameter unless given. */
  readonly device?: DeviceName;
}

/** Options of optimizers whose update of an element needs no other element. */
export interface FusedOptions {
  /** Whether all parameters are updated as one vector, in few kernels; false unless given. */
  readonly fused?: boolean;
}

/** Options of a step. */
export interface StepOptions {
  /** A bool tensor of one element: where it is false, parameters and state stay as they are. */
  readonly when?: Tensor;
  /** What else is to be realized in the same schedule, as an accuracy. */
  readonly also?: readonly Tensor[];
}

/** The names in {@linkcode OptimizerOptions}. */
export const OPTIMIZER_OPTIONS: readonly string[] = ["lr", "weightDecay", "device"];

/** `x` if it lies in [low, high]. @throws {ArgumentError} */
export function checkRange(
  what: string,
  name: string,
  x: unknown,
  low: number,
  high: number,
  verb: "make" | "set" = "make",
): number {
  if (typeof x !== "number" || !(x >= low && x <= high)) {
    throw new ArgumentError(verb === "make" ? `make ${what}` : `set ${name} of ${what}`, {
      reason: typeof x === "number"
        ? `${name} is ${x}, outside [${low}, ${high}]`
        : `${name} must be a number, not ${describe(x)}`,
    });
  }
  return x;
}

/** The gradients that `params` have. */
function gradsOf(params: readonly Tensor[]): Tensor[] {
  return params.flatMap((p) => p.grad ? [p.grad] : []);
}

/** A parameter, or all of them as one vector, with its gradient: what a rule updates. */
export interface Slot {
  /** Its position among the optimizer's moments. */
  readonly at: number;
  readonly value: Tensor;
  readonly grad: Tensor;
}

/** The step of an optimizer among others. */
let stepBeside: (o: Optimizer, options: StepOptions, stepped: readonly Tensor[]) => Tensor[];

/** What is updated of a tensor: its pairs of reals, of complex numbers. */
function reals(t: Tensor): Tensor {
  return t.dtype.isComplex ? t.viewAsReal() : t;
}

/** What is kept for a parameter, divided as that is, or as was said when it was put on a mesh. */
function dividedAs(t: Tensor, p: Tensor): Tensor {
  const how = placedOf(p);
  return how === undefined ? t.shardLike(reals(p)) : t.shard(how.mesh, how.axes);
}

/** What all optimizers share. Subclasses say how one parameter is updated. */
export abstract class Optimizer {
  static {
    stepBeside = (o, options, stepped) => o.stepBeside(options, stepped);
    hasState(this.prototype, (o) => ({ ...o, lr: o.#lr }));
  }

  /** The tensors that are updated: those given that require a gradient, or did not say. */
  readonly params: Tensor[];
  /** The other tensors given, as running statistics: realized by `step()`. */
  readonly buffers: Tensor[];
  /** Whether all parameters are updated as one vector. */
  readonly fused: boolean;
  private readonly device: string | undefined;
  /** Whether all of the state has memory. */
  protected ready = false;
  private gate: Tensor | undefined;
  readonly #lr: Tensor;
  readonly #rate: KnownNumbers;
  #captured = false;
  /** State that is where parameters are: moments with what they are the moments of, and what is whole. */
  readonly #followers: (readonly [state: Tensor, of: Tensor | undefined])[] = [];

  /**
   * Realizes the parameters: their initial values are drawn before the first step.
   * @throws {ArgumentError} where there is nothing to update, or the learning rate is negative
   */
  constructor(
    params: readonly Tensor[],
    lr: number | Tensor,
    options: FusedOptions & Pick<OptimizerOptions, "device">,
  ) {
    const name = this.constructor.name;
    if (!Array.isArray(params) || !Array.from(params).every((p) => p instanceof Tensor)) {
      const grouped = Array.isArray(params) && Object(params[0]).params !== undefined;
      throw new ArgumentError(`make ${name}`, {
        reason: grouped
          ? `groups are optimizers stepped as one: new OptimizerGroup(new ${name}(params, options), ...)`
          : "it takes a list of tensors, as state.getParameters(model) gives",
      });
    }
    const all = [...new Set(params)];
    for (const p of all) if (p.requiresGrad === undefined && p.isFloatingPoint()) p.requiresGrad = true;
    this.params = all.filter((p) => p.requiresGrad === true);
    this.buffers = all.filter((p) => p.requiresGrad !== true);
    if (this.params.length === 0) {
      throw new ArgumentError(`make ${name}`, { reason: "none of its tensors requires a gradient" });
    }
    this.device = options.device === undefined ? undefined : knownDevice(options.device);
    this.fused = options.fused ?? false;
    const first = this.params[0];
    if (this.fused && this.params.some((p) => p.dtype !== first.dtype || p.device !== first.device)) {
      throw new ArgumentError(`make ${name}`, { reason: "fused parameters must have one dtype and one device" });
    }
    if (lr instanceof Tensor) {
      if (lr.numel() !== 1) {
        throw new ArgumentError(`make ${name}`, { reason: `lr has ${lr.numel()} elements, not 1` });
      }
      this.#lr = lr;
    } else this.#lr = this.scalarState(checkRange(name, "lr", lr, 0, Infinity));
    // Initial values are drawn before the first step, so that its graph is that of all later ones.
    Tensor.realize([this.#lr, ...this.params, ...this.buffers]);
    this.#rate = new KnownNumbers(this.#lr);
    if (typeof lr === "number") this.#rate.note([lr]);
    for (const p of this.params) forgetOrigin(p.uop);
  }

  /**
   * The learning rate, shape `[1]`, or that of the tensor given. A number or a tensor that is set, as `opt.lr.assign(...)`
   * and {@linkcode setLr}, writes its value: nothing is compiled anew, and captured steps follow.
   */
  get lr(): Tensor {
    return this.#lr;
  }
  set lr(value: number | Tensor) {
    if (value === this.#lr) return;
    if (!(value instanceof Tensor)) this.setLr(value);
    else if (value.numel() !== 1) {
      throw new ArgumentError("set a learning rate", { reason: `it has ${value.numel()} elements, not 1` });
    } else this.#lr.assign(value.detach().to(this.#lr.device).cast(this.#lr.dtype).reshape(this.#lr.shape)).realize();
  }

  /** Sets the learning rate, now. @throws {JitError} inside a function under jit(), which would keep this value */
  setLr(value: number): void {
    if (typeof value !== "number" || !(value >= 0)) {
      throw new ArgumentError("set a learning rate", {
        reason: `it must be a number of at least 0, not ${describe(value)}`,
      });
    }
    if (currentCapture() !== undefined) {
      throw new JitError("set a learning rate", {
        reason: "a function under jit() would keep this value; set it outside, between calls",
      });
    }
    this.lr.assign(new Tensor([value], { dtype: this.lr.dtype, device: this.lr.device }).reshape(this.lr.shape))
      .realize();
    this.#rate.note([value]);
  }
  /** The learning rate as a number: as it was set last, else read from the tensor, on devices that read at once. */
  getLr(): number {
    return this.#rate.read()[0];
  }
  /**
   * A value for a number that steps read as a constant, if it lies in [low, high].
   * @throws {ArgumentError} for one that does not
   * @throws {JitError} where a captured step keeps the value from before
   */
  protected changed(name: string, value: unknown, low: number, high: number): number {
    this.checkFree(name);
    return checkRange(this.constructor.name, name, value, low, high, "set");
  }
  /** Throws where a captured step would keep what is to be changed. @throws {JitError} */
  protected checkFree(name: string): void {
    if (!this.#captured && currentCapture() === undefined) return;
    throw new JitError(`set ${name} of ${this.constructor.name}`, {
      reason:
        "a step under jit() keeps the value that it was captured with; only lr may change, or make an optimizer " +
        "and a function under jit() anew",
    });
  }

  /** Forgets the gradients of the parameters, and the losses that filled them. */
  zeroGrad(): void {
    forgetLosses(gradsOf(this.params));
    for (const p of this.params) p.grad = undefined;
  }

  /**
   * Updates the parameters: assigns in the graph, and realizes the tensors of {@linkcode scheduleStep}. Where that fails,
   * parameters and state are what they were before.
   * @throws {ArgumentError} outside `Tensor.train`, or where no parameter has a gradient
   */
  step(options: StepOptions = {}): void {
    wholly(() => Tensor.realize(this.scheduleStep(options)));
    forgetLosses(gradsOf(this.params));
  }

  /**
   * Assigns the update without realizing it, and returns what is to be realized in one schedule: parameters, state,
   * statistics and losses. `Tensor.realize([accuracy, ...opt.scheduleStep()])` reads the forward pass beside it.
   * @throws {ArgumentError} outside `Tensor.train`, or where no parameter has a gradient
   */
  scheduleStep(options: StepOptions = {}): Tensor[] {
    return this.stepBeside(options, this.params);
  }

  /** As {@linkcode scheduleStep}; all of `stepped` are updated in the same schedule. */
  private stepBeside(options: StepOptions, stepped: readonly Tensor[]): Tensor[] {
    const name = this.constructor.name;
    checkOptions(`step ${name}`, options, ["when", "also"]);
    if (namesHeard.listener !== undefined) {
      getStateDict(this, { prefix: name.replace(/^[A-Z]+(?![a-z])|^[A-Z]/, (capitals) => capitals.toLowerCase()) });
    }
    if (!Tensor.training) {
      throw new ArgumentError(`step ${name}`, {
        reason: "Tensor.training is false; run the training step inside Tensor.train(() => ...)",
      });
    }
    const at = [...this.params.keys()].filter((i) => Boolean(this.params[i].grad));
    if (at.length === 0) {
      throw new ArgumentError(`step ${name}`, {
        reason: "no parameter has a gradient; call loss.backward() before it",
      });
    }
    if (this.fused && at.length < this.params.length) {
      const none = [...this.params.keys()].filter((i) => !at.includes(i));
      const list = none.slice(0, 3).map((i) => `${i} ([${this.params[i].shape.join(", ")}])`).join(", ");
      throw new ArgumentError(`step ${name}`, {
        reason: `fused: true updates all parameters as one vector, and of ${this.params.length} ` +
          `${none.length === 1 ? "one has" : `${none.length} have`} no gradient: params ` +
          `${list}${none.length > 3 ? ", ..." : ""}; make the optimizer without fused, or of the others alone`,
      });
    }
    this.checkDevices(at);
    const { when, also = [] } = options;
    tensorList(`step ${name}`, Array.isArray(also) ? also : null, "also");
    if (when !== undefined && (!checkTensor(`step ${name}`, "when", when).dtype.isBool || when.numel() !== 1)) {
      throw new ArgumentError(`step ${name}`, {
        reason: `when is ${when.dtype} with ${when.numel()} elements, not one bool`,
      });
    }
    if (currentCapture() !== undefined) this.#captured = true;
    const losses = lossesOf(gradsOf(this.params)) as Tensor[];
    this.follow();
    if (!this.ready) {
      Tensor.realize(this.state());
      this.ready = true;
    }
    const weights = at.map((i) => this.params[i]), met = gradsReading(weights, stepped) as Tensor[];
    endGraphs(weights);
    this.gate = when?.reshape([]);
    try {
      const state = this.update(this.slots(at));
      return [...losses, ...weights, ...state, ...this.buffers, ...met, ...also];
    } finally {
      this.gate = undefined;
    }
  }

  /** Throws where a gradient is elsewhere than its parameter, unless both are moved. @throws {DeviceError} */
  private checkDevices(at: readonly number[]): void {
    if (this.device !== undefined) return;
    for (const i of at) {
      const p = this.params[i], home = p.device, device = deviceOf(p.grad!.uop) ?? home;
      if (device === home) continue;
      throw new DeviceError(`step ${this.constructor.name}`, {
        device,
        reason: `parameter ${i}, of shape [${p.shape.join(", ")}], is on ${home}, and its gradient on ${device}; ` +
          `set it to p.grad.to("${home}")`,
      });
    }
  }

  /** All tensors that the optimizer keeps, but the learning rate. */
  protected abstract state(): Tensor[];
  /** Assigns new values to parameters and state, by {@linkcode write} and {@linkcode keep}; returns the state that changed. */
  protected abstract update(slots: readonly Slot[]): Tensor[];

  /** A 1-element float32 tensor in memory of its own, with the state. */
  protected scalarState(value: number): Tensor {
    const device = this.device ?? this.params[0].device;
    return this.whole(new Tensor([value], { dtype: "float32", device, requiresGrad: false }));
  }
  /** Zeros of another shape than a parameter's, in memory of their own; on a mesh, whole on each device. */
  protected zerosFor(p: Tensor, shape: readonly number[]): Tensor {
    const dtype = p.dtype === dtypes.float64 ? p.dtype : "float32";
    return this.whole(Tensor.zeros(shape, { dtype, device: this.device ?? p.device, requiresGrad: false }).clone());
  }
  /** State that is with the parameters, whole where they are divided. */
  private whole(made: Tensor): Tensor {
    if (this.device === undefined) this.#followers.push([made, undefined]);
    return made;
  }
  /**
   * Zeros for each slot, in memory of their own: float32, or the parameter's dtype where that is wider. They are divided
   * among devices as the parameters are.
   */
  protected moments(): Tensor[] {
    const zeros = (shape: number[], p: Tensor) =>
      Tensor.zeros(shape, {
        dtype: p.dtype.real === dtypes.float64 ? p.dtype.real : "float32",
        device: this.device ?? p.device,
        requiresGrad: false,
      }).clone();
    const params = this.params.map(reals);
    if (this.fused) {
      return [this.whole(zeros([params.reduce((n, p) => n + p.numel(), 0)], params[0]))];
    }
    return params.map((p, i) => {
      if (this.device !== undefined) return zeros(p.shape, p);
      const made = dividedAs(zeros(p.shape, p), this.params[i]);
      this.#followers.push([made, this.params[i]]);
      return made;
    });
  }
  /** Brings state to where its parameter is, which may have been put on a mesh since. */
  private follow(): void {
    const [first] = this.params, moved = this.#followers.filter(([t, p = first]) => t.device !== p.device);
    if (moved.length === 0) return;
    const rate = this.getLr();
    for (const [t, p] of moved) t.replace(p === undefined ? t.to(first.device) : dividedAs(t, p));
    Tensor.realize(moved.map(([t]) => t));
    this.#rate.note([rate]);
  }
  /** `t` beside `other`, as the learning rate beside a parameter on another device. */
  protected beside(t: Tensor, other: Tensor): Tensor {
    const scalar = t.reshape([]);
    return scalar.device === other.device ? scalar : scalar.to(other.device);
  }

  /** What is to be updated: the parameters at `at`, or all as one vector. */
  private slots(at: readonly number[]): Slot[] {
    const here = (t: Tensor) => this.device === undefined ? t : t.to(this.device);
    const of = (t: Tensor) => here(reals(t));
    if (!this.fused) return at.map((i) => ({ at: i, value: of(this.params[i]), grad: of(this.params[i].grad!) }));
    const flat = (list: readonly Tensor[]) =>
      here(Tensor.cat(list.map((t) => gathered(reals(t)).flatten())).contiguous());
    return [{ at: 0, value: flat(this.params), grad: flat(gradsOf(this.params)) }];
  }
  /** Assigns `next` to a tensor of the state, unless the step is off. */
  protected keep(target: Tensor, next: Tensor): void {
    next = next.cast(target.dtype);
    if (this.gate !== undefined) next = this.beside(this.gate, target).where(next, target);
    target.assign(next);
  }
  /** Assigns `next` to the parameters of a slot, unless the step is off. */
  protected write(slot: Slot, next: Tensor): void {
    if (!this.fused) {
      const p = reals(this.params[slot.at]);
      return this.keep(p, next.cast(p.dtype).to(p.device));
    }
    const params = this.params.map(reals), flat = next.cast(params[0].dtype).contiguous().to(params[0].device);
    let start = 0;
    for (const p of params) {
      const stop = start + prod(p.shape);
      this.keep(p, flat.shrink([[start, stop]]).reshape(p.shape));
      start = stop;
    }
  }
}

/** What a group is made of, `what` of a kind: what is given, lists by their elements. @throws {ArgumentError} for none, and for others */
export function groupOf<T>(
  action: string,
  what: string,
  kind: abstract new (...args: never[]) => T,
  given: readonly (T | readonly T[])[],
): T[] {
  // holes are undefined
  const all = given.flatMap((x) => Array.isArray(x) ? Array.from(x as readonly T[]) : [x as T]);
  if (all.length === 0) throw new ArgumentError(action, { reason: `it takes ${what}, and got none` });
  for (const x of all) {
    if (!(x instanceof kind)) throw new ArgumentError(action, { reason: `it takes ${what}, not ${describe(x)}` });
  }
  return all;
}

/** Several optimizers stepped as one, each with its own parameters and learning rate. */
export class OptimizerGroup {
  /** Its optimizers. */
  readonly optimizers: readonly Optimizer[];
  /** Takes the optimizers to step together, or lists of them. @throws {ArgumentError} for what is none, and for none */
  constructor(...optimizers: readonly (Optimizer | readonly Optimizer[])[]) {
    this.optimizers = groupOf<Optimizer>("make OptimizerGroup", "optimizers", Optimizer, optimizers);
  }
  /** The tensors that are updated. */
  get params(): Tensor[] {
    return this.optimizers.flatMap((o) => o.params);
  }
  /** The learning rate of each; what is set is that of all, as {@linkcode Optimizer.lr}. */
  get lr(): Tensor[] {
    return this.optimizers.map((o) => o.lr);
  }
  set lr(value: number | Tensor) {
    for (const o of this.optimizers) o.lr = value;
  }
  /** Forgets all gradients. */
  zeroGrad(): void {
    for (const o of this.optimizers) o.zeroGrad();
  }
  /** As {@linkcode Optimizer.scheduleStep}. */
  scheduleStep(options: StepOptions = {}): Tensor[] {
    const { params } = this;
    return this.optimizers.flatMap((o) => stepBeside(o, options, params));
  }
  /** As {@linkcode Optimizer.step}, in one schedule. */
  step(options: StepOptions = {}): void {
    wholly(() => Tensor.realize(this.scheduleStep(options)));
    for (const o of this.optimizers) forgetLosses(gradsOf(o.params));
  }
}

/** What is given, if it is an optimizer or a group of them. @throws {ArgumentError} */
export function checkOptimizer<T extends Optimizer | OptimizerGroup>(action: string, x: T): T {
  if (x instanceof Optimizer || x instanceof OptimizerGroup) return x;
  throw new ArgumentError(action, { reason: `it takes an optimizer, not ${describe(x)}` });
}
