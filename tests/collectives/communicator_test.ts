/** The seam of collectives: what ranges must fit, and how collectives and their errors read. */
import assert from "node:assert/strict";
import {
  blocksOf,
  checkCollective,
  type Collective,
  CollectiveError,
  collectiveText,
} from "../../src/collectives/communicator.ts";
import { pollUntil } from "../../src/collectives/deadline.ts";
import { LocalCommunicator } from "../../src/collectives/local.ts";
import { Buffer } from "../../src/device/buffer.ts";
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { getDevice } from "../../src/device/device.ts";
import "../../mod.ts";

const four = { size: 4, ranks: [2] };
/** A range that is never allocated. */
function range(size: number, dtype: DType = dtypes.float32): Buffer {
  return new Buffer(getDevice("JS"), dtype, size);
}

const FITS: readonly (readonly [Collective, from: number, to: number])[] = [
  [{ kind: "allReduce", op: "sum" }, 6, 6],
  [{ kind: "allGather" }, 3, 12],
  [{ kind: "reduceScatter", op: "max" }, 12, 3],
  [{ kind: "allToAll" }, 8, 8],
  [{ kind: "broadcast", root: 3 }, 5, 5],
  [{ kind: "permute", pairs: [[0, 1], [1, 0]] }, 5, 5],
];
for (const [collective, from, to] of FITS) {
  Deno.test(`collectives: ${collective.kind} takes ${from} elements to ${to}, and no others`, () => {
    checkCollective(collective, [range(from)], [range(to)], four);
    const wrong = () => checkCollective(collective, [range(from)], [range(to + 1)], four);
    assert.throws(wrong, new RegExp(`${from} elements .* does not fit one of ${to + 1} to write, with 4 ranks`));
    const mixed = () => checkCollective(collective, [range(from)], [range(to, dtypes.int32)], four);
    assert.throws(mixed, /ranges are of float32, float32 and int32/);
    assert.throws(() => checkCollective(collective, [], [], four), /it takes 1 ranges .* not 0 and 0/);
    const [reads, writes] = blocksOf(collective.kind, 4);
    assert.equal(from / reads, to / writes);
  });
}

Deno.test("collectives: ranks that there are not, and ranks named twice, are errors", () => {
  const check = (collective: Collective) => () => checkCollective(collective, [range(4)], [range(4)], four);
  assert.throws(check({ kind: "broadcast", root: 4 }), /rank 4 is none of 0 to 3/);
  assert.throws(check({ kind: "permute", pairs: [[0, 1], [0, 2]] }), /rank 0 gives twice/);
  assert.throws(check({ kind: "permute", pairs: [[0, 1], [2, 1]] }), /rank 1 gets twice/);
  checkCollective({ kind: "barrier" }, [], [], four);
});

Deno.test("collectives: an error names rank, collective, number, line and reason", () => {
  const collective = collectiveText({ kind: "allReduce", op: "sum" }, range(6), [2, 3]);
  assert.equal(collective, "allReduce sum of float32[2, 3]");
  const error = new CollectiveError({ rank: 1, size: 4, collective, sequence: 7, reason: "why", line: "a.ts:3:1" });
  assert.equal(
    error.message,
    "Cannot complete allReduce sum of float32[2, 3], collective 7 of rank 1 of 4 at a.ts:3:1: why",
  );
});

Deno.test("collectives: the local engine knows no bool but 0 and 1: a sum is whether one is true, a product whether all are", () => {
  const rows = [[1, 1, 0, 0], [1, 0, 1, 0]], js = getDevice("JS"), local = new LocalCommunicator(2);
  for (
    const [op, want] of [["sum", [1, 1, 1, 0]], ["prod", [1, 0, 0, 0]], ["max", [1, 1, 1, 0]], ["min", [
      1,
      0,
      0,
      0,
    ]]] as const
  ) {
    const from = rows.map((row) => new Buffer(js, dtypes.bool, 4).copyIn(Uint8Array.from(row)));
    const to = rows.map(() => new Buffer(js, dtypes.bool, 4));
    local.start({ kind: "allReduce", op }, from, to).wait();
    for (const b of to) assert.deepEqual([...b.copyOut(new Uint8Array(4))], want, op);
  }
});

Deno.test("collectives: what comes soon is polled for without a pause, what does not is looked at for its deadline", () => {
  const until = (ms: number, spinMs?: number): number => {
    const start = performance.now();
    let looks = 0;
    pollUntil(() => performance.now() - start > ms, () => looks++, spinMs);
    return looks;
  };
  assert.equal(until(5, 1000), 0);
  assert.ok(until(5, 1) > 0);
  assert.ok(until(5) > 0);
  const late = () =>
    pollUntil(() => false, (waitedMs) => {
      if (waitedMs > 5) throw new Error("late");
    }, 2);
  assert.throws(late, /late/);
});
