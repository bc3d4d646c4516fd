/**
 * Values and gradients at edges (zeros, infinities, NaN, ties, ends of domains, subnormal and huge numbers) against those
 * of PyTorch in float64: fixtures/golden/edges.json, made by fixtures/golden/edges.py. What is NaN, infinite or a
 * number must be so exactly, and so must second derivatives of functions of one number; numbers are compared to a few
 * units of the dtype. Every operation has a case, or a reason in NO_EDGES.
 *
 * Run: `deno run -A tests/fuzz/edges.ts --device WASM --dtype float64 --only pow`; with `--count 1000 --seed 1` random ones
 * of edges_random.ts, of which `--case 17` runs only that one, and `--jobs 2` shares them among so many programs.
 */
import { parseArgs } from "@std/cli/parse-args";
import { Device, nn, Tensor } from "../../mod.ts";
import { CASTS } from "../../src/tensor/ops/elementwise.ts";
import { partOf, runParts } from "../support/parts.ts";
import { onDevice } from "../support/on_device.ts";

/** A case: a call on its inputs, the values of the result, and the gradient of each input that it is asked for. */
export interface EdgeCase {
  readonly op: string;
  readonly js: string;
  /** The name of a list of points, or a shape, values, and the dtype of those that are no floats. */
  readonly inputs: readonly (string | readonly [shape: readonly number[], values: string, dtype?: "int32" | "bool"])[];
  readonly shape: readonly number[];
  readonly out: string;
  readonly grads?: readonly (string | null)[];
  /** Of a function of one number: its second derivatives at the points "ends". */
  readonly second?: string;
  /** Elementwise: the result's gradient is 1 everywhere. */
  readonly ones?: boolean;
  /** PyTorch's formula cancels: only digits relative to 1 are claimed. */
  readonly absolute?: boolean;
  /** The sign of a zero is open. */
  readonly unsigned?: boolean;
  /** PyTorch has a constant of float32 in it. */
  readonly rough?: boolean;
}

const fixture: { points: Record<string, string>; cases: EdgeCase[] } = JSON.parse(
  Deno.readTextFileSync(new URL("../fixtures/golden/edges.json", import.meta.url)),
);

/** All cases. */
export const edgeCases: readonly EdgeCase[] = fixture.cases;

/** Where we differ from PyTorch on purpose: a case, what of it, where, and why. */
export interface Deliberate {
  readonly js: RegExp;
  readonly of?: "value" | "gradient" | "second";
  /** The only device. */
  readonly device?: string;
  /** Elementwise cases: `at` are the inputs. */
  readonly where?: (got: number, want: number, at: readonly number[]) => boolean;
  readonly why: string;
}

const hasNaN = (_: number, __: number, at: readonly number[]): boolean => at.some(Number.isNaN);
const isLarge = (_: number, __: number, at: readonly number[]): boolean => at.every((v) => Math.abs(v) === Infinity);

/** The list. */
export const DELIBERATE: readonly Deliberate[] = [
  { js: /sign\(|\bsgn\(/, of: "value", where: hasNaN, why: "the sign of NaN is NaN, as in NumPy" },
  {
    js: /clamp|clip|hardswish/,
    where: hasNaN,
    why: "where the value is NaN, the gradient goes to where NaN came from; PyTorch's comparisons drop it",
  },
  { js: /gelu\(\)|mish/, of: "gradient", where: isLarge, why: "the limit, 0 or 1, where PyTorch has inf * 0" },
  {
    js: /atan\(\)|erf\(\)|gelu\(|mish/,
    of: "second",
    where: (got, want) => got === 0 && Number.isNaN(want),
    why: "far out the limit, 0, where PyTorch has inf * 0",
  },
  { js: /pow\(-?0(\.0)?, \{ reverse/, of: "second", why: "0^x is 0 or 1, and has no slope where PyTorch has 0 * inf" },
  {
    js: /pow\(0.5\)/,
    of: "second",
    where: (got) => Number.isNaN(got),
    why: "the root of -inf is NaN, and so is its slope",
  },
  {
    js: /logaddexp/,
    of: "gradient",
    where: isLarge,
    why: "half to each of equal infinities, where PyTorch has inf - inf",
  },
  {
    js: /binaryCrossentropyLogits/,
    of: "value",
    where: (got, want) => got === Infinity && Number.isNaN(want),
    why: "of a logit of -inf for a target of 1 the loss is inf, where PyTorch has inf - inf",
  },
  {
    js: /median|quantile/,
    of: "value",
    where: (got, want) => Math.abs(got) === Infinity && Number.isNaN(want),
    why: "between an infinite element and one that is not of the other sign it is infinite; PyTorch: inf - inf",
  },
  {
    js: /cummax|cummin/,
    of: "gradient",
    why: "of equal values the earliest is the extreme, as its index says; PyTorch: the last",
  },
  {
    js: /var/i,
    of: "gradient",
    where: (got, want) => Number.isNaN(got) && Math.abs(want) === Infinity,
    why: "of infinities the variance is NaN, and so is its slope; PyTorch: infinite",
  },
  {
    js: /scatterReduce.*"a(max|min)", false/,
    of: "gradient",
    why: "what does not take part has no share; PyTorch counts it among the equal ones",
  },
  { js: /cast\("float64"\)|floatPower/, device: "WEBGPU", why: "it has no float64" },
  {
    js: /log1p/,
    of: "value",
    where: (got) => Math.abs(got) < 1e-320,
    why: "log(1 + x) of the smallest x is x; PyTorch: 0",
  },
  {
    js: /sinc\(/,
    where: (_, __, [x]) => Math.abs(x) < 1e-3,
    why: "near 0 by a series, where PyTorch's difference has no digits",
  },
  {
    js: /gamma\(/,
    where: (got, _, [x]) => Math.abs(x) === Infinity || (got === Infinity && x < 0),
    why: "infinite at the poles, and the limit at the ends; PyTorch has numbers of rounding, and NaN",
  },
  {
    js: /logit\(|addcdiv|atan2/,
    of: "second",
    where: (got, want) => Number.isNaN(want) && !Number.isNaN(got),
    why: "the slope at the end of what is limited, at 0 and far out, where PyTorch has 0 * inf or inf - inf",
  },
  {
    js: /glu\(/,
    of: "gradient",
    where: (got, want) => Number.isNaN(got) && Math.abs(want) === Infinity,
    why: "of an infinite factor the slope is inf - inf; PyTorch has inf",
  },
  {
    js: /vectorNorm.*Infinity/,
    of: "gradient",
    where: (got, want) => Number.isNaN(got) && want === 0,
    why: "of a row with NaN the norm is NaN, and so is its slope; PyTorch: 0",
  },
  {
    js: /kthvalue/,
    of: "gradient",
    why: "it goes to the position that is given, the first of equal ones; PyTorch: any",
  },
  {
    js: /trapezoid/,
    of: "value",
    where: (got, want) => Math.abs(got) === Infinity && Number.isNaN(want),
    why: "sums with an infinity are infinite; PyTorch subtracts the ends from the sum of all",
  },
  {
    js: /cdist\(y, Infinity\)|embeddingBag.*max/,
    of: "gradient",
    why: "equal extremes share it, as those of max; PyTorch gives all to each, or to one",
  },
  {
    js: /^x\.det\(\)/,
    of: "gradient",
    where: (_, want) => want === 0,
    why: "of a singular matrix its cofactors; PyTorch in part 0",
  },
  {
    js: /marginRankingLoss|hingeEmbeddingLoss|multiMarginLoss/,
    where: (_, want) => want === 0,
    why: "of NaN the loss is NaN, or the gradient goes to where it came from; PyTorch's comparisons drop it",
  },
  {
    js: /softMarginLoss|Tensor\.complex\(x, y\)\.(abs|angle)/,
    of: "gradient",
    where: (_, want) => Number.isNaN(want),
    why: "the limit, where PyTorch has inf / inf",
  },
  {
    js: /igammac?|gammaincc?/,
    where: (got, want) => Number.isNaN(want) || (want === 0 && Math.abs(got) < 1e-300),
    why: "the limit, where PyTorch has inf - inf, at -0 too; and subnormal tails, which PyTorch drops",
  },
];

/** Why other operations have no case: by names. */
const REASONS: readonly (readonly [names: string, reason: string])[] = [
  [
    "ldlFactor ldlSolve",
    "pivots are chosen by comparisons: tests/tensor/math/symmetric_test.ts, tests/fuzz/matrices.ts",
  ],
  [
    "svdLowrank pcaLowrank lobpcg",
    "parts of svd and eigh, which have cases; gradients: tests/tensor/math/low_rank_test.ts",
  ],
  [
    "lt le gt ge isin unravelIndex bucketize searchsorted bincount histogram histc digitize nanargmax nanargmin unique union1d intersect1d setdiff1d setxor1d oneHot signbit logicalAnd logicalOr logicalXor gcd lcm " +
    "isComplex isreal size numel nbytes elementSize isFloatingPoint eig eigvals",
    "no result that is differentiated",
  ],
  [
    "dropout dropout2d fractionalMaxPool2d fractionalMaxPool3d bernoulli poisson binomial exponential cauchy logNormal geometric gumbelSoftmax multinomial threefry randLike randnLike Tensor.rand Tensor.randn Tensor.randint Tensor.normal " +
    "Tensor.uniform Tensor.scaledUniform Tensor.glorotUniform Tensor.kaimingUniform Tensor.kaimingNormal Tensor.randperm " +
    "Tensor.randomBits",
    "it is random",
  ],
  [
    "modifiedBesselI0 modifiedBesselI1 modifiedBesselK0 modifiedBesselK1 scaledModifiedBesselK0 scaledModifiedBesselK1 besselJ0 besselJ1 " +
    "besselY0 besselY1 sphericalBesselJ0 airyAi zeta chebyshevPolynomialT chebyshevPolynomialU chebyshevPolynomialV chebyshevPolynomialW " +
    "shiftedChebyshevPolynomialT shiftedChebyshevPolynomialU shiftedChebyshevPolynomialV shiftedChebyshevPolynomialW " +
    "hermitePolynomialH hermitePolynomialHe laguerrePolynomialL legendrePolynomialP",
    "PyTorch differentiates none of them: edges and slopes are in tests/tensor/math/bessel_test.ts",
  ],
  [
    "maxPool1d maxPool3d avgPool1d avgPool3d adaptiveMaxPool1d adaptiveMaxPool3d conv1d conv3d convTranspose1d " +
    "convTranspose3d lpPool1d lpPool3d maxUnpool1d maxUnpool3d asStrided",
    "conv2d, pools of two axes and take by other names, which have cases",
  ],
  [
    "percentile nanpercentile ptp nanmax nanmin nanprod nancumsum nancumprod nanvar nanstd average correlate polyval unwrap takeAlongAxis " +
    "msort indexReduce asStridedScatter vdot householderProduct ormqr polyfit roots",
    "made of operations that have cases, as their golden cases have edges",
  ],
  ["cbrt", "PyTorch has none: edges are golden cases, and slopes are in tests/tensor/index/sets_test.ts"],
  [
    "fullLike zerosLike onesLike emptyLike constLike Tensor.full Tensor.zeros Tensor.ones Tensor.empty Tensor.invalids " +
    "Tensor.fromBlob Tensor.const Tensor.arange Tensor.linspace Tensor.logspace Tensor.geomspace Tensor.eye Tensor.trilIndices Tensor.triuIndices viewOf " +
    "fft.fftfreq fft.rfftfreq windows.hann windows.hamming windows.blackman windows.bartlett windows.kaiser",
    "it depends on no values",
  ],
  [
    "addInPlace subInPlace mulInPlace divInPlace floorDivInPlace modInPlace powInPlace matmulInPlace bitwiseAndInPlace " +
    "bitwiseOrInPlace bitwiseXorInPlace lshiftInPlace rshiftInPlace assign replace to toInPlace wasm js shard reshard " +
    "shardInPlace shardLike",
    "what another operation gives is written or moved",
  ],
  [
    "backward gradient call asParam customKernel realize kernelize schedule data dataSync tolist tolistSync item itemSync " +
    "dispose Tensor.realize Tensor.kernelize Tensor.train Tensor.noGrad Tensor.inferenceMode Tensor.enableGrad " +
    "Tensor.isGradEnabled Tensor.manualSeed Tensor.getRngState Tensor.setRngState",
    "it is no operation",
  ],
  [
    "fft.hfft fft.ihfft fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn fft.fftshift " +
    "fft.ifftshift",
    "sums of products, as those along one axis, which have cases",
  ],
];

/** Why an operation has no case. */
export const NO_EDGES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(REASONS.flatMap(([names, reason]) => names.split(" ").map((name) => [name, reason] as const))),
  ...Object.fromEntries(
    [
      "logicalNot",
      "bitwiseNot",
      "isnan",
      "isinf",
      "isfinite",
      "bitwiseAnd",
      "bitwiseOr",
      "bitwiseXor",
      "lshift",
      "rshift",
    ]
      .concat(["eq", "ne", "isclose", "any", "all", "allclose", "argmax", "argmin", "argsort", "nonzero", "bitcast"])
      .concat(["alu", "ufix"])
      .map((name) => [name, "no result that is differentiated"]),
  ),
  ...Object.fromEntries(
    Object.keys(CASTS).map((name) => [name, "cast under another name"]),
  ),
  imageDot: "there is none yet",
  imageConv2d: "there is none yet",
  decodeHevcFrame: "there is none yet",
};

/** Stored text as numbers. */
export function numbers(text: string): number[] {
  if (text === "") return [];
  return text.split(" ").map((w) => w === "n" ? NaN : w === "i" ? Infinity : w === "-i" ? -Infinity : Number(w));
}

const ends = numbers(fixture.points.ends);

/** The points of functions of one number, and the values of which functions of two have all pairs: left times right. */
export const unaryPoints: readonly number[] = numbers(fixture.points.unary);
export const pairPoints: readonly number[] = numbers(fixture.points.right).slice(0, 17);

interface Loaded {
  readonly inputs: readonly { readonly shape: readonly number[]; readonly values: number[]; readonly dtype?: string }[];
  readonly weights: readonly number[];
}

function load(c: EdgeCase): Loaded {
  const inputs = c.inputs.map((x) => {
    const [shape, text, dtype] = typeof x === "string" ? [undefined, fixture.points[x]] : x;
    const values = numbers(text);
    return { shape: shape ?? [values.length], values, dtype };
  });
  const n = c.shape.reduce((a, b) => a * b, 1);
  return { inputs, weights: Array.from({ length: n }, (_, i) => c.ones ? 1 : ((i * 7) % 11 + 1) / 4) };
}

/** What a case computes: its result and gradients, lazily. */
export interface EdgeResult {
  readonly out: Tensor;
  readonly grads: readonly (Tensor | undefined)[];
  readonly second?: Tensor;
}

const calls = new Map<string, (...args: unknown[]) => Tensor>();

/** A case on a device, not run yet. */
export function buildEdge(c: EdgeCase, device: string, dtype: "float32" | "float64"): EdgeResult {
  const { inputs, weights } = load(c);
  const [x, y, z] = inputs.map((i) => new Tensor(i.values, { dtype: i.dtype ?? dtype, device }).reshape(i.shape));
  const call = callOf(c.js), out = call(x, y, z), grads = c.grads ?? [];
  let second: Tensor | undefined;
  if (c.second !== undefined) {
    const at = new Tensor(ends, { dtype, device }),
      slope = call(at).sum().gradient([at])[0];
    second = slope.sum().gradient([at])[0];
  }
  const wanted = [x, y, z].filter((_, i) => typeof grads[i] === "string");
  if (wanted.length === 0) return { out, grads: [] };
  const gradient = new Tensor(weights, { dtype, device }).reshape(c.shape);
  const found = out.gradient(wanted, { gradient });
  return { out, grads: grads.map((g) => typeof g === "string" ? found.shift() : undefined), second };
}

/** Whether a number is what float32 has, or nothing lies so near it that arithmetic would get into what it has not. */
function inFloat32(x: number): boolean {
  const a = Math.abs(x);
  return !Number.isFinite(x) || a === 0 || (Math.fround(x) === x && a > 2 ** -80 && a < 2 ** 80);
}

/** Whether a case may differ on a device. */
function differs(c: EdgeCase, device: string, of: Deliberate["of"], test: (d: Deliberate) => boolean): boolean {
  return DELIBERATE.some((d) => (d.device ?? device) === device && (d.of ?? of) === of && d.js.test(c.js) && test(d));
}

/** A number with the sign of a zero. */
export function signed(x: number): string {
  return Object.is(x, -0) ? "-0" : String(x);
}

/**
 * Whether a number is what a case says, near enough, or is not compared: where the dtype has not the numbers, and where
 * `DELIBERATE` says so. `at` are the inputs of elementwise cases, `factor` what the stored number is multiplied with.
 */
export function isRight(
  c: EdgeCase,
  of: Deliberate["of"],
  got: number,
  exact: number,
  at: readonly number[],
  device: string,
  narrow: boolean,
  factor = 1,
): boolean {
  const want = narrow ? Math.fround(exact * factor) : exact * factor;
  if (narrow && (!at.every(inFloat32) || (exact !== 0 && !inFloat32(Math.fround(exact))))) return true;
  const relative = narrow ? 4e-6 : c.rough ? 1e-8 : 2e-11, absolute = c.absolute ? narrow ? 4e-6 : 2e-13 : 0;
  const [rounded, off] = of === "second" ? [10 * relative, narrow ? 4e-6 : 1e-11] : [relative, absolute];
  const bound = rounded * Math.abs(want) + off * Math.abs(factor) + (want === 0 ? 0 : narrow ? 2 ** -126 : 2 ** -1022);
  // of zeros the sign is claimed also where formulas cancel
  const isSigned = of === "value" && want === 0 && !c.unsigned &&
    (!c.absolute || (c.ones === true && at.every((v) => v === 0)));
  const same = isSigned ? Object.is(got, want) : Object.is(got, want) || Math.abs(got - want) <= bound;
  return same || differs(c, device, of, (d) => d.where?.(got, want, at) ?? true);
}

/** A call on tensors, as a case has it. */
export function callOf(js: string): (x?: Tensor, y?: Tensor, z?: Tensor) => Tensor {
  let call = calls.get(js);
  if (call === undefined) {
    call = new Function("x", "y", "z", "Tensor", "nn", `return ${js};`) as (...args: unknown[]) => Tensor;
    calls.set(js, call);
  }
  return (x, y, z) => call(x, y, z, Tensor, nn);
}

/** What is wrong with a case, as text; what `DELIBERATE` names is left out. */
export async function compareEdge(c: EdgeCase, result: EdgeResult, narrow: boolean): Promise<string[]> {
  const { inputs } = load(c), problems: string[] = [];
  if (narrow && !c.ones && inputs.some((i) => !i.values.every(inFloat32))) return [];
  const floats = inputs.filter((i) => i.dtype === undefined);
  const check = async (name: string, of: Deliberate["of"], got: Tensor, shape: readonly number[], text: string) => {
    if (String(got.shape) !== String(shape)) {
      problems.push(`${c.js}: ${name} has shape [${got.shape}], not [${shape}]`);
      return;
    }
    const want = numbers(text), found = [...await got.data()].map(Number);
    want.forEach((exact, i) => {
      const at = of === "second" ? [ends[i]] : c.ones ? floats.map((x) => x.values[i]) : [];
      if (isRight(c, of, found[i], exact, at, got.device, narrow)) return;
      const place = c.ones ? `at ${at.map(signed).join(", ")}` : `element ${i}`;
      problems.push(
        `${c.js}: ${name} ${place} is ${signed(found[i])}, not ${signed(narrow ? Math.fround(exact) : exact)}`,
      );
    });
  };
  await check("value", "value", result.out, c.shape, c.out);
  for (const [i, g] of result.grads.entries()) {
    if (g !== undefined) await check(`gradient of ${"xyz"[i]}`, "gradient", g, inputs[i].shape, c.grads![i]!);
  }
  if (result.second !== undefined) await check("second derivative", "second", result.second, [ends.length], c.second!);
  return problems;
}

/** Runs cases on a device, several in one schedule; gives what is wrong. */
export function runEdges(
  chosen: readonly EdgeCase[],
  device: string,
  dtype: "float32" | "float64",
): Promise<string[]> {
  return onDevice(device, () => runAll(chosen, device, dtype));
}

async function runAll(chosen: readonly EdgeCase[], device: string, dtype: "float32" | "float64"): Promise<string[]> {
  const problems: string[] = [], size = 16;
  for (let first = 0; first < chosen.length; first += size) {
    const built: [EdgeCase, EdgeResult][] = [];
    for (const c of chosen.slice(first, first + size)) {
      try {
        built.push([c, buildEdge(c, device, dtype)]);
      } catch (e) {
        problems.push(`${c.js}: ${e}`);
      }
    }
    try {
      Tensor.realize(
        built.flatMap(([, r]) => [r.out, ...r.grads.filter((g) => g !== undefined), ...r.second ? [r.second] : []]),
      );
    } catch {
      // each says so alone
    }
    for (const [c, r] of built) {
      try {
        problems.push(...await compareEdge(c, r, dtype === "float32"));
      } catch (e) {
        if (!differs(c, device, undefined, (d) => d.of === undefined)) problems.push(`${c.js}: ${e}`);
      }
    }
  }
  return problems;
}

async function main(): Promise<void> {
  const args = parseArgs(Deno.args, {
    string: ["device", "dtype", "only", "count", "seed", "case", "jobs", "part", "parts"],
    default: { device: "JS,WASM,CLANG", seed: "1" },
  });
  if (Number(args.jobs ?? 1) > 1) Deno.exit(await runParts(import.meta.url, Number(args.jobs)));
  const only = args.only === undefined ? edgeCases : edgeCases.filter((c) => args.only!.split(",").includes(c.op));
  const isRandom = args.count !== undefined || args.case !== undefined;
  const random = isRandom ? (await import("./edges_random.ts")).runRandomEdges : undefined;
  let count = 0;
  for (const device of String(args.device).split(",")) {
    await Device.open(device);
    const wide = device !== "WEBGPU";
    if (random !== undefined) {
      const number = args.case === undefined ? undefined : Number(args.case), before = performance.now();
      const share = partOf(args),
        problems = await random({
          device,
          count: Number(args.count ?? 1),
          seed: Number(args.seed),
          number,
          ...share,
        });
      for (const p of problems) console.log(`${device} ${p}`);
      const seconds = ((performance.now() - before) / 1000).toFixed(1);
      const part = share.parts > 1 ? `, part ${share.part} of ${share.parts},` : "";
      console.log(`${device}: ${args.count ?? 1} random cases${part} in ${seconds} s, ${problems.length} findings`);
      count += problems.length;
      continue;
    }
    for (const dtype of ["float64", "float32"] as const) {
      if ((dtype === "float64" && !wide) || (args.dtype !== undefined && args.dtype !== dtype)) continue;
      const problems = await runEdges(only, device, dtype);
      for (const p of problems) console.log(`${device} ${dtype} ${p}`);
      console.log(`${device} ${dtype}: ${only.length} cases, ${problems.length} findings`);
      count += problems.length;
    }
  }
  if (count > 0) Deno.exit(1);
}

// not awaited: what is imported then imports this module
if (import.meta.main) main();
