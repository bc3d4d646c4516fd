/**
 * Indexing as NumPy does it: `at` reads, `setAt` writes lazily. Numbers, null, "...", ":", slices `[start, stop, step]`
 * are movement; integer tensors are gathers; a boolean tensor can be written through, and read with `maskedSelect`.
 *
 * @module
 */
import { type DTypeName, dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, DTypeError, IndexError, ShapeError, shapeText } from "../../helpers/errors.ts";
import { prod, rangeOf, stridesOf } from "../../helpers/math.ts";
import { checkInteger, checkOptions, checkScalar } from "../../helpers/options.ts";
import { SkewArg } from "../../uop/core/args.ts";
import { broadcastTo, expand, flip, pad, permute, reshape, shrink, unskew } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, iota, positionDType, type UOp, uop } from "../../uop/core/uop.ts";
import { extentOf, extentsOf, extentText, namedShape, sameExtent, withExtents } from "../../uop/graph/extent.ts";
import { isMemory, noteOpen, shown } from "../../uop/graph/writes.ts";
import { type Operand, realizing, TensorBase, type TensorLike } from "../handle/base.ts";
import { broadcastShape, checkSameDevice, isScalarLeaf } from "../handle/broadcast.ts";
import { hostNode, placed } from "../handle/creation.ts";
import { isTypedArray, type ItemOf, packHost } from "../nodes/host.ts";
import { allFilled, iotaAlong, trueOf } from "../nodes/movement_nodes.ts";
import { reduceNode } from "../nodes/reduce_nodes.ts";
import { castNode, scalarConst } from "../nodes/scalars.ts";
import { lookUp, sorts } from "../nodes/segments.ts";
import { flatPositions, gatherNode, hostValues, indexNode, selectNode } from "../nodes/select.ts";
import type { JoinTensor } from "../ops/join.ts";
import type { ReduceTensor } from "../ops/reduce.ts";
import { parseIndices, type Plan } from "./index_plan.ts";
import type { ScanTensor } from "./scan.ts";
import { adjoint, cutVariables, type Index } from "./symbolic_index.ts";

type Pair = readonly [number, number];

export type { Index, Slice } from "./symbolic_index.ts";

/** Options of `maskedSelect` and `nonzero` in their forms of fixed size. */
export interface SizeOptions {
  /** Rows of the result: what is beyond is cut, what is missing filled. */
  readonly size?: number;
  /** What stands where there are fewer than `size`. Default 0. */
  readonly fillValue?: number | boolean;
}

/** The basic view of `x` that a plan describes, by movement. */
function viewNode(x: UOp, plan: Plan): UOp {
  const keep: Pair[] = [], split: number[] = [], pick: Pair[] = [], joined: number[] = [], backward: number[] = [];
  plan.cuts.forEach((cut, axis) => {
    const { count, step, backward: turn } = cut, n = shapeOf(x)[axis], room = count * step;
    let { start } = cut;
    joined.push(count);
    if (turn) backward.push(axis);
    const plain = step === 1 || count <= 1;
    // Rows of `step`, of which one column is kept: the first, or the last where the row would leave the axis.
    const end = start + (count === 0 ? 0 : (count - 1) * step + 1),
      first = start + room <= n,
      last = !first && end >= room;
    if (!plain && (first || last)) {
      keep.push(first ? [start, start + room] : [end - room, end]);
      split.push(count, step);
      pick.push([0, count], last ? [step - 1, step] : [0, 1]);
      return;
    }
    if (!plain) {
      x = everyNode(x, axis, start, count, step);
      start = 0;
    }
    keep.push([start, start + count]);
    split.push(count, 1);
    pick.push([0, count], [0, 1]);
  });
  const view = flip(reshape(shrink(reshape(shrink(x, keep), split), pick), joined), backward);
  return reshape(view, plan.shape);
}

/** `count` elements of an axis, from `start` on, `step` apart, where no row of `step` around each is within the axis. */
function everyNode(x: UOp, axis: number, start: number, count: number, step: number): UOp {
  const shape = shapeOf(x), span = (count - 1) * step + 1, before = shape.slice(0, axis), after = shape.slice(axis + 1);
  if (extentsOf(x)?.[axis] !== undefined) {
    const whole = shape.map((n): Pair => [0, n]), none = shape.map((): Pair => [0, 0]);
    const room = pad(shrink(x, whole.with(axis, [start, start + span])), none.with(axis, [0, step - 1]));
    const rows = reshape(room, [...before, count, step, ...after]), some = shapeOf(rows).map((n): Pair => [0, n]);
    return reshape(shrink(rows, some.with(axis + 1, [0, 1])), [...before, count, ...after]);
  }
  const part = shrink(x, shape.map((n, a): Pair => a === axis ? [start, start + span] : [0, n]));
  const column = reshape(part, [...before, span, 1, ...after]);
  return reshape(unskew(column, new SkewArg(axis, axis + 1, step, 1, count)), [...before, count, ...after]);
}

/** The inverse of {@linkcode viewNode}: `value`, of the view's shape, where it belongs in `shape`; zero elsewhere. */
function placeNode(value: UOp, plan: Plan, shape: readonly number[]): UOp {
  let v = reshape(value, plan.cuts.map((c) => c.count));
  v = flip(v, rangeOf(shape.length).filter((a) => plan.cuts[a].backward));
  v = reshape(v, plan.cuts.flatMap((c) => [c.count, 1]));
  v = pad(v, plan.cuts.flatMap((c): Pair[] => [[0, 0], [0, c.step - 1]]));
  v = reshape(v, plan.cuts.map((c) => c.count * c.step));
  v = shrink(v, plan.cuts.map((c, a): Pair => [0, Math.min(c.count * c.step, shape[a] - c.start)]));
  const now = shapeOf(v);
  return pad(v, plan.cuts.map((c, a): Pair => [c.start, shape[a] - c.start - now[a]]));
}

function isWhole(plan: Plan, shape: readonly number[]): boolean {
  return plan.cuts.every((c, a) => c.count === shape[a] && !c.backward);
}

/** How index tensors lie in a view: their common shape, its place in the result, and each as a node. */
interface Advanced {
  /** Axes of the view that are indexed. */
  readonly axes: readonly number[];
  readonly common: readonly number[];
  /** How many axes of the view stand before the common ones in the result. */
  readonly lead: number;
  readonly indices: readonly UOp[];
}

function advanced(action: string, plan: Plan, view: UOp): Advanced {
  const axes = plan.tensors.map((t) => t.axis);
  let common: number[];
  try {
    common = broadcastShape(action, plan.tensors.map((t) => t.index.shape));
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    throw new IndexError(action, {
      reason: `index tensors of shapes ${
        plan.tensors.map((t) => `[${t.index.shape.join(", ")}]`).join(" and ")
      } do not broadcast`,
    });
  }
  const adjacent = axes.every((a, i) => i === 0 || a === axes[i - 1] + 1);
  const indices = plan.tensors.map((t) => broadcastTo(indexNode(action, t.index.uop, view, t.axis), common));
  return { axes, common, lead: adjacent ? axes[0] : 0, indices };
}

/** `view` as [before, ...indexed axes, after], and the sizes of the three parts. */
function gathered(view: UOp, { axes, lead }: Advanced) {
  const shape = shapeOf(view);
  const rest = rangeOf(shape.length).filter((a) => !axes.includes(a));
  const order = [...rest.slice(0, lead), ...axes, ...rest.slice(lead)];
  return { // `order`: of the axes of the view
    x: permute(view, order),
    order,
    before: rest.slice(0, lead).map((a) => shape[a]),
    sizes: axes.map((a) => shape[a]),
    after: rest.slice(lead).map((a) => shape[a]),
  };
}

/** An int32 tensor of positions, of the class and on the device of `like`. */
function positionsLike(like: TensorBase, positions: readonly number[]): TensorBase {
  const node = hostNode(packHost(positions, dtypes.int32), dtypes.int32, [positions.length], like.device);
  return new (like.constructor as new (u: UOp) => TensorBase)(node);
}

/** Masks as the index tensors of their true elements, which NumPy takes them for. @throws {IndexError} */
function expandMasks(action: string, index: readonly Index[]): Index[] {
  return index.flatMap((x): Index[] => {
    if (!(x instanceof TensorBase) || !x.dtype.isBool) return [x];
    const values = hostValues(x.uop);
    if (values === undefined) {
      throw new IndexError(action, {
        reason: "a mask that is not known on the host cannot be combined with other index tensors",
      });
    }
    const shape = x.shape, strides = stridesOf(shape);
    const hits = rangeOf(values.length).filter((i) => values[i] !== 0);
    return shape.map((n, axis) => positionsLike(x, hits.map((i) => Math.floor(i / strides[axis]) % n)));
  });
}

/** `value` under the shape `target`; leading axes of size 1 may be missing there. @throws {ShapeError} */
function fitted(action: string, value: UOp, target: readonly number[], cure = ""): UOp {
  const shape = namedShape(value), extra = shape.length - target.length;
  const from = extra > 0 && shape.slice(0, extra).every((n) => n === 1) ? shape.slice(extra) : shape;
  if (from.length > target.length || from.some((n, i) => n !== 1 && n !== target[target.length - from.length + i])) {
    throw new ShapeError(action, {
      shapes: [shape, target],
      reason: `the value does not broadcast to what is indexed${cure}`,
    });
  }
  return broadcastTo(reshape(value, from), target);
}

/** The families that it is written in. */
export interface IndexingTensor extends JoinTensor, ReduceTensor, ScanTensor {}
/** Tensors with indexing. */
export abstract class IndexingTensor extends TensorBase {
  /** The only value. */
  abstract item<D extends DTypeName = "float32">(): Promise<ItemOf<D>>;

  /**
   * Reads by the rules that NumPy and PyTorch share. Numbers drop an axis, null adds one, slices `[start, stop, step]` are
   * clamped, also where ends of them or the size of the axis are variables, integer tensors index together: their common
   * axes stand where they are adjacent, else first. A number is not one of them, as in PyTorch: with t of shape [2, 3, 4] and
   * i of shape [5], `t.at(0, ":", i)` is [3, 5], where NumPy has [5, 3].
   *
   * @throws {IndexError} for a number out of range, too many indices, a boolean or float tensor
   */
  at(...index: Index[]): this {
    index = this.withTensors(index);
    const cut = cutVariables("index", this.uop, index);
    if (cut !== undefined) return this.wrapView(cut.u).at(...cut.rest);
    const plan = parseIndices("index", index, this.shape, false);
    for (const t of plan.tensors) checkSameDevice("index", this.uop, t.index.uop);
    const view = viewNode(this.uop, plan);
    if (plan.tensors.length === 0) return this.wrapView(view);
    const a = advanced("index", plan, view);
    const { x, before, sizes, after } = gathered(view, a);
    const rank = before.length + a.common.length + sizes.length + after.length;
    const full = [...before, ...a.common, ...sizes, ...after];
    const first = before.length + a.common.length;
    const wide = expand(reshape(x, [...before, ...a.common.map(() => 1), ...sizes, ...after]), full);
    const hits = a.indices.map((u, i) => {
      const at = reshape(u, [...before.map(() => 1), ...a.common, ...sizes.map(() => 1), ...after.map(() => 1)]);
      return expand(iotaAlong(sizes[i], first + i, rank), full).eq(expand(at, full));
    });
    const selected = selectNode(hits.reduce((p, q) => p.and(q)), wide, sizes.map((_, i) => first + i));
    const count = prod(a.common), rows = prod(before) * prod(after), shape = [...before, ...a.common, ...after];
    const isSized = [view, ...a.indices].some((u) => extentsOf(u) !== null);
    const many = !isSized && this.dtype.isFloat && rows * count > 0 && sorts(a.indices[0], count, prod(sizes), rows);
    const copied = (u: UOp): this =>
      this.wrapCopy(u, "at() by an index tensor", "write to that tensor by t.setAt([index], value)");
    if (!many) return copied(reshape(selected, shape));
    // rows of what is not indexed, at one index
    const first3 = (u: UOp, n: number) =>
      reshape(permute(reshape(u, [prod(before), n, prod(after)]), [1, 0, 2]), [1, n, rows]);
    const known = lookUp(first3(x, prod(sizes)), flatPositions(a.indices, sizes, count), first3(selected, count));
    const back = permute(reshape(known, [count, prod(before), prod(after)]), [1, 0, 2]);
    return copied(reshape(back, shape));
  }

  /**
   * The parts along axis 0, `t.at(0)`, `t.at(1)`, ...: `for (const row of t)`, `const [q, k, v] = t`, `Array.from(t)`.
   * Views: nothing runs.
   *
   * @throws {ShapeError} for a scalar {ArgumentError} where axis 0 is symbolic
   */
  *[Symbol.iterator](): IterableIterator<this> {
    const action = "iterate over a tensor of", shape = this.shape;
    if (shape.length === 0) {
      throw new ShapeError(action, { shapes: [shape], reason: "a scalar has no axis; `await t.item()` is its value" });
    }
    const extent = extentsOf(this.uop)?.[0];
    if (extent !== undefined) {
      throw new ArgumentError(`${action} shape ${shapeText(shape)}`, {
        reason: `axis 0 has the size ${
          extentText(extent)
        }, which changes; take rows by t.at(i), with i below boundShape[0]`,
      });
    }
    for (let i = 0; i < shape[0]; i++) yield this.at(i);
  }

  /**
   * Writes `value`, cast and broadcast, at an index as in {@linkcode at}, or where a boolean tensor is true. Lazy: this
   * tensor then names the new version of its memory; a tensor without memory of its own becomes a select. Returns this.
   *
   * Of equal positions in index tensors the last in row-major order of the index wins, on every device; positions out of
   * range write nothing. The value of a mask of k true elements may be `[k, ...]`: its rows go to the true elements in
   * order (what is beyond the rows stays as it is); a value of the shape of the whole view gives each element its own.
   * A mask beside other index tensors must have values that are known on the host.
   *
   * @throws {IndexError} as `at`, {ShapeError} if the value does not broadcast
   */
  setAt(index: readonly Index[], value: Operand): this {
    const action = "setAt";
    if (!Array.isArray(index)) {
      throw new ArgumentError(action, { reason: 'the index is a list, as in t.setAt([0, ":"], value)' });
    }
    index = this.withTensors(index);
    const shape = this.shape, hasMemory = this.refresh();
    const cut = cutVariables(action, this.uop, index);
    if (cut !== undefined) return this.setWindow(cut.u, cut.rest, value, hasMemory);
    const plan = parseIndices(action, index, shape, true);
    for (const t of plan.tensors) checkSameDevice(action, this.uop, t.index.uop);
    const given = this.written(value, action);
    const fit = (target: readonly number[]): UOp => fitted(action, given, target);
    const mask = plan.tensors.find((t) => t.index.dtype.isBool);
    if (mask !== undefined) {
      if (plan.tensors.length > 1) return this.setAt(expandMasks(action, index), value);
      this.write(plan, this.masked(plan, mask.axis, mask.index, given, fit), hasMemory);
      return this;
    }
    if (plan.tensors.length === 0) {
      this.write(plan, fit(plan.shape), hasMemory);
      return this;
    }
    this.write(plan, this.merged(plan, advanced(action, plan, viewNode(this.uop, plan)), fit), hasMemory);
    return this;
  }

  /** Positions in TypedArrays as tensors. */
  private withTensors<T extends readonly Index[]>(index: T): T {
    return index.some(isTypedArray) ? index.map((x) => isTypedArray(x) ? this.fromList(x) : x) as unknown as T : index;
  }

  /** Writes `value` to a view of a window of this. */
  private setWindow(window: UOp, index: readonly Index[], value: Operand, hasMemory: boolean): this {
    const action = "setAt", plan = parseIndices(action, index, shapeOf(window), true), view = viewNode(window, plan);
    if (plan.tensors.length > 0) { // what is written there is selected, and written as a whole
      const part = this.wrap(uop(Ops.CONTIGUOUS, window.dtype, [window])).setAt(index, value);
      return this.setWindow(window, [], part, hasMemory);
    }
    const given = this.written(value, action), to = namedShape(view);
    const cure = extentsOf(view) === null ? "" : "; for a symbolic size, cut a larger value at the same variable";
    const fit = withExtents(fitted(action, given, to, cure), extentsOf(view));
    to.forEach((_, axis) => {
      const own = extentOf(fit, axis), want = extentOf(view, axis);
      if (sameExtent(own, want)) return;
      throw new ShapeError(action, {
        shapes: [namedShape(given), to],
        axis,
        reason: `axis ${axis} has the sizes ${extentText(own)} and ${extentText(want)}${cure}`,
      });
    });
    if (hasMemory) realizing.assignView(this, view, fit);
    else {
      const back = (x: UOp): UOp => {
        let full = placeNode(x, plan, shapeOf(window));
        for (let w = window; w !== this.uop; w = w.src[0]) full = adjoint(w, full);
        return full;
      };
      const before = this.uop;
      realizing.noteRenamed(this);
      this.setUop(back(withExtents(trueOf(to), extentsOf(view))).where(back(fit), before));
      noteOpen(this.uop, before);
    }
    return this;
  }

  /**
   * The basic view of `plan` where `value` is written where `mask`, which covers axes from `axis` on, is true: a value for
   * all, one for each axis beside the mask, one for each true element in order, or one for each element of the view.
   */
  private masked(
    plan: Plan,
    axis: number,
    mask: TensorBase,
    value: UOp,
    fit: (shape: readonly number[]) => UOp,
  ): UOp {
    const { shape } = plan, width = mask.ndim, old = viewNode(this.uop, plan);
    const before = shape.slice(0, axis), after = shape.slice(axis + width), total = prod(mask.shape);
    const spread = (u: UOp) => broadcastTo(reshape(u, [...mask.shape, ...after.map(() => 1)]), shape);
    const given = shapeOf(value), count = given[given.length - after.length - 1] ?? 1;
    const whole = given.length > before.length + 1 + after.length || (width === 1 && count === total);
    if (whole && width > 0) return spread(mask.uop).where(fit(shape), old);
    const chosen = fit([...before, count, ...after]);
    const one = [...before, ...mask.shape.map(() => 1), ...after];
    if (count === 1) return spread(mask.uop).where(broadcastTo(reshape(chosen, one), shape), old);
    const flat = this.wrap(castNode(reshape(mask.uop, [total]), positionDType(total))).cumsum(0).uop;
    const order = uop(Ops.CONTIGUOUS, flat.dtype, [flat]).add(-1);
    const full = [...before, total, ...after];
    const at = broadcastTo(reshape(order, [...before.map(() => 1), total, ...after.map(() => 1)]), full);
    const values = reshape(gatherNode(chosen, before.length, at), shape);
    return spread(mask.uop).and(spread(reshape(order.lt(count), mask.shape))).where(values, old);
  }

  /** The basic view of `plan` with values written at index tensors. */
  private merged(plan: Plan, a: Advanced, fit: (shape: readonly number[]) => UOp): UOp {
    const { x, order: forward, before, sizes, after } = gathered(viewNode(this.uop, plan), a);
    const count = prod(a.common), k = sizes.length;
    // For each indexed position, the last (of `count`) that writes it, from 1; 0 for none.
    const grid = [...sizes, count];
    const writer = expand(iotaAlong(count, k, k + 1), grid).add(1);
    const indices = a.indices.map((u) => allFilled(u, -1)); // what is beyond goes nowhere
    const hit = indices.map((u, i) =>
      expand(iotaAlong(sizes[i], i, k + 1), grid).eq(expand(reshape(u, [...sizes.map(() => 1), count]), grid))
    ).reduce((p, q) => p.and(q));
    const last = reduceNode(hit.where(writer, constant(0, writer.dtype)), Ops.MAX, [k]);
    const flat = reshape(allFilled(fit([...before, ...a.common, ...after])), [...before, count, ...after]);
    // Spread the value over the indexed axes: [before, ...sizes, after].
    const full = [...before, ...sizes, ...after, count], rank = full.length;
    const order = [...before.map((_, i) => i), ...after.map((_, i) => before.length + 1 + i), before.length];
    const source = expand(reshape(permute(flat, order), [...before, ...sizes.map(() => 1), ...after, count]), full);
    const place = reshape(last, [...before.map(() => 1), ...sizes, ...after.map(() => 1), 1]);
    const chosen = expand(iotaAlong(count, rank - 1, rank), full).add(1).eq(expand(place, full));
    const spread = full.slice(0, -1);
    const value = reshape(selectNode(chosen, source, [rank - 1]), spread);
    const written = expand(constant(0, place.dtype).lt(reshape(place, shapeOf(place).slice(0, -1))), spread);
    const result = written.where(value, x);
    return permute(result, forward.map((_, v) => forward.indexOf(v)));
  }

  /** Replaces the basic view of `plan` by `value`, of its shape. */
  private write(plan: Plan, value: UOp, hasMemory: boolean): void {
    const { shape } = this, before = this.uop;
    if (plan.shape.includes(0)) return;
    if (!hasMemory) realizing.noteRenamed(this);
    const mask = () => placeNode(broadcastTo(constant(1, dtypes.bool), plan.shape), plan, shape);
    if (hasMemory) {
      const view = viewNode(this.uop, plan);
      if (isMemory(shown(view).base)) realizing.assignView(this, view, value);
      else realizing.assignView(this, this.uop, mask().where(placeNode(value, plan, shape), this.uop));
    } else if (isWhole(plan, shape)) this.setValue(reshape(value, shape));
    else this.setUop(mask().where(placeNode(value, plan, shape), before));
    if (!hasMemory) noteOpen(this.uop, before);
  }

  /**
   * For each k < size, the flat position of the k-th true element (by binary search in a running count), and whether there
   * is one: where not, that is the number of all elements.
   */
  protected truePositions(mask: UOp, size: number): { at: UOp; isHere: UOp } {
    const n = prod(shapeOf(mask));
    const d = positionDType(n + 1), flat = this.wrap(reshape(castNode(mask, d), [n])).cumsum(0).uop;
    const running = uop(Ops.CONTIGUOUS, d, [flat]);
    const zero = constant(0, d);
    const order = castNode(iota(size), d);
    let found = order.mul(0);
    for (let step = 2 ** Math.floor(Math.log2(n)); step >= 1; step /= 2) {
      const next = found.add(step);
      const inside = next.lt(n + 1);
      const before = gatherNode(running, 0, inside.where(next.add(-1), zero));
      found = inside.and(before.lt(order.add(1))).where(next, found);
    }
    const isHere = order.lt(broadcastTo(shrink(running, [[n - 1, n]]), [size]));
    return { at: found, isHere };
  }

  /**
   * The elements where `mask` is true, 1-D. With `size` a tensor of that many, filled with `fillValue` (0) beyond;
   * without it a promise, as the count must be computed first.
   *
   * @throws {DTypeError} unless the mask is bool, {ShapeError} if it does not broadcast
   */
  maskedSelect(mask: TensorLike, options: SizeOptions & { readonly size: number }): this;
  /** The values where `mask` is true; 1-D. Reads how many there are, unless `size` says so. */
  maskedSelect(mask: TensorLike, options?: SizeOptions): Promise<this>;
  maskedSelect(mask: TensorLike, options: SizeOptions = {}): this | Promise<this> {
    checkOptions("maskedSelect", options, ["size", "fillValue"]);
    const given = this.tensorOf("maskedSelect", "mask", mask);
    if (!given.dtype.isBool) {
      throw new DTypeError("maskedSelect with a mask of dtype", {
        dtypes: [given.dtype],
        reason: "the mask must be a bool tensor",
      });
    }
    checkSameDevice("maskedSelect", this.uop, given.uop);
    const shape = broadcastShape("maskedSelect", [this.shape, given.shape]);
    const values = broadcastTo(this.uop, shape);
    const m = allFilled(withExtents(broadcastTo(given.uop, shape), extentsOf(values)));
    if (options.size === undefined) {
      return this.countTrue(m).then((size) => this.maskedSelect(given, { ...options, size }));
    }
    const size = checkInteger("maskedSelect", "size", options.size, 0);
    const fill = scalarConst(checkScalar("maskedSelect", "fillValue", options.fillValue ?? 0), this.dtype);
    if (prod(shape) === 0 || size === 0) return this.wrap(placed(broadcastTo(fill, [size]), this.device));
    const { at, isHere } = this.truePositions(m, size);
    const places = isHere.where(at, constant(0, at.dtype)); // all of them valid: exports of this take them as such
    const x = gatherNode(reshape(allFilled(values), [prod(shape)]), 0, places);
    return this.wrap(isHere.where(x, fill));
  }

  /**
   * The indices of what is not zero, one a row: int32 `[count, ndim]` (int64 from 2^31 elements on). With `size` a tensor of that many rows, filled
   * with `fillValue` (0) beyond; without it a promise.
   */
  nonzero(options: SizeOptions & { readonly size: number }): this;
  /** The positions that are not zero, a row each. Reads how many there are, unless `size` says so. */
  nonzero(options?: SizeOptions): Promise<this>;
  nonzero(options: SizeOptions = {}): this | Promise<this> {
    checkOptions("nonzero", options, ["size", "fillValue"]);
    const shape = this.shape, rank = shape.length;
    const mask = allFilled(castNode(this.uop, dtypes.bool));
    if (options.size === undefined) return this.countTrue(mask).then((size) => this.nonzero({ ...options, size }));
    const size = checkInteger("nonzero", "size", options.size, 0);
    const fill = scalarConst(
      checkScalar("nonzero", "fillValue", options.fillValue ?? 0),
      positionDType(prod(shape) + 1),
    );
    if (prod(shape) === 0 || size === 0 || rank === 0) {
      return this.wrap(placed(broadcastTo(fill, [size, rank]), this.device));
    }
    const { at, isHere } = this.truePositions(mask, size);
    let rest = at;
    const columns = new Array<UOp>(rank);
    for (let axis = rank - 1; axis >= 0; axis--) {
      columns[axis] = axis === 0 ? rest : rest.floorMod(shape[axis]);
      if (axis > 0) rest = rest.floorDiv(shape[axis]);
    }
    const [first, ...others] = columns.map((c) => this.wrap(isHere.where(c, fill)));
    return first.stack(others, 1);
  }

  /** How many are true: read from the device. */
  protected async countTrue(mask: UOp): Promise<number> {
    if (isScalarLeaf(mask)) return mask.value;
    return Number(await this.wrap(castNode(mask, positionDType(prod(shapeOf(mask))))).sum().item());
  }
}
