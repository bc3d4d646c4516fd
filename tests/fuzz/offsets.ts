/**
 * Random programs with slices, padding and writes whose offsets are redrawn: values are those of an eager model each time,
 * and what was scheduled for the first two draws serves all others. Values are int32, so that nothing is rounded.
 *
 * Run: `deno run -A tests/fuzz/offsets.ts --count 1000 --seed 1 --device WASM`; `--case 17` runs only that one.
 */
import { compileStats } from "../../src/engine/compile_cache.ts";
import { scheduleCacheStats } from "../../src/schedule/schedule.ts";
import { Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";
import { checkCommand } from "./parts/command.ts";

/** An array as the model has it. */
interface Model {
  readonly shape: readonly number[];
  readonly data: Int32Array;
}

/** A tensor, and what it should be. */
interface Value {
  readonly t: Tensor;
  readonly m: Model;
}

/** A place for an offset: the model draws one up to `max`. */
type Draw = (max: number) => number;
/** A step of a program: from the values before it to its own. */
interface Step {
  readonly text: string;
  readonly shape: readonly number[];
  run(values: readonly Value[], draw: Draw): Value;
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** The model whose element at each index is `at(index)`. */
function build(shape: readonly number[], at: (idx: readonly number[]) => number): Model {
  const data = new Int32Array(sizeOf(shape)), idx = shape.map(() => 0);
  for (let i = 0; i < data.length; i++) {
    data[i] = at(idx);
    for (let a = shape.length - 1; a >= 0 && ++idx[a] === shape[a]; a--) idx[a] = 0;
  }
  return { shape, data };
}

function get({ shape, data }: Model, idx: readonly number[]): number {
  let at = 0;
  for (let a = 0; a < shape.length; a++) at = at * shape[a] + idx[a];
  return data[at];
}

/** Makes the steps of one program. */
class Maker {
  readonly steps: Step[] = [];

  constructor(private readonly random: Random, private readonly leaves: readonly Model[]) {}

  private shape(v: number): readonly number[] {
    return v < this.leaves.length ? this.leaves[v].shape : this.steps[v - this.leaves.length].shape;
  }
  private push(text: string, shape: readonly number[], run: Step["run"]): number {
    this.steps.push({ text, shape, run });
    return this.leaves.length + this.steps.length - 1;
  }
  private pick(): number {
    const count = this.leaves.length + this.steps.length;
    // the youngest more often: chains grow
    return this.random.int(0, 2) > 0
      ? this.random.int(Math.max(0, count - 3), count - 1)
      : this.random.int(0, count - 1);
  }

  slice(x: number, sizes = this.shape(x).map((n) => this.random.int(1, n))): number {
    const shape = this.shape(x);
    return this.push(`slice ${x} to [${sizes}]`, sizes, (values, draw) => {
      const start = sizes.map((n, a) => draw(shape[a] - n)), { t, m } = values[x];
      const whole = sizes.every((n, a) => n === shape[a]);
      return {
        t: whole ? t : t.at(...start.map((s, a): [number, number] => [s, s + sizes[a]])),
        m: build(sizes, (idx) => get(m, idx.map((i, a) => i + start[a]))),
      };
    });
  }

  private pickRow(x: number): number {
    const [n, ...rest] = this.shape(x);
    return this.push(`row of ${x}`, rest, (values, draw) => {
      const i = draw(n - 1);
      return { t: values[x].t.at(i), m: build(rest, (idx) => get(values[x].m, [i, ...idx])) };
    });
  }

  private pad(x: number): number {
    const shape = this.shape(x), more = shape.map(() => this.random.int(0, 3));
    const to = shape.map((n, a) => n + more[a]);
    return this.push(`pad ${x} to [${to}]`, to, (values, draw) => {
      const before = more.map((n) => draw(n)), { t, m } = values[x];
      return {
        t: t.pad(before.map((b, a): [number, number] => [b, more[a] - b])),
        m: build(to, (idx) => {
          const from = idx.map((i, a) => i - before[a]);
          return from.every((i, a) => i >= 0 && i < shape[a]) ? get(m, from) : 0;
        }),
      };
    });
  }

  /** Slices of one value side by side, as batches of windows are. */
  private windows(x: number): number {
    const shape = this.shape(x), sizes = shape.map((n) => this.random.int(1, n)), count = this.random.int(2, 4);
    const out = [count, ...sizes];
    return this.push(`${count} windows of ${x}, [${sizes}]`, out, (values, draw) => {
      const { t, m } = values[x], starts = Array.from({ length: count }, () => sizes.map((n, a) => draw(shape[a] - n)));
      const parts = starts.map((s) => t.at(...s.map((b, a): [number, number] => [b, b + sizes[a]])));
      return {
        t: Tensor.stack(parts),
        m: build(out, ([k, ...idx]) => get(m, idx.map((i, a) => i + starts[k][a]))),
      };
    });
  }

  /** Rows at positions that are a slice of a list. */
  private gathered(x: number): number {
    const [n, ...rest] = this.shape(x), order = Array.from({ length: 9 }, () => this.random.int(0, n - 1));
    const index = new Tensor(order, { dtype: "int32" }).realize(), out = [3, ...rest];
    return this.push(`rows of ${x} at a slice of [${order}]`, out, (values, draw) => {
      const s = draw(6);
      return {
        t: values[x].t.at(index.at([s, s + 3])),
        m: build(out, ([i, ...idx]) => get(values[x].m, [order[s + i], ...idx])),
      };
    });
  }

  /** A copy, with a write to a part of it that may read another part. */
  private written(x: number): number {
    const shape = this.shape(x), sizes = shape.map((n) => this.random.int(1, n)), shifts = this.random.int(0, 1) === 1;
    return this.push(`write [${sizes}] of ${x}${shifts ? " from elsewhere in it" : ""}`, shape, (values, draw) => {
      const to = sizes.map((n, a) => draw(shape[a] - n)), from = shifts ? sizes.map((n, a) => draw(shape[a] - n)) : to;
      const { t, m } = values[x], copy = t.clone(), data = m.data.slice(), made = { shape, data };
      const range = (start: readonly number[]) => start.map((s, a): [number, number] => [s, s + sizes[a]]);
      copy.setAt(range(to), copy.at(...range(from)).add(100));
      const part = build(sizes, (idx) => get(m, idx.map((i, a) => i + from[a])) + 100);
      build(sizes, (idx) => {
        let at = 0;
        for (let a = 0; a < shape.length; a++) at = at * shape[a] + idx[a] + to[a];
        return data[at] = get(part, idx);
      });
      return { t: copy, m: made };
    });
  }

  private unary(x: number): number {
    const shape = this.shape(x), rank = shape.length, kind = this.random.int(0, 4);
    const of = (text: string, to: readonly number[], t: (t: Tensor) => Tensor, m: (m: Model) => Model): number =>
      this.push(`${text} ${x}`, to, (values) => ({ t: t(values[x].t), m: m(values[x].m) }));
    if (kind === 0 || rank === 0) {
      return of("3 x + 1 of", shape, (t) => t.mul(3).add(1), (m) => ({ shape, data: m.data.map((v) => v * 3 + 1) }));
    }
    const axis = this.random.int(0, rank - 1);
    if (kind === 1) {
      const mirror = (idx: readonly number[]) => idx.map((i, a) => a === axis ? shape[a] - 1 - i : i);
      return of(`flip ${axis} of`, shape, (t) => t.flip(axis), (m) => build(shape, (idx) => get(m, mirror(idx))));
    }
    if (kind === 2) {
      const to = shape.toReversed();
      const back = (t: Tensor) => t.permute(shape.map((_, a) => rank - 1 - a));
      return of("transpose", to, back, (m) => build(to, (idx) => get(m, idx.toReversed())));
    }
    if (kind === 3) {
      const to = shape.toSpliced(axis, 1);
      return of(`sum ${axis} of`, to, (t) => t.sum(axis), (m) =>
        build(to, (idx) => {
          let sum = 0;
          for (let i = 0; i < shape[axis]; i++) sum += get(m, idx.toSpliced(axis, 0, i));
          return sum;
        }));
    }
    return of("own memory of", shape, (t) => t.contiguous(), (m) => m);
  }

  private binary(x: number, y: number): number {
    const sizes = this.shape(x).map((n, a) => Math.min(n, this.shape(y)[a]));
    const [a, b] = [this.slice(x, sizes), this.slice(y, sizes)];
    return this.push(`${a} + 2 * ${b}`, sizes, (values) => ({
      t: values[a].t.add(values[b].t.mul(2)),
      m: { shape: sizes, data: values[a].m.data.map((v, i) => v + 2 * values[b].m.data[i]) },
    }));
  }

  step(): void {
    const x = this.pick(), rank = this.shape(x).length, large = sizeOf(this.shape(x)) > 600;
    switch (this.random.int(0, 9)) {
      case 0:
      case 1:
      case 2:
        return void this.slice(x);
      case 3:
        return void (rank > 0 ? this.pickRow(x) : this.unary(x));
      case 4:
        return void (large ? this.slice(x) : this.pad(x));
      case 5:
        return void (rank > 2 || rank === 0 || large ? this.unary(x) : this.windows(x));
      case 6:
        return void (rank > 0 ? this.gathered(x) : this.unary(x));
      case 7:
        return void (rank > 0 ? this.written(x) : this.unary(x));
      case 8: {
        const y = this.pick();
        return void (this.shape(y).length === rank ? this.binary(x, y) : this.unary(x));
      }
    }
    this.unary(x);
  }
}

/** What is wrong with a program; undefined where nothing is. */
export async function checkOffsets(seed: number, at: number, rounds = 20): Promise<string | undefined> {
  const random = new Random(seed * 1_000_003 + at * 7919 + 1);
  const leaves = Array.from({ length: random.int(1, 2) }, () => {
    const shape = Array.from({ length: random.int(1, 3) }, () => random.int(1, 9));
    return build(shape, () => random.int(-9, 9));
  });
  const tensors = leaves.map(({ shape, data }) => new Tensor(data).reshape([...shape]).realize());
  const maker = new Maker(random, leaves);
  for (let i = random.int(1, 5); i > 0; i--) maker.step();
  const { steps } = maker, outputs = [steps.length - 1];
  if (random.int(0, 2) === 0) outputs.push(random.int(0, steps.length - 1));
  const text = () =>
    [...leaves.map((m) => `leaf [${m.shape}]`), ...steps.map((s) => s.text)].map((s, i) => `${i}: ${s}`).join("\n");
  const drawn: number[][] = [], maxima: number[] = [];
  const before = { misses: scheduleCacheStats.misses, lowered: compileStats.lowered };
  for (let round = 0; round < rounds; round++) {
    const now: number[] = [];
    drawn.push(now);
    // the second time all differ, each by another step; then anything
    const draw: Draw = (max) => {
      const i = now.length;
      maxima[i] = max;
      now.push(round !== 1 ? random.int(0, max) : (drawn[0][i] + 1 + (max > 1 ? i % max : 0)) % (max + 1));
      return now[i];
    };
    const values: Value[] = leaves.map((m, i) => ({ t: tensors[i], m }));
    for (const s of steps) values.push(s.run(values, draw));
    const results = outputs.map((i) => values[leaves.length + i]);
    try {
      Tensor.realize(results.map((r) => r.t));
      for (const [k, { t, m }] of results.entries()) {
        const got = await t.data() as Int32Array, bad = m.data.findIndex((v, i) => v !== got[i]);
        if (got.length === m.data.length && bad < 0) continue;
        return `round ${round}: element ${bad} of output ${k} is ${got[bad]}, want ${
          m.data[bad]
        }; offsets ${now}\n${text()}`;
      }
    } catch (error) {
      return `round ${round}: ${(error as Error).stack}; offsets ${now}\n${text()}`;
    }
  }
  // offsets that were equal in both of the first two draws by chance are one argument until they differ
  const chance = maxima.some((max, i) =>
    maxima.some((other, j) => j < i && other === max && drawn[0][i] === drawn[0][j] && drawn[1][i] === drawn[1][j])
  );
  const misses = scheduleCacheStats.misses - before.misses, most = chance ? 10 : 2;
  if (misses > most) return `${misses} schedules, ${compileStats.lowered - before.lowered} kernels\n${text()}`;
}

if (import.meta.main) await checkCommand(checkOffsets, 5);
