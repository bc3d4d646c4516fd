/**
 * L-BFGS: quasi-Newton steps from the last gradients, with a closure that computes the loss again. In: parameters. Out:
 * their values after up to `maxIter` steps. What is remembered lies on the device as rows of two matrices; the recursion
 * runs on the host on inner products of these (Chen, Wang and Zhou, "Large-scale L-BFGS using MapReduce", NIPS 2014), so
 * that an iteration is the same few kernels, however much is remembered.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { prod, rangeOf } from "../../helpers/math.ts";
import { checkChoice, checkFunction, checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { forgetLosses } from "../../tensor/gradients/backward.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { checkRange } from "./optimizer.ts";
import { type Point, strongWolfe } from "./wolfe.ts";

/** Options of {@linkcode LBFGS}. */
export interface LBFGSOptions {
  /** The length of steps, 1 unless given; with a line search, where that begins. */
  readonly lr?: number;
  /** Iterations of a step; 20 unless given. */
  readonly maxIter?: number;
  /** Calls of the closure in a step; 5/4 of `maxIter` unless given. */
  readonly maxEval?: number;
  /** A step ends where no element of the gradient is larger; 1e-7 unless given. */
  readonly toleranceGrad?: number;
  /** A step ends where neither the loss nor an element changes more; 1e-9 unless given. */
  readonly toleranceChange?: number;
  /** How many changes of parameters and gradients are remembered; 100 unless given. */
  readonly historySize?: number;
  /** "strongWolfe" looks for a good length of each step; without, each is `lr`. */
  readonly lineSearchFn?: "strongWolfe";
}

/** What is remembered: changes of parameters `s` and gradients `y`, rows of matrices, and their inner products. */
class Memory {
  /** The rows in use, oldest first. */
  order: number[] = [];
  private s: Tensor | undefined;
  private y: Tensor | undefined;
  private readonly ss: number[][] = [];
  private readonly sy: number[][] = [];
  private readonly yy: number[][] = [];

  constructor(private readonly most: number) {}

  /** Has a row free: twice as many as there were, up to the most, else that of the oldest pair. */
  private free(like: Tensor): number {
    const rows = this.s?.shape[0] ?? 0;
    if (this.order.length < rows) return rangeOf(rows).find((i) => !this.order.includes(i))!;
    if (rows === this.most) return this.order.shift()!;
    const more = Math.min(Math.max(4, 2 * rows), this.most), zeros = like.zerosLike().unsqueeze(0);
    const grown = (old: Tensor | undefined): Tensor => {
      const added = zeros.expand([more - rows, like.numel()]);
      return (old === undefined ? added : old.cat([added])).clone();
    };
    [this.s, this.y] = [grown(this.s), grown(this.y)];
    Tensor.realize([this.s, this.y]);
    return rows;
  }

  /** Remembers a pair. */
  add(s: Tensor, y: Tensor): void {
    const i = this.free(s);
    this.s!.setAt([i], s);
    this.y!.setAt([i], y);
    Tensor.realize([this.s!, this.y!]);
    this.order.push(i);
  }

  /** Forgets all. */
  clear(): void {
    this.order = [];
  }

  /** Minus the gradient times the inverse of what the Hessian is taken for. The last pair has inner products yet to be found. */
  async direction(g: Tensor): Promise<Tensor> {
    const { order, s, y } = this;
    if (s === undefined || y === undefined || order.length === 0) return g.neg().realize();
    const last = order[order.length - 1], rows = s.shape[0];
    const beside = Tensor.stack([s.at(last), y.at(last), g]).transpose();
    const found = await Tensor.cat([s.matmul(beside), y.matmul(beside)]).cast(dtypes.float64).data();
    const at = (matrix: 0 | 1, row: number, column: number): number => found[(matrix * rows + row) * 3 + column];
    for (const i of order) {
      for (const [m, matrix, column] of [[this.ss, 0, 0], [this.sy, 0, 1], [this.yy, 1, 1]] as const) {
        (m[i] ??= [])[last] = at(matrix, i, column);
        (m[last] ??= [])[i] = column === 1 && matrix === 0 ? at(1, i, 0) : at(matrix, i, column);
      }
    }
    // coefficients of the direction in the s, the y and g
    const a = new Map(order.map((i) => [i, 0])),
      b = new Map(order.map((i) => [i, 0])),
      alpha = new Map<number, number>();
    let c = -1;
    const dot = (ofS: (i: number) => number, ofY: (i: number) => number, ofG: number): number =>
      order.reduce((sum, i) => sum + a.get(i)! * ofS(i) + b.get(i)! * ofY(i), c * ofG);
    for (const i of order.toReversed()) {
      const value = dot((j) => this.ss[i][j], (j) => this.sy[i][j], at(0, i, 2)) / this.sy[i][i];
      alpha.set(i, value);
      b.set(i, b.get(i)! - value);
    }
    const scale = this.sy[last][last] / this.yy[last][last];
    for (const m of [a, b]) for (const i of order) m.set(i, m.get(i)! * scale);
    c *= scale;
    for (const i of order) {
      const beta = dot((j) => this.sy[j][i], (j) => this.yy[i][j], at(1, i, 2)) / this.sy[i][i];
      a.set(i, a.get(i)! + alpha.get(i)! - beta);
    }
    const weights = (m: ReadonlyMap<number, number>): Tensor =>
      new Tensor(rangeOf(rows).map((i) => m.get(i) ?? 0), { dtype: g.dtype, device: g.device });
    const own = new Tensor([c], { dtype: g.dtype, device: g.device });
    return weights(a).matmul(s).add(weights(b).matmul(y)).add(g.mul(own)).realize();
  }
}

/**
 * L-BFGS (Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5), with PyTorch's options and ends. For losses
 * without noise, of few parameters: it computes the loss several times a step, and reads it.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const x = new Tensor([-1.2, 1], { requiresGrad: true });
 * const optimizer = new nn.optim.LBFGS([x], { lineSearchFn: "strongWolfe", maxIter: 60 });
 * await optimizer.step(() => {
 *   optimizer.zeroGrad();
 *   const [a, b] = [x.at(0), x.at(1)]; // Rosenbrock's function
 *   return a.sub(1).square().add(b.sub(a.square()).square().mul(100)).backward();
 * });
 * console.log((await x.tolist<number[]>()).map((v) => Number(v.toFixed(3)))); // [1, 1]
 * ```
 */
export class LBFGS {
  /** The tensors that are updated. */
  readonly params: readonly Tensor[];
  /** The length of steps. */
  lr: number;
  private readonly options: Required<Omit<LBFGSOptions, "lr" | "lineSearchFn">>;
  private readonly searches: boolean;
  private readonly memory: Memory;
  private iterations = 0;
  private direction: Tensor | undefined;
  private length = 0;
  private gradient: Tensor | undefined;
  private loss = NaN;

  /** @throws {ArgumentError} where there is nothing to update, or for a bad option */
  constructor(params: readonly Tensor[], options: LBFGSOptions = {}) {
    const action = "make LBFGS",
      known = "lr maxIter maxEval toleranceGrad toleranceChange historySize lineSearchFn".split(" ");
    const { lr = 1, maxIter = 20, maxEval = Math.floor(maxIter * 1.25), toleranceGrad = 1e-7, toleranceChange = 1e-9 } =
      checkOptions(action, options, known);
    const { historySize = 100, lineSearchFn } = options;
    if (!Array.isArray(params) || params.length === 0 || !Array.from(params).every((p) => p instanceof Tensor)) {
      throw new ArgumentError(action, { reason: `it takes a list of tensors, not ${describe(params)}` });
    }
    const all = [...new Set(params as Tensor[])];
    for (const p of all) if (p.requiresGrad === undefined && p.isFloatingPoint()) p.requiresGrad = true;
    this.params = all.filter((p) => p.requiresGrad === true);
    const [first] = this.params;
    if (first === undefined) throw new ArgumentError(action, { reason: "none of its tensors requires a gradient" });
    if (this.params.some((p) => p.dtype !== first.dtype || p.device !== first.device || p.dtype.isComplex)) {
      throw new ArgumentError(action, { reason: "parameters must have one dtype of real numbers, and one device" });
    }
    this.lr = checkRange("LBFGS", "lr", lr, 0, Infinity);
    checkInteger(action, "maxIter", maxIter, 1);
    checkInteger(action, "maxEval", maxEval, 1);
    checkInteger(action, "historySize", historySize, 1);
    checkRange("LBFGS", "toleranceGrad", toleranceGrad, 0, Infinity);
    checkRange("LBFGS", "toleranceChange", toleranceChange, 0, Infinity);
    if (lineSearchFn !== undefined) checkChoice(action, "lineSearchFn", lineSearchFn, ["strongWolfe"]);
    this.searches = lineSearchFn !== undefined;
    this.options = { maxIter, maxEval, toleranceGrad, toleranceChange, historySize };
    this.memory = new Memory(historySize);
    Tensor.realize([...this.params]);
  }

  /** Forgets the gradients of the parameters, and the losses that filled them. */
  zeroGrad(): void {
    forgetLosses(this.params.flatMap((p) => p.grad ? [p.grad] : []));
    for (const p of this.params) p.grad = undefined;
  }

  /** All gradients as one vector. */
  private gathered(): Tensor {
    const parts = this.params.map((p) => (p.grad ?? p.zerosLike()).detach().cast(p.dtype).flatten());
    return Tensor.cat(parts).contiguous().realize();
  }
  /** All parameters as one vector, as they are now. */
  private values(): Tensor {
    return Tensor.cat(this.params.map((p) => p.detach().flatten())).contiguous().realize();
  }
  /** Writes x + t d to the parameters. */
  private move(x: Tensor, t: number, d: Tensor): void {
    const flat = x.add(d.mul(new Tensor([t], { dtype: x.dtype, device: x.device })));
    let start = 0;
    Tensor.noGrad(() => {
      for (const p of this.params) {
        const stop = start + prod(p.shape);
        p.assign(flat.shrink([[start, stop]]).reshape(p.shape));
        start = stop;
      }
      Tensor.realize([...this.params]);
    });
  }

  /**
   * Up to `maxIter` iterations. `closure` forgets the gradients, computes the loss, calls its `backward()` and gives it; it
   * may be asynchronous. Gives the loss of before.
   *
   * @throws {ArgumentError} for a closure that gives no tensor of one element, or leaves no gradient
   */
  async step(closure: () => Tensor | Promise<Tensor>): Promise<Tensor> {
    const action = "step LBFGS", { maxIter, maxEval, toleranceGrad, toleranceChange } = this.options, { memory } = this;
    checkFunction(action, "the closure", closure);
    const evaluate = async (): Promise<[loss: Tensor, value: number, g: Tensor]> => {
      const loss = await closure();
      if (!(loss instanceof Tensor) || loss.numel() !== 1) {
        throw new ArgumentError(action, { reason: `the closure must give the loss, not ${describe(loss)}` });
      }
      checkTensor(action, "the loss", loss);
      if (this.params.every((p) => !p.grad)) {
        throw new ArgumentError(action, { reason: "no parameter has a gradient; call loss.backward() in the closure" });
      }
      const g = this.gathered();
      return [loss, await loss.reshape([]).item(), g];
    };
    const largest = async (x: Tensor): Promise<number> => await x.abs().max().item();
    const [before, value, first] = await evaluate();
    let loss = value, g = first, calls = 1;
    if (await largest(g) <= toleranceGrad) return before;
    for (let n = 1; n <= maxIter; n++) {
      this.iterations++;
      if (this.iterations === 1) memory.clear();
      else {
        const s = this.direction!.mul(this.length).realize(), y = g.sub(this.gradient!).realize();
        if (await s.mul(y).sum().item() > 1e-10) memory.add(s, y);
      }
      const d = await memory.direction(g);
      [this.direction, this.gradient, this.loss] = [d, g, loss];
      const [slope, sum] = await Tensor.stack([g.mul(d).sum(), g.abs().sum()]).cast(dtypes.float64).data();
      let t = this.iterations === 1 ? Math.min(1, 1 / sum) * this.lr : this.lr;
      if (slope > -toleranceChange) break; // no way down
      const x = this.values();
      let made = 0;
      if (this.searches) {
        const at = async (length: number): Promise<Point & { readonly g: Tensor }> => {
          this.move(x, length, d);
          const [, f, gradient] = await evaluate();
          made++;
          return { t: length, f, slope: await gradient.mul(d).sum().item(), g: gradient };
        };
        const start = { t: 0, f: loss, slope, g }, size = await largest(d);
        const end = await strongWolfe(at, start, t, toleranceChange / size);
        [t, loss, g] = [end.t, end.f, end.g];
        this.move(x, t, d);
      } else {
        this.move(x, t, d);
        if (n < maxIter) {
          [, loss, g] = await evaluate();
          made = 1;
        }
      }
      this.length = t;
      calls += made;
      if (n === maxIter || calls >= maxEval || await largest(g) <= toleranceGrad) break;
      if (await largest(d) * t <= toleranceChange || Math.abs(loss - this.loss) < toleranceChange) break;
    }
    return before;
  }
}
