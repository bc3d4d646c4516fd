/**
 * Random programs of which values are realized between the steps that build on them, before gradients are asked for: leaves
 * and what was computed of them, alone or together, once or again. Values and gradients must be those of the same program
 * in which nothing is realized before its end.
 *
 * Run: `deno run -A tests/fuzz/realized.ts --count 2000 --seed 1`. Other options: `--device CLANG`, `--case 17` (only that
 * one), `--failures 5`, `--seconds 60`, `--inner` (gradients of a value that was computed, too).
 */
import { Device, Tensor } from "../../mod.ts";
import { prod } from "../../src/helpers/math.ts";
import { onDevice } from "../support/on_device.ts";
import { Random } from "../support/random.ts";
import { checkCommand } from "./parts/command.ts";

/** The most elements of a value. */
const MOST = 240;
type Step = (r: Random, x: Tensor, others: readonly Tensor[]) => Tensor;

/** Ends of a part of an axis. */
function part(r: Random, n: number): [number, number] {
  const begin = r.int(0, n - 1);
  return [begin, r.int(begin + 1, n)];
}

/** Steps by what they do; each draws as much from `r` whatever was realized. */
const STEPS: readonly Step[] = [
  (r, x) => x.mul(r.pick([0.5, -1.5, 2])),
  (r, x) => x.add(r.pick([1, -0.25])),
  (_, x) => x.sin(),
  (_, x) => x.mul(0.1).exp(),
  (_, x) => x.tanh(),
  (_, x) => x.relu(),
  (_, x) => x.mul(x).add(1).sqrt(),
  (_, x) => x.flatten(),
  (r, x) => x.unsqueeze(r.int(0, x.ndim)),
  (_, x) => x.squeeze(),
  (_, x) => x.permute(x.shape.map((_, i) => x.ndim - 1 - i)),
  (r, x) => {
    const n = r.int(2, 3), at = r.int(0, x.ndim);
    return x.unsqueeze(at).expand([...x.shape.slice(0, at), n, ...x.shape.slice(at)]);
  },
  (r, x) => x.shrink(x.shape.map((n) => part(r, n))),
  (r, x) => x.ndim === 0 ? x : x.at(new Tensor(Array.from({ length: r.int(1, 4) }, () => r.below(x.shape[0])))),
  (r, x) => x.ndim === 0 ? x : x.at(r.below(x.shape[0])),
  (r, x) => x.pad(x.shape.map(() => [r.int(0, 1), r.int(0, 2)] as [number, number])),
  (r, x) => x.ndim === 0 ? x : x.flip([r.below(x.ndim)]),
  (r, x, others) => x.ndim === 0 ? x : x.cat([r.pick([x, ...others.filter((o) => isLike(o, x))])], 0),
  (r, x) => x.ndim === 0 ? x : x.sum(r.below(x.ndim)),
  (r, x) => x.ndim === 0 ? x : x.mean(r.below(x.ndim), { keepdim: true }),
  (r, x) => x.ndim === 0 ? x : x.softmax(r.below(x.ndim)),
  (r, x) => x.ndim === 0 ? x : x.cumsum(r.below(x.ndim)),
  (r, x, others) => x.mul(r.pick([x, ...others.filter((o) => isLike(o, x))])),
  (r, x, others) => x.add(r.pick(others).sum()),
  (r, x, others) => x.sub(r.pick(others).mean().tanh()),
  (_, x) => x.ndim === 2 ? x.matmul(x.transpose(0, 1)).mul(0.1) : x.sum(),
  (_, x) => x.contiguous(),
  (_, x) => x.gt(0.1).where(x, x.mul(0.3)),
];
function isLike(a: Tensor, b: Tensor): boolean {
  return a.ndim === b.ndim && a.shape.every((n, i) => n === b.shape[i]);
}

/** Forms of a leaf of two axes: a list, flat memory in a shape, drawn, computed, a part of something. */
const LEAVES: readonly ((r: Random, rows: number, columns: number) => Tensor)[] = [
  (r, n, m) =>
    new Tensor(Array.from({ length: n }, () => Array.from({ length: m }, () => r.int(-8, 8) / 4)), {
      dtype: "float32",
    }),
  (r, n, m) => new Tensor(Float32Array.from({ length: n * m }, () => r.int(-8, 8) / 4)).reshape([n, m]),
  (r, n, m) => {
    Tensor.manualSeed(r.below(1000));
    return Tensor.rand([n, m]);
  },
  (_, n, m) => Tensor.arange(n * m, { dtype: "float32" }).reshape([n, m]).mul(0.1),
  (r, n, m) =>
    new Tensor(Float32Array.from({ length: n * m + 3 }, () => r.int(-8, 8) / 4)).at([2, 2 + n * m]).reshape([n, m]),
  (_, n, m) => Tensor.ones([m, n]).transpose(0, 1),
];

/** Values and gradients of a program, as numbers, and what it did. */
interface Outcome {
  readonly lists: readonly Float32Array[];
  readonly told: readonly string[];
}

/** Runs a case; `realizes`: something is realized before its end; `asks`: the gradient of one more value is asked for. */
async function runCase(seed: number, at: number, realizes: boolean, asks = true): Promise<Outcome> {
  const r = new Random(Math.imul(seed, 7919) + at), q = new Random(Math.imul(seed, 104729) + at), told: string[] = [];
  const values: Tensor[] = [];
  const pause = (): void => {
    const many = Array.from({ length: q.int(1, 2) }, () => q.below(values.length));
    if (q.below(3) > 0 || !realizes) return;
    Tensor.realize(many.map((i) => values[i]));
    told.push(`realize ${many.join(" and ")}`);
  };
  for (let i = r.int(1, 3); i > 0; i--) {
    const form = r.below(LEAVES.length), leaf = LEAVES[form](r, r.int(2, 4), r.int(2, 5));
    leaf.requiresGrad = true; // else graphs of what is realized are not kept, which is told
    told.push(`${values.length}: leaf ${form} [${leaf.shape}]`);
    values.push(leaf);
    pause();
  }
  const leaves = values.length;
  for (let i = r.int(3, 9); i > 0; i--) {
    const from = r.below(values.length), step = r.below(STEPS.length), made = STEPS[step](r, values[from], values);
    if (prod(made.shape) > MOST || prod(made.shape) === 0) continue;
    told.push(`${values.length}: step ${step} of ${from} [${made.shape}]`);
    values.push(made);
    pause();
  }
  let loss = new Tensor(0);
  for (const v of values.slice(-4)) {
    const n = prod(v.shape), weights = Float32Array.from({ length: n }, (_, i) => (i * 7 % 11 - 4) / 8);
    loss = loss.add(v.flatten().mul(new Tensor(weights)).sum());
  }
  const more = r.below(values.length), targets = [...values.slice(0, leaves), ...asks ? [values[more]] : []];
  if (asks) told.push(`gradient of ${more}, too`);
  if (realizes && q.below(2) === 0) {
    told.push("realize the loss");
    loss.realize();
  }
  pause();
  const gradients = loss.gradient(targets);
  const lists: Float32Array[] = [];
  for (const t of [loss, ...gradients, ...values]) lists.push(await t.cast("float32").data() as Float32Array);
  return { lists, told };
}

/** What is wrong with a case; undefined where nothing is. `inner`: gradients of what was computed are asked for, too. */
export async function wrongRealized(
  seed: number,
  at: number,
  device: string,
  inner = false,
): Promise<string | undefined> {
  return await onDevice(device, async () => {
    let told: readonly string[] = [];
    try {
      let asks = inner;
      const want = await runCase(seed, at, false, asks).catch((error) => {
        if (!asks || !/it is a view, and the tensor was computed from what it views/.test(String(error))) throw error;
        asks = false; // as it should be
        return runCase(seed, at, false, false);
      });
      const got = await runCase(seed, at, true, asks);
      told = got.told;
      for (const [i, list] of want.lists.entries()) {
        const most = list.reduce((m, x) => Math.max(m, Math.abs(x)), 1e-3);
        const k = list.findIndex((x, j) => !(Math.abs(x - got.lists[i][j]) <= 2e-5 * most));
        if (k >= 0 || list.length !== got.lists[i].length) {
          return `list ${i}, element ${k}: ${got.lists[i][k]}, want ${list[k]}\n${told.join("\n")}`;
        }
      }
      return undefined;
    } catch (error) {
      return `${error}\n${told.join("\n")}`;
    }
  });
}

if (import.meta.main) {
  const inner = Deno.args.includes("--inner");
  await checkCommand((seed, at) => wrongRealized(seed, at, Device.default, inner), 3);
}
