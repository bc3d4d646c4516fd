/**
 * Which reads of a program the processor is told of ahead: those that go through memory once and in order, as a product
 * of a matrix and a vector through the matrix. Processors see such reads by themselves, but follow few of them at a time,
 * stop at the end of a page, and begin anew with each row: on an Intel Xeon of 2023 products of 8-bit weights that lie in
 * memory took 1.5 to 2 times as long without, and as long where the weights are in a cache. What is in a cache pays for
 * each that is needless: a norm of groups whose three loops read rows of 32 KB took 28 % longer on an AMD EPYC with all
 * reads told ahead, 9 % with those of the first loop, one a line.
 *
 * What is asked for is what the same read comes to some 16 KB of the program's reads later. In a long run of memory that is
 * further on in the run. Rows of weights in 4 bits are short and eight are read side by side, so what lies 16 KB further
 * on is of a row that is being read, too: asked for is the place in the row that comes after it (1.5 and 1.8 times as fast,
 * products of Q4_K and Q6_K on that EPYC).
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import { rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { indexForm, type Linear, rangeOfFactor, strideAlong } from "../../uop/algebra/linear_form.ts";
import { baseOf } from "../../uop/rewrite/walk.ts";
import type { LinearProgram } from "../renderer.ts";

/** Bytes that are read between what is asked for and what is read: less than a first-level cache holds. */
const AHEAD = 16384;
/** Runs of so many bytes are long: most of what is so far ahead is of the same one. */
const LONG = 4 * AHEAD;
/** Bytes that a step of a loop reads, at most, for what its next one reads to be asked for: a part of a second-level cache. */
const MOST = 1 << 18;
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
  /** The loops that are open, innermost first, and the bytes that it goes on by in a step of each. */
  readonly steps: readonly { readonly loop: UOp; readonly stride: number }[];
  readonly nbytes: number;
}

/** {@linkcode strideAlong}, also where the last rows begin earlier than a step behind those before them. */
function stepOf(form: Readonly<Linear>, loop: UOp): number {
  return form.factors.reduce(
    (n, f, k) => f.op === Ops.WHERE ? n + form.coefs[k] * strideAlong(indexForm(f.src[1]), loop) : n,
    strideAlong(form, loop),
  );
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
    steps: open.toReversed().map((loop) => ({ loop, stride: stepOf(form, loop) * itemsize })),
    nbytes: u.dtype.count * u.dtype.scalar.itemsize,
  };
}

/** Times that a step of `outer` does what is inside: `loops` are those within it which a read goes on with. */
function timesIn({ steps }: Read, outer: UOp): number {
  const at = steps.findIndex((s) => s.loop === outer);
  return prod(steps.slice(0, at).map(({ loop, stride }) => stride === 0 ? 1 : sizeOf(loop) || Infinity));
}

/** Bytes between what a read of some reads and what is to be asked for then. */
function aheadOf(read: Read, all: readonly Read[]): number {
  const steps = read.steps.filter((s) => s.stride !== 0);
  let run = read.nbytes;
  for (const { loop, stride } of steps) {
    if (Math.abs(stride) > run) {
      const each = all.filter((r) => r.steps.some((s) => s.loop === loop && s.stride !== 0))
        .reduce((n, r) => n + r.nbytes * timesIn(r, loop), 0);
      return run >= LONG || each > MOST ? AHEAD : Math.ceil(AHEAD / each) * stride;
    }
    run = Math.max(run, Math.abs(stride) * (sizeOf(loop) || Infinity));
  }
  return AHEAD;
}

/**
 * The LOADs of a program that read large buffers once and in order, in loops that add up: the first of those of a line, and
 * none in a loop that reads again what the one before it has read. With the bytes from there to what is to be asked for.
 */
export function readsInOrder(program: LinearProgram): ReadonlyMap<UOp, number> {
  const open: UOp[] = [], summing = new Set<UOp>(), found = new Map<UOp, Read>(), within = new Map<UOp, UOp>();
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
      if (readers.get(read.region) !== read.inner) continue;
      found.set(u, read);
      within.set(u, open[open.length - 1]);
    }
  }
  const summed = [...found].filter(([u]) => summing.has(within.get(u)!)), all = summed.map(([, read]) => read);
  return new Map(summed.map(([u, read]) => [u, aheadOf(read, all)]));
}
