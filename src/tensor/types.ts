/**
 * The types that the public interface mentions: what methods of Tensor take and give, the families of methods that
 * it has, and what schedules, devices and recorded passes are made of.
 *
 * @module
 */
import type { Checked } from "../device/device.ts";
import type { TensorData, TensorOptions } from "./handle/creation.ts";
import type { Tensor } from "./tensor.ts";

export type { Allocator, Block, ForeignMemory, LruAllocator, MemoryDevice, MemoryLayout } from "../device/allocator.ts";
export type { DeviceApi, DeviceListing, DeviceMemory } from "../device/api.ts";
export type { Buffer } from "../device/buffer.ts";
export type { Device as OpenDevice } from "../device/device.ts";
export type { Compiler, Graph, Launch, Program } from "../device/program.ts";
export type {
  Capabilities,
  GridCaps,
  LaunchGrid,
  LinearProgram,
  ProgramParam,
  Renderer,
} from "../renderer/renderer.ts";
export type { Fragment, TensorCore, TileOffset } from "../renderer/tensor_core_table.ts";
export type { MemoryHolder } from "../helpers/errors.ts";
export type { Span, SpanKind } from "../helpers/spans.ts";
export type { Line, Site } from "../helpers/stack.ts";
export type { Arg, ArgRecord, ConstValue, Int64, Storage } from "../uop/core/args.ts";
export type { Arithmetic } from "../uop/core/arithmetic.ts";
export type { Ops } from "../uop/core/ops.ts";
export type {
  Change,
  NodeData,
  PassData,
  PassRecord,
  Recording,
  RecordingData,
  RuleData,
  Work,
  WorkData,
} from "../uop/core/recording.ts";
export type { CollectiveArg, MeshShape, MoveKind, Sharding, Spec } from "../uop/core/sharding.ts";
export type { Extents, UOp } from "../uop/core/uop.ts";
export type { ActivationTensor, GeluOptions } from "./ops/activation.ts";
export type { ComplexTensor } from "./ops/complex_parts.ts";
export type { Axes } from "./handle/axes.ts";
export type { Dim, Shape } from "./handle/dims.ts";
export type { BackwardTensor } from "./gradients/backward.ts";
export type { NestedArray, Operand, TensorBase, TensorLike } from "./handle/base.ts";
export type {
  ConvOptions,
  ConvTensor,
  ConvTransposeOptions,
  InterpolateOptions,
  PerAxis,
  PoolOptions,
} from "./images/conv.ts";
export type { DisplayTensor } from "./handle/display.ts";
export type { NestedTensors, TensorData, TensorOptions } from "./handle/creation.ts";
export type { BinaryOptions, CloseOptions, DivOptions, ElementwiseTensor } from "./ops/elementwise.ts";
export type { FunctionTensor } from "./ops/functions.ts";
export type { NanToNumOptions, SpecialTensor } from "./ops/special.ts";
export type { GatherTensor, ScatterReduction } from "./index/gather.ts";
export type { RngState } from "./nodes/random.ts";
export type { ArrayOf, ComplexValue, HostArray, ItemOf, NestedValues, NumberArray, TypedArray } from "./nodes/host.ts";
export type { Index, IndexingTensor, SizeOptions, Slice } from "./index/indexing.ts";
export type { InPlaceTensor } from "./inplace.ts";
export type { AttentionOptions, LinalgTensor, ProductOptions } from "./math/linalg.ts";
export type { NormOptions, NormOrder, NormTensor, TrapezoidOptions } from "./math/norms.ts";
export type { AveragePoolOptions, FractionalPoolOptions, RankTensor } from "./images/other_ranks.ts";
export type { LpPoolOptions, UnpoolOptions, UnpoolTensor } from "./images/unpools.ts";
export type { FoldOptions, ResampleTensor, ResizeOptions } from "./images/resample.ts";
export type { RankOptions, SystemTensor } from "./math/systems.ts";
export type { AddedOptions, ProductTensor } from "./math/products.ts";
export type { CriterionTensor } from "./math/criteria.ts";
export type { CtcOptions, CtcTensor } from "./math/ctc.ts";
export type { CrossEntropyOptions, LossOptions, LossTensor, Reduction } from "./math/loss.ts";
export type { MovementTensor, PadOptions } from "./ops/movement.ts";
export type { TensorFamilies } from "./families.ts";
export type { ArrangeTensor, TriangleOptions } from "./ops/arrange.ts";
export type { PlaceTensor } from "./index/places.ts";
export type { JoinTensor } from "./ops/join.ts";
export type { PadMode, Pair } from "./nodes/movement_nodes.ts";
export type { RealizeTensor } from "./realize.ts";
export type { ReduceOptions, ReduceTensor, SumOptions, VarOptions } from "./ops/reduce.ts";
export type { ScanTensor } from "./index/scan.ts";
export type { ShardOptions, ShardTensor } from "./shard.ts";
export type { SortOptions, SortTensor, TopkOptions } from "./index/sort.ts";
export type { RandOptions } from "./tensor.ts";
export type { CallOptions, CallTensor } from "./gradients/call.ts";
export type { CustomKernelOptions, CustomTensor } from "./custom_kernel.ts";
export type { KernelParts } from "./kernel_parts.ts";
export type { KernelText } from "./kernel_text.ts";
export type { DecompositionTensor, QrOptions, SvdOptions } from "./math/decompositions.ts";
export type { FourierNorm, FourierOptions, FourierTensor } from "./math/fourier.ts";
export type { InterpOptions, SampledTensor, ShiftOptions } from "./analysis/sampled.ts";
export type { IstftOptions, SpectrogramOptions, SpectrogramTensor, StftOptions } from "./analysis/spectrogram.ts";
export type { FourierAxesOptions, FrequencyOptions, WindowOptions } from "./spectral.ts";
export type { BincountOptions, SearchOptions, SearchsortedOptions, StatisticsTensor } from "./index/statistics.ts";
export type { HistogramOptions, HistogramTensor } from "./index/histograms.ts";
export type { PoolTensor } from "./images/pools.ts";
export type { PolynomialTensor } from "./math/polynomials.ts";
export type { HigherTensor } from "./ops/higher_functions.ts";
export type { Interpolation, QuantileOptions, QuantileTensor } from "./index/quantiles.ts";
export type { SetTensor } from "./index/sets.ts";
export type { ChainTensor } from "./analysis/chains.ts";
export type { FactorTensor } from "./analysis/factors.ts";
export type { LobpcgOptions, LowRankOptions, LowRankTensor, PcaOptions } from "./analysis/low_rank.ts";
export type { LdlOptions, SymmetricTensor } from "./analysis/symmetric.ts";
export type { AverageOptions, NanTensor } from "./analysis/nan_reductions.ts";
export type { StridedTensor } from "./index/strided.ts";
export type { DistributionTensor } from "./index/distributions.ts";
export type { DrawTensor } from "./index/draws.ts";
export type { ConsecutiveOptions, DistinctTensor, UniqueFlags, UniqueOptions } from "./index/distinct.ts";

/**
 * What makes tensors, as `mod.ts` has it: the class, whose constructor compares names of dtypes and devices that are literals
 * with those that there are, as its functions do.
 */
export type TensorConstructor = Pick<typeof Tensor, keyof typeof Tensor> & {
  new <N extends string = string>(data?: TensorData, options?: Checked<TensorOptions, N>): Tensor;
};
