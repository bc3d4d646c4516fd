/**
 * The families of methods that a tensor has side by side, one a file. In: their classes. Out: the list of which `mod.ts`
 * makes one class, and the interface that this has. What few programs begin with is in late_families.ts.
 *
 * @module
 */
import type { CustomTensor } from "./custom_kernel.ts";
import { BackwardTensor } from "./gradients/backward.ts";
import { CallTensor } from "./gradients/call.ts";
import type { DistinctTensor } from "./index/distinct.ts";
import type { DistributionTensor } from "./index/distributions.ts";
import { DrawTensor } from "./index/draws.ts";
import { GatherTensor } from "./index/gather.ts";
import type { HistogramTensor } from "./index/histograms.ts";
import { IndexingTensor } from "./index/indexing.ts";
import { PlaceTensor } from "./index/places.ts";
import type { QuantileTensor } from "./index/quantiles.ts";
import { ScanTensor } from "./index/scan.ts";
import { SortTensor } from "./index/sort.ts";
import type { SetTensor } from "./index/sets.ts";
import type { StridedTensor } from "./index/strided.ts";
import type { Family } from "./handle/members.ts";
import { DisplayTensor } from "./handle/display.ts";
import { InPlaceTensor } from "./inplace.ts";
import { ConvTensor } from "./images/conv.ts";
import { CriterionTensor } from "./math/criteria.ts";
import type { CtcTensor } from "./math/ctc.ts";
import type { FourierTensor } from "./math/fourier.ts";
import { LinalgTensor } from "./math/linalg.ts";
import { LossTensor } from "./math/loss.ts";
import { NormTensor } from "./math/norms.ts";
import { ProductTensor } from "./math/products.ts";
import { PoolTensor } from "./images/pools.ts";
import type { RankTensor } from "./images/other_ranks.ts";
import type { UnpoolTensor } from "./images/unpools.ts";
import type { ResampleTensor } from "./images/resample.ts";
import type { ChainTensor } from "./analysis/chains.ts";
import type { FactorTensor } from "./analysis/factors.ts";
import type { LowRankTensor } from "./analysis/low_rank.ts";
import type { NanTensor } from "./analysis/nan_reductions.ts";
import type { SymmetricTensor } from "./analysis/symmetric.ts";
import type { SampledTensor } from "./analysis/sampled.ts";
import type { SpectrogramTensor } from "./analysis/spectrogram.ts";
import type { SystemTensor } from "./math/systems.ts";
import { ActivationTensor } from "./ops/activation.ts";
import { ArrangeTensor } from "./ops/arrange.ts";
import { ComplexTensor } from "./ops/complex_parts.ts";
import { ElementwiseTensor } from "./ops/elementwise.ts";
import { FunctionTensor } from "./ops/functions.ts";
import type { HigherTensor } from "./ops/higher_functions.ts";
import { JoinTensor } from "./ops/join.ts";
import { MovementTensor } from "./ops/movement.ts";
import type { PolynomialTensor } from "./math/polynomials.ts";
import { ReduceTensor } from "./ops/reduce.ts";
import { SpecialTensor } from "./ops/special.ts";
import { RealizeTensor } from "./realize.ts";
import { ShardTensor } from "./shard.ts";

/** What a tensor can compute: no family stands above another, and no two have a method of one name. */
export const FAMILIES: readonly Family[] = [
  ActivationTensor,
  ArrangeTensor,
  BackwardTensor,
  CallTensor,
  ComplexTensor,
  ConvTensor,
  CriterionTensor,
  DisplayTensor,
  DrawTensor,
  ElementwiseTensor,
  FunctionTensor,
  GatherTensor,
  IndexingTensor,
  InPlaceTensor,
  JoinTensor,
  LinalgTensor,
  LossTensor,
  MovementTensor,
  NormTensor,
  PlaceTensor,
  PoolTensor,
  ProductTensor,
  RealizeTensor,
  ReduceTensor,
  ScanTensor,
  ShardTensor,
  SortTensor,
  SpecialTensor,
];

/** All methods of a tensor, by the families that they are written in. */
export interface TensorFamilies
  extends
    ArrangeTensor,
    BackwardTensor,
    ChainTensor,
    ComplexTensor,
    CtcTensor,
    CustomTensor,
    DisplayTensor,
    DistinctTensor,
    DistributionTensor,
    DrawTensor,
    FactorTensor,
    FourierTensor,
    HigherTensor,
    HistogramTensor,
    InPlaceTensor,
    LowRankTensor,
    NanTensor,
    PolynomialTensor,
    QuantileTensor,
    RankTensor,
    ResampleTensor,
    SampledTensor,
    SetTensor,
    ShardTensor,
    SpectrogramTensor,
    StridedTensor,
    SymmetricTensor,
    SystemTensor,
    UnpoolTensor {}
