/**
 * The families of methods that a tensor has side by side, one a file. In: their classes. Out: the list that tensor.ts makes
 * one class of, and the interface that this has.
 *
 * @module
 */
import type { TensorBase } from "./handle/base.ts";
import { CustomTensor } from "./custom_kernel.ts";
import { BackwardTensor } from "./gradients/backward.ts";
import { CallTensor } from "./gradients/call.ts";
import { DistinctTensor } from "./index/distinct.ts";
import { GatherTensor } from "./index/gather.ts";
import { IndexingTensor } from "./index/indexing.ts";
import { PlaceTensor } from "./index/places.ts";
import { ScanTensor } from "./index/scan.ts";
import { SortTensor } from "./index/sort.ts";
import { StatisticsTensor } from "./index/statistics.ts";
import { InPlaceTensor } from "./inplace.ts";
import { ConvTensor } from "./math/conv.ts";
import { CriterionTensor } from "./math/criteria.ts";
import { DecompositionTensor } from "./math/decompositions.ts";
import { FourierTensor } from "./math/fourier.ts";
import { LinalgTensor } from "./math/linalg.ts";
import { LossTensor } from "./math/loss.ts";
import { NormTensor } from "./math/norms.ts";
import { ProductTensor } from "./math/products.ts";
import { ResampleTensor } from "./math/resample.ts";
import { SpectrogramTensor } from "./math/spectrogram.ts";
import { SystemTensor } from "./math/systems.ts";
import { ActivationTensor } from "./ops/activation.ts";
import { ArrangeTensor } from "./ops/arrange.ts";
import { ComplexTensor } from "./ops/complex_parts.ts";
import { ElementwiseTensor } from "./ops/elementwise.ts";
import { FunctionTensor } from "./ops/functions.ts";
import { JoinTensor } from "./ops/join.ts";
import { MovementTensor } from "./ops/movement.ts";
import { ReduceTensor } from "./ops/reduce.ts";
import { SpecialTensor } from "./ops/special.ts";
import { RealizeTensor } from "./realize.ts";
import { ShardTensor } from "./shard.ts";

/** What a tensor can compute: no family stands above another, and no two have a method of one name. */
export const FAMILIES: readonly { readonly prototype: TensorBase }[] = [
  ActivationTensor,
  ArrangeTensor,
  BackwardTensor,
  CallTensor,
  ComplexTensor,
  ConvTensor,
  CriterionTensor,
  CustomTensor,
  DecompositionTensor,
  DistinctTensor,
  ElementwiseTensor,
  FourierTensor,
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
  ProductTensor,
  RealizeTensor,
  ReduceTensor,
  ResampleTensor,
  ScanTensor,
  ShardTensor,
  SortTensor,
  SpecialTensor,
  SpectrogramTensor,
  StatisticsTensor,
  SystemTensor,
];

/** All methods of a tensor, by the families that they are written in. */
export interface TensorFamilies
  extends
    ArrangeTensor,
    BackwardTensor,
    ComplexTensor,
    CustomTensor,
    DistinctTensor,
    FourierTensor,
    InPlaceTensor,
    ResampleTensor,
    ShardTensor,
    SpectrogramTensor,
    SystemTensor {}
