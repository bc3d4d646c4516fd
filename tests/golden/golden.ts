/**
 * The golden cases from PyTorch (fixtures/golden/golden.json, ops.json) as tensors of a device, and how far results are from what
 * is stored. What a case is made of is said in fixtures/golden/golden.py.
 */
import { type DType, dtypeEpsilon, toDType } from "../../src/dtype/dtype.ts";
import { Device, Tensor } from "../../mod.ts";
import { roundTo } from "../reference.ts";
import { ramp } from "../support/tensors.ts";
import { INT32_INDICES, type Program, programOf } from "./golden_cases.ts";
import { VIEWS } from "./golden_families.ts";
import { difference, type ToleranceClass, toleranceOf } from "../tolerance.ts";

/** An array as it is stored. */
export type Stored = readonly [dtype: string, shape: readonly number[], values: readonly (number | boolean | string)[]];
/** An input is stored with its values, or a seed to draw them from, and maybe what view of it the program gets. */
export type Input = readonly [
  dtype: string,
  shape: readonly number[],
  values: Stored[2] | { readonly seed: number; readonly lo: number; readonly hi: number | null },
  view?: string,
];

/** A case. */
export interface GoldenCase {
  readonly name: string;
  readonly program: string;
  readonly tol: ToleranceClass;
  readonly inputs: readonly Input[];
  readonly outputs: readonly Stored[];
  readonly grads?: readonly (Stored | null)[];
}

/** What a case computes: outputs, and the gradients that it has. */
export interface Built {
  readonly outputs: readonly Tensor[];
  readonly grads: readonly (Tensor | undefined)[];
}

/** All cases. */
export const cases: GoldenCase[] = ["golden", "ops", "complex"].flatMap((name) =>
  JSON.parse(Deno.readTextFileSync(new URL(`../fixtures/golden/${name}.json`, import.meta.url)))
);

/** A stored number as the dtype has it. */
export function numberOf(x: number | boolean | string, d: DType): number | bigint | boolean {
  if (d.isBool) return Boolean(x);
  if (d.isFloat) return roundTo(x === "nan" ? NaN : x === "inf" ? Infinity : x === "-inf" ? -Infinity : Number(x), d);
  return d.bits === 64 ? BigInt(x as number | string) : Number(x);
}

/** The values of a seed, as golden.py draws them: multiples of 1/64 for floats, whole numbers for others. */
function drawn(n: number, { seed, lo, hi }: Exclude<Input[2], Stored[2]>, dtype: DType): number[] {
  if (hi === null) return Array.from({ length: n }, (_, i) => lo + ((i * 7919 + seed * 31) % 1009) / 64);
  let x = Math.imul(seed, 2654435761) >>> 0;
  return Array.from({ length: n }, () => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    const u = lo + (hi - lo) * ((x >>> 8) / 2 ** 24);
    return dtype.isFloat ? Math.floor(u * 64) / 64 : Math.floor(u);
  });
}

/** An input on a device. */
export function load([name, shape, values]: Input, device: string): Tensor {
  const dtype = toDType(name), n = shape.reduce((a, b) => a * b, 1);
  const list = "seed" in values ? drawn(n, values, dtype) : values;
  return new Tensor(list.map((v) => numberOf(v, dtype)), { dtype, device }).reshape(shape);
}

/** A case on a device; nothing has run. `inside` hears when its program begins and ends. */
export async function build(
  c: GoldenCase,
  device: string,
  inside: (running: boolean) => void = () => {},
): Promise<Built> {
  const inputs = c.inputs.map((x) => load(x, device));
  const views = inputs.map((x, i) => VIEWS[c.inputs[i][3] ?? ""]?.(x) ?? x);
  inside(true);
  const result = programOf(c.name)(...views as Parameters<Program>);
  inside(false);
  const out = await result;
  const outputs: readonly Tensor[] = out instanceof Tensor ? [out] : out;
  if (c.grads === undefined) return { outputs, grads: [] };
  const wanted = inputs.filter((_, i) => c.grads![i] !== null);
  const found = outputs[0].mul(ramp(outputs[0])).sum().gradient(wanted);
  let next = 0;
  return { outputs, grads: c.grads.map((g) => g === null ? undefined : found[next++]) };
}

export const BATCH = 32;

/** Whether a case needs float64 on a device that lacks it: it gives the right values without a kernel, or says so. */
export function isBeyond(c: GoldenCase, device: string): boolean {
  return device === "WEBGPU" &&
    ([...c.inputs, ...c.outputs, ...c.grads ?? []].some((s) => s !== null && s[0] === "float64") ||
      /double|float64/.test(c.program));
}

/** The first `most` cases of each program, by position. */
export function firstOfEach(most: number): ReadonlySet<number> {
  const counts = new Map<string, number>(), found = new Set<number>();
  cases.forEach(({ name }, i) => {
    const program = name.split(" | ")[0], n = counts.get(program) ?? 0;
    if (n < most) found.add(i);
    counts.set(program, n + 1);
  });
  return found;
}

/**
 * Cases of one batch are realized in one schedule (compilers run side by side); if that fails, each test tries alone.
 * @param chosen positions of those that are asked for; without it all
 */
export function batches(device: string, chosen?: ReadonlySet<number>): (index: number) => Promise<Built> {
  const built = new Map<number, Built>();
  const tried = new Set<number>();
  return async (index) => {
    const first = index - index % BATCH;
    if (!tried.has(first)) {
      tried.add(first);
      const all: Tensor[] = [];
      for (let i = first; i < Math.min(first + BATCH, cases.length); i++) {
        if (isBeyond(cases[i], device) || chosen?.has(i) === false) continue;
        try {
          const b = await build(cases[i], device);
          built.set(i, b);
          all.push(...b.outputs, ...b.grads.filter((g) => g !== undefined));
        } catch {
          // the test of this case will say so
        }
      }
      try {
        Tensor.realize(all);
      } catch {
        for (let i = first; i < first + BATCH; i++) built.delete(i);
      }
    }
    const b = built.get(index) ?? await build(cases[index], device);
    built.delete(index);
    return b;
  };
}

/** Cases of a program on an adapter in software, which compiles for long. */
export const MOST_SLOW = 2;

/** Does a processor do what an adapter should? */
export function isInSoftware(device: string): boolean {
  return device === "WEBGPU" && /llvmpipe|swiftshader|software/i.test(String(Device.get(device).info().adapter));
}

/** The devices for which cases are meant that open here; `left` hears of the others. */
export async function devicesOpen(left: (name: string, error: Error) => void = () => {}): Promise<string[]> {
  const open: string[] = [], named = Deno.env.get("DEV");
  for (const name of named ? [named] : ["JS", "WASM", "CLANG", "WEBGPU"]) {
    try {
      open.push((await Device.open(name)).name);
    } catch (error) {
      left(name, error as Error);
    }
  }
  return open;
}

/** All values of a case, in one realization. */
export async function readAll(b: Built): Promise<Map<Tensor, (number | bigint)[]>> {
  const all = [...b.outputs, ...b.grads].filter((t) => t !== undefined);
  Tensor.realize(all);
  const read = new Map<Tensor, (number | bigint)[]>();
  await Promise.all(all.map(async (t) => read.set(t, Array.from(await t.data() as ArrayLike<number | bigint>))));
  return read;
}

/** What a device may be off: by op, dtype and kind of result. */
export type UlpLimit = (key: string) => number;

function check(
  c: GoldenCase,
  what: string,
  stored: Stored,
  got: { readonly dtype: DType; readonly shape: readonly number[]; readonly data: readonly (number | bigint)[] },
  gradient: boolean,
  ulps: UlpLimit | undefined,
): void {
  const [name, shape, values] = stored;
  const want = toDType(name);
  const dtype = INT32_INDICES.has(c.name) && name === "int64" ? toDType("int32") : want;
  if (got.dtype !== dtype) throw new Error(`${what} is ${got.dtype}, want ${dtype}  (${c.program})`);
  if (got.shape.join() !== shape.join()) throw new Error(`${what} is [${got.shape}], want [${shape}]  (${c.program})`);
  const expected = values.map((v) => numberOf(v, want));
  const why = dtype.isInt && dtype.bits === 64
    ? expected.findIndex((v, i) => v !== got.data[i]) < 0 ? undefined : `[${got.data}], want [${expected}]`
    : difference(got.data.map(Number), expected.map(Number), toleranceOf(c.tol, dtype, gradient));
  if (why !== undefined) throw new Error(`${what}: ${why}  (${c.program})`);
  if (ulps === undefined) return;
  const d = distance(c, stored, got.data, gradient), key = ulpKey(c, d), most = ulps(key);
  if (d.ulp > most) {
    throw new Error(`${what} is ${d.ulp.toFixed(1)} ulps off, and ${key} may be ${most}  (${c.program})`);
  }
}

/**
 * Throws where dtype, shape or values of a case are not what is stored; with `ulps`, also where they are farther from
 * it than that allows.
 */
export function checkAll(c: GoldenCase, built: Built, read: (t: Tensor) => (number | bigint)[], ulps?: UlpLimit): void {
  if (built.outputs.length !== c.outputs.length) throw new Error(`${built.outputs.length} outputs`);
  const value = (t: Tensor) => ({ dtype: t.dtype, shape: t.shape, data: read(t) });
  c.outputs.forEach((s, i) => check(c, `output ${i}`, s, value(built.outputs[i]), false, ulps));
  c.grads?.forEach((s, i) => {
    if (s !== null) check(c, `gradient ${i}`, s, value(built.grads[i]!), true, ulps);
  });
}

/** How far one result is from what is stored. */
export interface Distance {
  readonly dtype: string;
  readonly gradient: boolean;
  /** The worst element, in units in the last place of the stored value, or of 1/16 of the largest one, or of 2^-10, if that is more. */
  readonly ulp: number;
  /** Of what the tolerance allows; beyond 1 a test fails. */
  readonly share: number;
}

function distance(
  c: GoldenCase,
  [name, , values]: Stored,
  got: readonly (number | bigint)[],
  gradient: boolean,
): Distance {
  const dtype = toDType(name), t = toleranceOf(c.tol, dtype, gradient);
  const stored = values.map((v) => Number(numberOf(v, dtype)));
  const peak = stored.reduce((m, x) => Number.isFinite(x) ? Math.max(m, Math.abs(x)) : m, 0) / 16;
  let ulp = 0, share = 0;
  stored.forEach((want, i) => {
    const have = Number(got[i]), apart = Math.abs(have - want);
    if (Object.is(have, want) || have === want || (want !== want && have !== have)) return;
    const unit = dtype.isFloat
      ? dtypeEpsilon(dtype) * 2 ** Math.floor(Math.log2(Math.max(Math.abs(want), peak, 2 ** -10)))
      : 1;
    ulp = Math.max(ulp, apart / unit);
    share = Math.max(share, apart / (t.absolute + t.relative * Math.abs(want)));
  });
  return { dtype: name, gradient, ulp, share };
}

/** What an op's ulps are listed by: the case's name up to its variant, the dtype, and whether it is a gradient. */
export function ulpKey({ name }: GoldenCase, { dtype, gradient }: Pick<Distance, "dtype" | "gradient">): string {
  return `${name.split(" | ")[0]} ${dtype}${gradient ? " gradient" : ""}`;
}

/** How far the results of a case are from what is stored. */
export async function measured(c: GoldenCase, b: Built): Promise<Distance[]> {
  const read = await readAll(b);
  return [
    ...c.outputs.map((s, i) => distance(c, s, read.get(b.outputs[i])!, false)),
    ...(c.grads ?? []).flatMap((s, i) => s === null ? [] : [distance(c, s, read.get(b.grads[i]!)!, true)]),
  ];
}
