/**
 * Ordinary programs of a call or a few, forward and their gradients, at sizes of a card or of two cores: what `ordinary.ts`
 * holds against what their memory takes at least.
 *
 * @module
 */
import { Tensor } from "../mod.ts";
import type { Scale } from "./breadth_workloads.ts";

/** Numbers of a shape, or positions below a number. */
export type Given = readonly number[] | { readonly below: number; readonly shape: readonly number[] };

/** A program of the table. */
export interface Ordinary {
  readonly name: string;
  readonly given: readonly Given[];
  readonly run: (...given: Tensor[]) => Tensor | readonly Tensor[];
}

type Run = Ordinary["run"];

/** The programs, those of gradients behind those that they are of. */
export function ordinaryPrograms(scale: Scale): Ordinary[] {
  const isBig = scale === "big", rows = 4096, wide = isBig ? 4096 : 512, images = isBig ? 64 : 4, side = 56;
  const matrix = [rows, wide], picture = [images, 64, side, side], large = [images, 64, 2 * side, 2 * side];
  const out: Ordinary[] = [];
  const at = (below: number, ...shape: number[]): Given => ({ below, shape });
  const one = (name: string, given: readonly Given[], run: Run): void => void out.push({ name, given, run });
  /** And its gradient with respect to all that are no positions. */
  const both = (name: string, given: readonly Given[], run: (...x: Tensor[]) => Tensor): void => {
    one(name, given, run);
    const isNumber = given.map((g) => Array.isArray(g));
    one(`${name}_grad`, given, (...x) => run(...x).square().sum().gradient(x.filter((_, i) => isNumber[i])));
  };
  // elements
  one("add", [matrix, matrix], (x, y) => x.add(y));
  one("where", [matrix, matrix], (x, y) => x.gt(0).where(y, 0));
  both("gelu", [matrix], (x) => x.gelu());
  both("mish", [matrix], (x) => x.mish());
  both("glu", [matrix], (x) => x.glu(-1));
  one("triu", [matrix], (x) => x.triu());
  one("to_int8", [matrix], (x) => x.mul(127).round().cast("int8"));
  one("rand", [[1]], (x) => Tensor.rand(matrix, { device: x.device }));
  one("randn", [[1]], (x) => Tensor.randn(matrix, { device: x.device }));
  // reductions
  for (const axis of [-1, 0]) {
    const end = axis === 0 ? "_columns" : "";
    both(`softmax${end}`, [matrix], (x) => x.softmax(axis));
    both(`logsumexp${end}`, [matrix], (x) => x.logsumexp(axis));
    both(`std${end}`, [matrix], (x) => x.std(axis));
    both(`max${end}`, [matrix], (x) => x.max(axis));
    one(`argmax${end}`, [matrix], (x) => x.argmax(axis));
    both(`cumsum${end}`, [matrix], (x) => x.cumsum(axis));
    both(`sort${end}`, [matrix], (x) => x.sort(axis)[0]);
    both(`topk${end}`, [matrix], (x) => x.topk(8, axis)[0]);
    both(
      `standardize${end}`,
      [matrix],
      (x) => x.sub(x.mean(axis, { keepdim: true })).div(x.std(axis, { keepdim: true })),
    );
  }
  for (const columns of [3, 17, 65, 129]) {
    both(`softmax_of_${columns}_columns`, [[rows, columns]], (x) => x.softmax(0));
    both(`standardize_${columns}_columns`, [[rows, columns]], (x) => x.sub(x.mean(0)).div(x.std(0)));
  }
  one("sum_of_sums", [matrix, matrix], (x, y) => x.square().sum().add(y.abs().sum()));
  one("clip_norm", [matrix, [wide, rows]], (x, y) => {
    const by = x.square().sum().add(y.square().sum()).sqrt().add(1e-6).reciprocal().minimum(1);
    return [x.mul(by), y.mul(by)];
  });
  one("trace", [[rows, rows]], (x) => x.trace());
  both("prod", [matrix], (x) => x.prod(-1));
  both("cumprod", [matrix], (x) => x.cumprod(-1));
  both("cummax", [matrix], (x) => x.cummax(-1)[0]);
  both("logcumsumexp", [matrix], (x) => x.logcumsumexp(-1));
  one("median", [matrix], (x) => x.median(-1));
  one("kthvalue", [matrix], (x) => x.kthvalue(3, -1));
  one("sort_long", [[1 << 20]], (x) => x.sort(0)[0]);
  both("cumsum_long", [[rows * wide]], (x) => x.cumsum(0));
  both("layernorm", [matrix, [wide], [wide]], (x, w, b) => x.layernorm(-1).mul(w).add(b));
  both("norm", [matrix], (x) => x.norm(2, 1));
  both("cosine", [matrix, matrix], (x, y) => x.cosineSimilarity(y));
  // positions
  both("gather", [matrix, at(wide, rows, 64)], (x, i) => x.gather(1, i));
  both("index_select", [matrix, at(rows, rows)], (x, i) => x.indexSelect(0, i));
  both("index_select_columns", [matrix, at(wide, wide)], (x, i) => x.indexSelect(1, i));
  both("embedding", [[isBig ? 50257 : 5000, 768], at(isBig ? 50257 : 5000, 8, 1024)], (x, i) => x.at(i));
  one("scatter_add", [matrix, at(rows, ...matrix), matrix], (x, i, y) => x.scatterAdd(0, i, y));
  one("scatter", [matrix, at(wide, rows, 64), [rows, 64]], (x, i, y) => x.scatter(1, i, y));
  one("index_add", [matrix, at(rows, rows), matrix], (x, i, y) => x.indexAdd(0, i, y));
  one("one_hot", [at(1000, rows)], (i) => i.oneHot(1000));
  one("searchsorted", [[rows], [1 << 20]], (x, y) => x.sort(0)[0].searchsorted(y));
  // movement
  both("transpose", [matrix, [wide, rows]], (x, y) => x.transpose(0, 1).mul(y));
  both("permute", [picture], (x) => x.permute([0, 2, 3, 1]).contiguous());
  one("roll", [matrix], (x) => x.roll(5, 1));
  one("flip", [matrix], (x) => x.flip(1));
  both("repeat", [matrix], (x) => x.repeat([2, 2]));
  both("repeat_interleave", [matrix], (x) => x.repeatInterleave(2, 1));
  both("cat", [matrix, matrix], (x, y) => Tensor.cat([x, y], 1));
  both("stack", [matrix, matrix], (x, y) => Tensor.stack([x, y], 2));
  both("unfold", [matrix], (x) => x.unfold(1, 8, 4).contiguous());
  for (const mode of ["constant", "reflect", "replicate", "circular"] as const) {
    both(`pad_${mode}`, [picture], (x) => x.pad([3, 3, 3, 3], { mode }));
  }
  both("pixel_shuffle", [picture], (x) => x.pixelShuffle(2));
  // pictures
  both("max_pool", [large], (x) => x.maxPool2d(2));
  both("max_pool_3_stride_2", [large], (x) => x.maxPool2d(3, { stride: 2, padding: 1 }));
  both("max_pool_3_stride_1", [large], (x) => x.maxPool2d(3, { stride: 1, padding: 1 }));
  both("avg_pool_3_stride_2", [large], (x) => x.avgPool2d(3, { stride: 2, padding: 1 }));
  both("adaptive_avg_pool", [large], (x) => x.adaptiveAvgPool2d(7));
  both("global_avg_pool", [large], (x) => x.mean([2, 3]));
  for (const mode of ["linear", "nearest"] as const) {
    both(`larger_${mode}`, [picture], (x) => x.interpolate([2 * side, 2 * side], { mode }));
    both(`smaller_${mode}`, [picture], (x) => x.interpolate([side / 2, side / 2], { mode }));
  }
  both("grid_sample", [[images, 16, 64, 64], [images, 64, 64, 2]], (x, grid) => x.gridSample(grid));
  const conv = (name: string, x: number[], w: number[], options: Parameters<Tensor["conv2d"]>[2] = {}): void =>
    both(name, [x, w], (x, w) => x.conv2d(w, undefined, options));
  conv("conv_1d", [images, 64, 4096], [64, 64, 5], { padding: 2 });
  conv("conv_3d", [2, 16, 32, 32, 32], [16, 16, 3, 3, 3], { padding: 1 });
  conv("conv_1x1", picture, [256, 64, 1, 1]);
  conv("conv_stride_2", picture, [64, 64, 3, 3], { stride: 2, padding: 1 });
  conv("conv_depthwise", picture, [64, 1, 3, 3], { padding: 1, groups: 64 });
  for (const [k, padding] of [[2, 0], [3, 1], [4, 1]]) {
    both(
      `conv_transposed_${k}`,
      [[images, 64, side / 2, side / 2], [64, 32, k, k]],
      (x, w) => x.convTranspose2d(w, undefined, { stride: 2, padding }),
    );
  }
  both("batchnorm", [picture, [64], [64]], (x, w, b) => {
    const mean = x.mean([0, 2, 3], { keepdim: true }), spread = x.var([0, 2, 3], { keepdim: true, correction: 0 });
    return x.sub(mean).mul(spread.add(1e-5).rsqrt()).mul(w.reshape([1, 64, 1, 1])).add(b.reshape([1, 64, 1, 1]));
  });
  // losses and products
  both("cross_entropy", [matrix, at(wide, rows)], (x, y) => x.crossEntropy(y));
  both("cdist", [[512, 64], [512, 64]], (x, y) => x.cdist(y));
  both("matvec", [matrix, [wide]], (x, y) => x.matmul(y));
  both("bmm_small", [[rows, 8, 8], [rows, 8, 8]], (x, y) => x.matmul(y));
  both("linear", [[rows, 768], [3072, 768], [3072]], (x, w, b) => x.matmul(w.transpose(0, 1)).add(b));
  const heads = [4, 12, 512, 64];
  both("attention", [heads, heads, heads], (q, k, v) => q.scaledDotProductAttention(k, v));
  one("cov", [[256, 16384]], (x) => x.cov());
  one("rfft", [matrix], (x) => x.rfft().contiguous());
  one("stft", [[8, 1 << 16]], (x) => x.stft(512, { hopLength: 128 }).viewAsReal().contiguous());
  one("cholesky", [[64, 32, 32]], (x) => x.matmul(x.transpose(-1, -2)).add(Tensor.eye(32).to(x.device)).cholesky());
  return out;
}
