/**
 * Functions of one and two numbers at random points of edges.ts, and by formula at random points near ends, on random shapes
 * that random movements have turned, before and after: values and gradients, elementwise by the stored ones of PyTorch or
 * by the formula. What broadcasts or is moved twice has the sum of the gradients.
 */
import { Device, Tensor } from "../../mod.ts";
import { callOf, type EdgeCase, edgeCases, isRight, numbers, pairPoints, signed, unaryPoints } from "./edges.ts";
import type { Part } from "../support/parts.ts";
import { Random } from "../support/random.ts";

/** A function of numbers, with what is known of it at points that it names itself. */
interface Known {
  readonly name: string;
  readonly call: (x: Tensor, y?: Tensor) => Tensor;
  readonly arity: number;
  /** A point, as something to ask for. */
  readonly point: (r: Random) => number;
  readonly valueOf: (point: number) => number;
  readonly at: (points: readonly number[]) => { readonly value: number; readonly grads: readonly number[] };
  readonly right: (of: "value" | "gradient", got: number, exact: number, at: readonly number[], p: Place) => boolean;
}

/** Where a number is compared: `factor` is what it is multiplied with. */
interface Place {
  readonly device: string;
  readonly narrow: boolean;
  readonly factor: number;
}

// ---- what is stored

function stored(c: EdgeCase): Known {
  const out = numbers(c.out), grads = (c.grads ?? []).map((g) => g === null ? [] : numbers(g)), n = pairPoints.length;
  const arity = c.inputs.length, list = arity === 1 ? unaryPoints : pairPoints;
  return {
    name: c.js,
    call: callOf(c.js),
    arity,
    point: (r) => r.int(0, list.length - 1),
    valueOf: (i) => list[i],
    at: ([i, j]) => {
      const k = arity === 1 ? i : i * n + j;
      return { value: out[k], grads: grads.map((g) => g[k]) };
    },
    right: (of, got, exact, at, { device, narrow, factor }) => isRight(c, of, got, exact, at, device, narrow, factor),
  };
}

/** What is elementwise of lists alone: other shapes change, or do not broadcast. */
const OF_LISTS = new Set(["x.ravel()", "x.stack([y], 0).glu(0).squeeze(0)"]);

/** The stored cases of functions of one and two numbers, on whatever shape. */
export const elementwiseCases: readonly EdgeCase[] = edgeCases.filter((c) =>
  c.ones && c.inputs.every((x, i) => x === (c.inputs.length === 1 ? "unary" : i === 0 ? "left" : "right")) &&
  c.grads?.every((g) => g !== null) && !OF_LISTS.has(c.js)
);
// weighted, the slope of x / x is a difference
const STORED = elementwiseCases.map((c) => stored(c.js === "x.div(x)" ? { ...c, absolute: true } : c));

// ---- formulas

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x)),
  even = (x: number): number => {
    const f = Math.floor(x), rest = x - f;
    return rest < 0.5 || (rest === 0.5 && f % 2 === 0) ? f : f + 1;
  };
/** Name, value, slope, and the ends of domains or the places of steps and kinks, near which points are taken. */
const FORMULAS: readonly [string, (x: number) => number, (x: number) => number, readonly number[]][] = [
  ["sin", Math.sin, Math.cos, [Math.PI]],
  ["cos", Math.cos, (x) => -Math.sin(x), [Math.PI]],
  ["tan", Math.tan, (x) => 1 / Math.cos(x) ** 2, [0.75]],
  ["asin", Math.asin, (x) => 1 / Math.sqrt((1 - x) * (1 + x)), [1, -1, 0.5]],
  ["acos", Math.acos, (x) => -1 / Math.sqrt((1 - x) * (1 + x)), [1, -1, 0.5]],
  ["atan", Math.atan, (x) => 1 / (1 + x * x), [1, Math.SQRT2 - 1]],
  ["sinh", Math.sinh, Math.cosh, [1]],
  ["cosh", Math.cosh, Math.sinh, [0]],
  ["tanh", Math.tanh, (x) => 1 / Math.cosh(x) ** 2, [0.625]],
  ["asinh", Math.asinh, (x) => 1 / Math.hypot(1, x), [1]],
  ["acosh", Math.acosh, (x) => 1 / Math.sqrt((x - 1) * (x + 1)), [1]],
  ["atanh", Math.atanh, (x) => 1 / ((1 - x) * (1 + x)), [1, -1]],
  ["exp", Math.exp, Math.exp, [1]],
  ["exp2", (x) => 2 ** x, (x) => 2 ** x * Math.LN2, [1]],
  ["log", Math.log, (x) => 1 / x, [1]],
  ["log2", Math.log2, (x) => 1 / x / Math.LN2, [1, 8]],
  ["log10", Math.log10, (x) => 1 / x / Math.LN10, [1, 10]],
  ["sqrt", Math.sqrt, (x) => 0.5 / Math.sqrt(x), [1]],
  ["rsqrt", (x) => 1 / Math.sqrt(x), (x) => -0.5 / x / Math.sqrt(x), [1]],
  ["reciprocal", (x) => 1 / x, (x) => -1 / x / x, [1]],
  ["square", (x) => x * x, (x) => 2 * x, [1]],
  ["abs", Math.abs, Math.sign, [0]],
  ["neg", (x) => -x, () => -1, [0]],
  ["relu", (x) => Math.max(x, 0), (x) => x > 0 ? 1 : 0, [0]],
  ["sigmoid", sigmoid, (x) => sigmoid(x) * sigmoid(-x), [0]],
  ["softplus", (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))), sigmoid, [0]],
  ["logsigmoid", (x) => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x))), (x) => sigmoid(-x), [0]],
  ["silu", (x) => x * sigmoid(x), (x) => sigmoid(x) * (1 + x * sigmoid(-x)), [0]],
  ["softsign", (x) => x / (1 + Math.abs(x)), (x) => 1 / (1 + Math.abs(x)) ** 2, [0]],
  ["elu", (x) => x > 0 ? x : Math.expm1(x), (x) => x > 0 ? 1 : Math.exp(x), [0]],
  ["hardtanh", (x) => Math.min(Math.max(x, -1), 1), (x) => x > -1 && x < 1 ? 1 : 0, [1, -1]],
  ["trunc", Math.trunc, () => 0, [1, -1, 2 ** 23]],
  ["floor", Math.floor, () => 0, [1, -1, 2 ** 23]],
  ["ceil", Math.ceil, () => 0, [1, -1, 2 ** 23]],
  ["round", even, () => 0, [0.5, -0.5, 2.5, 2 ** 23]],
];

/** A random number that float32 holds: of any size, or next to a place. */
function near(r: Random, places: readonly number[]): number {
  const kind = r.int(0, 3), sign = r.int(0, 1) === 0 ? 1 : -1;
  if (kind === 0) return Math.fround(r.pick(places) + sign * 2 ** -r.int(2, 22));
  if (kind === 1) return Math.fround(r.pick(places) * (1 + sign * r.int(0, 2) * 2 ** -23));
  return Math.fround(sign * r.next() * 10 ** r.int(-6, kind === 2 ? 1 : 4));
}

function formula([name, value, slope, places]: typeof FORMULAS[number]): Known {
  return {
    name: `x.${name}()`,
    call: (x) => (x as unknown as Record<string, () => Tensor>)[name](),
    arity: 1,
    point: (r) => near(r, places),
    valueOf: (x) => x,
    at: ([x]) => ({ value: value(x), grads: [slope(x)] }),
    right: isNear,
  };
}

/** Relative to the number, to 1 where formulas cancel, and for what the dtype does not hold not at all. */
function isNear(of: "value" | "gradient", got: number, exact: number, _: readonly number[], p: Place): boolean {
  const want = exact * p.factor, size = Math.abs(want), [digits, least] = p.narrow ? [4e-6, 1e-36] : [1e-13, 1e-300];
  if (Object.is(got, want) || got === want || (size < least && Math.abs(got) < 2 * least)) return true;
  if (p.narrow && size > 1e37) return true;
  const bound = digits * (of === "value" ? 1 : 20);
  return Math.abs(got - want) <= bound * size + bound * Math.abs(p.factor) * 0.25;
}

const floorMod = (a: number, b: number): number => {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
};
/** Remainders, which are exact. */
const REMAINDERS: readonly Known[] = (["fmod", "mod"] as const).map((name): Known => ({
  name: `x.${name}(y)`,
  call: (x, y) => x[name](y!),
  arity: 2,
  point: (r) => near(r, [1, 3, 0.1, 1e4]),
  valueOf: (x) => x,
  at: ([a, b]) => {
    const value = name === "fmod" ? a % b : floorMod(a, b);
    return { value, grads: [1, -Math.round((a - value) / b)] };
  },
  right: (of, got, exact, at, p) => {
    if (of === "gradient" && Math.abs(at[0] / at[1]) > 2 ** 20) return true; // the quotient is rounded
    return isNear(of, got, exact, at, p);
  },
}));

const ALL: readonly Known[] = [...STORED, ...FORMULAS.map(formula), ...REMAINDERS];

// ---- movements, of positions as of tensors

/** Which element of the leaf stands where. */
interface Moved {
  readonly shape: readonly number[];
  readonly from: readonly number[];
}

/** The positions of `shape` whose coordinates `of` gives for those of the result. */
function picked(m: Moved, shape: readonly number[], of: (at: readonly number[]) => readonly number[]): Moved {
  const n = shape.reduce((a, b) => a * b, 1), from: number[] = [];
  for (let i = 0; i < n; i++) {
    const at: number[] = [];
    for (let k = shape.length - 1, rest = i; k >= 0; rest = Math.floor(rest / shape[k--])) at[k] = rest % shape[k];
    from.push(m.from[of(at).reduce((p, x, k) => p * m.shape[k] + x, 0)]);
  }
  return { shape, from };
}

/** A random movement, of the positions, and of a tensor. */
function movement(r: Random, m: Moved): [Moved, (t: Tensor) => Tensor, string] {
  const { shape } = m, rank = shape.length, axis = r.int(0, Math.max(rank - 1, 0)), n = shape[axis];
  switch (rank === 0 ? 4 : r.int(0, 5)) {
    case 0: {
      const to = picked(m, shape, (at) => at.map((x, k) => k === axis ? n - 1 - x : x));
      return [to, (t) => t.flip(axis), `flip(${axis})`];
    }
    case 1: {
      const order = shape.map((_, i) => i);
      for (let i = rank - 1; i > 0; i--) {
        const j = r.int(0, i);
        [order[i], order[j]] = [order[j], order[i]];
      }
      const to = picked(m, order.map((a) => shape[a]), (at) => shape.map((_, a) => at[order.indexOf(a)]));
      return [to, (t) => t.permute(order), `permute([${order}])`];
    }
    case 2: {
      const step = r.int(1, 3), start = r.int(0, n - 1), count = Math.ceil((n - start) / step);
      const to = picked(
        m,
        shape.map((s, k) => k === axis ? count : s),
        (at) => at.map((x, k) => k === axis ? start + step * x : x),
      );
      const index = shape.map((_, k) => k === axis ? [start, null, step] as const : ":" as const);
      return [to, (t) => t.at(...index), `at(${JSON.stringify(index)})`];
    }
    case 3: {
      const flat = [shape.reduce((a, b) => a * b, 1)];
      return [{ shape: flat, from: m.from }, (t) => t.reshape(flat), `reshape([${flat}])`];
    }
    case 4: {
      const k = r.int(1, 3), wide = [k, ...shape];
      const to = picked(m, wide, (at) => at.slice(1));
      return [to, (t) => t.unsqueeze(0).expand(wide), `unsqueeze(0).expand([${wide}])`];
    }
  }
  return [m, (t) => t.contiguous(), "contiguous()"];
}

/** A leaf, and what becomes of it before it is an operand. */
interface Operand {
  readonly points: readonly number[];
  readonly leaf: Tensor;
  readonly moved: Moved;
  readonly tensor: Tensor;
  readonly text: string;
}

function operandOf(
  r: Random,
  f: Known,
  shape: readonly number[],
  moves: number,
  dtype: string,
  device: string,
): Operand {
  const points = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => f.point(r));
  const leaf = new Tensor(points.map(f.valueOf), { dtype, device }).reshape(shape);
  let moved: Moved = { shape, from: points.map((_, i) => i) }, tensor = leaf, text = `leaf([${shape}])`;
  for (let i = 0; i < moves; i++) {
    const [to, apply, name] = movement(r, moved);
    if (to.from.length > 400) break;
    [moved, tensor, text] = [to, apply(tensor), `${text}.${name}`];
  }
  return { points, leaf, moved, tensor, text };
}

/** One random case, built and not run yet; `check` compares it once it is. */
interface Made {
  readonly results: readonly Tensor[];
  readonly check: () => Promise<string | undefined>;
}

const WEIGHTS = [1, 1, -1, 2, 0.5, -4];

function make(seed: number, device: string): Made {
  // in float64, which it has not
  const known = device === "WEBGPU" ? ALL.filter((f) => !/float64|floatPower/.test(f.name)) : ALL;
  const r = new Random(seed), f = r.pick(known), narrow = device === "WEBGPU" || r.int(0, 1) === 0;
  const dtype = narrow ? "float32" : "float64";
  const shape = Array.from({ length: r.int(0, 3) }, () => r.pick([1, 2, 3, 4, 5, 9])),
    moves = f.arity === 1 ? r.int(0, 3) : 0;
  const x = operandOf(r, f, shape, moves, dtype, device), operands = [x];
  if (f.arity === 2) {
    const other = shape.map((n) => r.int(0, 2) === 0 ? 1 : n).slice(r.int(0, Math.min(1, shape.length)));
    operands.push(operandOf(r, f, other, 0, dtype, device));
  }
  const full = x.moved.shape,
    all = operands.map((o) => {
      const lead = full.length - o.moved.shape.length;
      return picked(o.moved, full, (at) => o.moved.shape.map((n, k) => n === 1 ? 0 : at[k + lead]));
    });
  let out = f.call(operands[0].tensor, operands[1]?.tensor),
    text = `${f.name} of ${operands.map((o) => o.text).join(" and ")}`;
  let after: Moved = { shape: full, from: all[0].from.map((_, i) => i) };
  for (let i = r.int(0, 2); i > 0; i--) {
    const [to, apply, name] = movement(r, after);
    if (to.from.length > 400) break;
    [after, out, text] = [to, apply(out), `${text}.${name}`];
  }
  const weights = after.from.map(() => r.pick(WEIGHTS));
  const gradient = new Tensor(weights, { dtype, device }).reshape(after.shape);
  const isDropped = !out.dtype.isFloat, leaves = operands.map((o) => o.leaf);
  const grads = isDropped ? [] : out.gradient(leaves, { gradient: gradient.cast(out.dtype) });
  const check = async (): Promise<string | undefined> => {
    const at = (k: number): number[] => operands.map((o, i) => o.points[all[i].from[k]]);
    const inputs = (points: readonly number[]): number[] => points.map(f.valueOf);
    const place = (factor: number): Place => ({ device, narrow, factor });
    const said = (what: string, got: number, want: number, points: readonly number[]): string =>
      `${dtype} ${text}: ${what} at ${inputs(points).map(signed).join(", ")} is ${signed(got)}, not ${signed(want)}`;
    if (String(out.shape) !== String(after.shape)) return `${text}: shape [${out.shape}], not [${after.shape}]`;
    const values = [...await out.data()].map(Number);
    for (const [i, k] of after.from.entries()) {
      const points = at(k), { value } = f.at(points);
      if (!f.right("value", values[i], value, inputs(points), place(1))) return said("value", values[i], value, points);
    }
    for (const [o, g] of grads.entries()) {
      const got = [...await g.data()].map(Number);
      // the gradient of what the function gives: 0 where that is cut off, a sum where it is repeated
      const upstream = all[o].from.map(() => 0), terms: number[][] = got.map(() => []);
      after.from.forEach((k, i) => upstream[k] += weights[i]);
      all[o].from.forEach((p, k) => terms[p].push(k));
      for (const [p, list] of terms.entries()) {
        const found = list.map((k) => ({ points: at(k), weight: upstream[k], slope: f.at(at(k)).grads[o] }));
        // 0 times what is no number is none
        const most = narrow ? 1e37 : Number.MAX_VALUE;
        if (found.some((t) => t.weight === 0 && !(Math.abs(t.slope) <= most))) continue;
        const want = found.reduce((s, t) => s + t.weight * t.slope, 0);
        // sums: within the size of their terms, where each of them is a number
        const whole = found.length === 1
          ? found[0].weight
          : found.reduce((s, t) => s + Math.abs(t.weight * t.slope), 0);
        if (found.length === 0 ? got[p] === 0 : found.length > 1 && !Number.isFinite(whole)) continue;
        const isSame = found.length === 1
          ? f.right("gradient", got[p], found[0].slope, inputs(found[0].points), place(whole))
          : Math.abs(got[p] - want) <= (narrow ? 1e-4 : 1e-10) * (whole + 1) || (narrow && !(whole < 1e30)) ||
            found.some((t) => f.right("gradient", NaN, t.slope, inputs(t.points), place(1)));
        if (!isSame) return said(`gradient ${o}`, got[p], want, found[0]?.points ?? []);
      }
    }
    return undefined;
  };
  return { results: [out, ...grads], check };
}

/** What is run: `count` cases from `seed` on, or the one of `number`. */
export interface RandomRun extends Partial<Part> {
  readonly device: string;
  readonly count: number;
  readonly seed: number;
  readonly number?: number;
}

/** Runs random cases on a device, several in one schedule; gives what is wrong. */
export async function runRandomEdges(
  { device, count, seed, number, part = 0, parts = 1 }: RandomRun,
): Promise<string[]> {
  const before = Device.default, problems: string[] = [], size = 16;
  Device.default = device;
  const numbersOf = number !== undefined
    ? [number]
    : Array.from({ length: count }, (_, i) => i).filter((i) => i % parts === part);
  try {
    for (let first = 0; first < numbersOf.length; first += size) {
      const built: [number, Made][] = [];
      for (const i of numbersOf.slice(first, first + size)) {
        try {
          built.push([i, make((Math.imul(seed, 1_000_003) + i) | 0, device)]);
        } catch (e) {
          problems.push(`case ${i}: ${e}`);
        }
      }
      try {
        Tensor.realize(built.flatMap(([, m]) => m.results));
      } catch {
        // each says so alone
      }
      for (const [i, m] of built) {
        const why = await m.check().catch(String);
        if (why !== undefined) problems.push(`case ${i}: ${why}`);
      }
    }
  } finally {
    Device.default = before;
  }
  return problems;
}
