/**
 * Gradients through a scan whose step is captured: the carries of all steps are kept, and the gradient of a step, captured
 * too, runs from the last step to the first. In: the function of a step, and what a run of it has left. Out: the results,
 * as functions of what the scan was given and of the tensors that the step reads besides.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { leavesOf, mapLeaves } from "../../helpers/tree.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { reachedLeaves } from "../gradients/backward.ts";
import { internals } from "../handle/base.ts";
import { materializeShape } from "../handle/broadcast.ts";
import { currentCounter, reserveCounter } from "../nodes/random.ts";
import { Tensor } from "../tensor.ts";
import { jit } from "./jit.ts";

/** A step: of a carry and a part, the next carry and a result. */
export type Step = (carry: unknown, x: unknown) => readonly [unknown, unknown];

const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;
const floats = (tree: unknown): Tensor[] => leavesOf(tree, isTensor).filter((t) => t.dtype.isFloat);

/** What gradients of a scan would reach. */
export interface Reached {
  /** The tensors that require gradients and that a step reads besides its arguments. */
  readonly own: readonly Tensor[];
  /** Whether a step draws random numbers: it cannot be run again to be differentiated. */
  readonly draws: boolean;
}

/** What gradients would reach; undefined where nothing requires one. Calls the step once. */
export function reachedBy(act: Step, init: unknown, xs: unknown): Reached | undefined {
  const given = reachedLeaves([...leavesOf(init, isTensor), ...leavesOf(xs, isTensor)]), before = currentCounter();
  const alone = (tree: unknown, first: boolean): unknown =>
    mapLeaves(tree, isTensor, (t) => (first ? t.at(0) : t).detach());
  const own = reachedLeaves(leavesOf(act(alone(init, false), alone(xs, true)), isTensor)) as Tensor[];
  const drawn = currentCounter() - before;
  reserveCounter(-drawn);
  return given.length + own.length === 0 ? undefined : { own, draws: drawn > 0 };
}

/** What a run of a scan has left: the carry before each step, in order, and the part that each was given. */
export interface Trace {
  readonly carries: readonly unknown[];
  readonly parts: readonly unknown[];
}

const AGAIN = new GradientArg(() => {
  throw new ArgumentError("differentiate a gradient of scan", {
    reason: "a captured step has first derivatives; give { unroll: true }, or differentiate with grad",
  });
});

/** The last carry and the stacked results as functions of `init`, `xs` and `own`. `reverse` is the scan's. */
export function withScanGradient<R>(
  results: R,
  carry: unknown,
  act: Step,
  { carries, parts }: Trace,
  [init, xs, own]: readonly [init: unknown, xs: unknown, own: readonly Tensor[]],
  reverse: boolean,
): R {
  const node = (t: Tensor): UOp => materializeShape(t.uop, t.shape), steps = carries.length;
  const inputs = [...floats(init), ...floats(xs), ...own].map(node), ends = floats(carry).length;
  const back = jit((from: unknown, part: unknown, gc: Tensor[], gy: Tensor[], sums: Tensor[]): Tensor[][] => {
    // within another capture a step is no end of its graph
    const [c, x] = [from, part].map((tree) => mapLeaves(tree, isTensor, (t) => t.detach()));
    const [next, y] = act(c, x), given = [...gc, ...gy].map((t) => t.detach());
    const terms = [...floats(next), ...floats(y)].map((t, k) => t.mul(given[k]).sum());
    const total = terms.reduce((a, b) => a.add(b)), args = [floats(c), floats(x)];
    const found = total.gradient([...args.flat(), ...own]), n = args[0].length, m = args.flat().length;
    return [found.slice(0, n), found.slice(n, m), sums.map((s, k) => s.add(found[m + k]))];
  }) as unknown as (...args: unknown[]) => Tensor[][];
  const zeros = (t: Tensor): Tensor => t.zerosLike().contiguous();
  const sweep = (output: number, g: UOp): UOp[] => {
    const made = (internals.wrap(floats(results)[0], g) as Tensor).detach();
    let gc = floats(carry).map((t, k) => k === output ? made.contiguous() : zeros(t)), sums = own.map(zeros);
    const gx: Tensor[][] = [], ys = floats(results).slice(ends);
    for (let i = steps - 1; i >= 0; i--) {
      const at = reverse ? steps - 1 - i : i;
      const gy = ys.map((t, k) => ends + k === output ? made.at(at).contiguous() : zeros(t.at(0)));
      const [before, part, all] = back(carries[i], parts[i], gc, gy, sums);
      gc = before;
      sums = all;
      gx[at] = part;
    }
    const stacked = gx[0].map((t, k) => t.stack(gx.slice(1).map((list) => list[k]), 0));
    return [...gc, ...stacked, ...sums].map((t) => withGradient(node(t), inputs, AGAIN));
  };
  let output = 0;
  return mapLeaves(results, isTensor, (t) => {
    if (!t.dtype.isFloat) return t;
    const k = output++;
    return internals.wrap(t, withGradient(node(t), inputs, new GradientArg((g) => sweep(k, g)))) as Tensor;
  }) as R;
}
