/**
 * The part of the model that trains: SGD on sums of products of its parameters, by steps with writes before and after
 * them, eager or as a jit function; steps that fail; and functions that fill the gradients of a leaf that is an argument.
 */
import { range } from "./assignments_bytes.ts";
import { comesFrom, type Handle, type Model, outsideOf } from "./assignments_model.ts";
import type { Statement } from "./assignments_program.ts";

const round = Math.fround;

/** What an optimizer keeps. */
interface State {
  readonly made: Statement;
  moments: number[][];
  steps: number;
  /** By parameter, the gradients that the last step has left, if it realized them. */
  left: (readonly number[] | undefined)[];
}

/** Runs the statements that train. */
export class Training {
  private readonly optimizers = new Map<string, State>();
  private readonly functions = new Map<string, Statement>();
  private readonly gradients = new Map<Handle, number[]>();

  constructor(private readonly model: Model) {}

  /** As `Model.step`. */
  run(s: Statement): boolean {
    const { optimizers, functions, model } = this;
    switch (s.op) {
      case "optimizer":
        optimizers.set(s.to!, {
          made: s,
          moments: s.names!.map((n) => model.get(n).places.map(() => 0)),
          steps: 0,
          left: [],
        });
        return false;
      case "stepper":
        this.stateOf(s.on!);
        for (const name of outsideOf({ ...s, result: s.body![0]?.on ?? "" })) if (name !== "") model.get(name);
        functions.set(s.to!, s);
        return false;
      case "slopes":
        functions.set(s.to!, s);
        return false;
      case "step":
        return this.step(this.functionOf(s.on!));
      case "failing":
        this.stateOf(s.on!).left = [];
        return model.isStale(this.stateOf(s.on!).made.names!);
      case "grad":
        return this.grad(s);
      default:
        return this.slope(s);
    }
  }

  private stateOf(name: string): State {
    const state = this.optimizers.get(name);
    if (state === undefined) throw new Error(`no optimizer ${name}`);
    return state;
  }
  private functionOf(name: string): Statement {
    const f = this.functions.get(name);
    if (f === undefined) throw new Error(`no function ${name}`);
    return f;
  }

  /** A step with what is written before and after it; a jit function does all writes by its end. */
  private step({ on, how, body = [], list = [] }: Statement): boolean {
    const state = this.stateOf(on!), inside = this.model.inner(), before = body.slice(0, list[0]);
    let may = inside.isStale(state.made.names!);
    const run = (b: Statement): void => {
      may = inside.step(b) || may;
      inside.settle(b);
    };
    before.forEach(run);
    may = inside.isStale(state.made.names!) || may;
    this.update(state);
    body.slice(list[0]).forEach(run);
    if (how === "") return may;
    const written = inside.writtenBy(body);
    may = inside.isStale(written) || may;
    inside.done(written);
    return may;
  }

  /** What a step has left as the gradient of a parameter. */
  private grad({ on, to, value }: Statement): boolean {
    const { made: { names = [] }, left } = this.stateOf(on!), at = names.indexOf(String(value)), values = left[at];
    if (values === undefined) throw new Error(`no gradient of ${value}`);
    this.model.handles.set(to!, this.model.real(values, this.model.get(names[at])));
    return false;
  }
  /** Adds to the gradients that steps have left for a tensor, where it is a parameter; where it was computed from one they are open. */
  private addToLeft(t: Handle, slope: readonly number[]): void {
    for (const { made, left } of this.optimizers.values()) {
      made.names!.forEach((name, j) => {
        const p = this.model.get(name);
        if (p === t) left[j] = left[j]?.map((g, i) => round(g + slope[i]));
        else if (comesFrom(t.version, p.memory)) left[j] = undefined;
      });
    }
  }

  private update(state: State): void {
    const { made: { names, terms, list }, steps } = state, { model } = this;
    const params = names!.map((n) => model.get(n)), old = params.map((h) => model.now(h));
    const sums = old.map((x) => x.reduce((a, b) => a + b, 0)), slopes = old.map((x) => x.map(() => 0));
    for (const [a, b, apart] of terms!) {
      for (const [p, q] of [[a, b], [b, a]]) slopes[p] = slopes[p].map((g, i) => g + (apart ? sums[q] : old[q][i]));
    }
    state.left = slopes.map((g, j) => list![1] === 1 && terms!.some(([a, b]) => a === j || b === j) ? g : undefined);
    params.forEach((h, j) => {
      state.moments[j] = slopes[j].map((g, i) => round(g + (steps === 0 ? 0 : list![0] / 2) * state.moments[j][i]));
      const next = old[j].map((x, i) => round(x - 0.25 * state.moments[j][i]));
      model.write(h, range(next.length), next, [h.version]);
    });
    state.steps++;
    model.done(names!);
  }

  /** A call of a function of a leaf and a factor, which may be a parameter: what it adds to their gradients, and to the factor. */
  private slope({ on, to, names = [], list = [] }: Statement): boolean {
    const { model, gradients } = this, { list: [scale, adds] = [0, 0] } = this.functionOf(on!);
    const [x, y] = names.map((n) => model.get(n));
    if (x.shape.join() !== y.shape.join()) throw new Error("shapes differ");
    let may = model.isStale(names);
    model.done(names, names);
    may = model.isStale(names) || may;
    const own = model.now(y).map((v) => v * scale * (x === y ? 2 : 1)),
      old = list[0] === 1 ? undefined : gradients.get(x);
    const sum = own.map((g, i) => round(g + (old?.[i] ?? 0)));
    gradients.set(x, sum);
    this.addToLeft(y, model.now(x).map((v) => v * scale));
    if (adds !== 0) {
      model.write(y, range(own.length), model.now(y).map((v) => round(v + adds)), [y.version]);
      model.done([names[1]]);
    }
    model.handles.set(to!, model.real(sum, x));
    return may;
  }
}
