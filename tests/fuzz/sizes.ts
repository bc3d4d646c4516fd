/**
 * Random compositions of movement ops over axes far beyond 2^31, none of which is stored, read at random and at edge
 * positions: `deno run -A tests/fuzz/sizes.ts --count N --seed S --device D`. The oracle follows each coordinate back
 * through the ops in BigInt and knows nothing of the compiler. Prints each program that disagrees, and how many did.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { Device, Tensor } from "../../mod.ts";
import { Random } from "../support/random.ts";
import { onDevice } from "../support/on_device.ts";

/** A tensor, the text that makes it, and what it should be at a position. */
interface Value {
  readonly tensor: Tensor;
  readonly text: string;
  readonly shape: readonly bigint[];
  readonly at: (index: readonly bigint[]) => bigint;
}

/** Elements up to which a tensor is made larger: all arithmetic of shapes is exact in numbers. */
const MOST = 1n << 50n;
/** Around these sizes and positions indices change their width. */
const EDGES: readonly bigint[] = [31n, 32n, 33n].flatMap((k) => [-1n, 0n, 1n].map((d) => (1n << k) + d));
const MAX_RANK = 4;

const numel = (shape: readonly bigint[]): bigint => shape.reduce((a, b) => a * b, 1n);
const list = (xs: readonly unknown[]): string =>
  `[${xs.map((x) => Array.isArray(x) ? list(x) : String(x)).join(", ")}]`;
const numbers = (xs: readonly bigint[]): number[] => xs.map(Number);

function flatten(index: readonly bigint[], shape: readonly bigint[]): bigint {
  return index.reduce((p, i, a) => p * shape[a] + i, 0n);
}
function unflatten(flat: bigint, shape: readonly bigint[]): bigint[] {
  const out = new Array<bigint>(shape.length);
  for (let a = shape.length - 1; a >= 0; a--) {
    out[a] = flat % shape[a];
    flat /= shape[a];
  }
  return out;
}

/** A random bigint in [0, n). */
function below(r: Random, n: bigint): bigint {
  const word = BigInt(r.int(0, 2 ** 30)) * (1n << 30n) + BigInt(r.int(0, 2 ** 30));
  return word % n;
}

/** A size, often huge, of at most `most`. */
function sizeUpTo(r: Random, most: bigint): bigint {
  const pick = r.int(0, 4);
  const n = pick === 0
    ? BigInt(r.int(1, 9))
    : pick === 1
    ? EDGES[r.int(0, EDGES.length - 1)]
    : pick === 2
    ? 1n << BigInt(r.int(1, 40))
    : 1n + below(r, 10_000_000_000n);
  return n <= most ? n : 1n + below(r, most);
}

function leaf(r: Random): Value {
  if (r.int(0, 2) === 0) {
    const n = sizeUpTo(r, MOST);
    return {
      tensor: Tensor.arange(Number(n), undefined, undefined, { dtype: "int64" }),
      text: `Tensor.arange(${n}, undefined, undefined, { dtype: "int64" })`,
      shape: [n],
      at: ([i]) => i,
    };
  }
  const shape = Array.from({ length: r.int(1, 3) }, () => BigInt(r.int(1, 7))), n = Number(numel(shape));
  const data = Array.from({ length: n }, (_, i) => i * 7 + 1);
  return {
    tensor: new Tensor(data, { dtype: "int64" }).reshape(numbers(shape)).realize(),
    text: `new Tensor(${list(data)}, { dtype: "int64" }).reshape(${list(shape)}).realize()`,
    shape,
    at: (index) => BigInt(data[Number(flatten(index, shape))]),
  };
}

/** A divisor of `n` greater than 1, found among small primes; undefined where there is none. */
function divisor(r: Random, n: bigint): bigint | undefined {
  const primes = [2n, 3n, 5n, 7n, 11n, 13n, 641n, 65537n].filter((p) => n % p === 0n && p < n);
  if (primes.length === 0) return undefined;
  let d = primes[r.int(0, primes.length - 1)];
  while (r.int(0, 2) > 0 && n % (d * d) === 0n && d * d < n) d *= d;
  return d;
}

type Step = (v: Value, r: Random) => Value | undefined;

const STEPS: Readonly<Record<string, Step>> = {
  expand(v, r) {
    const room = MOST / numel(v.shape), axis = r.int(0, v.shape.length);
    const one = v.shape.findIndex((n) => n === 1n);
    if (room < 2n) return undefined;
    const n = sizeUpTo(r, room);
    if (one >= 0 && r.int(0, 1) === 0) {
      const shape = v.shape.with(one, n);
      return {
        tensor: v.tensor.expand(numbers(shape)),
        text: `${v.text}.expand(${list(shape)})`,
        shape,
        at: (i) => v.at(i.with(one, 0n)),
      };
    }
    if (v.shape.length >= MAX_RANK) return undefined;
    const shape = v.shape.toSpliced(axis, 0, n);
    return {
      tensor: v.tensor.unsqueeze(axis).expand(numbers(shape)),
      text: `${v.text}.unsqueeze(${axis}).expand(${list(shape)})`,
      shape,
      at: (i) => v.at(i.toSpliced(axis, 1)),
    };
  },
  pad(v, r) {
    const axis = r.int(0, v.shape.length - 1), rest = numel(v.shape) / v.shape[axis];
    const room = MOST / rest - v.shape[axis];
    if (room < 2n) return undefined;
    const before = r.int(0, 2) > 0 ? sizeUpTo(r, room / 2n) : 0n, after = r.int(0, 2) > 0 ? sizeUpTo(r, room / 2n) : 0n;
    const pairs = v.shape.map((_, i) => i === axis ? [before, after] : [0n, 0n]);
    const value = BigInt(r.int(0, 1) * -5), n = v.shape[axis];
    return {
      tensor: v.tensor.pad(pairs.map(([a, b]) => [Number(a), Number(b)] as const), { value: Number(value) }),
      text: `${v.text}.pad(${list(pairs)}, { value: ${value} })`,
      shape: v.shape.with(axis, n + before + after),
      at: (i) => {
        const x = i[axis] - before;
        return x < 0n || x >= n ? value : v.at(i.with(axis, x));
      },
    };
  },
  shrink(v, r) {
    const axis = r.int(0, v.shape.length - 1), n = v.shape[axis];
    const start = below(r, n), stop = start + 1n + below(r, n - start);
    const pairs = v.shape.map((m, i) => i === axis ? [start, stop] : [0n, m]);
    return {
      tensor: v.tensor.shrink(pairs.map(([a, b]) => [Number(a), Number(b)])),
      text: `${v.text}.shrink(${list(pairs)})`,
      shape: v.shape.with(axis, stop - start),
      at: (i) => v.at(i.with(axis, i[axis] + start)),
    };
  },
  stride(v, r) {
    const axis = r.int(0, v.shape.length - 1), n = v.shape[axis], start = below(r, n);
    const step = sizeUpTo(r, n), size = (n - start + step - 1n) / step;
    const cuts = v.shape.map((_, i) => i === axis ? [Number(start), null, Number(step)] as const : ":");
    return {
      tensor: v.tensor.at(...cuts),
      text: `${v.text}.at(${v.shape.map((_, i) => i === axis ? `[${start}, null, ${step}]` : '":"').join(", ")})`,
      shape: v.shape.with(axis, size),
      at: (i) => v.at(i.with(axis, start + i[axis] * step)),
    };
  },
  flip(v, r) {
    const axis = r.int(0, v.shape.length - 1), n = v.shape[axis];
    return {
      tensor: v.tensor.flip(axis),
      text: `${v.text}.flip(${axis})`,
      shape: v.shape,
      at: (i) => v.at(i.with(axis, n - 1n - i[axis])),
    };
  },
  permute(v, r) {
    const order = v.shape.map((_, i) => i);
    for (let i = order.length - 1; i > 0; i--) {
      const j = r.int(0, i);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return {
      tensor: v.tensor.permute(order),
      text: `${v.text}.permute(${list(order)})`,
      shape: order.map((a) => v.shape[a]),
      at: (i) => v.at(order.reduce((out, a, k) => out.with(a, i[k]), i)),
    };
  },
  join(v, r) {
    if (v.shape.length < 2) return undefined;
    const a = r.int(0, v.shape.length - 2);
    return reshaped(v, v.shape.toSpliced(a, 2, v.shape[a] * v.shape[a + 1]));
  },
  split(v, r) {
    if (v.shape.length >= MAX_RANK) return undefined;
    const a = r.int(0, v.shape.length - 1), d = divisor(r, v.shape[a]);
    return d === undefined ? undefined : reshaped(v, v.shape.toSpliced(a, 1, v.shape[a] / d, d));
  },
  cat(v, r) {
    const axis = r.int(0, v.shape.length - 1), n = v.shape[axis];
    if (numel(v.shape) * 2n > MOST) return undefined;
    const back = r.int(0, 1) === 0;
    return {
      tensor: v.tensor.cat([back ? v.tensor.flip(axis) : v.tensor.add(3)], axis),
      text: `((x) => x.cat([${back ? `x.flip(${axis})` : "x.add(3)"}], ${axis}))(${v.text})`,
      shape: v.shape.with(axis, 2n * n),
      at: (i) => {
        if (i[axis] < n) return v.at(i);
        const x = i[axis] - n;
        return back ? v.at(i.with(axis, n - 1n - x)) : v.at(i.with(axis, x)) + 3n;
      },
    };
  },
  roll(v, r) {
    const axis = r.int(0, v.shape.length - 1), n = v.shape[axis], by = below(r, n);
    return {
      tensor: v.tensor.roll([Number(by)], [axis]),
      text: `${v.text}.roll([${by}], [${axis}])`,
      shape: v.shape,
      at: (i) => v.at(i.with(axis, (i[axis] + n - by) % n)),
    };
  },
  unfold(v, r) {
    const axis = v.shape.length - 1, n = v.shape[axis];
    if (v.shape.length >= MAX_RANK || n < 4n) return undefined;
    const size = BigInt(r.int(1, 3)), step = sizeUpTo(r, n / 2n), count = (n - size) / step + 1n;
    return {
      tensor: v.tensor.unfold(axis, Number(size), Number(step)),
      text: `${v.text}.unfold(${axis}, ${size}, ${step})`,
      shape: [...v.shape.with(axis, count), size],
      at: (i) => v.at([...i.slice(0, axis), i[axis] * step + i[axis + 1]]),
    };
  },
};

function reshaped(v: Value, shape: readonly bigint[]): Value {
  return {
    tensor: v.tensor.reshape(numbers(shape)),
    text: `${v.text}.reshape(${list(shape)})`,
    shape,
    at: (i) => v.at(unflatten(flatten(i, shape), v.shape)),
  };
}

/** Positions of an axis that are looked at. */
function positions(r: Random, n: bigint): bigint[] {
  const all = [0n, n - 1n, ...EDGES, below(r, n), below(r, n)].filter((p) => p >= 0n && p < n);
  return all.filter((p, i) => all.indexOf(p) === i);
}

/** Reads of a value: the text, the tensor, and the positions that it holds in order. */
function reads(v: Value, r: Random): { text: string; tensor: Tensor; at: readonly (readonly bigint[])[] }[] {
  const total = numel(v.shape);
  const flat = reshaped(v, [total]), places = positions(r, total);
  const start = places[r.int(0, places.length - 1)], stop = start + 2n < total ? start + 2n : total;
  const here = unflatten(places[r.int(0, places.length - 1)], v.shape);
  const index = new Tensor(new BigInt64Array(places));
  const cuts = here.map((p, a) => [p, p + 1n < v.shape[a] && a === here.length - 1 ? p + 2n : p + 1n]);
  return [
    {
      text: `${flat.text}.at(new Tensor(new BigInt64Array([${places.map((p) => `${p}n`).join(", ")}])))`,
      tensor: flat.tensor.at(index),
      at: places.map((p) => unflatten(p, v.shape)),
    },
    {
      text: `${flat.text}.at([${start}, ${stop}])`,
      tensor: flat.tensor.at([Number(start), Number(stop)]),
      at: stop - start === 2n
        ? [unflatten(start, v.shape), unflatten(start + 1n, v.shape)]
        : [unflatten(start, v.shape)],
    },
    {
      text: `${v.text}.shrink(${list(cuts)}).flatten()`,
      tensor: v.tensor.shrink(cuts.map(([a, b]) => [Number(a), Number(b)])).flatten(),
      at: cuts[here.length - 1][1] - cuts[here.length - 1][0] === 2n
        ? [here, here.with(here.length - 1, here[here.length - 1] + 1n)]
        : [here],
    },
    {
      text: `${v.text}.at(${here.join(", ")}).reshape([1])`,
      tensor: v.tensor.at(...numbers(here)).reshape([1]),
      at: [here],
    },
  ];
}

/** Runs `count` programs on a device: the texts of those that are wrong, with what they gave. */
export async function fuzzSizes(count: number, seed: number, device: string): Promise<string[]> {
  const wrong: string[] = [];
  await onDevice(device, async () => {
    for (let k = 0; k < count; k++) {
      const r = new Random(seed * 100_003 + k), names = Object.keys(STEPS);
      let v = leaf(r);
      for (let left = r.int(2, 7); left > 0; left--) v = STEPS[names[r.int(0, names.length - 1)]](v, r) ?? v;
      for (const read of reads(v, r)) {
        const want = read.at.map((i) => v.at(i));
        let got: string;
        try {
          got = [...await read.tensor.data()].join(", ");
        } catch (e) {
          got = String(e);
        }
        if (got !== want.join(", ")) wrong.push(`${read.text}\n  expected ${want.join(", ")}\n  got      ${got}`);
      }
    }
  });
  return wrong;
}

if (import.meta.main) {
  const { count = 1000, device = "JS", seed = 1 } = parseArgs(Deno.args, { string: ["count", "device", "seed"] });
  if (device === "WEBGPU") await Device.open(device);
  const wrong = await fuzzSizes(Number(count), Number(seed), device);
  for (const text of wrong) console.log(`${text}\n`);
  console.log(`${count} programs on ${device}, ${wrong.length} reads wrong`);
  if (wrong.length > 0) Deno.exit(1);
}
