/**
 * Random programs that join, roll, pad, write and take parts of matrices large enough for threads to share: what a kernel
 * reads changes along its loops, which are cut there (src/codegen/ast/part_loops.ts). The oracle is a function from a
 * position to an int32. Run: `deno run -A tests/fuzz/joined.ts --count 200 --seed 1 --device CLANG`; `--case 17` runs only
 * that one.
 *
 * @module
 */
import { Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";
import { checkCommand } from "./parts/command.ts";

/** A matrix, how it is made, and what it should be at a position. */
interface Value {
  readonly tensor: Tensor;
  readonly text: string;
  readonly shape: readonly [number, number];
  readonly at: (row: number, column: number) => number;
}

/** Elements of a leaf, at most and at least. */
const MOST = 1 << 18, LEAST = 1 << 16;
const COLUMNS = [1, 3, 16, 64, 100, 257, 1024];

function leaf(random: Random, shape: readonly [number, number]): Value {
  const [rows, columns] = shape, step = random.int(1, 9);
  const tensor = Tensor.arange(rows * columns, undefined, undefined, { dtype: "int32" }).mul(step).reshape([...shape]);
  return { tensor: tensor.realize(), text: `x${step}`, shape, at: (i, j) => (i * columns + j) * step };
}

type Step = (v: Value, random: Random) => Value;

/** Where something begins: often near an end, where parts are small. */
function place(random: Random, n: number): number {
  const near = Math.min(n, random.int(0, 3));
  return random.pick([near, n - near, random.int(0, n)]);
}

const STEPS: readonly Step[] = [
  function cat(v, random) {
    const axis = random.int(0, 1), more = place(random, v.shape[axis]);
    if (more === 0) return v;
    const [rows, columns] = v.shape, other = leaf(random, axis === 0 ? [more, columns] : [rows, more]);
    const first = random.int(0, 1) === 0 ? [v, other] : [other, v], n = first[0].shape[axis];
    return {
      tensor: Tensor.cat(first.map((x) => x.tensor), axis),
      text: `cat([${first.map((x) => x.text)}], ${axis})`,
      shape: axis === 0 ? [rows + more, columns] : [rows, columns + more],
      at: (i, j) =>
        (axis === 0 ? i : j) < n ? first[0].at(i, j) : axis === 0 ? first[1].at(i - n, j) : first[1].at(i, j - n),
    };
  },
  function roll(v, random) {
    const [rows, columns] = v.shape, by = [place(random, rows), place(random, columns)];
    return {
      ...v,
      tensor: v.tensor.roll([...by], [0, 1]),
      text: `${v.text}.roll([${by}], [0, 1])`,
      at: (i, j) => v.at((i + rows - by[0]) % rows, (j + columns - by[1]) % columns),
    };
  },
  function pad(v, random) {
    const [rows, columns] = v.shape, [top, bottom, left, right] = [5, 300, 2, 9].map((n) => random.int(0, n));
    return {
      tensor: v.tensor.pad([[top, bottom], [left, right]]),
      text: `${v.text}.pad([[${top}, ${bottom}], [${left}, ${right}]])`,
      shape: [rows + top + bottom, columns + left + right],
      at: (i, j) => {
        const [row, column] = [i - top, j - left];
        return row >= 0 && row < rows && column >= 0 && column < columns ? v.at(row, column) : 0;
      },
    };
  },
  function write(v, random) {
    const [rows, columns] = v.shape, r = [place(random, rows), place(random, rows)].sort((a, b) => a - b);
    const c = [place(random, columns), place(random, columns)].sort((a, b) => a - b);
    if (r[0] === r[1] || c[0] === c[1]) return v;
    const from = leaf(random, [r[1] - r[0], c[1] - c[0]]), tensor = v.tensor.clone();
    tensor.setAt([[r[0], r[1]], [c[0], c[1]]], from.tensor);
    return {
      ...v,
      tensor,
      text: `${v.text} with [${r}, ${c}] = ${from.text}`,
      at: (i, j) => i >= r[0] && i < r[1] && j >= c[0] && j < c[1] ? from.at(i - r[0], j - c[0]) : v.at(i, j),
    };
  },
  function part(v, random) {
    const start = v.shape.map((n) => random.int(0, n >> 3)), end = v.shape.map((n) => n - random.int(0, n >> 3));
    return {
      tensor: v.tensor.at([start[0], end[0]], [start[1], end[1]]),
      text: `${v.text}[${start[0]}:${end[0]}, ${start[1]}:${end[1]}]`,
      shape: [end[0] - start[0], end[1] - start[1]],
      at: (i, j) => v.at(i + start[0], j + start[1]),
    };
  },
  function scale(v, random) {
    const by = random.int(2, 5);
    return {
      ...v,
      tensor: v.tensor.mul(by).add(1),
      text: `(${v.text} * ${by} + 1)`,
      at: (i, j) => v.at(i, j) * by + 1 | 0,
    };
  },
];

/** What is wrong with the program of a seed, and its text; undefined where nothing is. */
export async function checkJoined(seed: number, number: number): Promise<string | undefined> {
  const random = new Random(seed * 7919 + number), columns = random.pick(COLUMNS);
  const rows = Math.ceil(random.int(LEAST, MOST) / columns);
  let v = leaf(random, [rows, columns]);
  for (let k = random.int(1, 4); k > 0; k--) v = random.pick(STEPS)(v, random);
  const got = await v.tensor.data(), width = v.shape[1];
  for (let p = 0; p < got.length; p++) {
    const want = v.at(Math.floor(p / width), p % width) | 0;
    if (got[p] !== want) return `${v.text} of [${rows}, ${columns}] is ${got[p]} at ${p}, not ${want}`;
  }
  return undefined;
}

if (import.meta.main) await checkCommand(checkJoined, 5);
