/**
 * The types that the public interface mentions: what methods of Tensor take and give, the classes whose chain ends in
 * Tensor, and what schedules, devices and recorded passes are made of.
 *
 * @module
 */
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
export type { Fragment, TensorCore, TileOffset } from "../renderer/tensor_core.ts";
export type { MemoryHolder } from "../helpers/errors.ts";
export type { Line, Site } from "../helpers/stack.ts";
export type { Arg, ArgRecord, ConstValue, Int64, Storage } from "../uop/args.ts";
export type { Arithmetic } from "../uop/math.ts";
export type { Ops } from "../uop/ops.ts";
export type { Change, NodeData, PassData, PassRecord, Recording, RecordingData } from "../uop/recording.ts";
export type { Extents, UOp } from "../uop/uop.ts";
export type { ActivationTensor, GeluOptions } from "./activation.ts";
export type { Axes } from "./axes.ts";
export type { Dim, Shape } from "./dims.ts";
export type { BackwardTensor } from "./backward.ts";
export type { NestedArray, Operand, TensorBase } from "./base.ts";
export type {
  ConvOptions,
  ConvTensor,
  ConvTransposeOptions,
  InterpolateOptions,
  PerAxis,
  PoolOptions,
} from "./conv.ts";
export type { TensorData, TensorOptions } from "./creation.ts";
export type { BinaryOptions, CloseOptions, DivOptions, ElementwiseTensor } from "./elementwise.ts";
export type { FunctionTensor } from "./functions.ts";
export type { GatherTensor, ScatterReduction } from "./gather.ts";
export type { HostArray, NestedValues, TypedArray } from "./host.ts";
export type { Index, IndexingTensor, SizeOptions, Slice } from "./indexing.ts";
export type { InPlaceTensor } from "./inplace.ts";
export type { AttentionOptions, LinalgTensor, ProductOptions } from "./linalg.ts";
export type { LossOptions, LossTensor, Reduction } from "./loss.ts";
export type { MovementTensor, PadOptions } from "./movement.ts";
export type { JoinTensor } from "./join.ts";
export type { PadMode, Pair } from "./movement_nodes.ts";
export type { RealizeTensor } from "./realize.ts";
export type { ReduceOptions, ReduceTensor, SumOptions, VarOptions } from "./reduce.ts";
export type { ScanTensor } from "./scan.ts";
export type { SortTensor, TopkOptions } from "./sort.ts";
export type { RandOptions } from "./tensor.ts";
export type { CallOptions, CallTensor } from "./call.ts";
export type { CustomKernelOptions, CustomTensor, KernelParts } from "./custom.ts";
export type { KernelText } from "./kernel_text.ts";
export type { DecompositionTensor, QrOptions, SvdOptions } from "./decompositions.ts";
export type { FourierNorm, FourierOptions, FourierTensor } from "./fourier.ts";
export type {
  BincountOptions,
  HistogramOptions,
  Interpolation,
  QuantileOptions,
  SearchOptions,
  StatisticsTensor,
  UniqueFlags,
  UniqueOptions,
} from "./statistics.ts";
