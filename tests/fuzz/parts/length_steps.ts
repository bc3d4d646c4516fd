/** What programs of lengths.ts are made of: methods of tensors, and the same done to lists of numbers. @module */
import { Tensor } from "../../../mod.ts";
import type { Random } from "../../support/random.ts";

/** A matrix of numbers. */
export interface Grid {
  readonly dtype: string;
  readonly shape: readonly [number, number];
  readonly data: readonly (readonly number[])[];
}

/** The numbers of a call. */
export interface Call {
  readonly pool: readonly (readonly (readonly number[])[])[];
  readonly ns: readonly number[];
}

/** A matrix, how it is made, and what it should be in a call. */
export interface Value {
  readonly tensor: Tensor;
  readonly text: string;
  readonly want: (call: Call) => Grid;
}

/** A size or a place: a number, or arithmetic of variables. */
export interface Size {
  readonly size: Tensor | number;
  readonly most: number;
  readonly text: string;
  readonly at: (call: Call) => number;
}

/** What steps draw from. */
export interface Draw {
  readonly random: Random;
  readonly lengths: readonly Tensor[];
  readonly bounds: readonly (readonly [min: number, max: number])[];
  /** A part of memory. @throws {Outside} where it has no such part */
  readonly leaf: (rows: Size, columns: Size, dtype?: string) => Value;
}

/** What this step cannot do here, or the oracle cannot count. */
export class Outside extends Error {}

type Step = (v: Value, draw: Draw) => Value;
type Axis = 0 | 1;

const fixed = (n: number): Size => ({ size: n, most: n, text: `${n}`, at: () => n });
const name = (i: number): string => "nm"[i];

function length({ random, lengths, bounds }: Draw): Size {
  const i = random.below(lengths.length), more = random.pick([0, 0, 0, 1, 2]), [, most] = bounds[i];
  const size = more === 0 ? lengths[i] : lengths[i].add(more);
  return { size, most: most + more, text: `${name(i)}${more ? `+${more}` : ""}`, at: ({ ns }) => ns[i] + more };
}

function place(draw: Draw): Size {
  return draw.random.below(3) === 0 ? fixed(draw.random.int(0, 9)) : length(draw);
}

/** The size of an axis. */
function sizeOf(v: Value, axis: Axis): Size {
  const size = v.tensor.symbolicShape[axis];
  return { size, most: v.tensor.shape[axis], text: "", at: (call) => v.want(call).shape[axis] };
}

/** A number as a dtype has it. */
function as(dtype: string, x: number): number {
  if (dtype === "int8") return x << 24 >> 24;
  if (dtype === "uint8") return x & 255;
  if (dtype === "int32") return x | 0;
  if (dtype === "uint32") return x >>> 0;
  if (!(Math.abs(x) < 2 ** 24)) throw new Outside("beyond what float32 counts");
  return x;
}

const LEAST: Record<string, number> = { int8: -128, uint8: 0, int32: -(2 ** 31), uint32: 0 };
const MOST: Record<string, number> = { int8: 127, uint8: 255, int32: 2 ** 31 - 1, uint32: 2 ** 32 - 1 };

const turned = ({ dtype, shape: [r, c], data }: Grid): Grid => ({
  dtype,
  shape: [c, r],
  data: Array.from({ length: c }, (_, j) => data.map((row) => row[j])),
});

/** A change of lists of rows, of either axis. */
function along(axis: Axis, g: Grid, f: (g: Grid) => Grid): Grid {
  return axis === 0 ? f(g) : turned(f(turned(g)));
}

function each(g: Grid, f: (x: number, i: number, j: number) => number, dtype = g.dtype): Grid {
  return { dtype, shape: g.shape, data: g.data.map((row, i) => row.map((x, j) => as(dtype, f(x, i, j)))) };
}

function pickRows(g: Grid, rows: readonly number[]): Grid {
  return { ...g, shape: [rows.length, g.shape[1]], data: rows.map((i) => g.data[i]) };
}

const rowsOf = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

function joinRows(a: Grid, b: Grid): Grid {
  return { ...a, shape: [a.shape[0] + b.shape[0], a.shape[1]], data: [...a.data, ...b.data] };
}

const axisOf = ({ random }: Draw): Axis => random.int(0, 1) as Axis;

/** Where an axis of this value is: 0, 1, 2, ... */
function places(v: Value, axis: Axis): Tensor {
  const at = Tensor.arange(v.tensor.symbolicShape[axis]);
  return axis === 0 ? at.unsqueeze(1) : at;
}

/** A condition on places: as a tensor, as text, and as a function. */
function mask(v: Value, draw: Draw): [Tensor, string, (i: number, j: number, call: Call) => boolean] {
  const { random } = draw,
    axis = axisOf(draw),
    at = place(draw),
    a = places(v, axis),
    b = places(v, axis === 0 ? 1 : 0);
  const own = (i: number, j: number): number => axis === 0 ? i : j, other = (i: number, j: number): number => own(j, i);
  return random.pick<[Tensor, string, (i: number, j: number, call: Call) => boolean]>([
    [a.lt(at.size), `at${axis} < ${at.text}`, (i, j, call) => own(i, j) < at.at(call)],
    [a.ge(at.size), `at${axis} >= ${at.text}`, (i, j, call) => own(i, j) >= at.at(call)],
    [a.add(at.size).lt(b), `at${axis} + ${at.text} < other`, (i, j, call) => own(i, j) + at.at(call) < other(i, j)],
    [a.add(b).lt(at.size), `at + other < ${at.text}`, (i, j, call) => i + j < at.at(call)],
    [a.eq(at.size), `at${axis} = ${at.text}`, (i, j, call) => own(i, j) === at.at(call)],
    [a.sub(b).abs().le(at.size), `|at - other| <= ${at.text}`, (i, j, call) => Math.abs(i - j) <= at.at(call)],
  ]);
}

type Fold = "sum" | "max" | "min" | "prod";

function folded(g: Grid, how: Fold): Grid {
  const dtype = how === "max" || how === "min" || g.dtype === "float32"
    ? g.dtype
    : g.dtype.startsWith("u")
    ? "uint32"
    : "int32";
  const none = how === "sum"
    ? 0
    : how === "prod"
    ? 1
    : how === "max"
    ? LEAST[dtype] ?? -Infinity
    : MOST[dtype] ?? Infinity;
  const add = (a: number, x: number): number =>
    how === "sum"
      ? as(dtype, a + x)
      : how === "max"
      ? Math.max(a, x)
      : how === "min"
      ? Math.min(a, x)
      : dtype === "float32"
      ? as(dtype, a * x)
      : as(dtype, Math.imul(a, x));
  const row = rowsOf(g.shape[1]).map((j) => g.data.reduce((a, r) => add(a, r[j]), none));
  return { dtype, shape: [1, g.shape[1]], data: [row] };
}

/** Keeps a reduction in what all dtypes hold: ends of dtypes are no numbers to go on with. */
function calm(t: Tensor): Tensor {
  return t.maximum(-9).minimum(99);
}

const LIST: readonly Step[] = [
  function slice(v, draw) {
    const axis = axisOf(draw), a = place(draw), isFirst = draw.random.int(0, 1) === 0;
    const index = isFirst ? [0, a.size] : [a.size, null];
    return {
      tensor: axis === 0 ? v.tensor.at(index as [number, number]) : v.tensor.at(":", index as [number, number]),
      text: `${v.text}.at${axis}(${isFirst ? `0, ${a.text}` : `${a.text}, end`})`,
      want: (call) =>
        along(axis, v.want(call), (g) => {
          const at = a.at(call), rows = rowsOf(g.shape[0]);
          return pickRows(g, isFirst ? rows.slice(0, at) : rows.slice(at));
        }),
    };
  },
  function window(v, draw) {
    const axis = axisOf(draw), a = place(draw), b = place(draw);
    const end = typeof a.size === "number" && typeof b.size === "number"
      ? a.size + b.size
      : typeof a.size === "number"
      ? (b.size as Tensor).add(a.size)
      : a.size.add(b.size);
    const index = [a.size, end] as [number, number];
    return {
      tensor: axis === 0 ? v.tensor.at(index) : v.tensor.at(":", index),
      text: `${v.text}.at${axis}(${a.text}, ${a.text}+${b.text})`,
      want: (call) =>
        along(axis, v.want(call), (g) => pickRows(g, rowsOf(g.shape[0]).slice(a.at(call), a.at(call) + b.at(call)))),
    };
  },
  function pad(v, draw) {
    const axis = axisOf(draw), a = place(draw), b = place(draw), value = draw.random.pick([0, 0, 3]);
    const amounts = [a.size, b.size] as [number, number];
    return {
      tensor: v.tensor.pad(axis === 0 ? [amounts, null] : [null, amounts], { value }),
      text: `${v.text}.pad${axis}(${a.text}, ${b.text}; ${value})`,
      want: (call) =>
        along(axis, v.want(call), (g) => {
          const none = (n: number): Grid => ({
            ...g,
            shape: [n, g.shape[1]],
            data: rowsOf(n).map(() => new Array(g.shape[1]).fill(value)),
          });
          return joinRows(joinRows(none(a.at(call)), g), none(b.at(call)));
        }),
    };
  },
  function cat(v, draw) {
    const axis = axisOf(draw), more = place(draw), { random } = draw, dtype = v.tensor.dtype.name;
    const other = random.below(4) === 0
      ? v
      : draw.leaf(axis === 0 ? more : sizeOf(v, 0), axis === 1 ? more : sizeOf(v, 1), dtype);
    const parts = random.int(0, 1) === 0 ? [v, other] : [other, v];
    return {
      tensor: Tensor.cat(parts.map((p) => p.tensor), axis),
      text: `cat${axis}(${parts.map((p) => p.text).join(", ")}${other === v ? "" : `; ${more.text}`})`,
      want: (call) => {
        const [a, b] = parts.map((p) => p.want(call)).map((g) => axis === 0 ? g : turned(g)), both = joinRows(a, b);
        return axis === 0 ? both : turned(both);
      },
    };
  },
  function roll(v, draw) {
    const axis = axisOf(draw), by = place(draw);
    return {
      tensor: v.tensor.roll([by.size as number], axis),
      text: `${v.text}.roll${axis}(${by.text})`,
      want: (call) =>
        along(axis, v.want(call), (g) => {
          const n = g.shape[0], k = by.at(call);
          return pickRows(g, rowsOf(n).map((i) => (((i - k) % n) + n) % n));
        }),
    };
  },
  function turn(v, draw) {
    const axis = axisOf(draw);
    return draw.random.int(0, 1) === 0
      ? { tensor: v.tensor.T, text: `${v.text}.T`, want: (call) => turned(v.want(call)) }
      : {
        tensor: v.tensor.flip(axis),
        text: `${v.text}.flip${axis}`,
        want: (call) => along(axis, v.want(call), (g) => pickRows(g, rowsOf(g.shape[0]).reverse())),
      };
  },
  function where(v, draw) {
    const [m, text, isIn] = mask(v, draw), value = draw.random.pick([0, 0, 1, 5]);
    return {
      tensor: m.where(v.tensor, value),
      text: `(${text} ? ${v.text} : ${value})`,
      want: (call) => each(v.want(call), (x, i, j) => isIn(i, j, call) ? x : value),
    };
  },
  function either(v, draw) {
    const [m, text, isIn] = mask(v, draw), other = draw.leaf(sizeOf(v, 0), sizeOf(v, 1), v.tensor.dtype.name);
    return {
      tensor: m.where(v.tensor, other.tensor),
      text: `(${text} ? ${v.text} : ${other.text})`,
      want: (call) => {
        const o = other.want(call);
        return each(v.want(call), (x, i, j) => isIn(i, j, call) ? x : o.data[i][j]);
      },
    };
  },
  function fold(v, draw) {
    const axis = axisOf(draw), how = draw.random.pick<Fold>(["sum", "sum", "max", "min", "prod"]);
    return {
      tensor: calm(v.tensor[how](axis, { keepdim: true })).cast(v.tensor.dtype),
      text: `${v.text}.${how}${axis}`,
      want: (call) => {
        const g = v.want(call), f = along(axis, g, (g) => folded(g, how)), low = f.dtype.startsWith("u") ? 0 : -9;
        return each({ ...f, dtype: g.dtype }, (x) => Math.min(Math.max(x, low), 99));
      },
    };
  },
  function share(v, draw) {
    const axis = axisOf(draw), how = draw.random.pick<Fold>(["sum", "max", "min"]);
    const other = draw.leaf(sizeOf(v, 0), sizeOf(v, 1), v.tensor.dtype.name), isSum = draw.random.int(0, 1) === 0;
    const small = calm(v.tensor[how](axis, { keepdim: true })).cast(v.tensor.dtype);
    return {
      tensor: isSum ? other.tensor.add(small) : other.tensor.maximum(small),
      text: `(${other.text} ${isSum ? "+" : "max"} ${v.text}.${how}${axis})`,
      want: (call) => {
        const f = along(axis, v.want(call), (g) => folded(g, how)), low = f.dtype.startsWith("u") ? 0 : -9;
        return each(other.want(call), (x, i, j) => {
          const y = Math.min(Math.max(f.data[axis === 0 ? 0 : i][axis === 0 ? j : 0], low), 99);
          return isSum ? x + y : Math.max(x, as(v.tensor.dtype.name, y));
        });
      },
    };
  },
  function product(v, draw) {
    const other = draw.leaf(sizeOf(v, 1), place(draw), v.tensor.dtype.name);
    return {
      tensor: v.tensor.matmul(other.tensor),
      text: `${v.text} @ ${other.text}`,
      want: (call) => {
        const a = v.want(call), b = other.want(call), columns = turned(b).data, isFloat = a.dtype === "float32";
        const zip = (x: readonly number[], y: readonly number[]): number =>
          x.reduce((s, p, k) => as(a.dtype, s + (isFloat ? p * y[k] : Math.imul(p, y[k]))), 0);
        return { ...a, shape: [a.shape[0], b.shape[1]], data: a.data.map((row) => columns.map((c) => zip(row, c))) };
      },
    };
  },
  function wideProduct(v, draw) {
    const wide = { ...v, tensor: v.tensor.cast("int32") }, other = draw.leaf(sizeOf(v, 1), place(draw));
    return {
      tensor: wide.tensor.matmul(other.tensor.cast("int32")),
      text: `int(${v.text}) @ int(${other.text})`,
      want: (call) => {
        const a = v.want(call), b = other.want(call), columns = turned(b).data;
        const zip = (x: readonly number[], y: readonly number[]): number =>
          x.reduce((s, p, k) => s + Math.imul(p, y[k]) | 0, 0);
        const data = a.data.map((row) => columns.map((c) => zip(row, c)));
        return { dtype: "int32", shape: [a.shape[0], b.shape[1]], data };
      },
    };
  },
  function scan(v, draw) {
    const axis = axisOf(draw);
    return {
      tensor: v.tensor.cast("int32").cumsum(axis),
      text: `int(${v.text}).cumsum${axis}`,
      want: (call) =>
        along(axis, v.want(call), (g) => {
          const data: number[][] = [];
          for (const row of g.data) data.push(row.map((x, j) => x + (data.at(-1)?.[j] ?? 0) | 0));
          return { ...g, dtype: "int32", data };
        }),
    };
  },
  function stencil(v, draw) {
    const axis = axisOf(draw), n = v.tensor.symbolicShape[axis], k = draw.random.int(1, 2);
    const e = v.tensor.pad(axis === 0 ? [[k, k], null] : [null, [k, k]]);
    const part = (from: number): Tensor => {
      const to = typeof n === "number" ? n + from : n.add(from);
      return axis === 0 ? e.at([from, to]) : e.at(":", [from, to]);
    };
    return {
      tensor: part(0).sub(part(2 * k)).add(v.tensor),
      text: `${v.text}.stencil${axis}(${k})`,
      want: (call) =>
        along(
          axis,
          v.want(call),
          (g) => each(g, (x, i, j) => (g.data[i - k]?.[j] ?? 0) - (g.data[i + k]?.[j] ?? 0) + x),
        ),
    };
  },
  function combine(v, draw) {
    const other = draw.leaf(sizeOf(v, 0), sizeOf(v, 1), v.tensor.dtype.name), isSum = draw.random.int(0, 1) === 0;
    return {
      tensor: isSum ? v.tensor.add(other.tensor) : v.tensor.minimum(other.tensor),
      text: `(${v.text} ${isSum ? "+" : "min"} ${other.text})`,
      want: (call) => {
        const o = other.want(call);
        return each(v.want(call), (x, i, j) => isSum ? x + o.data[i][j] : Math.min(x, o.data[i][j]));
      },
    };
  },
  function spread(v, draw) {
    const axis = axisOf(draw), to = place(draw);
    if (v.tensor.symbolicShape[axis] !== 1) throw new Outside();
    return {
      tensor: v.tensor.expand(axis === 0 ? [to.size, null] : [null, to.size]),
      text: `${v.text}.expand${axis}(${to.text})`,
      want: (call) => along(axis, v.want(call), (g) => pickRows(g, new Array(to.at(call)).fill(0))),
    };
  },
  function choose(v, draw) {
    const axis = axisOf(draw), count = place(draw), step = draw.random.int(0, 3), n = v.tensor.symbolicShape[axis];
    if (typeof n !== "number" || n === 0) throw new Outside();
    const at = Tensor.arange(count.size as number).mul(step).mod(n);
    return {
      tensor: axis === 0 ? v.tensor.at(at) : v.tensor.at(":", at),
      text: `${v.text}.at${axis}(arange(${count.text}) * ${step} % ${n})`,
      want: (call) => along(axis, v.want(call), (g) => pickRows(g, rowsOf(count.at(call)).map((i) => i * step % n))),
    };
  },
  function keep(v) {
    return { ...v, tensor: v.tensor.contiguous(), text: `[${v.text}]` };
  },
  function convert(v, draw) {
    const dtype = draw.random.pick(["int8", "uint8", "int32", "float32"]);
    if (v.tensor.dtype.name === "float32") throw new Outside();
    return {
      tensor: v.tensor.cast(dtype),
      text: `${dtype}(${v.text})`,
      want: (call) => each(v.want(call), (x) => x, dtype),
    };
  },
];

/** Steps, those whose conditions change along loops, and what a program begins with. */
export const STEPS: Record<"list" | "joining", readonly Step[]> & { readonly start: (draw: Draw) => Value } = {
  list: LIST,
  joining: LIST.filter((f) => /^(cat|pad|either|fold|product|window)$/.test(f.name)),
  start(draw) {
    const sizes = [0, 1].map(() => draw.random.below(4) === 0 ? fixed(draw.random.int(1, 20)) : length(draw));
    const v = draw.leaf(sizes[0], sizes[1]);
    return { ...v, text: `${v.text}(${sizes.map((s) => s.text)})` };
  },
};
