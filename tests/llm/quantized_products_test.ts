/**
 * Products of weights in blocks, made at random: formats, sizes that are no multiples of tiles, batches, strides, biases,
 * on all devices that multiply bytes. Each is held to a bound that follows from its format, around the sum in float64.
 */
import { assert, assertEquals } from "@std/assert";
import { Device, Tensor } from "../../mod.ts";
import { BLOCK_FORMATS, type BlockFormat, dequantize, type GgufTensor } from "../../src/llm/llm.ts";
import { multipliesBytes, multipliesParts, productOfParts } from "../../src/llm/model/quantized_products.ts";
import { WeightStore } from "../../src/llm/model/weight_store.ts";
import { devicesHere } from "../fixtures/devices.ts";
import { registerSim } from "../fixtures/sim.ts";
import { Random } from "../support/random.ts";

const FORMATS = [...BLOCK_FORMATS.values()].filter((f) => f.plain === undefined);
/** Each format once with rows that are read together, and some of any. More: CASES=200 SEED=2. */
const CASES = Number(Deno.env.get("CASES") ?? FORMATS.length + 12), SEED = Number(Deno.env.get("SEED") ?? 21);
/** Activations with a scale of their own where bytes are multiplied, and half a step of theirs. */
const BLOCK = 32, HALF_STEP = 0.5 / 127;
/** What float32 loses in sums, in parts of the sum of sizes: their order is that of tiles. */
const ROUNDING = 4e-6;

function tensorOf(name: string, format: BlockFormat, m: number, n: number, random: Random): GgufTensor {
  const bytes = new Uint8Array(m * n / format.elements * format.nbytes);
  // bytes below 0x78 are no NaN in half precision, wherever the scales of a block lie
  for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(0x78);
  const raw = new Tensor(bytes, { device: "JS" }).reshape([m, bytes.length / m]).realize();
  return { name, format, shape: [m, n], nbytes: bytes.length, raw: () => raw, load: () => dequantize(raw, format) };
}

/** Activations `[t, n]`: of all sizes, whole blocks of zeros, and single ones that are far larger than their neighbors. */
function activations(t: number, n: number, random: Random): Float32Array {
  return Float32Array.from({ length: t * n }, (_, i) => {
    const kind = (Math.floor(i / BLOCK) * 7 + 3) % 6, x = random.next() * 2 - 1;
    return kind === 0 ? 0 : kind === 1 ? x * 1e-6 : kind === 2 && random.below(9) === 0 ? x * 100 : x;
  });
}
/** The same numbers with other strides. */
const STRIDES: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  rows: (x) => x,
  columns: (x) => x.transpose(0, 1).contiguous().realize().transpose(0, 1),
  "every other row": (x) => Tensor.stack([x, x.neg()], 1).contiguous().realize().at(":", 0),
  "turned twice": (x) => x.flip(1).contiguous().realize().flip(1),
  "computed there": (x) => x.mul(2).mul(0.5),
};

interface Case {
  readonly formats: readonly BlockFormat[];
  readonly rows: readonly number[];
  readonly n: number;
  readonly t: number;
  readonly strides: string;
  readonly bias: boolean;
}
function caseOf(i: number, random: Random): Case {
  const format = FORMATS[i % FORMATS.length], other = random.pick(FORMATS);
  const formats = [format, ...random.below(2) ? [random.below(2) ? format : other] : []];
  // rows of whole blocks, also such as are no multiples of tiles; sixteen rows lie together where bytes are multiplied
  const most = Math.max(...formats.map((f) => f.elements));
  return {
    formats,
    rows: formats.map((_, k) =>
      (k === 0 && i < FORMATS.length) || random.below(3) ? 16 * random.int(1, 5) : random.int(1, 70)
    ),
    n: most * (most === 256 ? random.int(1, 2) : random.int(1, 9)),
    t: random.pick([1, 1, random.int(2, 9), random.int(10, 70)]),
    strides: random.pick(Object.keys(STRIDES)),
    bias: random.below(2) === 0,
  };
}

Deno.test("quantized products: rows in parts on matrix units are products of float32", async () => {
  const random = new Random(SEED), format = [...BLOCK_FORMATS.values()].find((f) => f.name === "BF16")!;
  registerSim();
  const device: string = "SIM";
  assertEquals(multipliesParts(device, format, 1), false);
  for (const [t, m, n] of [[8, 48, 64], [16, 80, 100], [31, 33, 512]]) {
    assert(multipliesParts(device, format, t));
    const data = activations(t, n, random), w = Float32Array.from({ length: m * n }, () => random.int(-255, 255) / 64);
    const [x, weight] = [new Tensor(data, { device }), new Tensor(w, { device }).cast("bfloat16")];
    const got = await productOfParts(x.reshape([t, n]), weight.reshape([m, n])).data() as Float32Array;
    for (let r = 0; r < t; r++) {
      for (let c = 0; c < m; c++) {
        let want = 0, size = 0;
        for (let l = 0; l < n; l++) {
          const p = data[r * n + l] * w[c * n + l];
          [want, size] = [want + p, size + Math.abs(p)];
        }
        const off = Math.abs(got[r * m + c] - want);
        assert(off <= ROUNDING * size, `${[t, m, n]}: row ${r}, ${c}: ${got[r * m + c]}, not ${want}`);
      }
    }
  }
});

for (const device of (await devicesHere()).filter((d) => Device.get(d).renderer.caps.hasDots === true)) {
  Deno.test(`quantized products ${device}: made at random they are within half a step of each activation`, async () => {
    const random = new Random(SEED), seen = new Set<string>();
    for (let i = 0; i < CASES; i++) {
      const { formats, rows, n, t, strides, bias } = caseOf(i, random), names = formats.map((_, k) => `w${k}`);
      const files = formats.map((f, k) => tensorOf(names[k], f, rows[k], n, random));
      const store = new WeightStore(new Map(files.map((f) => [f.name, f])), device, "a file");
      const products = store.products(names);
      store.realize();
      const data = activations(t, n, random), x = STRIDES[strides](new Tensor(data, { device }).reshape([t, n]));
      for (const [k, product] of products(x).entries()) {
        const m = rows[k], what = `${formats.map((f) => f.name)} [${rows}] x ${n}, ${t} rows, ${strides}, ${k}`;
        const add = Float32Array.from({ length: m }, () => random.next() - 0.5);
        const y = bias ? product.add(new Tensor(add, { device })) : product;
        assertEquals(y.shape, [t, m]);
        const got = await y.data() as Float32Array, w = await files[k].load().data() as Float32Array;
        const inBytes = multipliesBytes(device, formats[k], [m, n]);
        if (inBytes) seen.add(formats[k].name);
        for (let r = 0; r < t; r++) {
          const steps = Float64Array.from({ length: n / BLOCK }, (_, b) => {
            let most = 0;
            for (let l = 0; l < BLOCK; l++) most = Math.max(most, Math.abs(data[r * n + b * BLOCK + l]));
            return inBytes ? most * HALF_STEP : 0;
          });
          for (let c = 0; c < m; c++) {
            let want = bias ? add[c] : 0, size = Math.abs(want), off = 0;
            for (let l = 0; l < n; l++) {
              const a = data[r * n + l], b = w[c * n + l], step = steps[Math.floor(l / BLOCK)];
              want += a * b;
              size += (Math.abs(a) + step) * Math.abs(b);
              off += step * Math.abs(b);
            }
            const error = Math.abs(got[r * m + c] - want);
            assert(error <= off + ROUNDING * size, `${what}: row ${r}, ${c}: ${got[r * m + c]}, not ${want} +- ${off}`);
          }
        }
      }
    }
    assertEquals([...seen].sort(), FORMATS.filter((f) => f.bytes !== undefined).map((f) => f.name).sort());
  });
}
