/**
 * Random programs of complex numbers beside an oracle that computes each element by itself, in JavaScript's numbers: what
 * complex nodes are taken apart into is not what the reference of other programs would find wrong. Values, and gradients
 * by differences along random directions.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";

Device.default = "JS";

type Complex = readonly [re: number, im: number];
/** A tensor of the oracle. */
interface Value {
  readonly shape: readonly number[];
  readonly data: readonly Complex[];
}
/** A step: of the oracle, and of the library. */
interface Step {
  readonly text: string;
  readonly oracle: (x: Value) => Value;
  readonly tensor: (x: Tensor) => Tensor;
}

const times = ([a, b]: Complex, [c, d]: Complex): Complex => [a * c - b * d, a * d + b * c];
const over = (z: Complex, [c, d]: Complex): Complex => {
  const [p, q] = times(z, [c, -d]), n = c * c + d * d;
  return [p / n, q / n];
};
const exp = ([a, b]: Complex): Complex => [Math.exp(a) * Math.cos(b), Math.exp(a) * Math.sin(b)];
const log = ([a, b]: Complex): Complex => [Math.log(Math.hypot(a, b)), Math.atan2(b, a)];
const half = ([a, b]: Complex): Complex => [a / 2, b / 2];
const plus = ([a, b]: Complex, [c, d]: Complex): Complex => [a + c, b + d];
const minus = ([a, b]: Complex): Complex => [-a, -b];
const turned = ([a, b]: Complex): Complex => [-b, a];

const FUNCTIONS: Readonly<Record<string, (z: Complex) => Complex>> = {
  exp,
  log,
  sqrt: (z) => exp(half(log(z))),
  conj: ([a, b]) => [a, -b],
  neg: minus,
  square: (z) => times(z, z),
  reciprocal: (z) => over([1, 0], z),
  sinh: (z) => half(plus(exp(z), minus(exp(minus(z))))),
  cosh: (z) => half(plus(exp(z), exp(minus(z)))),
  sin: (z) => over(plus(exp(turned(z)), minus(exp(minus(turned(z))))), [0, 2]),
  cos: (z) => half(plus(exp(turned(z)), exp(minus(turned(z))))),
  tanh: (z) => over(plus(exp(z), minus(exp(minus(z)))), plus(exp(z), exp(minus(z)))),
  sigmoid: (z) => over([1, 0], plus([1, 0], exp(minus(z)))),
  abs: ([a, b]) => [Math.hypot(a, b), 0],
  angle: ([a, b]) => [Math.atan2(b, a), 0],
  sgn: (z) => over(z, [Math.hypot(...z), 0]),
};
/** What has no derivative everywhere near the values of programs, or is real. */
const REAL = new Set(["abs", "angle"]);

function drawn(r: Random, shape: readonly number[]): Value {
  const n = shape.reduce((a, b) => a * b, 1), part = () => (r.int(1, 40) / 16) * r.pick([-1, 1]);
  return { shape, data: Array.from({ length: n }, (): Complex => [part(), part()]) };
}
const given = ({ shape, data }: Value): Tensor =>
  new Tensor(data.flat(), { dtype: "float64" }).reshape([...shape, 2]).viewAsComplex();
const each = (x: Value, f: (z: Complex, i: number) => Complex): Value => ({ shape: x.shape, data: x.data.map(f) });
/** Elements of x at positions, under a shape. */
const picked = (x: Value, shape: readonly number[], at: (i: number) => number): Value => ({
  shape,
  data: Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => x.data[at(i)]),
});

/** A step on tensors of shape [m, n]; what it gives has two axes again. */
function stepOf(r: Random, [m, n]: readonly number[]): Step {
  const kind = r.int(0, 9), y = drawn(r, [m, n]);
  const binary = (name: "add" | "sub" | "mul" | "div", f: (a: Complex, b: Complex) => Complex): Step => ({
    text: name,
    oracle: (x) => each(x, (z, i) => f(z, y.data[i])),
    tensor: (x) => x[name](given(y)),
  });
  switch (kind) {
    case 0:
      return r.pick([
        binary("add", plus),
        binary("sub", (a, b) => plus(a, minus(b))),
        binary("mul", times),
        binary("div", over),
      ]);
    case 1: {
      const row: Value = drawn(r, [1, n]);
      return {
        text: "mul row",
        oracle: (x) => each(x, (z, i) => times(z, row.data[i % n])),
        tensor: (x) => x.mul(given(row)),
      };
    }
    case 2:
      return {
        text: "transpose",
        oracle: (x) => picked(x, [n, m], (i) => (i % m) * n + Math.floor(i / m)),
        tensor: (x) => x.T,
      };
    case 3:
      return {
        text: "flip, roll",
        oracle: (x) => picked(x, [m, n], (i) => Math.floor(i / n) * n + ((n - 1 - i % n + 1) % n)),
        tensor: (x) => x.flip(1).roll(1, 1),
      };
    case 4:
      return {
        text: "sum",
        oracle: (x) => ({
          shape: [1, n],
          data: Array.from({ length: n }, (_, j) => x.data.filter((_, i) => i % n === j).reduce(plus)),
        }),
        tensor: (x) => x.sum(0, { keepdim: true }),
      };
    case 5: {
      const w = drawn(r, [n, 2]);
      return {
        text: "matmul",
        oracle: (x) => ({
          shape: [m, 2],
          data: Array.from(
            { length: 2 * m },
            (_, i) =>
              Array.from({ length: n }, (_, k) => times(x.data[Math.floor(i / 2) * n + k], w.data[2 * k + i % 2]))
                .reduce(plus),
          ),
        }),
        tensor: (x) => x.matmul(given(w)),
      };
    }
    case 6:
      return {
        text: "where",
        oracle: (x) => each(x, (z, i) => z[0] > 0 ? z : y.data[i]),
        tensor: (x) => x.real().gt(0).where(x, given(y)),
      };
    case 7:
      return {
        text: "cat, pairs",
        oracle: (x) => ({ shape: [2 * m, n], data: [...x.data, ...y.data] }),
        tensor: (x) => x.cat([given(y)]).viewAsReal().viewAsComplex(),
      };
    default: {
      const name = r.pick(Object.keys(FUNCTIONS));
      return {
        text: name,
        oracle: (x) => each(x, (z) => FUNCTIONS[name](z)),
        tensor: (x) => {
          const y = (x as unknown as Record<string, () => Tensor>)[name]();
          return REAL.has(name) ? y.cast("complex128") : y;
        },
      };
    }
  }
}

/** Steps, and the value before and after; undefined where it leaves numbers that can be compared. */
function programOf(seed: number): { readonly x: Value; readonly steps: Step[]; readonly want: Value } | undefined {
  const r = new Random(seed), x = drawn(r, [r.int(1, 3), r.int(1, 4)]), steps: Step[] = [];
  let want = x;
  for (let k = r.int(2, 5); k > 0; k--) {
    const step = stepOf(r, want.shape);
    steps.push(step);
    want = step.oracle(want);
    if (!want.data.flat().every((v) => Math.abs(v) < 1e4)) return undefined;
    if (!want.data.every((z) => Math.hypot(...z) > 1e-3)) return undefined;
  }
  return { x, steps, want };
}

/** Re(sum(conj(w) z)) */
const weighed = (z: Value, w: Value): number =>
  z.data.reduce((s, [a, b], i) => s + a * w.data[i][0] + b * w.data[i][1], 0);

Deno.test("fuzz: complex programs agree with an oracle of scalars, gradients with differences", async () => {
  let compared = 0;
  for (let seed = 1; seed <= 40; seed++) {
    const program = programOf(seed);
    if (program === undefined) continue;
    const { x, steps, want } = program, text = `seed ${seed}: ${steps.map((s) => s.text).join(", ")}`;
    const r = new Random(seed + 1000), z = given(x), weights = drawn(r, want.shape), along = drawn(r, x.shape);
    z.requiresGrad = true;
    const y = steps.reduce((t, s) => s.tensor(t), z);
    y.backward(given(weights));
    const found = Array.from(await y.data() as Float64Array), g = Array.from(await z.grad!.data() as Float64Array);
    const size = Math.max(1, ...want.data.flat().map(Math.abs));
    want.data.flat().forEach((v, i) =>
      assert.ok(Math.abs(v - found[i]) < 1e-9 * size, `${text}: ${found[i]}, want ${v}`)
    );
    const h = 1e-6,
      at = (by: number): number => {
        const moved = each(x, (v, i) => plus(v, [by * along.data[i][0], by * along.data[i][1]]));
        return weighed(steps.reduce((v, s) => s.oracle(v), moved), weights);
      };
    const slope = (at(h) - at(-h)) / (2 * h), mine = along.data.flat().reduce((s, v, i) => s + v * g[i], 0);
    const jump = Math.abs(at(h) - 2 * at(0) + at(-h)) / h; // a branch cut, or a condition, lies between
    if (jump > 1e-2 * Math.max(1, Math.abs(slope))) continue;
    assert.ok(Math.abs(slope - mine) < 1e-4 * Math.max(1, Math.abs(slope)), `${text}: slope ${mine}, want ${slope}`);
    compared++;
  }
  assert.ok(compared > 20, String(compared));
});
