/**
 * Families of methods that few programs begin with: linear algebra, spectra, order statistics, sets, higher functions,
 * resampling, kernels of the user's own. `mod.ts` adds them at once;
 * the light entry of the package loads them with the engine (src/device/parts.ts).
 *
 * @module
 */
import type { Family } from "./handle/members.ts";
import { CustomTensor } from "./custom_kernel.ts";
import { DistinctTensor } from "./index/distinct.ts";
import { DistributionTensor } from "./index/distributions.ts";
import { HistogramTensor } from "./index/histograms.ts";
import { QuantileTensor } from "./index/quantiles.ts";
import { SetTensor } from "./index/sets.ts";
import { StatisticsTensor } from "./index/statistics.ts";
import { StridedTensor } from "./index/strided.ts";
import { CtcTensor } from "./math/ctc.ts";
import { DecompositionTensor } from "./math/decompositions.ts";
import { FourierTensor } from "./math/fourier.ts";
import { RankTensor } from "./images/other_ranks.ts";
import { UnpoolTensor } from "./images/unpools.ts";
import { ResampleTensor } from "./images/resample.ts";
import { ChainTensor } from "./analysis/chains.ts";
import { FactorTensor } from "./analysis/factors.ts";
import { LowRankTensor } from "./analysis/low_rank.ts";
import { NanTensor } from "./analysis/nan_reductions.ts";
import { SampledTensor } from "./analysis/sampled.ts";
import { SpectrogramTensor } from "./analysis/spectrogram.ts";
import { SymmetricTensor } from "./analysis/symmetric.ts";
import { SystemTensor } from "./math/systems.ts";
import { HigherTensor } from "./ops/higher_functions.ts";
import { PolynomialTensor } from "./math/polynomials.ts";

/** What a tensor can compute beside families.ts, with methods of other names. */
export const LATE_FAMILIES: readonly Family[] = [
  ChainTensor,
  CtcTensor,
  CustomTensor,
  DecompositionTensor,
  DistinctTensor,
  DistributionTensor,
  FactorTensor,
  FourierTensor,
  HigherTensor,
  HistogramTensor,
  LowRankTensor,
  NanTensor,
  PolynomialTensor,
  QuantileTensor,
  RankTensor,
  ResampleTensor,
  SampledTensor,
  SetTensor,
  SpectrogramTensor,
  StatisticsTensor,
  StridedTensor,
  SymmetricTensor,
  SystemTensor,
  UnpoolTensor,
];
