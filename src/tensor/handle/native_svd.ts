/**
 * The singular value decomposition as one kernel, where the backend of the device brings one (`Backend.kernelTexts`). In:
 * matrices `[..., m, n]`, m >= n. Out: U, S descending, Vᵀ.
 *
 * @module
 */
import { backendOf } from "../../device/device.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { TRACED } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { argOf } from "../../uop/core/args.ts";
import { reshape, shrink } from "../../uop/core/build_movement.ts";
import { CustomArg, TextArg } from "../../uop/core/custom_arg.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import { param, sink, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { noteWrite } from "../../uop/graph/writes.ts";
import { dataNode, emptyNode } from "./creation.ts";

/** U `[..., m, wide]`, S and Vᵀ of `a` by one kernel; undefined where there is none, and for stand-ins of transforms. */
export function nativeSvd(a: UOp, wide: number): { readonly u: UOp; readonly s: UOp; readonly vt: UOp } | undefined {
  const device = deviceOf(a), shape = shapeOf(a), [m, n] = shape.slice(-2);
  if (device === null || prod(shape) === 0) return undefined;
  const { textLanguage: language, kernelTexts } = backendOf(device), source = kernelTexts?.svd?.(a.dtype);
  if (language === undefined || source === undefined) return undefined;
  const isTraced = (u: UOp): boolean => u.op === Ops.BUFFER && argOf(u, Ops.BUFFER).storage.disposedAt === TRACED;
  if (toposort(a).some(isTraced)) return undefined;
  const lead = shape.slice(0, -2), d = a.dtype, batches = prod(lead);
  const empty = (size: number, dtype = d): UOp => emptyNode([size], dtype, device);
  const below = (u: UOp): UOp => u.op === Ops.RESHAPE ? below(u.src[0]) : u;
  const dims = dataNode(Int32Array.from([batches, m, n, wide]), { device });
  const lengths = [batches * m * wide, batches * n, batches * n * n], size = lengths[0] + lengths[1] + lengths[2];
  const nodes = [
    empty(size),
    empty(2 * m * n + 2 * n * n + m * m + 4 * n + 3 * m + 8, dtypes.float64),
    uop(Ops.CONTIGUOUS, d, [a]),
    dims,
  ].map((u) => u.op === Ops.CONTIGUOUS ? u : below(u));
  const sizes = nodes.map((u) => prod(shapeOf(u)));
  const params = nodes.map((u, slot) => param(slot, u.dtype, sizes[slot]));
  const arg = new TextArg(language, "dinograd_svd", source, [0, 1], [1, 1, 1], [1, 1, 1]);
  const run = uop(Ops.CUSTOM, dtypes.void, nodes, new CustomArg(sink(params, arg)));
  // all three are parts of one memory: whichever is read first, the others are there
  const after = uop(Ops.AFTER, d, [nodes[0], run]);
  noteWrite(nodes[0], after);
  let start = 0;
  const [u, s, vt] = lengths.map((length) => {
    const part = shrink(after, [[start, start += length]]);
    return uop(Ops.CONTIGUOUS, d, [part]);
  });
  return { u: reshape(u, [...lead, m, wide]), s: reshape(s, [...lead, n]), vt: reshape(vt, [...lead, n, n]) };
}
