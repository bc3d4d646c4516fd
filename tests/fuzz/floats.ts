/**
 * Random sums, differences and products of few float32 values among which are NaN, infinities, zeros of both signs, and
 * numbers so large that sums round or overflow: each result is what IEEE 754 says, step by step, on every device. Factors
 * are such that products are exact, so that it makes no difference where one is contracted with a sum.
 *
 * Run: `deno run -A tests/fuzz/floats.ts --count 1000 --seed 1 --device WASM`; `--case 17` runs only that one.
 */
import { Device, Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";
import { checkCommand } from "./parts/command.ts";

/** A value of a program: its tensor, its elements, and how it is written. */
interface Value {
  readonly t: Tensor;
  readonly v: readonly number[];
  readonly text: string;
}

const N = 24, fround = Math.fround;
/** What is added, and what is multiplied with it: products of both are exact. */
const TERMS = [
  NaN,
  Infinity,
  -Infinity,
  0,
  -0,
  1,
  -1,
  3,
  2 ** 24,
  2 ** 24 + 2,
  -(2 ** 24),
  2 ** 60,
  fround(3e38),
  -fround(3e38),
];
const FACTORS = [NaN, Infinity, -Infinity, 0, -0, 1, -1, 0.5, -0.5, 1, -1];
const ADDED = [1, -1, 3, 2 ** 24, -(2 ** 24), 2 ** 60, fround(3e38), -fround(3e38)], SCALED = [-1, 0.5, 0, -0.5];

const signed = (x: number): string => Object.is(x, -0) ? "-0" : String(x);
const larger = (a: number, b: number): number => a !== a || b !== b ? NaN : Math.max(a, b);
const BINARY: Record<string, [(a: Tensor, b: Tensor) => Tensor, (a: number, b: number) => number]> = {
  add: [(a, b) => a.add(b), (a, b) => fround(a + b)],
  sub: [(a, b) => a.sub(b), (a, b) => fround(a - b)],
  maximum: [(a, b) => a.maximum(b), larger],
  lesser: [(a, b) => a.lt(b).where(a, b), (a, b) => a < b ? a : b],
  less: [(a, b) => a.lt(b).cast("float32"), (a, b) => Number(a < b)],
  same: [(a, b) => a.eq(b).cast("float32"), (a, b) => Number(a === b)],
};
const UNARY: Record<string, [(a: Tensor) => Tensor, (a: number) => number]> = {
  neg: [(a) => a.neg(), (a) => -a],
  abs: [(a) => a.abs(), Math.abs],
  relu: [(a) => a.relu(), (a) => a !== a ? NaN : Math.max(a, 0)],
};

/** What is wrong with a program; undefined where nothing is. */
export async function checkFloats(seed: number, at: number): Promise<string | undefined> {
  const random = new Random(seed * 1_000_003 + at * 7919 + 1);
  const leaf = (from: readonly number[], name: string): Value => {
    const v = Array.from({ length: N }, () => random.pick(from));
    return { t: new Tensor(v, { dtype: "float32" }).realize(), v, text: name };
  };
  const values = ["x", "y", "z"].map((n) => leaf(TERMS, n)), factors = ["m", "n"].map((n) => leaf(FACTORS, n));
  const pick = (): Value =>
    random.int(0, 2) === 0
      ? random.pick(values)
      : values[Math.max(3, values.length - 1 - random.int(0, 2))] ?? random.pick(values);
  for (let i = random.int(2, 7); i > 0; i--) {
    const a = pick(), b = pick(), kind = random.int(0, 9);
    const add = (t: Tensor, of: (i: number) => number, text: string) =>
      values.push({ t, v: a.v.map((_, i) => of(i)), text });
    if (kind < 5) {
      const name = kind < 2 ? "add" : kind < 4 ? "sub" : random.pick(Object.keys(BINARY)), [f, g] = BINARY[name];
      add(f(a.t, b.t), (i) => g(a.v[i], b.v[i]), `${name}(${a.text}, ${b.text})`);
    } else if (kind === 5) {
      const c = random.pick(ADDED);
      add(a.t.add(c), (i) => fround(a.v[i] + c), `(${a.text} + ${c})`);
    } else if (kind === 6) {
      const name = random.pick(Object.keys(UNARY)), [f, g] = UNARY[name];
      add(f(a.t), (i) => g(a.v[i]), `${name}(${a.text})`);
    } else if (kind === 7 && !a.text.includes("*")) {
      const c = random.pick(SCALED);
      add(a.t.mul(c), (i) => fround(a.v[i] * c), `(${a.text} * ${c})`);
    } else if (!a.text.includes("*")) {
      const m = random.pick(factors);
      add(a.t.mul(m.t), (i) => fround(a.v[i] * m.v[i]), `(${a.text} * ${m.text})`);
    }
  }
  const { t, v, text } = values[values.length - 1];
  try {
    // which of 0 and -0 is the larger is open, and WGSL (15.7.2) lets an implementation ignore the sign of a zero
    const isOpen = /maximum|relu/.test(text) || Device.default === "WEBGPU";
    const got = await t.data() as Float32Array;
    const bad = v.findIndex((want, i) => !Object.is(got[i], want) && !(isOpen && want === 0 && got[i] === 0));
    if (bad < 0) return undefined;
    const leaves = [...values.slice(0, 3), ...factors].map((l) => `${l.text} = ${signed(l.v[bad])}`);
    return `${text} is ${signed(got[bad])}, want ${signed(v[bad])}, where ${leaves.join(", ")}`;
  } catch (error) {
    return `${text}: ${(error as Error).stack}`;
  }
}

if (import.meta.main) await checkCommand(checkFloats, 10);
