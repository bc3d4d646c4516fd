/**
 * Which reads of a program the processor is told of ahead: those that go through memory once and in order, as a product
 * of a matrix and a vector through the matrix. Processors see such reads by themselves, but follow few of them at a time,
 * stop at the end of a page, and begin anew with each row: on an Intel Xeon of 2023 products of 8-bit weights that lie in
 * memory took 1.5 to 2 times as long without, and as long where the weights are in a cache. What is in a cache pays for
 * each that is needless: a norm of groups whose three loops read rows of 32 KB took 28 % longer on an AMD EPYC with all
 * reads told ahead, 9 % with those of the first loop, one a line.
 *
 * @module
 */
import { rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { indexForm, rangeOfFactor, strideAlong } from "../../uop/algebra/linear_form.ts";
import { baseOf } from "../../uop/rewrite/walk.ts";
import type { LinearProgram } from "../renderer.ts";

/** Bytes between what is read and what is asked for: some rows of a product, less than a first-level cache holds. */
export const AHEAD = 16384;
/** Smaller buffers are in a cache before anything comes of it. */
const LEAST = 4 * AHEAD;
/** A byte may be read a few times in a row: for each field of it. */
const TIMES = 8;
/** Bytes that a loop goes on by, at most: four lines. */
const STEP = 256;

/** Bytes of a line. */
const LINE = 64;
/** What a loop reads that is no larger than this is in a cache for the next one. */
const KEPT = 1 << 18;

/** What is read inside of loops in the order of memory. */
interface Read {
  /** The innermost loop that it goes on with. */
  readonly inner: UOp;
  /** Equal for reads of one line in all steps of a loop, and for those of what the whole loop reads. */
  readonly line: string;
  readonly region: string;
}

/** What a LOAD inside of loops reads, where that is of a large buffer, once, in order. */
function readOf(u: UOp, open: readonly UOp[], { params }: LinearProgram): Read | undefined {
  const place = u.src[0];
  if (u.dtype.count === 1 || place.op !== Ops.INDEX) return undefined;
  const base = baseOf(place);
  if (base.op !== Ops.PARAM) return undefined;
  const { slot } = argOf(base, Ops.PARAM), { writes, size, dtype: { itemsize } } = params[slot];
  if (writes || size * itemsize < LEAST) return undefined;
  const index = place.src[1], ranges = rangesOf(index);
  let times = 1, inner: UOp | undefined;
  for (const r of open) {
    if (ranges.includes(r)) inner = r;
    else times *= sizeOf(r) || Infinity;
  }
  if (inner === undefined || times > TIMES) return undefined;
  const form = indexForm(index), step = Math.abs(strideAlong(form, inner)) * itemsize, nbytes = step * sizeOf(inner);
  if (step === 0 || step > STEP) return undefined;
  const rest = form.factors.map((f, k) => rangeOfFactor(f) === inner ? "" : `${f.seq}*${form.coefs[k]}`);
  const from = `${slot} ${rest.filter((text) => text !== "").sort()}`, at = form.constant * itemsize;
  const isKept = nbytes > 0 && nbytes <= KEPT;
  return {
    inner,
    line: `${from} ${inner.seq} ${Math.floor(at / LINE)}`,
    region: `${from} ${isKept ? `${nbytes} ${Math.floor(at / nbytes)}` : inner.seq}`,
  };
}

/**
 * The LOADs of a program that read large buffers once and in order, in loops that add up: the first of those of a line, and
 * none in a loop that reads again what the one before it has read.
 */
export function readsInOrder(program: LinearProgram): ReadonlySet<UOp> {
  const open: UOp[] = [], summing = new Set<UOp>(), found = new Map<UOp, UOp>();
  const lines = new Set<string>(), readers = new Map<string, UOp>();
  for (const u of program.uops) {
    if (u.op === Ops.RANGE) open.push(u);
    else if (u.op === Ops.END) open.pop();
    else if (u.op === Ops.STORE && u.src[0].op === Ops.ACC) open.forEach((r) => summing.add(r));
    else if (u.op === Ops.LOAD && open.length > 1) {
      const read = readOf(u, open, program);
      if (read === undefined || lines.has(read.line)) continue;
      lines.add(read.line);
      if (!readers.has(read.region)) readers.set(read.region, read.inner);
      if (readers.get(read.region) === read.inner) found.set(u, open[open.length - 1]);
    }
  }
  return new Set([...found].filter(([, r]) => summing.has(r)).map(([u]) => u));
}
