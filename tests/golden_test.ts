/**
 * Golden cases from PyTorch: first through the reference evaluator, which needs no kernel, then on each device that can
 * open here. A case checks dtype, shape and values of its outputs, and gradients with respect to its inputs.
 */
import { type DType, toDType } from "../src/dtype/dtype.ts";
import { context, Device, DTypeError, Tensor } from "../mod.ts";
import type { WebGpuDevice } from "../backends/webgpu/device.ts";
import { dawnComplaints, hasDawn } from "./fixtures/dawn.ts";
import { kernelsElsewhere } from "./fixtures/kernels_elsewhere.ts";
import { evaluate, roundTo } from "./reference.ts";
import { INT32_INDICES, type Program, programOf } from "./golden_cases.ts";
import { VIEWS } from "./golden_families.ts";
import { difference, type ToleranceClass, toleranceOf } from "./tolerance.ts";

type Stored = readonly [dtype: string, shape: readonly number[], values: readonly (number | boolean | string)[]];
/** An input is stored with its values, or a seed to draw them from, and maybe what view of it the program gets. */
type Input = readonly [
  dtype: string,
  shape: readonly number[],
  values: Stored[2] | { readonly seed: number; readonly lo: number; readonly hi: number | null },
  view?: string,
];

interface GoldenCase {
  readonly name: string;
  readonly program: string;
  readonly tol: ToleranceClass;
  readonly inputs: readonly Input[];
  readonly outputs: readonly Stored[];
  readonly grads?: readonly (Stored | null)[];
}

/** What a case computes: outputs, and the gradients that it has. */
interface Built {
  readonly outputs: readonly Tensor[];
  readonly grads: readonly (Tensor | undefined)[];
}

const cases: GoldenCase[] = JSON.parse(Deno.readTextFileSync(new URL("./fixtures/golden.json", import.meta.url)));

function numberOf(x: number | boolean | string, d: DType): number | bigint | boolean {
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

function load([name, shape, values]: Input, device: string): Tensor {
  const dtype = toDType(name), n = shape.reduce((a, b) => a * b, 1);
  const list = "seed" in values ? drawn(n, values, dtype) : values;
  return new Tensor(list.map((v) => numberOf(v, dtype)), { dtype, device }).reshape(shape);
}

/** Weights of the outputs in the loss whose gradients are stored, as in generate.py. */
function ramp(t: Tensor): Tensor {
  const weights = Array.from({ length: t.numel() }, (_, i) => (((7 * i) % 11) - 5) / 4);
  return new Tensor(weights, { dtype: t.dtype, device: t.device }).reshape(t.shape);
}

async function build(c: GoldenCase, device: string): Promise<Built> {
  const inputs = c.inputs.map((x) => load(x, device));
  const views = inputs.map((x, i) => VIEWS[c.inputs[i][3] ?? ""]?.(x) ?? x);
  const out = await programOf(c.name)(...views as Parameters<Program>);
  const outputs: readonly Tensor[] = out instanceof Tensor ? [out] : out;
  if (c.grads === undefined) return { outputs, grads: [] };
  const wanted = inputs.filter((_, i) => c.grads![i] !== null);
  const found = outputs[0].mul(ramp(outputs[0])).sum().gradient(wanted);
  let next = 0;
  return { outputs, grads: c.grads.map((g) => g === null ? undefined : found[next++]) };
}

function check(
  c: GoldenCase,
  what: string,
  stored: Stored,
  got: { readonly dtype: DType; readonly shape: readonly number[]; readonly data: readonly (number | bigint)[] },
  gradient: boolean,
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
}

function checkAll(c: GoldenCase, built: Built, read: (t: Tensor) => (number | bigint)[]): void {
  if (built.outputs.length !== c.outputs.length) throw new Error(`${built.outputs.length} outputs`);
  const value = (t: Tensor) => ({ dtype: t.dtype, shape: t.shape, data: read(t) });
  c.outputs.forEach((s, i) => check(c, `output ${i}`, s, value(built.outputs[i]), false));
  c.grads?.forEach((s, i) => {
    if (s !== null) check(c, `gradient ${i}`, s, value(built.grads[i]!), true);
  });
}

for (const c of cases) {
  Deno.test(`golden reference: ${c.name}`, async () => {
    checkAll(c, await build(c, "JS"), (t) => evaluate(t.uop).data);
  });
}

/** Devices that open here, or the one that DEV names; the others are named with the reason. */
const devices: string[] = [];
const named = Deno.env.get("DEV");
for (const name of named ? [named] : ["JS", "WASM", "CLANG", "WEBGPU"]) {
  try {
    devices.push((await Device.open(name)).name);
  } catch (error) {
    console.log(`golden: ${name} is left out: ${(error as Error).message}`);
  }
}

const BATCH = 32;

/** Whether a case needs float64 on a device that lacks it: it gives the right values without a kernel, or says so. */
function isBeyond(c: GoldenCase, device: string): boolean {
  return device === "WEBGPU" &&
    [...c.inputs, ...c.outputs, ...c.grads ?? []].some((s) => s !== null && s[0] === "float64");
}

/** Runs what a case needs on its device, where DEV names that, too. */
async function within<T>(device: string, fn: () => Promise<T>): Promise<T> {
  return await context({ DEV: device }, fn);
}

/** Cases of one batch are realized in one schedule (compilers run side by side); if that fails, each test tries alone. */
function batches(device: string): (index: number) => Promise<Built> {
  const built = new Map<number, Built>();
  const tried = new Set<number>();
  return async (index) => {
    const first = index - index % BATCH;
    if (!tried.has(first)) {
      tried.add(first);
      const all: Tensor[] = [];
      for (let i = first; i < Math.min(first + BATCH, cases.length); i++) {
        if (isBeyond(cases[i], device)) continue;
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

for (const device of devices) {
  const get = batches(device);
  cases.forEach((c, i) => {
    const run = async (): Promise<void> => {
      const b = await get(i), read = new Map<Tensor, (number | bigint)[]>();
      Tensor.realize([...b.outputs, ...b.grads.filter((g) => g !== undefined)]);
      await Promise.all([...b.outputs, ...b.grads].map(async (t) => {
        if (t !== undefined) read.set(t, Array.from(await t.data() as ArrayLike<number | bigint>));
      }));
      checkAll(c, b, (t) => read.get(t)!);
    };
    Deno.test(`golden ${device}: ${c.name}`, async () => {
      const before = kernelsElsewhere(device);
      try {
        await within(device, run);
      } catch (error) {
        if (!isBeyond(c, device) || !(error instanceof DTypeError) || !error.dtypes.includes("float64")) throw error;
      }
      const others = kernelsElsewhere(device) - before;
      if (others > 0) throw new Error(`${others} kernels ran on other devices`);
    });
  });
}

if (devices.includes("WEBGPU")) {
  Deno.test({
    name: "golden WEBGPU: Dawn takes every kernel",
    ignore: !await hasDawn(),
    fn: async () => {
      const { compiler } = Device.get("WEBGPU") as unknown as WebGpuDevice;
      const complaints = await dawnComplaints(compiler.sources);
      if (complaints.length > 0) throw new Error(`${complaints.length} are rejected; the first:\n${complaints[0]}`);
      console.log(`Dawn compiled ${compiler.sources.length} kernels`);
    },
  });
}
