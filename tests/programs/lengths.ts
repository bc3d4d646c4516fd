/**
 * Programs of arrays and lengths beside loops over numbers: each on every device, realized as it is and replayed by one
 * capture of `jit`, with other values and other lengths each time; gradients beside differences. @module
 */
import assert from "node:assert/strict";
import { type DTypeName, jit, Tensor, Variable } from "../../mod.ts";
import { onAllDevices } from "./reported.ts";

/** Numbers in lists of lists. */
export type Nested = number | readonly Nested[];
/** A list of rows. */
export type Rows = number[][];

/** What a program takes, computes, and must give. */
export interface LengthProgram {
  /** Arrays: shape, dtype (float32 where none is said), and what is done to noise in [-1, 1]. */
  readonly arrays: readonly (readonly [shape: readonly number[], dtype?: DTypeName, of?: (noise: number) => number])[];
  /** Bounds of lengths, by name. */
  readonly lengths?: Readonly<Record<string, readonly [min: number, max: number]>>;
  /** Lengths of each call. */
  readonly at: readonly (readonly number[])[];
  readonly run: (xs: Tensor[], ns: Tensor[]) => Tensor | Tensor[];
  /** The same, of lists of numbers. */
  want(xs: unknown[], ns: number[]): unknown[];
  /** Which arrays have gradients. */
  readonly slopes?: readonly number[];
  readonly near?: number;
}

const noise = (seed: number, i: number): number => Math.sin(i * 12.9898 + seed * 78.233 + 0.5) * 43758.5453 % 1;

/** The list of lists of a shape whose numbers `next` gives. */
export function nested(shape: readonly number[], next: () => number): Nested {
  return shape.length === 0 ? next() : Array.from({ length: shape[0] }, () => nested(shape.slice(1), next));
}

/** All numbers of lists of lists. */
export function flat(x: unknown): number[] {
  return Array.isArray(x) ? x.flatMap(flat) : [Number(x)];
}

function near(what: string, got: unknown, want: unknown, by: number): void {
  const a = flat(got), b = flat(want);
  const text = `${what}: [${a.slice(0, 24)}] for [${b.slice(0, 24)}]`;
  assert.equal(a.length, b.length, text);
  for (const [i, y] of b.entries()) {
    const isSame = Object.is(a[i], y) || a[i] === y;
    assert.ok(isSame || Math.abs(a[i] - y) <= by * (1 + Math.abs(y)), `${text} at ${i}`);
  }
}

const list = (x: Tensor | Tensor[]): Tensor[] => x instanceof Tensor ? [x] : x;
const weightOf = (out: number, i: number): number => Math.cos(1 + 3 * out + i) + 1.5;

function arraysOf({ arrays }: LengthProgram, round: number): Nested[] {
  let i = 0;
  return arrays.map(([shape, dtype = "float32", of = (x: number) => x]) => {
    const next = dtype === "float32" ? (x: number) => Math.fround(of(x)) : of;
    return nested(shape, () => next(noise(round, i++)));
  });
}

function loss(outs: readonly Tensor[]): Tensor {
  const sums = outs.map((y, k) => {
    const [size] = y.flatten().symbolicShape;
    return y.flatten().mul(Tensor.arange(size).add(1 + 3 * k).cos().add(1.5)).sum();
  });
  return sums.reduce((a, b) => a.add(b));
}

/** Slopes by differences, of all numbers of an array. */
function differences(p: LengthProgram, xs: Nested[], ns: number[], which: number): number[] {
  const value = (): number =>
    p.want(xs, ns).map((y, k) => flat(y).reduce((a, v, i) => a + v * weightOf(k, i), 0)).reduce((a, b) => a + b, 0);
  const slopes: number[] = [], h = 1e-5;
  const visit = (x: Nested): void => {
    const row = x as Nested[];
    for (const [i, v] of row.entries()) {
      if (typeof v !== "number") {
        visit(v);
        continue;
      }
      row[i] = v + h;
      const more = value();
      row[i] = v - h;
      slopes.push((more - value()) / (2 * h));
      row[i] = v;
    }
  };
  visit(xs[which]);
  return slopes;
}

/** Runs a program on the default device in every way. */
export async function checkLengths(p: LengthProgram): Promise<void> {
  const { lengths = {}, slopes = [], near: by = 2e-5 } = p;
  const variables = Object.entries(lengths).map(([name, [min, max]]) => new Variable(name, min, max));
  const given = (round: number): Tensor[] =>
    arraysOf(p, round).map((x, i) => new Tensor(x as number[], { dtype: p.arrays[i][1] ?? "float32" }).realize());
  const isMoved = slopes.length > 0;
  const all = (xs: Tensor[], ns: Tensor[]): Tensor[] => {
    const outs = list(p.run(xs, ns));
    return isMoved ? [...outs, ...loss(outs).gradient(slopes.map((i) => xs[i]))] : outs;
  };
  const captured = jit(all);
  for (const [round, ns] of p.at.entries()) {
    const xs = arraysOf(p, round), want = p.want(xs, [...ns]);
    const moved = slopes.map((i) => differences(p, xs, [...ns], i));
    const bound = (): Tensor[] => ns.map((n, i) => variables[i].bind(n));
    const ways: [string, Tensor[]][] = [
      ["realized", all(given(round), bound())],
      ["captured", captured(given(round), bound())],
    ];
    for (const [way, outs] of ways) {
      Tensor.realize(outs);
      const at = `${way}, call ${round} at [${ns}]`;
      for (const [i, y] of want.entries()) near(`${at}: ${i}`, await outs[i].tolist(), y, by);
      for (const [i, y] of moved.entries()) {
        near(`${at}: slope ${slopes[i]}`, await outs[want.length + i].tolist(), y, 50 * by);
      }
    }
  }
  assert.equal(captured.stats.captures, 1);
}

/** A test of each program, on each device. */
export function lengthPrograms(about: string, programs: Readonly<Record<string, LengthProgram>>): void {
  for (const [name, p] of Object.entries(programs)) onAllDevices(about, name, () => checkLengths(p));
}
