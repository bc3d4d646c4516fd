/** Whole quotients and remainders of floats: exact for all finite operands, on every device, as C's fmod and Python's %. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { Device, schedule, Tensor } from "../../../mod.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { wholeQuotient } from "../../../src/helpers/math.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { Random } from "../../support/random.ts";

const HARD = [
  1e6,
  1e4,
  100,
  5,
  1e20,
  1e9,
  1,
  5.5,
  -5.5,
  -1e6,
  2e-38,
  3.4e38,
  -0,
  0,
  Infinity,
  -Infinity,
  NaN,
  16777217,
];
const BY = [2 * Math.PI, 1e-8, 3, 1e-30, 0.1, -3, -0.7, 3.4e38, Infinity, -Infinity, NaN, 0, 1, 123.456, -1e-20];
/** Subnormal numbers, which WebGPU may take as zero. */
const TINY = [1e-45, 1e-40, -3e-39, 1e-38];

function pairs(dtype: string, tiny: boolean): [number[], number[]] {
  const r = new Random(5), round = dtype === "float32" ? Math.fround : (x: number) => x;
  const exponent = dtype === "float32" ? 120 : 1000, a: number[] = [], b: number[] = [];
  const add = (x: number, y: number): void => void (a.push(round(x)), b.push(round(y)));
  const of = tiny ? TINY : [];
  for (const x of [...HARD, ...of]) for (const y of [...BY, ...of]) add(x, y);
  const any = (e: number) => (r.next() - 0.5) * 2 ** ((r.next() - 0.5) * 2 * e);
  for (let i = 0; i < 500; i++) add(any(exponent), any(exponent));
  for (let i = 0; i < 500; i++) { // next to multiples
    const y = round(any(10));
    add(y * Math.floor(r.next() * 1e7) * (1 + (r.next() < 0.5 ? 0 : 2 ** -23)), y);
  }
  return [a, b];
}

/** As PyTorch has them. */
const python = (a: number, b: number, round: (x: number) => number): number => {
  const r = a % b;
  return r !== 0 && (r < 0) !== (b < 0) ? round(r + b) : r;
};
const floored = (a: number, b: number): number => {
  if (b === 0 || (Number.isFinite(a) && !Number.isFinite(Math.fround(a / b)))) return a / b;
  const r = a % b, q = wholeQuotient(a, b);
  return r !== 0 && (r < 0) !== (b < 0) ? q - 1 : q;
};

const devices = await devicesHere();
for (const device of devices) {
  for (const dtype of ["float32", "float64"]) {
    if (device === "WEBGPU" && dtype === "float64") continue;
    Deno.test(`division ${device}: remainders of ${dtype}`, async () => {
      const [x, y] = pairs(dtype, device !== "WEBGPU"), round = dtype === "float32" ? Math.fround : (x: number) => x;
      const a = new Tensor(x, { dtype, device }).realize(), b = new Tensor(y, { dtype, device }).realize();
      const [rest, mod] = [await a.fmod(b).data(), await a.mod(b).data()];
      x.forEach((v, i) => {
        assertStrictEquals(rest[i], v % y[i], `fmod(${v}, ${y[i]})`);
        assertStrictEquals(mod[i], python(v, y[i], round), `mod(${v}, ${y[i]})`);
      });
      const down = await a.floorDiv(b).data(), cut = await a.div(b, { roundingMode: "trunc" }).data();
      x.forEach((v, i) => {
        const near = round(v / y[i]),
          q = Number.isFinite(near) ? wholeQuotient(v, y[i]) : near,
          f = floored(v, y[i]),
          most = dtype === "float32" ? 2 ** 24 : 2 ** 53;
        if (Math.abs(q) > most || f !== f) return; // beyond, the nearest or its neighbor
        assertEquals([down[i], cut[i]], [f, q], `${v} // ${y[i]}`);
      });
    });
  }
  Deno.test(`division ${device}: by constants, and of small floats`, async () => {
    const t = (x: number[], dtype = "float32") => new Tensor(x, { dtype, device }).realize();
    const rows: [Tensor, number[]][] = [
      [t([1e6, 1e4, 100]).mod(2 * Math.PI), [5.897793769836426, 3.4518980979919434, 5.752217769622803]],
      [t([1e9]).mod(2 * Math.PI), [1e9 % Math.fround(2 * Math.PI)]],
      [t([5, 1e20]).fmod([1e-8, 3]), [5 % Math.fround(1e-8), Math.fround(1e20) % 3]],
      [t([Infinity]).floorDiv(1), [NaN]],
      [t([-5, 5]).floorDiv(Infinity), [-1, 0]],
      [t([65504, 1000], "float16").fmod(0.0999755859375), [65504 % 0.0999755859375, 1000 % 0.0999755859375]],
      [t([1e30, 7], "bfloat16").mod(3), [(await t([1e30], "bfloat16").item()) % 3, 1]],
    ];
    for (const [got, want] of rows) assertEquals(await got.tolist(), want);
  });
}

Deno.test("division: slopes", async () => {
  const a = new Tensor([7.5, -7.5], { requiresGrad: true });
  const b = new Tensor([2, 2.5], { dtype: "float32", requiresGrad: true });
  a.fmod(b).sum().add(a.floorDiv(b).sum()).backward();
  assertEquals([await a.grad!.tolist(), await b.grad!.tolist()], [[1, 1], [-3, 3]]);
});

Deno.test("division: one loop for quotient and remainder, short where it is compiled", () => {
  const { renderer } = Device.get("WASM"), t = () => Tensor.empty([64], { device: "WASM", dtype: "float64" });
  const a = t(), b = t(), steps = schedule([a.floorDiv(b).add(a.mod(b))]), [step] = steps;
  const { uops } = toProgram(step.ast!, renderer);
  assertEquals([steps.length, uops.filter((u) => u.op === Ops.RANGE).length], [1, 2]);
  assertStrictEquals(uops.length < 400, true, `${uops.length} UOps`);
});

Deno.test("division of integers by 0 is one by 1, and the least one by -1 wraps, on every device", async () => {
  for (const device of devices) {
    const on = { dtype: "int32", device },
      x = new Tensor([7, -7, 0, -(2 ** 31)], on),
      y = new Tensor([0, 0, 0, -1], on);
    const cut = { roundingMode: "trunc" } as const, all = [x.floorDiv(y), x.div(y, cut), x.mod(y), x.fmod(y)];
    Tensor.realize(all);
    const [floored, truncated, ...rests] = await Promise.all(all.map((t) => t.tolist()));
    assertEquals([floored, truncated], [[7, -7, 0, -(2 ** 31)], [7, -7, 0, -(2 ** 31)]], device);
    assertEquals(rests, [[0, 0, 0, 0], [0, 0, 0, 0]], device);
  }
});
