/**
 * Bad matrices to all functions of matrices: in one batch good ones stand beside those with NaN, infinities, zeros, equal
 * rows, or no symmetry. What must hold, whatever the function and the device: it ends; what it gives for a good matrix is
 * what it gives for that matrix alone, and so is its gradient; a matrix with NaN gives no finite numbers where the function has
 * no integers to give; singular ones give what algebra says. And shapes that it cannot take are errors that name it, empty
 * batches give empty results. A failure is printed as the function and its matrices.
 *
 * Run: `deno run -A tests/fuzz/matrices.ts --count 500 --seed 1`. Other options: `--device CLANG`, `--only svd,qr`,
 * `--case 17` (only that one), `--failures 5`.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { ArgumentError, Device, Tensor } from "../../mod.ts";
import { onDevice } from "../support/on_device.ts";
import { Random } from "../support/random.ts";

/** A function of matrices. */
interface MatrixFunction {
  /** What it gives of matrices `[..., m, n]`. */
  readonly of: (a: Tensor) => Tensor | readonly Tensor[] | Promise<Tensor | readonly Tensor[]>;
  /** Whether it takes square matrices alone. Default true. */
  readonly anyShape?: boolean;
  /** Which results have gradients to compare. Default: those with floats; none where directions are not unique. */
  readonly gradients?: boolean;
  /** Of a singular matrix, not 0, of size 2 or more: whether all results are finite, or none is. */
  readonly singular?: "finite" | "not finite";
  /** Results in which a matrix with NaN must show: default all with floats. */
  readonly shows?: readonly number[];
  /** Of matrices that are symmetric and positive definite. */
  readonly positive?: boolean;
  /** Of triangles: what is above them is not looked at. */
  readonly lower?: boolean;
  /** Real matrices alone. */
  readonly real?: boolean;
}

const ones = (a: Tensor): Tensor => a.constLike(1).at("...", [0, 1]);

/** All of them. */
export const MATRIX_FUNCTIONS: Readonly<Record<string, MatrixFunction>> = {
  det: { of: (a) => a.det(), singular: "finite" },
  inv: { of: (a) => a.inv(), singular: "not finite" },
  solve: { of: (a) => a.solve(ones(a)), singular: "not finite" },
  "solve on the right": { of: (a) => a.solve(ones(a).transpose(-1, -2), { left: false }), singular: "not finite" },
  // Q of one row is 1, whatever that is
  qr: { of: (a) => a.qr(), anyShape: true, gradients: false, singular: "finite", shows: [1] },
  "qr reduced": { of: (a) => a.qr({ mode: "reduced" }), anyShape: true, singular: "finite", shows: [1] },
  svd: { of: (a) => a.svd(), anyShape: true, gradients: false, singular: "finite" },
  svdvals: { of: (a) => a.svdvals(), anyShape: true, singular: "finite" },
  cholesky: { of: (a) => a.cholesky(), positive: true },
  eigh: { of: (a) => a.eigh(), positive: true, gradients: false },
  eigvalsh: { of: (a) => a.eigvalsh(), positive: true },
  lobpcg: { of: (a) => a.lobpcg(), positive: true, gradients: false },
  eig: { of: (a) => a.eig(), gradients: false },
  eigvals: { of: (a) => a.eigvals() },
  lu: { of: (a) => a.lu(), anyShape: true, shows: [2], singular: "finite" },
  luFactor: { of: (a) => a.luFactor(), anyShape: true, singular: "finite" },
  luSolve: {
    of: (a) => {
      const [lu, pivots] = a.luFactor();
      return lu.luSolve(pivots, ones(a));
    },
    singular: "not finite",
  },
  ldlFactor: { of: (a) => a.ldlFactor(), positive: true },
  ldlSolve: {
    of: (a) => {
      const [LD, pivots] = a.ldlFactor();
      return LD.ldlSolve(pivots, ones(a));
    },
    positive: true,
  },
  slogdet: { of: (a) => a.slogdet() },
  logdet: { of: (a) => a.logdet(), positive: true, real: true },
  solveTriangular: { of: (a) => a.solveTriangular(ones(a), { upper: false }), lower: true },
  choleskySolve: { of: (a) => ones(a).choleskySolve(a), lower: true },
  choleskyInverse: { of: (a) => a.choleskyInverse(), lower: true },
  matrixRank: { of: (a) => a.matrixRank(), anyShape: true, gradients: false, singular: "finite" },
  pinv: { of: (a) => a.pinv(), anyShape: true, singular: "finite" },
  lstsq: { of: (a) => a.lstsq(ones(a)), anyShape: true, singular: "finite", shows: [0, 3] },
  cond: { of: (a) => a.cond(), anyShape: true, real: true },
  "cond 1": { of: (a) => a.cond(1), real: true },
  matrixExp: { of: (a) => a.mul(0.1).matrixExp(), singular: "finite" },
  matrixPower: { of: (a) => a.matrixPower(3), singular: "finite" },
  "matrixPower -1": { of: (a) => a.matrixPower(-1), singular: "not finite" },
  "matrixNorm 2": { of: (a) => a.matrixNorm({ ord: 2 }), anyShape: true, singular: "finite" },
  "matrixNorm nuc": { of: (a) => a.matrixNorm({ ord: "nuc" }), anyShape: true, singular: "finite" },
  newtonSchulz: { of: (a) => a.newtonSchulz(3, [1.5, -0.5]), anyShape: true, singular: "finite", real: true },
};

/** A case: a function, and matrices by what is bad about them. */
export interface MatrixCase {
  readonly name: string;
  readonly dtype: "float32" | "float64" | "complex64";
  readonly rows: number;
  readonly columns: number;
  readonly matrices: readonly (readonly [kind: string, values: number[][]])[];
}

const KINDS = ["good", "nan", "infinite", "zero", "singular", "good", "triangle"] as const;

/** Case `at` of a seed. */
export function matrixCase(
  seed: number,
  at: number,
  names: readonly string[] = Object.keys(MATRIX_FUNCTIONS),
): MatrixCase {
  const r = new Random(Math.imul(seed, 7919) + at), name = r.pick(names), f = MATRIX_FUNCTIONS[name];
  const rows = r.int(1, 4), columns = f.anyShape ? r.int(1, 4) : rows;
  const dtype = r.pick(f.real ? ["float32", "float64"] as const : ["float32", "float64", "complex64"] as const);
  const make = (kind: string): number[][] => {
    const a = Array.from({ length: rows }, () => Array.from({ length: columns }, () => r.next() * 4 - 2));
    if (f.positive) {
      for (let i = 0; i < rows; i++) for (let j = 0; j <= i; j++) a[i][j] = a[j][i] = i === j ? 9 + r.next() : a[i][j];
    } else for (let i = 0; i < Math.min(rows, columns); i++) a[i][i] += 5 * Math.sign(a[i][i] || 1);
    const i = r.below(rows), j = f.positive || f.lower ? r.below(i + 1) : r.below(columns);
    if (kind === "nan") a[i][j] = NaN;
    if (kind === "infinite") a[i][j] = r.pick([Infinity, -Infinity]);
    if (kind === "zero") { for (const row of a) row.fill(0); }
    if (kind === "singular" && rows > 1) a[rows - 1] = a[0].map((x) => 2 * x);
    if (kind === "triangle") { for (const [i, row] of a.entries()) for (let j = i + 1; j < columns; j++) row[j] = 0; }
    return a;
  };
  const kinds = ["good", ...Array.from({ length: r.int(1, 4) }, () => r.pick(KINDS))];
  return { name, dtype, rows, columns, matrices: kinds.map((kind) => [kind, make(kind)]) };
}

/** Matrices `[k, m, n]`, computed: their values are not known before. */
function tensorOf(list: readonly number[][][], { dtype, rows, columns }: MatrixCase): Tensor {
  const real = dtype === "complex64" ? "float32" : dtype;
  const halves = new Tensor(list.flat(2).map((x) => x / 2), { dtype: real }).reshape([list.length, rows, columns]);
  const a = halves.realize().mul(2).realize();
  return dtype === "complex64" ? Tensor.complex(a, a.mul(0)) : a;
}

const parts = (t: Tensor): Tensor => t.dtype.isComplex ? t.viewAsReal() : t;
async function valuesOf(t: Tensor): Promise<number[]> {
  return Array.from(await parts(t).data() as ArrayLike<number>, Number);
}
const sameNumbers = (a: readonly number[], b: readonly number[], by: number): boolean =>
  a.length === b.length && a.every((x, i) => Object.is(x, b[i]) || Math.abs(x - b[i]) <= by * (1 + Math.abs(b[i])));

/** What is wrong with a case on the default device; undefined where nothing is. */
export async function wrongMatrices(c: MatrixCase): Promise<string | undefined> {
  const f = MATRIX_FUNCTIONS[c.name], by = c.dtype === "float64" ? 1e-9 : 2e-4;
  const results = async (a: Tensor): Promise<Tensor[]> => [await f.of(a)].flat() as Tensor[];
  const all = tensorOf(c.matrices.map(([, values]) => values), c), got = await results(all);
  const slopes = async (a: Tensor): Promise<Tensor> => {
    const floats = (await results(a)).filter((t) => t.dtype.isFloat || t.dtype.isComplex).filter((t) => t.numel() > 0);
    const sums = floats.map((t) => parts(t).sum());
    return sums.reduce((x, y) => x.add(y)).gradient([a])[0];
  };
  const hasGradients = f.gradients !== false && c.dtype !== "complex64",
    slope = hasGradients ? await slopes(all) : undefined;
  for (const [k, [kind, values]] of c.matrices.entries()) {
    const here = async (t: Tensor): Promise<number[]> => t.numel() === 0 ? [] : await valuesOf(t.at(k));
    const found = await Promise.all(got.map(here));
    if (kind === "good") {
      const single = tensorOf([values], c), alone = await Promise.all((await results(single)).map(valuesOf));
      for (const [i, want] of alone.entries()) {
        if (!sameNumbers(found[i], want, by)) return `matrix ${k}, result ${i}: ${found[i]}, alone ${want}`;
        if (!want.every(Number.isFinite)) return `matrix ${k}, result ${i}: ${want}, though it is good`;
      }
      if (slope !== undefined) {
        const [one, other] = [await here(slope), await valuesOf(await slopes(single))];
        if (!sameNumbers(one, other, 10 * by)) return `the gradient of matrix ${k}: ${one}, alone ${other}`;
      }
    }
    for (const [i, t] of got.entries()) {
      const isFloat = t.dtype.isFloat || t.dtype.isComplex, isShown = f.shows?.includes(i) ?? isFloat;
      if (found[i].length === 0) continue;
      const finite = found[i].every(Number.isFinite);
      if (kind === "nan" && isFloat && isShown && finite) return `matrix ${k} has NaN, result ${i} is ${found[i]}`;
      if (kind === "singular" && c.rows > 1 && f.singular !== undefined) {
        if (f.singular === "finite" && !finite) return `matrix ${k} is singular, result ${i} is ${found[i]}`;
        // elimination of rounded rows may leave a small pivot
        const large = found[i].some((x) => !(Math.abs(x) < 1e4));
        if (f.singular === "not finite" && !large) return `matrix ${k} is singular, result ${i} is ${found[i]}`;
      }
    }
  }
}

/** Runs cases. Gives how many, and what failed, as text. */
export async function fuzzMatrices(
  options: {
    readonly seed: number;
    readonly count: number;
    readonly device: string;
    readonly only?: readonly string[];
    readonly at?: number;
    readonly failures?: number;
  },
): Promise<{ readonly cases: number; readonly failures: readonly string[] }> {
  const { seed, count, device, only, at, failures: most = 5 } = options, failures: string[] = [];
  let cases = 0;
  for (let i = at ?? 0; i < (at === undefined ? count : at + 1) && failures.length < most; i++, cases++) {
    const drawn = matrixCase(seed, i, only);
    const c = device.startsWith("WEBGPU") && drawn.dtype === "float64"
      ? { ...drawn, dtype: "float32" as const }
      : drawn;
    const hasSingular = c.matrices.some(([kind]) => kind === "singular" || kind === "zero");
    const why = await onDevice(device, () => wrongMatrices(c)).catch((error: unknown) => {
      // the JS device's memory is the host's: its values are known
      return hasSingular && error instanceof ArgumentError && / is singular/.test(error.message)
        ? undefined
        : `throws ${error}`;
    });
    if (why !== undefined) {
      failures.push(`case ${i} of seed ${seed} on ${device}: ${c.name}, ${c.dtype}: ${why}\n${describe(c)}`);
    }
  }
  return { cases, failures };
}

function describe(c: MatrixCase): string {
  return c.matrices.map(([kind, values]) => `  ${kind}: [${values.map((row) => `[${row.join(", ")}]`).join(", ")}]`)
    .join("\n");
}

if (import.meta.main) {
  const given = parseArgs(Deno.args, { string: ["device", "only"], default: { seed: 1, count: 100, failures: 5 } });
  const device = (given.device as string | undefined) ?? "JS", only = (given.only as string | undefined)?.split(",");
  await Device.open(device);
  const report = await fuzzMatrices({
    ...given as unknown as { seed: number; count: number; failures: number },
    device,
    only,
    at: given.case as number | undefined,
  });
  for (const failure of report.failures) console.log(failure);
  console.log(`${report.cases} cases, ${report.failures.length} failures`);
  if (report.failures.length > 0) Deno.exitCode = 1;
}
