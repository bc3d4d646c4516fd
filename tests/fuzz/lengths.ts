/**
 * Random programs of matrices whose sizes are bound variables, often ones that may be 0: slices, pads, joins, shifts,
 * masks, products, scans and reductions over axes that may have no elements, or all of them. Each is realized as it is,
 * and replayed by one capture of `jit` at other lengths and with other values. The oracle does the same to lists of
 * numbers. Run: `deno run -A tests/fuzz/lengths.ts --count 200 --seed 1 --device CLANG`; `--case 17 --show` runs only that
 * one, and prints it.
 *
 * @module
 */
import { ArgumentError, jit, ShapeError, Tensor, Variable } from "../../mod.ts";
import { registerLoops } from "../fixtures/sim.ts";
import { Random } from "../support/random.ts";
import { caseOptions, runCases } from "./parts/command.ts";
import { type Call, type Draw, type Grid, Outside, STEPS, type Value } from "./parts/length_steps.ts";

/** Rows and columns of what programs read. */
const SIDE = 72;
const DTYPES = ["int32", "int32", "float32", "int8", "uint8"] as const;

/** What calls of a program have, and where each is run. */
interface Case {
  readonly seed: number;
  readonly bounds: readonly (readonly [min: number, max: number])[];
  readonly calls: readonly (readonly number[])[];
}

function caseOf(random: Random): Case {
  const bounds = Array.from({ length: 2 }, () => {
    const min = random.pick([0, 0, 0, 1, 2]);
    return [min, min + random.pick([2, 3, 7, 8, 16, 33])] as const;
  });
  const drawn = (): number[] => bounds.map(([min, max]) => random.int(min, max));
  const ends = bounds.map(([min], i) => bounds.map(([l, h], j) => j === i ? min : random.pick([l, h])));
  return { seed: random.int(0, 2 ** 30), bounds, calls: [drawn(), ...ends, drawn(), bounds.map(([, max]) => max)] };
}

/** A value whose numbers are counted once a call. */
function remembered(v: Value): Value {
  const known = new WeakMap<Call, Grid>();
  const want = (call: Call): Grid => {
    if (!known.has(call)) known.set(call, v.want(call));
    return known.get(call)!;
  };
  return { ...v, want };
}

/** The program of a seed on these matrices and variables: what it makes, and how its oracle does. */
function program(seed: number, pool: Tensor[], lengths: Tensor[], bounds: Case["bounds"]): Value[] {
  const random = new Random(seed);
  const draw: Draw = {
    random,
    lengths,
    bounds,
    leaf(rows, columns, dtype) {
      const which = dtype === undefined ? random.below(pool.length) : pool.findIndex((x) => x.dtype.name === dtype);
      const sizes = [rows, columns].map((n) => typeof n.size === "number" ? n.size : n.most);
      if (which < 0 || sizes.some((n) => n > SIDE)) throw new Outside();
      const from = sizes.map((n) => random.int(0, SIDE - n));
      const slices = [rows, columns].map((n, i): [number, Tensor | number] => [
        from[i],
        typeof n.size === "number" ? n.size + from[i] : n.size.add(from[i]),
      ]);
      return remembered({
        tensor: pool[which].shrink(slices),
        text: `x${which}[${from}]`,
        want: (call) => {
          const r = rows.at(call), c = columns.at(call);
          const data = call.pool[which].slice(from[0], from[0] + r).map((row) => row.slice(from[1], from[1] + c));
          return { dtype: pool[which].dtype.name, shape: [r, c], data };
        },
      });
    },
  };
  const made: Value[] = [];
  let value = STEPS.start(draw);
  for (let left = random.int(1, 5), tries = 0; left > 0 && tries < 40; tries++) {
    const step = random.pick(random.int(0, 1) === 0 ? STEPS.joining : STEPS.list);
    let next: Value | undefined;
    try {
      next = remembered(step(value, draw));
    } catch (error) {
      if (!(error instanceof Outside || error instanceof ArgumentError || error instanceof ShapeError)) throw error;
    }
    if (next === undefined || next.tensor.shape.some((n) => n > SIDE)) continue;
    left--;
    value = next;
    if (random.below(6) === 0) made.push(value);
  }
  return [...made, value];
}

const noise = (call: number, i: number): number =>
  Math.floor((Math.sin(i * 12.9898 + call * 78.233) * 43758.5453 % 1) * 6);

function poolAt(call: number, dtypes: readonly string[]): number[][][] {
  const low = (d: string): number => d === "uint8" ? 6 : 0;
  return dtypes.map((d, k) =>
    Array.from(
      { length: SIDE },
      (_, i) => Array.from({ length: SIDE }, (_, j) => noise(call + k, i * SIDE + j) + low(d)),
    )
  );
}

async function difference(got: Tensor, want: Grid): Promise<string | undefined> {
  const values = [...await got.data() as Iterable<number | boolean>].map(Number), flat = want.data.flat();
  if (`${got.boundShape}` !== `${want.shape}`) return `shape [${got.boundShape}] is not [${want.shape}]`;
  const at = flat.findIndex((x, i) => values[i] !== x);
  if (at < 0 && values.length === flat.length) return undefined;
  return `of [${want.shape}] at ${at} it is ${values[at]}, not ${flat[at]}`;
}

/** What is wrong with case `at` of a seed on the default device. */
export async function checkLengths(seed: number, at: number, show = false): Promise<string | undefined> {
  const random = new Random(seed * 1_000_003 + at), { seed: own, bounds, calls } = caseOf(random);
  const dtypes = [...new Set([random.pick(DTYPES), random.pick(DTYPES), "int32"])];
  const variables = bounds.map(([min, max], i) => new Variable("nm"[i], min, max));
  let values: Value[] = [];
  const run = (pool: Tensor[], lengths: Tensor[]): Tensor[] => {
    values = program(own, pool, lengths, bounds);
    return values.map((v) => v.tensor);
  };
  const captured = jit(run);
  for (const [k, ns] of calls.entries()) {
    const pool = poolAt(k, dtypes), call = { pool, ns };
    const given = (): [Tensor[], Tensor[]] => [
      pool.map((x, i) => new Tensor(x, { dtype: dtypes[i] }).realize()),
      ns.map((n, i) => variables[i].bind(n)),
    ];
    for (const way of k < 2 ? ["realized", "captured"] : ["captured"]) {
      let outs: Tensor[];
      try {
        outs = way === "realized" ? run(...given()) : captured(...given());
        Tensor.realize(outs);
      } catch (error) {
        return `${way}, call ${k} at [${ns}], n ${bounds[0]}, m ${bounds[1]}: ${values.at(-1)?.text}: ${
          (error as Error).stack
        }`;
      }
      const text = values.map((v) => v.text).join("\n  ");
      if (show && k === 0 && way === "realized") console.log(`n ${bounds[0]}, m ${bounds[1]}:\n  ${text}`);
      for (const [i, v] of values.entries()) {
        let want: Grid;
        try {
          want = v.want(call);
        } catch (error) {
          if (error instanceof Outside) continue; // beyond what float32 counts
          throw error;
        }
        const why = await difference(outs[i], want);
        if (why !== undefined) return `${way}, call ${k} at [${ns}], n ${bounds[0]}, m ${bounds[1]}: ${v.text}: ${why}`;
      }
    }
  }
  return undefined;
}

if (import.meta.main) {
  registerLoops();
  const options = await caseOptions({ seed: 1, count: 200, failures: 3 });
  const found = await runCases(options, (at) => checkLengths(options.seed, at, options.show));
  console.log(`${found.programs} programs on ${options.device}, ${found.failures.length} failures`);
  if (found.failures.length > 0) Deno.exit(1);
}
