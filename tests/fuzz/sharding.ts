/**
 * Random shardings of what programs may call (parts/op_rows*.ts): each call on tensors divided among devices of one process,
 * and its gradient, against the same on one device. A call that is refused must name the reshard that makes it legal, and
 * give the same once that is followed.
 *
 * deno run -A --no-check tests/fuzz/sharding.ts [seed] [seconds]
 */
import { Device, dtypes, ShapeError, Tensor } from "../../mod.ts";
import type { Mesh } from "../../src/dist/dist.ts";
import { Random } from "../support/random.ts";
import { MESHES } from "./parts/meshes.ts";
import type { OpRow } from "./parts/op_rows.ts";
import { takes } from "./parts/op_rows.ts";
import { ALL_ROWS } from "./parts/op_rows_more.ts";
import { LEAF_SOURCE } from "./parts/program_maker.ts";

type Spec = (string | null)[];
const leaf = new Function("Tensor", `${LEAF_SOURCE}; return leaf;`)(Tensor) as (
  shape: readonly number[],
  dtype: string,
  k: number,
) => Tensor;

/** A call with its operands, by a seed. */
export interface ShardingCase {
  readonly name: string;
  readonly text: string;
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly smooth: boolean;
  readonly mesh: Mesh;
  /** How the tensor that the op is called on is divided, and each of its operands; whole beyond. */
  readonly specs: readonly Spec[];
}

/** All rows whose results do not depend on what was drawn before. */
export const ROWS: readonly OpRow[] = ALL_ROWS.flatMap(([, rows]) => rows);

/** How a tensor may be divided. */
function specOf(r: Random, mesh: Mesh, rank: number): Spec {
  const spec: Spec = Array.from({ length: rank }, () => null);
  for (const name of mesh.names) if (rank > 0 && r.next() < 0.7) spec[r.below(rank)] ??= name;
  return spec;
}

/** A call of a row; undefined where it takes none of the operands that were drawn. */
export function caseOf(row: OpRow, r: Random, mesh: Mesh = r.pick(MESHES)): ShardingCase | undefined {
  const [least, most] = row.rank ?? [0, 4];
  const shape = Array.from({ length: r.int(Math.max(least, 1), Math.min(most, 3)) }, () => r.pick([4, 4, 6, 2, 3, 5]));
  const kinds = [..."fib"].filter((k) => row.on.includes(k)), kind = r.pick(kinds);
  const dtype = kind === "f" ? "float32" : kind === "b" ? "bool" : "int32";
  if (!takes(row, dtypes[dtype], shape.length)) return undefined;
  const specs: Spec[] = [specOf(r, mesh, shape.length)];
  const made = (s: readonly number[], d = dtype): string => {
    specs.push(r.next() < 0.5 && s.length === shape.length ? [...specs[0]] : specOf(r, mesh, s.length));
    return `leaf([${s}], "${d}", ${specs.length - 1})`;
  };
  const operand = (): string => r.next() < 0.3 ? r.pick(["2", "0"]) : made(shape.map((n) => r.next() < 0.2 ? 1 : n));
  const text = row.make({ r, x: "x", shape, dtype: dtypes[dtype], operand, leaf: made, anyDType: () => dtype });
  if (text === undefined) return undefined;
  return { name: row.name, text, shape, dtype, smooth: row.smooth === true && dtype === "float32", mesh, specs };
}

/** Which tensors are divided: all, none but on the devices, or none. */
type Way = "alone" | "divided" | "whole";

/** The values of the results, and of the gradient where there is one. */
function run(c: ShardingCase, way: Way): number[][] {
  const put = (t: Tensor, k: number): Tensor => {
    const spec = c.specs[k];
    if (way === "alone") return t;
    return t.shard(c.mesh, way === "divided" && spec?.length === t.ndim ? spec : t.shape.map(() => null));
  };
  Tensor.manualSeed(1);
  const x = put(leaf(c.shape, c.dtype, 0), 0);
  if (c.smooth) x.requiresGrad = true;
  const own = (shape: readonly number[], dtype: string, k: number): Tensor => put(leaf(shape, dtype, k), k);
  const made = new Function("Tensor", "leaf", "x", `return ${c.text};`)(Tensor, own, x) as Tensor | Tensor[];
  const results = [made].flat(), values = results.map((t) => t.dtype.isComplex ? t.viewAsReal() : t);
  if (c.smooth) {
    const [first] = results;
    if (first.dtype.isFloat && !first.dtype.isComplex) {
      first.sum().backward();
      if (x.grad !== undefined) values.push(x.grad);
    }
  }
  return values.map((t) => Array.from(t.dataSync() as ArrayLike<number | bigint>, Number));
}

/** Whether two values are the same, but for the order in which sums were added up. */
function isNear(a: number, b: number): boolean {
  return Object.is(a, b) || a === b || Math.abs(a - b) <= 2e-4 * Math.max(1, Math.abs(a), Math.abs(b));
}

function difference(want: number[][], got: number[][]): string | undefined {
  if (want.length !== got.length) return `${got.length} results instead of ${want.length}`;
  for (let k = 0; k < want.length; k++) {
    const at = want[k].length === got[k].length ? want[k].findIndex((v, i) => !isNear(v, got[k][i])) : 0;
    if (at >= 0) return `result ${k}: element ${at} is ${got[k][at]}, not ${want[k][at]}`;
  }
  return undefined;
}

/** What a case came to. */
export interface Outcome {
  readonly why?: string;
  /** Whether it was refused, and what it was told to do was done. */
  readonly refused: boolean;
  /** Whether it is no call of one device either. */
  readonly skipped?: boolean;
}

/** Runs a case both ways. */
export function check(c: ShardingCase): Outcome {
  let want: number[][];
  try {
    want = run(c, "alone");
  } catch {
    return { refused: false, skipped: true };
  }
  try {
    return { why: difference(want, run(c, "divided")), refused: false };
  } catch (error) {
    const text = String(error);
    if (!(error instanceof ShapeError) || !text.includes(".reshard(mesh, [")) return { why: text, refused: false };
    try {
      return { why: difference(want, run(c, "whole")), refused: true };
    } catch (again) {
      return { why: `whole on all devices: ${again}`, refused: true };
    }
  }
}

/** A case as text, to be made again. */
export function caseText({ text, shape, dtype, mesh, specs }: ShardingCase): string {
  return `${text} on ${dtype}[${shape}], ${mesh}, ${JSON.stringify(specs)}`;
}

if (import.meta.main) {
  Device.default = "JS";
  const [seed = "1", seconds = "30"] = Deno.args, end = performance.now() + Number(seconds) * 1e3;
  const counts = { cases: 0, refused: 0, skipped: 0, wrong: 0 }, seen = new Map<string, number>();
  for (let k = 0; performance.now() < end; k++) {
    const r = new Random(Number(seed) * 1000003 + k), c = caseOf(ROWS[k % ROWS.length], r);
    if (c === undefined) continue;
    const { why, refused, skipped } = check(c);
    counts.cases++;
    if (refused) counts.refused++;
    if (skipped) counts.skipped++;
    if (why === undefined) continue;
    counts.wrong++;
    seen.set(c.name, (seen.get(c.name) ?? 0) + 1);
    if (seen.get(c.name)! <= 2) console.log(`${k}: ${caseText(c)}\n   ${why.slice(0, 400)}`);
  }
  console.log(JSON.stringify(counts));
}
