/**
 * Symbolic extents. A shape in the graph has a number for each axis: how many elements memory holds along it. Where a
 * WINDOW made the size of an axis a variable (or an expression of some), that number is the largest value, and the
 * extent, kept here, says how many elements there are in truth. Loops run to the extent; strides, buffers and plans go by
 * the number, so that one kernel and one plan serve all values, and an index is never beyond memory. What lies beyond the
 * extent is nothing: nobody reads it.
 *
 * An op passes extents on as it passes sizes on. Elementwise ops take those of their sources, which must be equal where
 * two have one; an axis of a constant size beside a symbolic one has the elements that both have.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { nameSizes, ShapeError } from "../../helpers/errors.ts";
import { axisGroups } from "../../helpers/math.ts";
import { vmax, vmin } from "../algebra/bounds.ts";
import { simplifySize } from "../algebra/sizes.ts";
import { argOf, reduceOf, WindowArg } from "../core/args.ts";
import { isAlu, isSame, opName, Ops } from "../core/ops.ts";
import { shapeOf } from "../core/shape.ts";
import { type Extents, int, INT32_MAX, mayHave, toposort, type UOp, uop } from "../core/uop.ts";

const INT32_MIN = -INT32_MAX - 1;

/** Whether a node is a bound variable, or integer arithmetic of such: a number that a graph knows by name. */
export function isBoundNode(u: UOp): boolean {
  if (u.op === Ops.BIND) return true;
  if (!u.dtype.isInt || !isAlu(u.op)) return false;
  const seen = new Set<UOp>(), stack = [u]; // values that are used twice are looked at once
  let isBound = false;
  for (let v = stack.pop(); v !== undefined; v = stack.pop()) {
    if (seen.has(v)) continue;
    seen.add(v);
    if (v.op === Ops.BIND) isBound = true;
    else if (v.op === Ops.CONST) continue;
    else if (v.dtype.isInt && isAlu(v.op)) stack.push(...v.src);
    else return false;
  }
  return isBound;
}

/**
 * An expression of bound variables as it is meant where it counts: steps of it that int32 might not hold are computed in
 * int64. As a value of a tensor it wraps.
 */
export function exact(root: UOp): UOp {
  const made = new Map<UOp, UOp>();
  const visit = (u: UOp): UOp => {
    if (u.op === Ops.BIND || u.src.length === 0) return u;
    let v = made.get(u);
    if (v === undefined) made.set(u, v = step(u, u.src.map(visit)));
    return v;
  };
  const step = (u: UOp, src: readonly UOp[]): UOp => {
    const values = u.op === Ops.WHERE ? src.slice(1) : src, isCast = u.op === Ops.CAST || u.op === Ops.BITCAST;
    if (
      isCast ||
      u.dtype !== dtypes.int32 && !values.some((s, i) => s.dtype !== u.src[src.length - values.length + i].dtype)
    ) {
      return u.withSrc(src);
    }
    const again = (wide: boolean): UOp => {
      const all = src.map((s) => wide && s.dtype === dtypes.int32 ? s.cast(dtypes.int64) : s);
      return uop(u.op, u.dtype === dtypes.int32 && wide ? dtypes.int64 : u.dtype, all, u.arg);
    };
    const isWide = values.some((s) => s.dtype === dtypes.int64), made = again(isWide);
    return isWide || vmin(made) > INT32_MIN || vmax(made) < INT32_MAX ? made : again(true);
  };
  return isBoundNode(root) ? visit(root) : root;
}

/** The text of an extent or bound: "pos + 1". */
export function extentText(u: UOp): string {
  switch (u.op) {
    case Ops.CONST:
      return String(u.value);
    case Ops.BIND:
      return extentText(u.src[0]);
    case Ops.VARIABLE:
      return argOf(u, Ops.VARIABLE).name;
    case Ops.ADD:
      return `${extentText(u.src[0])} + ${extentText(u.src[1])}`;
    case Ops.MUL: {
      const [x, by] = u.src; // the least is minus the largest of what is negated
      if (x.op === Ops.MAX && by.isConst(-1)) {
        return `min(${x.src.map((s) => extentText(simplifySize(s.mul(-1)))).join(", ")})`;
      }
      return `${extentText(x)} * ${extentText(by)}`;
    }
    case Ops.MAX:
      return `max(${u.src.map(extentText).join(", ")})`;
    case Ops.CAST:
      return extentText(u.src[0]);
  }
  return `${opName[u.op]}(${u.src.map(extentText).join(", ")})`;
}

/** Whether two nodes are the same expression, also across generations of the intern table. */
export function sameExtent(a: UOp | undefined, b: UOp | undefined): boolean {
  if (a === b) return true;
  return a !== undefined && b !== undefined && a.op === b.op && orderless(a) === orderless(b);
}

/** A text of an expression that is one whatever the order of terms and factors, which follows names of variables. */
function orderless(u: UOp): string {
  if (u.op === Ops.CONST) return String(u.value);
  if (u.op === Ops.VARIABLE) return `${extentText(u)}[${vmin(u)}, ${vmax(u)}]`;
  const parts = (v: UOp): string[] => v.op === u.op ? v.src.flatMap(parts) : [orderless(v)];
  const isFree = u.op === Ops.ADD || u.op === Ops.MUL || u.op === Ops.MAX;
  const src = isFree ? parts(u).sort() : u.src.map(orderless);
  return `${opName[u.op]} ${u.dtype} ${u.op === Ops.BIND ? u.arg ?? "" : ""}(${src.join(", ")})`;
}

/** The value of an expression of bound variables; undefined where one is not bound. */
export function boundValue(u: UOp): number | undefined {
  if (u.op === Ops.BIND) return u.src[1].value;
  const bound = simplifySize(valuesOf(u));
  return bound.op === Ops.CONST ? bound.value : undefined;
}

function valuesOf(u: UOp): UOp {
  if (u.op === Ops.BIND) return u.src[1];
  return u.src.length === 0 ? u : u.withSrc(u.src.map(valuesOf));
}

/**
 * The `arg` of a BIND that stands for an argument of a function that is being captured: what the function binds itself is
 * another node, also where variable and value are the same.
 */
export const ARGUMENT = "'";

/** An expression in which the variables of `names` are marked as arguments. */
export function marked(u: UOp, names: ReadonlyMap<string, number>): UOp {
  if (u.op === Ops.BIND) {
    return names.has(argOf(u.src[0], Ops.VARIABLE).name) ? uop(Ops.BIND, u.dtype, u.src, ARGUMENT) : u;
  }
  return u.src.length === 0 ? u : u.withSrc(u.src.map((s) => marked(s, names)));
}

/** An expression with the variables that are marked as arguments bound to the values of a call. */
export function rebound(u: UOp, values: ReadonlyMap<string, number>): UOp {
  if (u.op === Ops.BIND) {
    if (u.arg !== ARGUMENT) return u;
    return uop(Ops.BIND, u.dtype, [u.src[0], u.src[1].constLike(values.get(argOf(u.src[0], Ops.VARIABLE).name)!)]);
  }
  return u.src.length === 0 ? u : u.withSrc(u.src.map((s) => rebound(s, values)));
}

/** As {@linkcode marked} and {@linkcode rebound}, of all extents of a node. */
export function mapExtents(extents: Extents | null, change: (e: UOp) => UOp): Extents | null {
  return extents === null ? null : extents.map((e) => e === undefined ? e : change(e));
}

/** Expressions in one dtype: int64 where one of them is. */
export function aligned(...list: readonly UOp[]): UOp[] {
  const wide = list.find((u) => u.dtype === dtypes.int64);
  return wide === undefined ? [...list] : list.map((u) => u.dtype === dtypes.int64 ? u : u.cast(dtypes.int64));
}

/** The sum of expressions, simplified. */
export function sumOf(...list: readonly UOp[]): UOp {
  return simplifySize(aligned(...list).reduce((a, b) => a.add(b)));
}

/** How many elements there are from `start` to `stop`, simplified. */
export function extentBetween(start: UOp, stop: UOp): UOp {
  const dtype = start.dtype === stop.dtype ? stop.dtype : dtypes.int64;
  return simplifySize(stop.cast(dtype).add(start.cast(dtype).mul(-1)));
}

/**
 * The least of how many elements there are from `start` to `stop`. The larger of two is at least either of them, and the
 * smaller at most: bounds of each by itself would say less.
 */
export function leastBetween(start: UOp, stop: UOp): number {
  return leastOf(extentBetween(start, stop));
}

function leastOf(sum: UOp): number {
  const terms: UOp[] = [], left = [sum];
  for (let u = left.pop(); u !== undefined; u = left.pop()) {
    if (u.op === Ops.ADD) left.push(...u.src);
    else terms.push(u);
  }
  const isLess = (u: UOp): boolean => u.op === Ops.MUL && u.src[0].op === Ops.MAX && u.src[1].isConst(-1);
  const at = terms.findIndex((u) => u.op === Ops.MAX || isLess(u));
  if (at < 0) return vmin(sum);
  const u = terms[at], sides = u.op === Ops.MAX ? u.src : u.src[0].src.map((s) => simplifySize(s.mul(-1)));
  const each = sides.map((s) => leastOf(sumOf(...terms.toSpliced(at, 1, s))));
  return Math.max(vmin(sum), u.op === Ops.MAX ? Math.max(...each) : Math.min(...each));
}

/** A product of extents, simplified: int64 where int32 may not hold it. */
export function productOf(a: UOp, b: UOp): UOp {
  const wide = a.dtype === dtypes.int64 || b.dtype === dtypes.int64 || vmax(a) * vmax(b) > INT32_MAX;
  return simplifySize(wide ? a.cast(dtypes.int64).mul(b.cast(dtypes.int64)) : a.mul(b));
}

function plus(e: UOp, n: number): UOp {
  return n === 0 ? e : simplifySize(e.add(n));
}

function refuse(u: UOp, axis: number, e: UOp, reason: string): never {
  throw new ShapeError(opName[u.op].toLowerCase(), {
    shapes: [namedShape(u.src[0])],
    axis,
    reason: `axis ${axis} has the symbolic size ${extentText(e)}: ${reason}`,
  });
}

/** Extents under another shape: a symbolic axis may be split or merged where it is the outermost of its group. */
function reshaped(u: UOp, x: Extents): Extents {
  const from = shapeOf(u.src[0]), to = shapeOf(u);
  const out = new Array<UOp | undefined>(to.length).fill(undefined);
  for (const { i0, i1, j0, j1 } of axisGroups(from, to)) {
    let first = i0;
    while (first < i1 - 1 && from[first] === 1) first++;
    for (let k = first + 1; k < i1; k++) {
      if (x[k] !== undefined) refuse(u, k, x[k]!, "it can only be joined to axes behind it; permute it to the front");
    }
    const e = first < i1 ? x[first] : undefined;
    if (e === undefined) continue;
    let target = j0;
    while (target < j1 - 1 && to[target] === 1) target++;
    let inner = 1, rest = 1;
    for (let k = first + 1; k < i1; k++) inner *= from[k];
    for (let k = target + 1; k < j1; k++) rest *= to[k];
    if (j0 === j1 || inner === 0 || rest === 0) continue; // of no element, whatever the size
    const elements = productOf(e, int(inner));
    if (!simplifySize(elements.floorMod(rest)).isConst(0)) {
      refuse(u, first, e, `it does not split into parts of ${rest}; pad it to a multiple`);
    }
    out[target] = simplifySize(elements.floorDiv(rest));
  }
  return out;
}

/** Extents of elementwise ops: those of the sources. */
function joined(u: UOp): Extents | null {
  let out: (UOp | undefined)[] | undefined;
  for (const s of u.src) {
    const x = extentsOf(s);
    if (x === null) continue;
    if (out === undefined) out = [...x];
    else {
      x.forEach((e, axis) => {
        if (e === undefined) return;
        if (out![axis] !== undefined && !sameExtent(out![axis], e)) {
          throw new ShapeError(opName[u.op].toLowerCase(), {
            shapes: u.src.map(namedShape),
            axis,
            reason: `axis ${axis} has the symbolic sizes ${extentText(out![axis]!)} and ${extentText(e)}`,
          });
        }
        out![axis] = e;
      });
    }
  }
  return out ?? null;
}

function derive(u: UOp): Extents | null {
  if (u.op === Ops.WINDOW) {
    const { axis, capacity } = argOf(u, Ops.WINDOW), size = u.src[2];
    const out = [...extentsOf(u.src[0]) ?? shapeOf(u).map(() => undefined)];
    out[axis] = size.op === Ops.CONST && size.value === capacity ? undefined : size;
    return out;
  }
  if (isAlu(u.op) && u.op !== Ops.BITCAST) return joined(u);
  const x = u.src.length === 0 || u.op === Ops.BIND || u.op === Ops.STORE ? null : extentsOf(u.src[0]);
  if (x === null) return null;
  switch (u.op) {
    case Ops.RESHAPE:
      return reshaped(u, x);
    case Ops.PERMUTE:
      return argOf(u, Ops.PERMUTE).axes.map((a) => x[a]);
    case Ops.PAD:
      return argOf(u, Ops.PAD).pairs.map(([before, after], i) => x[i] && plus(x[i]!, before + after));
    case Ops.SHRINK: {
      const from = shapeOf(u.src[0]);
      return argOf(u, Ops.SHRINK).pairs.map(([start, stop], i) => {
        const e = x[i];
        if (e === undefined) return undefined;
        if (stop === from[i]) {
          if (start > vmin(e)) refuse(u, i, e, `it may be less than ${start}; raise the least value of its variable`);
          return plus(e, -start);
        }
        if (stop > vmin(e)) refuse(u, i, e, `it may be less than ${stop}; raise the least value of its variable`);
        return undefined;
      });
    }
    case Ops.UNSKEW:
    case Ops.SKEW: {
      const { axis, kernelAxis } = argOf(u, Ops.SKEW);
      for (const a of [axis, kernelAxis]) {
        if (x[a] !== undefined) refuse(u, a, x[a]!, "windows need a constant one; padTo(shape) gives it one");
      }
      return x;
    }
    case Ops.BITCAST: {
      const last = x.length - 1, from = u.src[0].dtype.itemsize, to = u.dtype.itemsize;
      if (from !== to && x[last] !== undefined) refuse(u, last, x[last]!, "elements of another size change it");
      return x;
    }
    case Ops.REDUCE: {
      const { axes } = reduceOf(u);
      return x.map((e, i) => axes.includes(i) ? undefined : e);
    }
    case Ops.COMPLEX:
      return x.slice(0, -1);
    case Ops.EXPAND:
    case Ops.FLIP:
    case Ops.AFTER:
      return x;
  }
  return isSame(u.op) ? x : null;
}

/** The extents of a tensor-graph node; null where all are what its shape says. @throws {ShapeError} where there are none */
export function extentsOf(root: UOp): Extents | null {
  if (root.extentMemo !== undefined) return root.extentMemo;
  if (!mayHave(root, Ops.WINDOW)) return root.extentMemo = null; // all begin there
  for (const u of toposort(root, (u) => u.extentMemo === undefined)) {
    if (u.extentMemo !== undefined) continue;
    const made = derive(u);
    u.extentMemo = made === null || made.every((e) => e === undefined) ? null : made;
  }
  return root.extentMemo!;
}

/** The shape of a node, an array of its own: in errors with the names of symbolic sizes. */
export function namedShape(u: UOp): number[] {
  const shape = [...shapeOf(u)], extents = extentsOf(u);
  return extents === null ? shape : nameSizes(shape, extents.map((e) => e && extentText(e)));
}

/** The extent of an axis: its symbolic one, or its size. */
export function extentOf(u: UOp, axis: number): UOp {
  return extentsOf(u)?.[axis] ?? int(shapeOf(u)[axis]);
}

/** `x` with these extents, which its shape must hold; axes that have one already keep theirs. */
export function withExtents(x: UOp, extents: Extents | null): UOp {
  if (extents === null) return x;
  const own = extentsOf(x);
  extents.forEach((e, axis) => {
    if (e !== undefined && own?.[axis] === undefined) x = label(x, axis, e);
  });
  return x;
}

/**
 * `size` elements of an axis from `start` on, zero where there is none: out[i] = x[i + start]. Both are rank-0 integers,
 * constants or expressions of variables; the shape has `capacity`, by default the largest value of `size`.
 */
export function window(x: UOp, axis: number, start: UOp, size: UOp, capacity: number = vmax(size)): UOp {
  return uop(Ops.WINDOW, x.dtype, [x, start, size], new WindowArg(axis, capacity));
}

/** The first `e` elements of an axis; the shape stays. */
export function label(x: UOp, axis: number, e: UOp): UOp {
  return sameExtent(extentOf(x, axis), e) ? x : window(x, axis, int(0), e, shapeOf(x)[axis]);
}

/** Whether a node only says how many elements of its source there are: it has the memory of that. */
export function isLabel(u: UOp): boolean {
  if (u.op !== Ops.WINDOW || !u.src[1].isConst(0)) return false;
  const { axis, capacity } = argOf(u, Ops.WINDOW);
  return shapeOf(u.src[0])[axis] === capacity && extentsOf(u.src[0])?.[axis] === undefined;
}
