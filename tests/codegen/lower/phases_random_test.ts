/**
 * Random kernels of several phases on simulated grids with much and little shared memory, against the same phases computed
 * in JavaScript: each of them reads some of those before it, forward, backward or turned, so that memory is taken over while
 * others still read.
 */
import { assert, assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { isPhase, phasesOf } from "../../../src/uop/algebra/row_phases.ts";
import { AxisKind, StageArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp, uop } from "../../../src/uop/core/uop.ts";
import { simplifyKernel } from "../../../src/uop/algebra/valid.ts";
import { simCaps, SMALL_GRID } from "../../fixtures/sim.ts";
import { Random } from "../../support/random.ts";
import { run } from "../harness.ts";

/** An element of what a phase reads: of which one (-1: of the operand), where, and times what. */
interface Read {
  readonly from: number;
  readonly turn: (i: number) => number;
  readonly place: (i: UOp) => UOp;
  readonly factor: number;
}

interface Case {
  readonly ast: UOp;
  readonly operand: Float32Array;
  readonly want: Float32Array;
}

const f32 = dtypes.float32;

function readOf(random: Random, n: number, phases: number): Read {
  const factor = random.int(1, 3), from = random.int(-1, phases - 1);
  const [turn, place] = random.pick<[Read["turn"], Read["place"]]>([
    [(i) => i, (i) => i],
    [(i) => n - 1 - i, (i) => i.mul(-1).add(n - 1)],
    [(i) => (i + 7) % n, (i) => i.add(7).floorMod(n)],
  ]);
  return { from, turn, place, factor };
}

/** A kernel of `count` phases and a STORE over `blocks` rows of `n`. */
function drawn(random: Random): Case {
  const blocks = random.int(1, 3), n = random.pick([5, 33, 96, 200, 513]), count = random.int(2, 9);
  const block = range(blocks, 0, AxisKind.GLOBAL), operand = new Float32Array(blocks * n).map(() => random.int(-4, 4));
  const stages: UOp[] = [], values: ((i: number) => number)[] = [];
  let row = 0;
  /** What a phase computes at `r`, and what it should be; all phases before the last few are read by the STORE. */
  const made = (reads: readonly Read[], r: UOp): UOp =>
    reads.map(({ from, place, factor }) => {
      const at = place(r), source = from < 0 ? index(param(1, f32, blocks * n), block.mul(n).add(at)) : undefined;
      return load(source ?? index(stages[from], at)).mul(factor);
    }).reduce((a, b) => a.add(b));
  const computed = (reads: readonly Read[]) => (i: number): number =>
    reads.reduce((sum, { from, turn, factor }) => {
      const at = turn(i);
      return sum + factor * (from < 0 ? operand[row * n + at] : values[from](at));
    }, 0);
  for (let i = 0; i < count; i++) {
    const reads = Array.from({ length: random.int(1, 3) }, () => readOf(random, n, i));
    const r = range(n, i + 1, AxisKind.LOOP);
    stages.push(uop(Ops.STAGE, f32, [made(reads, r), r], new StageArg(i, "phase")));
    const value = computed(reads), known = new Map<number, number>();
    values.push((i) => {
      const key = row * n + i;
      if (!known.has(key)) known.set(key, value(i));
      return known.get(key)!;
    });
  }
  const last = Array.from({ length: 2 }, () => readOf(random, n, count)), r = range(n, count + 1, AxisKind.LOOP);
  const final = computed(last), want = new Float32Array(blocks * n);
  for (row = 0; row < blocks; row++) for (let i = 0; i < n; i++) want[row * n + i] = final(i);
  const out = index(param(0, f32, blocks * n), block.mul(n).add(r));
  return { ast: simplifyKernel(sink([store(out, made(last, r))])), operand, want };
}

for (let seed = 0; seed < 6; seed++) {
  Deno.test(`phases: random ones, memory taken over while others read (seed ${seed})`, () => {
    const random = new Random(seed * 7919 + 3);
    let shared = 0;
    for (let i = 0; i < 20; i++) {
      const { ast, operand, want } = drawn(random);
      const grid = { ...SMALL_GRID, maxGroupThreads: random.pick([64, 256]) };
      const least = phasesOf(ast, { ...grid, sharedBytes: 1 }).bytes;
      for (const sharedBytes of [least, 3 * least, 1 << 20]) {
        const { phases } = phasesOf(ast, { ...grid, sharedBytes });
        const homes = phases.filter((p) => isPhase(p.root)).map((p) => p.home);
        if (new Set(homes).size < homes.length) shared++;
        const nothing = new Float32Array(want.length).fill(NaN);
        const [got] = run(ast, [nothing, operand], undefined, simCaps({ ...grid, sharedBytes }));
        assertEquals(got, want, `case ${i} of seed ${seed}, ${sharedBytes} bytes, memory ${homes}`);
      }
    }
    assert(shared > 20, `${shared} kernels whose phases share memory`);
  });
}
