/**
 * Random programs of which values are realized between the steps that build on them, before gradients are asked for and
 * between two of them: leaves and what was computed of them, alone or together, once or again. Values and gradients must
 * be those of the same program in which nothing is realized before its end.
 *
 * The oracle of a gradient with respect to a value that was computed is that of a program of its own, in which a leaf of
 * zeros is added to that value: its gradient. So no view, no node of the value itself is looked for. Of a view of which
 * nothing was computed, though what it views was used, the library says so; nothing else may be refused.
 *
 * Run: `deno run -A tests/fuzz/realized.ts --count 2000 --seed 1`. Other options: `--device CLANG`, `--case 17` (only that
 * one), `--failures 5`, `--seconds 60`.
 */
import { Device, scope, Tensor } from "../../mod.ts";
import { prod } from "../../src/helpers/math.ts";
import { toposort } from "../../src/uop/core/uop.ts";
import { onDevice } from "../support/on_device.ts";
import { Random } from "../support/random.ts";
import { checkCommand } from "./parts/command.ts";
import { LEAVES, STEPS } from "./parts/realized_steps.ts";

/** The most elements of a value. */
const MOST = 240;

/** What the library may say of a target. */
const VIEW = /it is a view, and the tensor was computed from what it views/;

/** How a program is run. */
interface Way {
  /** Whether values are realized before its end. */
  readonly realizes: boolean;
  /** To the values of this class, a leaf of zeros is added. */
  readonly moved?: number;
  /** By value, the first one that is the same tensor. */
  readonly classes?: readonly number[];
}

/** A program that was run. */
interface Ran {
  readonly values: readonly Tensor[];
  readonly leaves: number;
  readonly loss: Tensor;
  /** The leaf that was added. */
  readonly delta?: Tensor;
  /** By value, those that its step reads. */
  readonly reads: readonly (readonly number[])[];
  /** The values whose gradients are asked for, besides the leaves. */
  readonly inner: readonly number[];
  readonly told: string[];
  /** Goes on drawing what to realize. */
  readonly pause: (chance?: number) => void;
}

function zeros(shape: readonly number[]): Tensor {
  const made = new Tensor(new Float64Array(prod(shape))).reshape([...shape]);
  made.requiresGrad = true;
  return made;
}

/** Builds the program of a case. */
function build(seed: number, at: number, { realizes, moved, classes }: Way): Ran {
  const r = new Random(Math.imul(seed, 7919) + at), q = new Random(Math.imul(seed, 104729) + at), told: string[] = [];
  const values: Tensor[] = [], reads: number[][] = [];
  let delta: Tensor | undefined;
  const keep = (made: Tensor, from: number[], text: string): void => {
    told.push(`${values.length}: ${text} [${made.shape}]`);
    const own = classes?.[values.length];
    if (own !== undefined && own < values.length && own === moved) made = values[own];
    else if (moved === values.length) made = made.add(delta = zeros(made.shape));
    values.push(made);
    reads.push(from);
  };
  const pause = (chance = 3): void => {
    const many = Array.from({ length: q.int(1, 2) }, () => q.below(values.length));
    if (q.below(chance) > 0 || !realizes) return;
    Tensor.realize(many.map((i) => values[i]));
    told.push(`realize ${many.join(" and ")}`);
  };
  for (let i = r.int(1, 3); i > 0; i--) {
    const form = r.below(LEAVES.length), leaf = LEAVES[form](r, r.int(2, 4), r.int(2, 5));
    leaf.requiresGrad = true; // else graphs of what is realized are not kept, which is told
    keep(leaf, [], `leaf ${form}`);
    pause();
  }
  const leaves = values.length;
  for (let i = r.int(3, 9); i > 0; i--) {
    const from = r.below(values.length), step = r.below(STEPS.length), read = [from];
    const made = STEPS[step](r, values[from], (isLike) => {
      const others = [...values.keys()].filter((k) => isLike?.(values[k]) ?? true), one = r.pick(others);
      read.push(one);
      return values[one];
    });
    if (prod(made.shape) > MOST || prod(made.shape) === 0) continue;
    keep(made, read, `step ${step} of ${read.join(", ")}`);
    pause();
  }
  let loss = new Tensor(0, { dtype: "float64" });
  for (const v of values.slice(-4)) {
    const n = prod(v.shape), weights = Float64Array.from({ length: n }, (_, i) => (i * 7 % 11 - 4) / 8);
    const w = new Tensor(weights).reshape([...v.shape]);
    loss = loss.add((r.below(2) === 0 ? v.mul(w) : v.mul(1.1171875).mul(v).mul(w)).sum());
  }
  const inner = Array.from({ length: r.int(1, 3) }, () => r.below(values.length));
  return { values, leaves, loss, delta, reads, inner, told, pause };
}

/** By value, the first one that is the same tensor. */
function classesOf(values: readonly Tensor[]): number[] {
  const first = new Map<unknown, number>();
  return values.map(({ uop }, i) => {
    if (!first.has(uop)) first.set(uop, i);
    return first.get(uop)!;
  });
}

/**
 * Whether value `k` is read by a program's steps alone, and is no equal expression of another step: such are one value as
 * long as none is realized.
 */
function isApart({ values, reads, leaves }: Ran, k: number, classes: readonly number[]): boolean {
  const { uop } = values[k], depends = new Set<number>([k]);
  for (let i = leaves; i < values.length; i++) {
    const isSame = classes[i] === classes[k];
    if (isSame && i !== classes[k] && !reads[i].some((j) => classes[j] === classes[k])) return false;
    if (isSame || reads[i].some((j) => depends.has(j))) depends.add(i);
    else if (toposort(values[i].uop).includes(uop)) return false;
  }
  return true;
}

async function list(t: Tensor): Promise<Float64Array> {
  return await t.data() as unknown as Float64Array;
}

/** Where two lists differ. */
function difference(what: string, got: Float64Array, want: Float64Array): string | undefined {
  const most = want.reduce((m, x) => Math.max(m, Math.abs(x)), 1e-3);
  const k = want.findIndex((x, j) => !(Math.abs(x - got[j]) <= 2e-6 * most));
  if (k < 0 && got.length === want.length) return undefined;
  return `${what}, element ${k}: ${got[k]}, want ${want[k]}`;
}

/** What gradients with respect to values must be, as far as values are what is told apart. */
async function wanted(seed: number, at: number, plain: Ran): Promise<ReadonlyMap<number, Float64Array>> {
  const classes = classesOf(plain.values), found = new Map<number, Float64Array>();
  for (const k of new Set(plain.inner)) {
    if (k >= plain.leaves && !isApart(plain, k, classes)) continue;
    const { loss, delta } = build(seed, at, { realizes: false, moved: classes[k], classes });
    found.set(k, await list(loss.gradient([delta!])[0]));
  }
  return found;
}

/** The gradients of a program with respect to its leaves and the values that are known; undefined where it says that it cannot. */
function gradientsOf({ values, leaves, loss }: Ran, asked: readonly number[]): readonly Tensor[] | undefined {
  try {
    return loss.gradient([...values.slice(0, leaves), ...asked.map((k) => values[k])]);
  } catch (error) {
    if (!VIEW.test(String(error))) throw error;
    return undefined;
  }
}

/** What became of cases. */
export const counts: { asked: number; refused: number } = { asked: 0, refused: 0 };

/** What is wrong with a case; undefined where nothing is. */
export async function wrongRealized(seed: number, at: number, device: string): Promise<string | undefined> {
  return await onDevice(device, async () => {
    let told: readonly string[] = [];
    try {
      const plain = build(seed, at, { realizes: false }), want = await wanted(seed, at, plain);
      const asked = plain.inner.filter((k) => want.has(k)), q = new Random(Math.imul(seed, 31337) + at);
      const wantLeaves: Float64Array[] = [];
      for (const g of plain.loss.gradient(plain.values.slice(0, plain.leaves))) wantLeaves.push(await list(g));
      const wantValues: Float64Array[] = [];
      for (const t of [plain.loss, ...plain.values]) wantValues.push(await list(t));
      for (const realizes of [false, true]) {
        const isScope = realizes && q.below(4) === 0, isTwice = q.below(3) === 0;
        const run = (): { ran: Ran; gradients: (readonly Tensor[] | undefined)[] } => {
          const ran = build(seed, at, { realizes });
          told = ran.told;
          ran.told.push(`gradients of ${asked.join(", ")}${isScope ? ", in a scope" : ""}`);
          if (realizes && q.below(2) === 0) {
            ran.told.push("realize the loss");
            ran.loss.realize();
          }
          ran.pause();
          const gradients = [gradientsOf(ran, asked)];
          if (isTwice) {
            if (realizes && q.below(2) === 0 && gradients[0] !== undefined) {
              ran.told.push("realize the gradients");
              Tensor.realize([...gradients[0]]);
            }
            ran.pause(1);
            gradients.push(gradientsOf(ran, asked));
          }
          for (const k of asked) gradients.push(singly(ran, k));
          return { ran, gradients };
        };
        const singly = (ran: Ran, k: number): readonly Tensor[] | undefined => gradientsOf(ran, [k]);
        const { ran, gradients } = isScope ? scope(run) : run();
        const wants = [...wantLeaves, ...asked.map((k) => want.get(k)!)];
        for (const [i, made] of gradients.entries()) {
          const single = i - (isTwice ? 2 : 1), its = single < 0 ? asked : [asked[single]];
          counts.asked++;
          if (made === undefined) {
            counts.refused++;
            if (!its.some((k) => want.get(k)!.every((x) => x === 0))) return `refused\n${told.join("\n")}`;
          }
          for (const [j, g] of (made ?? []).entries()) {
            const name = j < ran.leaves ? `leaf ${j}` : `value ${its[j - ran.leaves]}`;
            const expected = j < ran.leaves ? wants[j] : want.get(its[j - ran.leaves])!;
            const why = difference(`gradient ${i} of ${name}`, await list(g), expected);
            if (why !== undefined) return `${realizes ? "" : "without realizing: "}${why}\n${told.join("\n")}`;
          }
        }
        for (const [i, t] of [ran.loss, ...ran.values].entries()) {
          const why = difference(i === 0 ? "loss" : `value ${i - 1}`, await list(t), wantValues[i]);
          if (why !== undefined) return `${why}\n${told.join("\n")}`;
        }
      }
      return undefined;
    } catch (error) {
      return `${(error as Error).stack}\n${told.join("\n")}`;
    }
  });
}

if (import.meta.main) {
  await checkCommand((seed, at) => wrongRealized(seed, at, Device.default), 3);
  console.log(`${counts.asked} lists of gradients were asked for, ${counts.refused} refused`);
}
