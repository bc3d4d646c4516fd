/** Sums of whole numbers with a scale a block: the scale stands before the sum of the block, and values stay right. */
import { assert, assertEquals } from "@std/assert";
import { Device, schedule, Tensor } from "../../../mod.ts";
import { KERNEL_PASSES, KernelState } from "../../../src/codegen/passes.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { dependsOn } from "../../../src/uop/core/ranges.ts";
import { toposort, type UOp } from "../../../src/uop/core/uop.ts";
import { runPasses } from "../../../src/uop/rewrite/rewrite.ts";
import { dequantize } from "../../../src/llm/files/block_formats.ts";
import { BLOCK_FORMATS } from "../../../src/llm/llm.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { optimized } from "../../fixtures/optimized.ts";

/** Products of `x` `[t, n]` with numbers of `[m, blocks, size]` whole ones, each times its block's scale. */
type Form = (x: Tensor, q: Tensor, scale: Tensor, offset: Tensor) => Tensor;
const flat = (w: Tensor): Tensor => w.reshape([w.shape[0], -1]).transpose(0, 1);
const FORMS: readonly (readonly [name: string, sums: number, form: Form])[] = [
  ["scale", 2, (x, q, s) => x.matmul(flat(q.float().mul(s)))],
  ["two scales", 2, (x, q, s, o) => x.matmul(flat(q.float().mul(s.mul(o))))],
  ["scale and offset", 3, (x, q, s, o) => x.matmul(flat(q.float().mul(s).add(o)))],
  ["floats alone", 1, (x, q, s) => x.matmul(flat(q.float().contiguous().mul(s)))],
  ["a scale for each", 1, (x, q, s) => x.matmul(flat(q.float().mul(s.expand(q.shape).contiguous())))],
];
const M = 24, BLOCKS = 5, SIZE = 64, N = BLOCKS * SIZE;

function operands(device: string, t: number): [x: Tensor, q: Tensor, scale: Tensor, offset: Tensor] {
  const wave = (n: number, k: number) => Float32Array.from({ length: n }, (_, i) => Math.sin(i * k + 1));
  const whole = Int8Array.from({ length: M * N }, (_, i) => (i * 7919) % 255 - 127);
  const of = (data: Float32Array | Int8Array, shape: number[]) => new Tensor(data, { device }).reshape(shape).realize();
  return [
    of(wave(t * N, 1.3), [t, N]),
    of(whole, [M, BLOCKS, SIZE]),
    of(wave(M * BLOCKS, 0.7), [M, BLOCKS, 1]),
    of(wave(M * BLOCKS, 0.3), [M, BLOCKS, 1]),
  ];
}

/** How many REDUCEs a kernel has that loop, before it is expanded. */
function sumsIn(t: Tensor, device: string): number {
  const { renderer } = Device.get(device), at = KERNEL_PASSES.findIndex((p) => p.name === "block long sums");
  const asts = schedule([t]).flatMap((s) => s.ast === undefined ? [] : [s.ast]);
  const closes = (u: UOp): boolean => u.op === Ops.REDUCE && u.src.some((r) => r.op === Ops.RANGE);
  const counts = asts.map((ast) =>
    toposort(runPasses(KERNEL_PASSES.slice(0, at), ast, new KernelState(ast, renderer))).filter(closes)
  );
  return Math.max(...counts.map((c) => c.length));
}

const devices = await devicesHere();
for (const device of devices) {
  Deno.test(`factored sums ${device}: products of blocks are those of float64`, async () => {
    for (const t of [1, 3, 16]) {
      const [x, q, s, o] = operands(device, t);
      const [xs, qs, ss, os] = (await Promise.all([x, q, s, o].map((a) => a.data()))).map((a) => [...a].map(Number));
      for (const [name, , form] of FORMS) {
        const got = await form(x, q, s, o).data();
        let worst = 0;
        for (let i = 0; i < t; i++) {
          for (let m = 0; m < M; m++) {
            let want = 0, size = 0;
            for (let k = 0; k < N; k++) {
              const b = m * BLOCKS + Math.floor(k / SIZE), scale = name === "two scales" ? ss[b] * os[b] : ss[b];
              const w = qs[m * N + k] * scale + (name === "scale and offset" ? os[b] : 0);
              want += xs[i * N + k] * w;
              size += Math.abs(xs[i * N + k] * w);
            }
            worst = Math.max(worst, Math.abs(Number(got[i * M + m]) - want) / size);
          }
        }
        assert(worst < 3e-7, `${name} of ${t} rows is off by ${worst} of the sum of magnitudes`);
      }
    }
  });
}

for (const device of devices.filter((d) => d === "CLANG" || d === "WASM")) {
  Deno.test(
    `factored sums ${device}: a scale stands before the sum of its block where whole numbers are summed`,
    optimized(() => {
      const [x, q, s, o] = operands(device, 1);
      assertEquals(
        FORMS.map(([name, , form]) => [name, sumsIn(form(x, q, s, o), device)]),
        FORMS.map((f) => f.slice(0, 2)),
      );
    }),
  );
}

for (const device of devices.filter((d) => ["CLANG", "WASM"].includes(d))) {
  Deno.test(
    `factored sums ${device}: nothing that is the same along a loop is added in each step of it`,
    optimized(() => {
      const random = (shape: number[]) => Tensor.rand(shape, { device }).realize();
      const { renderer } = Device.get(device), at = KERNEL_PASSES.findIndex((p) => p.name === "block long sums");
      let sums = 0;
      for (const [supers, blocks, size] of [[3, 8, 32], [2, 16, 16], [5, 2, 64]]) {
        const whole = new Tensor(Int8Array.from({ length: 48 * supers * blocks * size }, (_, i) => i % 15), { device });
        const q = whole.reshape([48, supers, blocks, size]).realize();
        // what formats of blocks in blocks have: scales and offsets, each of both
        const [d, dmin] = [0, 1].map(() => random([48, supers, 1, 1])),
          [s, o] = [0, 1].map(() => random([48, supers, blocks, 1]));
        for (const t of [1, 4]) {
          const x = random([t, 1, supers, blocks, size]), mean = random([t, 1, supers, blocks, 1]);
          const scaled = x.mul(q.float().mul(s.mul(d))), y = scaled.sub(mean.mul(o.mul(dmin))).sum([-1, -2, -3]);
          for (const { ast } of schedule([y])) {
            if (ast === undefined) continue;
            for (const u of toposort(runPasses(KERNEL_PASSES.slice(0, at), ast, new KernelState(ast, renderer)))) {
              if (u.op !== Ops.REDUCE) continue;
              const loops = u.src.slice(1).filter((r) => r.op === Ops.RANGE), [lift] = u.src;
              sums++;
              assertEquals(
                loops.filter((r) => !dependsOn(lift, r)).map((r) => r.arg),
                [],
                `${supers} ${blocks} ${size}`,
              );
            }
          }
        }
      }
      assert(sums >= 3 * 6, `${sums}`);
    }),
  );
}

for (const device of devices.filter((d) => ["WASM", "WEBGPU", "CUDA"].includes(d))) {
  Deno.test(`factored sums ${device}: a row times blocks of each format is what its numbers give`, () =>
    checkFormats(device));
}

async function checkFormats(device: string): Promise<void> {
  for (const format of BLOCK_FORMATS.values()) {
    if (format.plain !== undefined || /^IQ|^TQ|^NV/.test(format.name)) continue;
    const bytes = Uint8Array.from({ length: 8 * 2 * 256 / format.elements * format.nbytes }, (_, i) => (i * 31) % 59);
    const raw = new Tensor(bytes, { device }).reshape([8, -1]), x = Tensor.linspace(-1, 1, 512, { device });
    const numbers = await dequantize(raw, format).data(), xs = await x.data();
    const got = await x.reshape([1, 512]).matmul(dequantize(raw, format).transpose(0, 1)).data();
    for (let m = 0; m < 8; m++) {
      let want = 0, size = 1e-30;
      for (let k = 0; k < 512; k++) {
        const term = Number(numbers[m * 512 + k]) * Number(xs[k]);
        want += term;
        size += Math.abs(term);
      }
      assert(Math.abs(Number(got[m]) - want) / size < 1e-6, `${format.name}: ${got[m]}, not ${want}`);
    }
  }
}
