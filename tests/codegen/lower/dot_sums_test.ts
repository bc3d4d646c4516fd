/** Sums of products of bytes, four at a time: the integers that they are, however the bytes lie and are computed. */
import { assert, assertEquals } from "@std/assert";
import { Device, dtypes, schedule, Tensor } from "../../../mod.ts";
import { KERNEL_PASSES, KernelState } from "../../../src/codegen/passes.ts";
import { evalOp } from "../../../src/uop/algebra/eval.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { toposort } from "../../../src/uop/core/uop.ts";
import { runPasses } from "../../../src/uop/rewrite/rewrite.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { Random } from "../../support/random.ts";
import { optimized } from "../../fixtures/optimized.ts";

type Kind = "int8" | "uint8";
const LOWEST: Readonly<Record<Kind, number>> = { int8: -128, uint8: 0 };

/** How bytes `[n, k]` lie in memory, and that memory seen as `[n, k]` again. */
interface Lie {
  readonly name: string;
  readonly fits: (n: number, k: number) => boolean;
  readonly laid: (x: Tensor, n: number, k: number) => Tensor;
  readonly seen: (x: Tensor, n: number, k: number) => Tensor;
}
const LIES: readonly Lie[] = [
  { name: "rows", fits: () => true, laid: (x) => x, seen: (x) => x },
  { name: "columns", fits: () => true, laid: (x) => x.transpose(0, 1), seen: (x) => x.transpose(0, 1) },
  {
    name: "words of sixteen rows",
    fits: (n, k) => n % 16 === 0 && k % 4 === 0,
    laid: (x, n, k) => x.reshape([n / 16, 16, k / 4, 4]).permute([0, 2, 1, 3]),
    seen: (x, n, k) => x.permute([0, 2, 1, 3]).reshape([n, k]),
  },
];

function bytesOf(kind: Kind, n: number, random: Random): Int32Array {
  const from = LOWEST[kind];
  // the ends often: there signs and carries go wrong
  return Int32Array.from(
    { length: n },
    () => from + [0, 255, 128, random.below(256), random.below(256)][random.below(5)],
  );
}
function put(data: Int32Array, shape: number[], kind: Kind, device: string, lie: Lie = LIES[0]): Tensor {
  const [n, k] = shape, x = lie.laid(new Tensor(data, { device }).reshape(shape), n, k);
  return lie.seen(x.cast(dtypes[kind]).contiguous().realize(), n, k);
}

const hasDots = (device: string): boolean => Device.get(device).renderer.caps.hasDots === true;
/** DOTs in the kernels of a tensor, before they are expanded. */
function dotsIn(t: Tensor, device: string): number {
  const { renderer } = Device.get(device), at = KERNEL_PASSES.findIndex((p) => p.name === "block long sums");
  return schedule([t]).flatMap((s) => s.ast === undefined ? [] : [s.ast]).reduce((n, ast) => {
    const made = runPasses(KERNEL_PASSES.slice(0, at), ast, new KernelState(ast, renderer));
    return n + toposort(made).filter((u) => u.op === Ops.DOT).length;
  }, 0);
}

for (const device of (await devicesHere()).filter(hasDots)) {
  Deno.test(`dot sums ${device}: products of bytes are their integers`, async () => {
    const random = new Random(5);
    for (const [m, n, k] of [[1, 64, 64], [9, 32, 36], [3, 17, 10]]) {
      for (const kinds of [["int8", "int8"], ["uint8", "int8"], ["int8", "uint8"], ["uint8", "uint8"]] as const) {
        for (const lie of LIES.filter((l) => l.fits(n, k))) {
          const zero = random.below(2) * 7, [p, q] = kinds;
          const a = bytesOf(p, m * k, random), b = bytesOf(q, n * k, random);
          const x = put(a, [m, k], p, device), w = put(b, [n, k], q, device, lie);
          const got = await x.cast("int32").sub(zero).matmul(w.cast("int32").transpose(0, 1)).data();
          const want = Int32Array.from({ length: m * n }, (_, i) => {
            const r = Math.floor(i / n) * k, c = i % n * k;
            let sum = 0;
            for (let l = 0; l < k; l++) sum += (a[r + l] - zero) * b[c + l];
            return sum;
          });
          assertEquals(got, want, `${m} x ${k} ${p} by ${k} x ${n} ${q} in ${lie.name}, zero point ${zero}`);
        }
      }
    }
  });

  Deno.test(
    `dot sums ${device}: nibbles, bits and scales of blocks are those of floats`,
    optimized(async () => {
      const random = new Random(9), n = 32, blocks = 3, k = 32 * blocks;
      const raw = Uint8Array.from({ length: n * k / 2 }, () => random.below(256));
      const high = Uint8Array.from({ length: n * k / 4 }, () => random.below(256));
      const x = Int8Array.from({ length: k }, () => random.below(255) - 127);
      const floats = (count: number) => Float32Array.from({ length: count }, () => random.below(64) / 8 - 4);
      const scale = floats(n * blocks), xs = floats(blocks);
      const words = (data: Uint8Array, each: number): Tensor => {
        const t = new Tensor(data, { device }).reshape([n / 16, 16, blocks, each / 4, 4]).permute([0, 2, 3, 1, 4]);
        return t.contiguous().realize().permute([0, 3, 1, 2, 4]).reshape([n, blocks, each]).cast("int32");
      };
      const fields = (t: Tensor, count: number, width: number): Tensor =>
        Tensor.stack(Array.from({ length: count }, (_, i) => t.rshift(i * width).bitwiseAnd(2 ** width - 1)), 2)
          .reshape([n, blocks, 32]);
      const q = fields(words(raw, 16), 2, 4).bitwiseOr(fields(words(high, 8), 4, 2).lshift(4)).sub(32);
      const s = new Tensor(scale, { device }).reshape([n, blocks, 1]).realize();
      const a = new Tensor(x, { device }).reshape([1, blocks, 32]).realize();
      const b = new Tensor(xs, { device }).reshape([1, blocks, 1]).realize();
      const y = a.cast("float32").mul(b).mul(q.cast("float32").mul(s)).sum([-1, -2]);
      assert(dotsIn(y, device) > 0, "no bytes are multiplied four at a time");
      const got = await y.data();
      for (let i = 0; i < n; i++) {
        let want = 0, size = 0;
        for (let g = 0; g < blocks; g++) {
          for (let l = 0; l < 32; l++) {
            const low = raw[(i * blocks + g) * 16 + l % 16] >> (l < 16 ? 0 : 4) & 15;
            const top = high[(i * blocks + g) * 8 + l % 8] >> (2 * Math.floor(l / 8)) & 3;
            const term = xs[g] * x[g * 32 + l] * scale[i * blocks + g] * ((low | top << 4) - 32);
            want += term;
            size += Math.abs(term);
          }
        }
        assert(Math.abs(Number(got[i]) - want) <= 1e-6 * size, `row ${i}: ${got[i]}, not ${want}`);
      }
    }),
  );
}

/** A number made of a byte, and how it is made of one in memory. */
type Made = readonly [x: Tensor, value: (byte: number) => number, most: number];
/** What quants of blocks are computed by, at random: shifts, masks, bits put together, and sums and multiples that stay bytes. */
function madeOf(byte: Made, depth: number, random: Random): Made {
  if (depth === 0) return byte;
  const [x, f, most] = madeOf(byte, depth - 1, random), [y, g, other] = madeOf(byte, random.below(depth), random);
  const k = random.int(1, 4), mask = random.int(1, 255);
  switch (random.below(7)) {
    case 0:
      return [x.rshift(k), (b) => f(b) >> k, most >> k];
    case 1:
      return [x.bitwiseXor(y).bitwiseAnd(mask), (b) => (f(b) ^ g(b)) & mask, mask];
    case 2:
      return [x.bitwiseOr(y).bitwiseAnd(mask), (b) => (f(b) | g(b)) & mask, mask];
    case 3:
      return [x.bitwiseAnd(y).bitwiseAnd(255), (b) => f(b) & g(b), Math.min(most, other)];
    case 4:
      if (most + other <= 255) return [x.add(y), (b) => f(b) + g(b), most + other];
      return [x.bitwiseAnd(63).add(y.bitwiseAnd(127)), (b) => (f(b) & 63) + (g(b) & 127), 190];
    case 5: {
      const bits = 2 ** random.int(1, 7) - 1, times = Math.floor(255 / bits);
      return [x.bitwiseAnd(bits).mul(times), (b) => (f(b) & bits) * times, bits * times];
    }
    default:
      return [x.bitwiseAnd(mask), (b) => f(b) & mask, mask];
  }
}

for (const device of (await devicesHere()).filter(hasDots)) {
  Deno.test(
    `dot sums ${device}: what is computed of bytes at random is summed as those integers`,
    optimized(async () => {
      const random = new Random(17), n = 16, k = 32;
      let found = 0;
      for (let i = 0; i < 40; i++) {
        const a = bytesOf("int8", k, random), b = bytesOf("uint8", n * k, random);
        const x = put(a, [1, k], "int8", device), w = put(b, [n, k], "uint8", device, LIES[i % 2 === 0 ? 0 : 2]);
        const [q, value] = madeOf([w.cast("int32"), (v) => v, 255], random.int(1, 4), random);
        const y = x.cast("int32").reshape([1, k]).mul(q).sum(-1);
        found += Math.min(1, dotsIn(y, device));
        const want = Int32Array.from({ length: n }, (_, r) => a.reduce((s, v, l) => s + v * value(b[r * k + l]), 0));
        assertEquals(await y.data(), want, `case ${i}`);
      }
      assert(found > 10, `${found} of 40 are products of bytes`);
    }),
  );

  Deno.test(
    `dot sums ${device}: signs that are flipped take no sum of the other operand`,
    optimized(() => {
      const random = new Random(3), n = 32, k = 64;
      const of = (m: number) => bytesOf("int8", m * k, random);
      const x = put(of(1), [1, k], "int8", device), w = put(of(n), [n, k], "int8", device, LIES[2]);
      const product = (a: Tensor, b: Tensor) => a.matmul(b.transpose(0, 1));
      const wide = [x, w].map((t) => t.cast("int32"));
      assertEquals(dotsIn(product(wide[0], wide[1].add(128)), device), 1);
      assertEquals(dotsIn(product(wide[0].add(128), wide[1]), device), 1);
      // of two signed operands, one sum is of what has one row
      assertEquals(dotsIn(product(wide[0], wide[1]), device), 2);
    }),
  );
}

Deno.test("dot sums: DOT is of unsigned bytes and signed ones, and wraps", () => {
  const { int32 } = dtypes, dot = (a: number, b: number, c: number) => evalOp(Ops.DOT, int32, int32, [a, b, c]);
  assertEquals(dot(-1, -1, 0), -4 * 255);
  assertEquals(dot(0x01020304, 0x7f80ff01, 10), 127 - 256 - 3 + 4 + 10);
  assertEquals(dot(-1, 0x7f7f7f7f, 2 ** 31 - 1), (2 ** 31 - 1 + 4 * 255 * 127) | 0);
});
