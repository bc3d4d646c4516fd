/** What families of fixtures/golden/ops.py are called by, where that is not a method on the inputs in order. */
import { type DeviceName, Tensor } from "../../mod.ts";
import { POLYNOMIALS } from "../../src/tensor/math/polynomials.ts";
import type { Reduction } from "../../src/tensor/math/loss.ts";
import type { Program } from "./golden_cases.ts";

/** Programs for each reduction. */
function ofReductions(
  make: (reduction: Reduction, name: string) => Readonly<Record<string, Program>>,
): Record<string, Program> {
  return Object.assign({}, ...(["mean", "sum", "none"] as const).map((how) => make(how, how)));
}

/** Programs by name. */
export const OPS: Readonly<Record<string, Program>> = {
  "round decimals": (a) => [a.round({ decimals: 2 }), a.round({ decimals: -1 })],
  "nanToNum given": (a) => a.nanToNum({ nan: 1.5, posinf: 7, neginf: -8 }),
  "logit eps": (a) => a.logit(0.25),
  ...Object.fromEntries([1, 3].map((p): [string, Program] => [`mvlgamma ${p}`, (a) => a.mvlgamma(p)])),
  "vander increasing": (a) => a.vander(3, { increasing: true }),
  "vander 0": (a) => a.vander(0),
  ...Object.fromEntries(
    (["full", "same", "valid"] as const).map((mode): [string, Program] => [
      `convolve ${mode}`,
      (a, b) => a.convolve(b, { mode }),
    ]),
  ),
  "interp given": (a, b, c) => a.interp(b, c, { below: -7, above: 8 }),
  "unravelIndex": (a) => a.unravelIndex([2, 3, 4]),
  "pdist 1": (a) => a.pdist(1),
  "choleskyInverse": (a) => a.tril().add(a.zerosLike().add(3).tril().triu()).choleskyInverse(),
  "tensorinv": (a) => a.tensorinv(1),
  "tensorinv 2": (a) => a.tensorinv(),
  "tensorsolve dims": (a, b) => a.tensorsolve(b, [0]),
  "Tensor.logspace": (a) => Tensor.logspace(-1, 2, a.shape[0], { device: a.device as DeviceName }),
  "Tensor.logspace base": (a) => Tensor.logspace(-1, 4, a.shape[0], { base: 2, device: a.device as DeviceName }),
  ...Object.fromEntries(
    (["igamma", "igammac", "gammainc", "gammaincc"] as const).map((name): [string, Program] => [
      `${name} slope`,
      (a) => a.fullLike(2.5)[name](a),
    ]),
  ),
  "zeta by the second": (a) => a.fullLike(2.5).zeta(a),
  ...Object.fromEntries(
    Object.keys(POLYNOMIALS).flatMap((name) =>
      [0, 1, 5].map((n): [string, Program] => [
        `${name} ${n}`,
        (a) => a[name as "legendrePolynomialP"](n),
      ])
    ),
  ),
  "maxPool1d": (a) => a.maxPool1d(2),
  "maxPool3d": (a) => a.maxPool3d(2),
  "maxPool1d padded": (a) => a.maxPool1d(3, { stride: 1, padding: 1, returnIndices: true }),
  "maxPool3d padded": (a) => a.maxPool3d(3, { stride: 1, padding: 1, returnIndices: true }),
  "avgPool1d": (a) => a.avgPool1d(2, { stride: 1, padding: 1, countIncludePad: false }),
  "avgPool3d": (a) => a.avgPool3d(2, { stride: 1, padding: 1, countIncludePad: false }),
  "adaptiveMaxPool1d": (a) => a.adaptiveMaxPool1d(2, { returnIndices: true }),
  "adaptiveMaxPool3d": (a) => a.adaptiveMaxPool3d(2, { returnIndices: true }),
  ...Object.fromEntries(
    (["convTranspose1d", "convTranspose3d"] as const).map((name): [string, Program] => [
      name,
      (a, b, c) => a[name](b, c, { stride: 2, padding: 1, outputPadding: 1 }),
    ]),
  ),
  "lpPool1d": (a) => a.lpPool1d(2, 2, { stride: 1 }),
  "lpPool3d": (a) => a.lpPool3d(2, 2, { stride: 1 }),
  "maxUnpool1d": (a) => {
    const [most, at] = a.maxPool1d(2, { returnIndices: true });
    return most.maxUnpool1d(at, 2);
  },
  "maxUnpool3d": (a) => {
    const [most, at] = a.maxPool3d(2, { returnIndices: true });
    return most.maxUnpool3d(at, 2);
  },
  "Tensor.geomspace": (a) => Tensor.geomspace(2, 54, a.shape[0], { device: a.device as DeviceName }),
  "Tensor.geomspace negative": (a) => Tensor.geomspace(-1000, -1, a.shape[0], { device: a.device as DeviceName }),
  "percentile": (a) => a.percentile([12.5, 50, 90], -1),
  "percentile all": (a) => a.percentile(30, undefined, { interpolation: "lower" }),
  "nanpercentile": (a) => a.nanpercentile(40, 0, { keepdim: true }),
  ...Object.fromEntries(
    (["ptp", "nanmax", "nanmin", "nanvar", "nanstd", "nanprod", "nanargmax", "nanargmin"] as const).map((
      name,
    ): [string, Program] => [name, (a) => a[name](-1)]),
  ),
  "nanvar slope": (a) => {
    const first = Tensor.arange(a.shape[1], undefined, undefined, { device: a.device as DeviceName }).eq(0);
    return first.where(NaN, a).nanvar(-1);
  },
  "nancumsum": (a) => a.nancumsum(1),
  "nancumprod": (a) => a.nancumprod(1),
  "average": (a, b) => a.average(1, { weights: b }),
  "average of axis": (a, b) => a.average(1, { weights: b, keepdim: true }),
  "digitize right": (a, b) => a.digitize(b, { right: true }),
  ...Object.fromEntries(
    (["prod", "mean", "amax", "amin"] as const).flatMap((how): [string, Program][] => [
      [`indexReduce ${how}`, (a, b, c) => a.indexReduce(0, b, c, how)],
      [`indexReduce ${how} alone`, (a, b, c) => a.indexReduce(1, b, c, how, false)],
    ]),
  ),
  "asStridedScatter": (a, b) => a.asStridedScatter(b, [2, 3], [4, 1], 1),
  "histc": (a) => a.histc(5),
  "histc between": (a) => a.histc(4, -1, 1),
  ...Object.fromEntries(
    (["full", "same", "valid"] as const).map((mode): [string, Program] => [
      `correlate ${mode}`,
      (a, b) => a.correlate(b, { mode }),
    ]),
  ),
  "unwrap period": (a) => a.unwrap(0, { period: 4 }),
  "unwrap discont": (a) => a.unwrap(-1, { discont: 5 }),
  "ormqr back": (a, b, c) => a.ormqr(b, c, { transpose: true }),
  "ormqr right": (a, b, c) => a.ormqr(b, c, { left: false }),
  "polyfit": (a, b) => a.polyfit(b, 2),
  "polyfit columns": (a, b) => a.polyfit(b, 1),
  "interpolate antialias": (a) => a.interpolate([3, 9], { mode: "bilinear", antialias: true }),
  "interpolate antialias corners": (a) =>
    a.interpolate([3, 9], { mode: "bilinear", antialias: true, alignCorners: true }),
  "interpolate antialias bicubic": (a) => a.interpolate([3, 4], { mode: "bicubic", antialias: true }),
  "interpolate antialias factor": (a) => a.interpolate(null, { scaleFactor: 0.4, mode: "bilinear", antialias: true }),
  "norm positional": (a) => a.norm(3, 0),
  "rot90 positional": (a) => a.rot90(3, [1, 2]),
  "asStrided": (a) => a.asStrided([3, 2], [1, 2], 1),
  "asStrided rows": (a) => a.asStrided([4, 3], [2, 0]),
  "polygamma 1": (a) => a.polygamma(1),
  "polygamma 2": (a) => a.polygamma(2),
  "polygamma 3": (a) => a.polygamma(3),
  "addcmul": (a, b, c) => a.addcmul(b, c, { value: 0.5 }),
  "addcdiv": (a, b, c) => a.addcdiv(b, c, { value: -2 }),
  "threshold": (a) => a.threshold(0.25, -3),
  "glu first": (a) => a.glu(0),
  ...Object.fromEntries(
    Object.entries({ "2": 2, "1": 1, "3": 3, half: 0.5, "0": 0, inf: Infinity, "-inf": -Infinity })
      .map(([name, ord]): [string, Program] => [`vectorNorm ${name}`, (a) => a.vectorNorm({ ord, dim: -1 })]),
  ),
  "vectorNorm keep": (a) => a.vectorNorm({ dim: [0, -1], keepdim: true }),
  "norm p": (a) => a.norm({ p: 3, dim: 0 }),
  ...Object.fromEntries(
    Object.entries(
      { fro: "fro", "1": 1, "-1": -1, inf: Infinity, "-inf": -Infinity, "2": 2, "-2": -2, nuc: "nuc" } as const,
    )
      .map(([name, ord]): [string, Program] => [`matrixNorm ${name}`, (a) => a.matrixNorm({ ord })]),
  ),
  "matrixNorm dims": (a) => a.matrixNorm({ ord: 1, dim: [0, 2], keepdim: true }),
  "dist": (a, b) => a.dist(b, 3),
  "nansum": (a) => a.nansum(-1),
  "nanmean": (a) => a.nanmean(-1),
  "nanquantile": (a) => a.nanquantile([0.25, 0.6], -1),
  ...Object.fromEntries(
    (["lower", "higher", "midpoint", "nearest"] as const).map((interpolation): [string, Program] => [
      `nanquantile ${interpolation}`,
      (a) => a.nanquantile(0.4, -1, { keepdim: true, interpolation }),
    ]),
  ),
  "nanmedian": (a) => a.nanmedian(-1),
  "aminmax": (a) => a.aminmax(-1),
  "countNonzero": (a) => a.countNonzero(1),
  "kthvalue": (a) => a.kthvalue(3),
  "kthvalue first": (a) => a.kthvalue(1, 0, { keepdim: true }),
  "mode": (a) => a.mode()[0],
  "mode first": (a) => a.mode(0, { keepdim: true })[0],
  "diff more": (a, b, c) => a.diff({ n: 2, dim: 0, prepend: b, append: c }),
  "trapezoid": (a) => a.trapezoid(undefined, { dx: 0.5 }),
  "trapezoid x": (a, b) => a.trapezoid(b, { dim: 0 }),
  "cov weights": (a, b, c) => a.cov({ correction: 0, fweights: b, aweights: c }),
  "tensordot axes": (a, b) => a.tensordot(b, [[0, -1], [1, 0]]),
  "tensordot none": (a, b) => a.tensordot(b, 0),
  "cross first": (a, b) => a.cross(b, 0),
  "cdist 1": (a, b) => a.cdist(b, 1),
  "addmm": (a, b, c) => a.addmm(b, c, { beta: 0.5, alpha: 2 }),
  "addbmm": (a, b, c) => a.addbmm(b, c, { beta: 2 }),
  "multiDot": (a, b, c) => a.multiDot([b, c]),
  "matrixPower": (a) => a.matrixPower(5),
  "matrixPower back": (a) => a.matrixPower(-2),
  "matrixPower 0": (a) => a.matrixPower(0),
  ...ofReductions((reduction, name) => ({
    [`mseLoss ${name}`]: (a, b) => a.mseLoss(b, { reduction }),
    [`l1Loss ${name}`]: (a, b) => a.l1Loss(b, { reduction }),
    [`huberLoss ${name}`]: (a, b) => a.huberLoss(b, { reduction }),
    [`smoothL1Loss ${name}`]: (a, b) => a.smoothL1Loss(b, { reduction }),
    [`crossEntropy weight ${name}`]: (a, b, weight) =>
      a.crossEntropy(b, { weight, reduction, labelSmoothing: 0.2, ignoreIndex: 1 }),
    [`crossEntropy shares ${name}`]: (a, b, c) => a.crossEntropy(b, c, { reduction, labelSmoothing: 0.2 }),
    [`klDiv ${name}`]: (a, b) => a.klDiv(b, { reduction }),
    [`ctcLoss ${name}`]: (a, b, c, d) => a.logSoftmax(-1).ctcLoss(b, c, d, { reduction }),
  })),
  "klDiv batchmean": (a, b) => a.klDiv(b, { reduction: "batchmean" }),
  "ctcLoss joined": (a, b, c, d) =>
    a.logSoftmax(-1).ctcLoss(b, c, d, { blank: 2, reduction: "sum", zeroInfinity: true }),
  "mseLoss weight": (a, b, weight) => a.mseLoss(b, { weight }),
  "huberLoss delta": (a, b) => a.huberLoss(b, { delta: 0.5 }),
  "smoothL1Loss beta": (a, b) => a.smoothL1Loss(b, { beta: 0.25 }),
  "klDiv logs": (a, b) => a.klDiv(b, { logTarget: true }),
  "poissonNllLoss full": (a, b) => a.poissonNllLoss(b, { logInput: false, full: true, reduction: "none" }),
  "gaussianNllLoss": (a, b, c) => a.gaussianNllLoss(b, c),
  "gaussianNllLoss full": (a, b, c) => a.gaussianNllLoss(b, c, { full: true, reduction: "sum" }),
  "cosineSimilarity last": (a, b) => a.cosineSimilarity(b, -1, { eps: 0.5 }),
  "pairwiseDistance 1": (a, b) => a.pairwiseDistance(b, { p: 1, keepdim: true }),
  "cosineEmbeddingLoss": (a, b, c) => a.cosineEmbeddingLoss(b, c, { margin: 0.1 }),
  "marginRankingLoss": (a, b, c) => a.marginRankingLoss(b, c, { margin: 0.5 }),
  "multiMarginLoss weight": (a, b, c) => a.multiMarginLoss(b, c, { p: 2, margin: 0.5 }),
  "tripletMarginLoss swap": (a, b, c) => a.tripletMarginLoss(b, c, { margin: 2, p: 1, swap: true, reduction: "sum" }),
  "crossEntropy ignored": (a, b) => a.crossEntropy(b, { ignoreIndex: -100 }),
  "binaryCrossentropy weight": (a, b, weight) => a.binaryCrossentropy(b, { weight }),
  "binaryCrossentropyLogits weight": (a, b, weight) => a.binaryCrossentropyLogits(b, { weight }),
  "attention scale": (a, b, c) => a.scaledDotProductAttention(b, c, undefined, { scale: 0.3 }),
  "vecdot first": (a, b) => a.vecdot(b, 0),
  ...ofReductions((reduction, name) => ({
    [`multilabelMarginLoss ${name}`]: (a, b) => a.multilabelMarginLoss(b, { reduction }),
  })),
  "lpPool2d": (a) => a.lpPool2d(2, 2),
  "lpPool2d 3": (a) => a.lpPool2d(3, [2, 3], { stride: 3 }),
  "lpPool2d one": (a) => a.lpPool2d(4, [3], { ceilMode: true }),
  "scatterAdd": (a, b, c) => a.scatterAdd(1, b, c),
  "logdet": (a) => a.logdet(),
  "amax": (a) => a.amax(1, { keepdim: true }),
  "amin": (a) => a.amin(1, { keepdim: true }),
  "adaptiveAvgPool2d": (a) => a.adaptiveAvgPool2d([3, 2]),
  "adaptiveAvgPool1d": (a) => a.adaptiveAvgPool1d(3),
  "adaptiveAvgPool3d": (a) => a.adaptiveAvgPool3d([2, null, 3]),
  "adaptiveMaxPool2d": (a) => a.adaptiveMaxPool2d([3, 2], { returnIndices: true }),
  "adaptiveMaxPool2d one": (a) => a.adaptiveMaxPool2d([3]),
  "interpolate bicubic False": (a) => a.interpolate([5, 7], { mode: "bicubic" }),
  "interpolate bicubic True": (a) => a.interpolate([5, 7], { mode: "bicubic", alignCorners: true }),
  "interpolate area": (a) => a.interpolate([3, 2], { mode: "area" }),
  ...Object.fromEntries(
    (["bilinear", "nearest", "nearest-exact", "bicubic", "area"] as const).map((mode): [string, Program] => [
      `interpolate by ${mode}`,
      (a) => a.interpolate(undefined, { scaleFactor: 1.6, mode }),
    ]),
  ),
  "interpolate by two": (a) => a.interpolate(undefined, { scaleFactor: [2, 0.5], mode: "nearest" }),
  ...Object.fromEntries(
    (["bilinear", "nearest", "bicubic"] as const).flatMap((mode) =>
      (["zeros", "border", "reflection"] as const).flatMap((paddingMode) =>
        [false, true].map((alignCorners): [string, Program] => [
          `gridSample ${mode} ${paddingMode} ${alignCorners ? "True" : "False"}`,
          (a, b) => a.gridSample(b, { mode, paddingMode, alignCorners }),
        ])
      )
    ),
  ),
  "affineGrid False": (a) => a.affineGrid([2, 1, 3, 4]),
  "affineGrid True": (a) => a.affineGrid([2, 1, 3, 4], { alignCorners: true }),
  "im2col": (a) => a.im2col([2, 3], { dilation: [1, 2], padding: [1, 2], stride: [2, 1] }),
  "fold": (a) => a.fold([4, 5], [2, 3], { padding: 1, stride: [1, 2] }),
  "fold dilated": (a) => a.fold(5, 2, { dilation: 2 }),
  "pixelShuffle": (a) => a.pixelShuffle(2),
  "pixelUnshuffle": (a) => a.pixelUnshuffle(2),
  "channelShuffle": (a) => a.channelShuffle(3),
  "localResponseNorm": (a) => a.localResponseNorm(3, { alpha: 0.5 }),
  "localResponseNorm even": (a) => a.localResponseNorm(2, { beta: 0.5, k: 2 }),
  ...Object.assign(
    {},
    ...(["sum", "mean", "max"] as const).map((mode): Record<string, Program> => ({
      [`embeddingBag ${mode}`]: (a, b) => a.embeddingBag(b, undefined, { mode }),
      [`embeddingBag list ${mode}`]: (a, b, c) => a.embeddingBag(b, c, { mode }),
    })),
  ),
  "embeddingBag weights": (a, b, c) => a.embeddingBag(b, undefined, { mode: "sum", perSampleWeights: c }),
  "avgPool divisor": (a) => a.avgPool2d(2, { padding: 1, divisorOverride: 3 }),
  "eigh product": (a) => {
    const [w, v] = a.mul(0.5).eigh();
    return v.mul(w.exp().unsqueeze(-2)).dot(v.transpose(-1, -2));
  },
  "eigh upper": (a) => a.eigvalsh({ uplo: "U" }),
  "luSolve": (a, b) => {
    const [lu, pivots] = a.luFactor();
    return lu.luSolve(pivots, b);
  },
  "slogdet slope": (a) => a.slogdet()[1],
  "solveTriangular True": (a, b) => a.solveTriangular(b, { upper: true }),
  "solveTriangular False": (a, b) => a.solveTriangular(b, { upper: false }),
  "solveTriangular right": (a, b) => a.solveTriangular(b, { upper: true, left: false, unitriangular: true }),
  "solve right": (a, b) => a.solve(b, { left: false }),
  "matrixRank atol": (a) => a.matrixRank({ atol: 2.5 }),
  "lstsq solution": (a, b) => a.lstsq(b)[0],
  "cond 1": (a) => a.cond(1),
  "diag above": (a) => a.diag(1),
  "diag below": (a) => a.diag(-2),
  "diagEmbed axes": (a) => a.diagEmbed({ offset: 1, dim1: 0, dim2: 2 }),
  "diagEmbed below": (a) => a.diagEmbed({ offset: -2, dim1: -1, dim2: -2 }),
  "diagflat": (a) => a.diagflat(1),
  "unbind": (a) => a.unbind(1),
  "select": (a) => a.select(1, -1),
  "narrow": (a) => a.narrow(1, 1, 2),
  "movedim": (a) => a.movedim(0, -1),
  "movedim several": (a) => a.movedim([0, 1], [2, 0]),
  ...Object.fromEntries([-1, 1, 2, 4].map((k): [string, Program] => [`rot90 ${k}`, (a) => a.rot90({ k })])),
  "rot90 axes": (a) => a.rot90({ dims: [2, 0] }),
  "swapaxes": (a) => a.swapaxes(0, -1),
  "squeeze several": (a) => a.squeeze([0, 2]),
  "tensorSplit": (a) => a.tensorSplit(3, -1),
  "tensorSplit places": (a) => a.tensorSplit([1, -2, 9]),
  "hsplit": (a) => a.hsplit(2),
  "vsplit": (a) => a.vsplit(2),
  "tile": (a) => a.tile([2, 3]),
  "selectScatter": (a, b) => a.selectScatter(b, 1, -1),
  "sliceScatter": (a, b) => a.sliceScatter(b, 1, { start: 1, end: 6, step: 2 }),
  "sliceScatter back": (a, b) => a.sliceScatter(b, 0, { start: -2 }),
  ...Object.fromEntries(
    [0, 1, -2].map((offset): [string, Program] => [
      `diagonalScatter ${offset}`,
      (a, b) => a.diagonalScatter(b, { offset }),
    ]),
  ),
  "diagonalScatter axes": (a, b) => a.diagonalScatter(b, { dim1: 2, dim2: 0 }),
  "blockDiag": (a, b, c) => a.blockDiag([b, c]),
  "cartesianProd": (a, b, c) => a.cartesianProd([b, c]),
  "combinations of 3": (a) => a.combinations({ r: 3, withReplacement: true }),
  "repeatInterleave counts": (a, b) => a.repeatInterleave(b, 1),
  "repeatInterleave flat": (a, b) => a.repeatInterleave(b),
  "indexSelect": (a, b) => a.indexSelect(1, b),
  "indexAdd": (a, b, c) => a.indexAdd(0, b, c, { alpha: 2 }),
  "indexCopy": (a, b, c) => a.indexCopy(1, b, c),
  "indexFill": (a, b) => a.indexFill(1, b, -1.5),
  "put added": (a, b, c) => a.put(b, c, { accumulate: true }),
  "takeAlongDim": (a, b) => a.takeAlongDim(b, 1),
  "takeAlongDim flat": (a, b) => a.takeAlongDim(b),
  "isin not": (a, b) => a.isin(b, { invert: true }),
  "bucketize right": (a, b) => a.bucketize(b, { right: true }),
};
