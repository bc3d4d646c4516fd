/**
 * Collectives of tensors among processes, as torch.distributed has them: each takes what this rank has and gives a new
 * tensor. What they compute is a constant to gradients.
 *
 * @module
 */
import type { Collective, Communicator, ReduceOp } from "../collectives/communicator.ts";
import { type Buffer, bufferOf } from "../device/buffer.ts";
import { firstPart } from "../device/group.ts";
import { currentCapture } from "../engine/front/listening.ts";
import { ArgumentError, DTypeError, JitError, ShapeError } from "../helpers/errors.ts";
import { checkChoice, checkOptions, describe } from "../helpers/options.ts";
import { Site } from "../helpers/stack.ts";
import { realizedBuffer } from "../tensor/realize.ts";
import { dividingMesh } from "../tensor/shard.ts";
import { Tensor } from "../tensor/tensor.ts";
import { argOf } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { currentWorld } from "./world.ts";

/** How tensors of several ranks become one; "mean" is the sum divided by the number of ranks. */
export type TensorReduceOp = ReduceOp | "mean";

/** Options of collectives. */
export interface CollectiveOptions {
  /** The ranks that take part: one of `dist.split`; default all. */
  readonly group?: Communicator;
}
/** Options of those that reduce. */
export interface ReduceOptions extends CollectiveOptions {
  /** Default: "sum". */
  readonly op?: TensorReduceOp;
}
/** Options of {@linkcode averageGradients}. */
export interface AverageOptions extends CollectiveOptions {
  /** Bytes of gradients that go as one collective, at most; a larger one goes alone. Default 25 MB. */
  readonly bucketBytes?: number;
}

const OPS: readonly TensorReduceOp[] = ["sum", "prod", "max", "min", "mean"];

/** What a call is about, checked. */
interface Call {
  readonly action: string;
  readonly group: Communicator;
  readonly line: Site;
}

function begin(action: string, options: CollectiveOptions, known: readonly string[]): Call {
  checkOptions(action, options, known);
  if (currentCapture() !== undefined) {
    throw new JitError(action, { reason: "it acts at once: call it outside of the function under jit()" });
  }
  const { group = currentWorld(action).communicator } = options;
  if (typeof group?.start !== "function") {
    throw new ArgumentError(action, { reason: `group must be one of dist.split, not ${describe(group)}` });
  }
  return { action, group, line: new Site() };
}

function checkTensor({ action }: Call, t: unknown): Tensor {
  if (!(t instanceof Tensor)) throw new ArgumentError(action, { reason: `it takes a tensor, not ${describe(t)}` });
  if (dividingMesh(t) !== undefined) {
    throw new ShapeError(action, {
      shapes: [t.shape],
      reason: `it is ${t.sharding}, of which each rank has a part: compute with it as it is, or give all of it, ` +
        `t.reshard(mesh, [${t.shape.map(() => "null").join(", ")}])`,
    });
  }
  if (!t.dtype.isComplex) return t;
  throw new DTypeError(action, { dtypes: [t.dtype], reason: "give t.viewAsReal(), the pairs of its parts" });
}

function checkOp({ action }: Call, { op = "sum" }: ReduceOptions): TensorReduceOp {
  return checkChoice(action, "op", op, OPS);
}

/** The buffer that has the values of a tensor alone and in order: of what all ranks have, that of this one. */
function valuesOf(t: Tensor): Buffer {
  const node = realizedBuffer(t.realize().uop);
  return firstPart(bufferOf(argOf(node!, Ops.BUFFER).storage)!);
}

/** Tensors whose memory is in use by others. */
const inUse = new Set<Tensor>();

/** Runs a collective from what `t` has to a new tensor of `shape`. */
async function run(
  { group, line }: Call,
  collective: Collective,
  t: Tensor,
  shape: readonly number[],
): Promise<Tensor> {
  const source = t.detach().contiguous().realize(), { dtype, device } = t;
  const result = Tensor.empty([...shape], { dtype, device });
  inUse.add(source).add(result);
  try {
    await group.start(collective, [valuesOf(source)], [valuesOf(result)], { shape: t.shape, line }).done();
  } finally {
    inUse.delete(source);
    inUse.delete(result);
  }
  return result;
}

/** The axis that `dim` names. @throws {ShapeError} */
function axisOf({ action }: Call, t: Tensor, dim: number): number {
  const axis = dim < 0 ? dim + t.ndim : dim;
  if (Number.isInteger(axis) && axis >= 0 && axis < t.ndim) return axis;
  throw new ShapeError(action, { shapes: [t.shape], reason: `there is no axis ${describe(dim)}` });
}

/** `t` with `axis` cut into as many blocks as there are ranks, in front. */
function inBlocks({ action, group: { size } }: Call, t: Tensor, axis: number): Tensor {
  const { shape } = t;
  if (shape[axis] % size !== 0) {
    throw new ShapeError(action, {
      shapes: [shape],
      axis,
      reason: `axis ${axis} does not divide into ${size} ranks: pad it to ${Math.ceil(shape[axis] / size) * size}`,
    });
  }
  return t.unflatten(axis, [size, shape[axis] / size]).movedim(axis, 0);
}

/** Blocks in front, joined along `axis` of what is behind. */
function joined(blocks: Tensor, axis: number): Tensor {
  return blocks.movedim(0, axis).flatten(axis, axis + 1);
}

/** What has a mean: of bools how many are true. */
function countable(op: TensorReduceOp, t: Tensor): Tensor {
  return op === "mean" && t.dtype.isBool ? t.int() : t;
}

/** A reduced tensor as `op` means it: whole numbers have no mean. */
function finished({ group }: Call, op: TensorReduceOp, t: Tensor): Tensor {
  return op === "mean" ? t.div(group.size) : t;
}

/**
 * The tensors `t` of all ranks reduced, on all of them. Same shape and dtype on every rank; 16-bit floats are added in
 * float32. A mean of integers is float32. Of bools a sum is whether one is true, a product whether all are.
 *
 * @throws {CollectiveError} where ranks call different things, or one does not come in time
 */
export async function allReduce(t: Tensor, options: ReduceOptions = {}): Promise<Tensor> {
  const call = begin("all-reduce a tensor", options, ["op", "group"]);
  const op = checkOp(call, options), from = checkTensor(call, t);
  const sum = await run(call, { kind: "allReduce", op: op === "mean" ? "sum" : op }, countable(op, from), from.shape);
  return finished(call, op, sum);
}

/** The tensors `t` of all ranks in order, joined along `dim`: `[..., n, ...]` to `[..., size * n, ...]`. */
export async function allGather(t: Tensor, dim: number = 0, options: CollectiveOptions = {}): Promise<Tensor> {
  const call = begin("all-gather a tensor", options, ["group"]);
  const from = checkTensor(call, t), axis = axisOf(call, from, dim);
  return joined(await run(call, { kind: "allGather" }, from, [call.group.size, ...from.shape]), axis);
}

/**
 * The own part of the tensors `t` of all ranks reduced: rank `r` has the `r`-th of `size` parts of axis `dim`.
 *
 * @throws {ShapeError} where the axis does not divide
 */
export async function reduceScatter(t: Tensor, dim: number = 0, options: ReduceOptions = {}): Promise<Tensor> {
  const call = begin("reduce-scatter a tensor", options, ["op", "group"]);
  const op = checkOp(call, options),
    from = countable(op, checkTensor(call, t)),
    blocks = inBlocks(call, from, axisOf(call, from, dim));
  const collective = { kind: "reduceScatter", op: op === "mean" ? "sum" : op } as const;
  return finished(call, op, await run(call, collective, blocks, blocks.shape.slice(1)));
}

/** Part `i` of axis `dim` goes to rank `i`; what came from each rank is joined along `dim`, in order. @throws {ShapeError} */
export async function allToAll(t: Tensor, dim: number = 0, options: CollectiveOptions = {}): Promise<Tensor> {
  const call = begin("exchange a tensor", options, ["group"]);
  const from = checkTensor(call, t), axis = axisOf(call, from, dim), blocks = inBlocks(call, from, axis);
  return joined(await run(call, { kind: "allToAll" }, blocks, blocks.shape), axis);
}

/** What `t` is on rank `root` (0), on all ranks; the others give one of its shape and dtype. */
export async function broadcast(
  t: Tensor,
  options: CollectiveOptions & { readonly root?: number } = {},
): Promise<Tensor> {
  const call = begin("broadcast a tensor", options, ["root", "group"]);
  const from = checkTensor(call, t);
  return await run(call, { kind: "broadcast", root: options.root ?? 0 }, from, from.shape);
}

/** For each pair `[from, to]` of ranks, what `t` is on the first comes to the second; ranks that get nothing get zeros. */
export async function sendReceive(
  t: Tensor,
  pairs: readonly (readonly [from: number, to: number])[],
  options: CollectiveOptions = {},
): Promise<Tensor> {
  const call = begin("send a tensor", options, ["group"]), from = checkTensor(call, t);
  return await run(call, { kind: "permute", pairs }, from, from.shape);
}

/** Waits until all ranks have come here. */
export async function barrier(options: CollectiveOptions = {}): Promise<void> {
  const { group, line } = begin("wait for all ranks", options, ["group"]);
  await group.start({ kind: "barrier" }, [], [], { line }).done();
}

/** Gradients that go as one collective. */
interface Bucket {
  readonly parameters: Tensor[];
  nbytes: number;
}

/** Parameters in buckets of one dtype and device, the last ones first: their gradients are there first. */
function bucketsOf(parameters: readonly Tensor[], bucketBytes: number): Bucket[] {
  const open = new Map<string, Bucket>(), all: Bucket[] = [];
  for (const p of [...parameters].reverse()) {
    const { grad } = p, key = `${grad!.dtype} ${grad!.device}`, nbytes = grad!.nbytes();
    let bucket = open.get(key);
    if (bucket === undefined || bucket.nbytes + nbytes > bucketBytes) {
      open.set(key, bucket = { parameters: [], nbytes: 0 });
      all.push(bucket);
    }
    bucket.parameters.push(p);
    bucket.nbytes += nbytes;
  }
  return all;
}

/**
 * Makes each gradient the mean of those of all ranks: after `backward`, before the step of the optimizer. Gradients go in
 * buckets, several as one collective; parameters without one are left alone, and must be the same on all ranks.
 *
 * Where each rank has a share of the batch of one size and the loss is a mean, the steps are those of one process with the
 * whole batch.
 */
export async function averageGradients(parameters: readonly Tensor[], options: AverageOptions = {}): Promise<void> {
  const action = "average gradients", call = begin(action, options, ["bucketBytes", "group"]);
  const { bucketBytes = 25e6 } = options;
  if (!Array.isArray(parameters)) {
    throw new ArgumentError(action, { reason: `it takes a list of parameters, not ${describe(parameters)}` });
  }
  const given = parameters.filter((p) => (p instanceof Tensor ? p : checkTensor(call, p)).grad !== undefined);
  given.forEach((p) => checkTensor(call, p.grad));
  Tensor.realize(given.map((p) => p.grad!));
  for (const bucket of bucketsOf(given, bucketBytes)) {
    const flat = Tensor.cat(bucket.parameters.map((p) => p.grad!.detach().reshape([-1])));
    const mean = finished(call, "mean", await run(call, { kind: "allReduce", op: "sum" }, flat, flat.shape));
    const parts = mean.split(bucket.parameters.map((p) => p.numel()));
    bucket.parameters.forEach((p, i) => p.grad = parts[i].reshape(p.shape));
  }
}

/** The ranks that give the same color, ordered by `key`, then by rank: a communicator for `group` of the others. */
export function split(color: number, key?: number): Communicator {
  const { group } = begin("split the ranks", {}, []);
  return group.split([color], key === undefined ? undefined : [key])[0];
}
