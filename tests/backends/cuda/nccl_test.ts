/**
 * The NCCL engine against a library that joins ranks of this process, on the driver that records its calls: values of all
 * collectives, the order of streams, deadlines, and what goes before what at the end.
 */
import assert from "node:assert/strict";
import type { CudaDevice } from "../../../backends/cuda/cuda_device.ts";
import type { NcclCommunicator } from "../../../backends/cuda/nccl/nccl.ts";
import { ID_BYTES, NcclResult, nonblockingConfig, openNccl } from "../../../backends/cuda/nccl/nccl_library.ts";
import type { Collective, CollectiveSite } from "../../../src/collectives/communicator.ts";
import { endings } from "../../../src/collectives/engines.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { fake, test, withDevice } from "./cuda_harness.ts";
import { FakeNccl } from "./fake_nccl.ts";

/** `size` ranks on one device of the fake driver. */
function ranksOn(device: CudaDevice, nccl: FakeNccl, size: number, timeoutMs = 1000): NcclCommunicator[] {
  const id = new Uint8Array(ID_BYTES), { symbols } = nccl;
  return Array.from({ length: size }, (_, rank) => device.join({ rank, size, id, timeoutMs }, symbols));
}
/** The arrays that the tests use. */
type Values = readonly number[];
function range(device: CudaDevice, values: Values, dtype: DType = dtypes.float32): Buffer {
  const Class = dtype === dtypes.float32 ? Float32Array : dtype === dtypes.int32 ? Int32Array : Uint8Array;
  return new Buffer(device, dtype, values.length).copyIn(new Uint8Array(Class.from(values).buffer));
}
function valuesOf(buffer: Buffer): number[] {
  const { buffer: bytes } = buffer.copyOut(new Uint8Array(buffer.nbytes));
  return [...buffer.dtype === dtypes.float32 ? new Float32Array(bytes) : new Uint8Array(bytes)];
}
const AGREED: CollectiveSite = { isAgreed: true };

/** By collective, what ranks 0 and 1 give, and what they get. */
const ROWS: readonly (readonly [Collective, from: readonly Values[], to: readonly Values[]])[] = [
  [{ kind: "allReduce", op: "sum" }, [[1, 2], [3, 5]], [[4, 7], [4, 7]]],
  [{ kind: "allReduce", op: "prod" }, [[1, 2], [3, 5]], [[3, 10], [3, 10]]],
  [{ kind: "allReduce", op: "max" }, [[1, 6], [3, 5]], [[3, 6], [3, 6]]],
  [{ kind: "allReduce", op: "min" }, [[1, 6], [3, 5]], [[1, 5], [1, 5]]],
  [{ kind: "reduceScatter", op: "sum" }, [[1, 2], [3, 5]], [[4], [7]]],
  [{ kind: "allGather" }, [[1, 2], [3, 5]], [[1, 2, 3, 5], [1, 2, 3, 5]]],
  [{ kind: "broadcast", root: 1 }, [[1, 2], [3, 5]], [[3, 5], [3, 5]]],
  [{ kind: "allToAll" }, [[1, 2], [3, 5]], [[1, 3], [2, 5]]],
  [{ kind: "permute", pairs: [[0, 1], [1, 0]] }, [[1, 2], [3, 5]], [[3, 5], [1, 2]]],
  [{ kind: "permute", pairs: [[0, 1]] }, [[1, 2], [3, 5]], [[0, 0], [1, 2]]],
];
for (const [collective, given, wanted] of ROWS) {
  test(`NCCL: ${JSON.stringify(collective)} of two ranks`, () =>
    withDevice((device) => {
      const ranks = ranksOn(device, new FakeNccl(fake), 2), to = wanted.map((w) => range(device, w.map(() => 99)));
      const works = ranks.map((r, i) => r.start(collective, [range(device, given[i])], [to[i]], AGREED));
      for (const work of works) work.wait();
      assert.deepEqual(to.map(valuesOf), wanted);
    }));
}

test("NCCL: bools are any and all, views are parts, empty ranges call nothing", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake),
      ranks = ranksOn(device, nccl, 2),
      whole = [range(device, [1, 2, 3]), range(device, [4, 5, 6])];
    const sum: Collective = { kind: "allReduce", op: "sum" };
    const views = whole.map((b) => b.view(4, 2));
    ranks.map((r, i) => r.start(sum, [views[i]], [views[i]], AGREED)).forEach((w) => w.wait());
    assert.deepEqual(whole.map(valuesOf), [[1, 7, 9], [4, 7, 9]]);
    const bools = [[1, 1, 0], [1, 0, 0]].map((v) => range(device, v, dtypes.bool));
    ranks.map((r, i) => r.start(sum, [bools[i]], [bools[i]], AGREED)).forEach((w) => w.wait());
    assert.deepEqual(bools.map(valuesOf), [[1, 1, 0], [1, 1, 0]]);
    const calls = nccl.log.length, none = range(device, []);
    ranks[0].start(sum, [none], [none], AGREED).wait();
    assert.equal(nccl.log.length, calls);
  }));

test("NCCL: memory of another card is refused, which could not be read", () =>
  withDevice((device) => {
    fake.set("devices", 2);
    const other = fake.open(1), [rank] = ranksOn(device, new FakeNccl(fake), 1), there = range(other, [1, 2]);
    assert.throws(
      () => rank.start({ kind: "allReduce", op: "sum" }, [there], [there], AGREED),
      /memory of their cards, this one of CUDA, and not of CUDA:1: t\.to\("CUDA"\)/,
    );
    other.close();
  }));

test("NCCL: collectives come after what kernels have queued, and before what is queued once they were joined", () =>
  withDevice((device) => {
    const [rank] = ranksOn(device, new FakeNccl(fake), 1), own = range(device, [1, 2]), main = device["context"].stream;
    fake.log();
    fake.set("late", 3);
    const work = rank.start({ kind: "allReduce", op: "sum" }, [own], [own], AGREED);
    const queued = fake.log().filter((l) => /cuEventRecord|cuStreamWaitEvent/.test(l)).map((l) => l.split(" "));
    const [[, ready, on], [, waiting, first], [, end, after]] = queued;
    assert.deepEqual(queued.map((c) => c[0]), ["cuEventRecord", "cuStreamWaitEvent", "cuEventRecord"]);
    assert.deepEqual([on, first, waiting], [main.toString(16), ready, after]);
    assert.notEqual(waiting, on, "a stream of its own");
    work.join();
    const joined = fake.log().filter((l) => /cuStreamWaitEvent/.test(l)).map((l) => l.split(" "));
    assert.deepEqual(joined.map(([, stream, event]) => [stream, event]), [[main.toString(16), end]]);
    work.join();
    assert.deepEqual(valuesOf(own), [1, 2]);
  }));

test("NCCL: several of one kind are a group, and one work", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), ranks = ranksOn(device, nccl, 2);
    const given = [[[1, 2], [3, 5]], [[7, 0, 1, 1], [1, 2, 3, 4]]].map((rows) => rows.map((v) => range(device, v)));
    const made = given.map((rows) => rows.map((b) => range(device, new Array(b.size / 2).fill(9))));
    nccl.log.length = 0;
    const works = ranks.map((r, i) =>
      r.startGroup(
        { kind: "reduceScatter", op: "sum" },
        given.map((rows, k) => ({ from: [rows[i]], to: [made[k][i]] })),
        AGREED,
      )
    );
    assert.deepEqual(nccl.log, [
      "group",
      "reduceScatter 0",
      "reduceScatter 0",
      "end",
      "group",
      "reduceScatter 1",
      "reduceScatter 1",
      "end",
    ]);
    for (const list of works) for (const w of list) w.wait();
    assert.deepEqual(works.map((list) => list.length), [1, 1]);
    assert.deepEqual(made.map((rows) => rows.map(valuesOf)), [[[4], [7]], [[8, 2], [4, 5]]]);
  }));

test("NCCL: what the card waits for has a deadline too: a read finds that a rank is gone", () =>
  withDevice(async (device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1, 20), own = range(device, [1, 2]);
    const start = () => rank.start({ kind: "allReduce", op: "sum" }, [own], [own], AGREED).join();
    const late = { name: "CollectiveError", message: /collective 1 of rank 0 of 1: it was not done after 0\.02 s/ };
    fake.set("late", 1e9);
    start();
    await assert.rejects(device.synchronize(), late);
    fake.set("late", 0);
    assert.deepEqual(nccl.log.filter((l) => l === "abort 0"), ["abort 0"]);
    assert.deepEqual(valuesOf(own), [1, 2], "the card itself is as it was");
  }));

test("NCCL: alone, collectives are compared, and a barrier is done", () =>
  withDevice(async (device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1), own = range(device, [1, 2]);
    await rank.start({ kind: "allReduce", op: "sum" }, [own], [own]).done();
    assert.deepEqual(nccl.log, ["allGather 0", "allReduce 0"]);
    rank.start({ kind: "barrier" }, [], []).wait();
    rank.agree("the schedule", "its text").wait();
    const [part] = rank.split([3], [0]);
    assert.deepEqual([part.size, part.ranks, part.engine], [1, [0], "NCCL"]);
    part.destroy();
  }));

test("NCCL: a comparison waits for no kernel and no kernel for it, and copies wait in no call: their memory is pinned", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1, 20);
    rank.agree("the schedule", "its text").wait();
    assert.equal(fake.alive().pinned, 1);
    fake.log();
    const work = rank.agree("the schedule", "its text"), main = device["context"].stream.toString(16);
    assert.deepEqual(fake.calls(), ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord"]);
    fake.set("late", 1);
    work.join();
    assert.deepEqual(fake.log().filter((l) => l.startsWith("cuStreamWait")).map((l) => l.split(" ")[1]), [main]);
    fake.set("late", 1e9);
    assert.throws(() => rank.agree("the schedule", "its text").wait(), /it was not done after 0\.02 s/);
    fake.set("late", 0);
  }));

test("NCCL: a comparison that nobody waits for is told to who reads next", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1), own = range(device, [1, 2]);
    nccl.differs = true;
    fake.set("late", 1);
    rank.agree("the schedule", "its text").join();
    nccl.differs = false;
    assert.throws(
      () => valuesOf(own),
      /Cannot complete the schedule \(hash .*the ranks differ.*: rank 0: collective 1, the/,
    );
    assert.deepEqual(valuesOf(own), [1, 2], "the card itself is as it was");
    assert.throws(() => rank.agree("the schedule", "its text"), /the ranks differ/);
  }));

test("NCCL: more comparisons than there are places for wait for the oldest, and are graphs then", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1);
    nccl.differs = true;
    for (let i = 0; i < 8; i++) rank.agree("the schedule", `text ${i}`);
    fake.log();
    assert.throws(() => rank.agree("the schedule", "the ninth"), /Cannot complete the schedule.*the ranks differ/);
    assert.ok(fake.log().some((l) => l.startsWith("cuEventQuery")));
    const [other] = ranksOn(device, new FakeNccl(fake), 1);
    for (let i = 0; i < 16; i++) other.agree("the schedule", `text ${i}`);
    assert.equal(fake.log().filter((l) => l.startsWith("cuStreamBeginCapture")).length, 8);
    other.agree("the schedule", "the seventeenth");
    assert.deepEqual(fake.calls(), ["cuEventQuery", "cuGraphLaunch", "cuEventRecord"]);
    other.destroy();
    assert.equal(fake.alive().executables, undefined);
  }));

test("NCCL: what ranks call differently is told by each of them", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1), own = range(device, [1, 2]);
    nccl.differs = true;
    const start = () => rank.start({ kind: "allReduce", op: "sum" }, [own], [own], { line: "train.ts:3:1" });
    assert.throws(start, {
      name: "CollectiveError",
      message: /differ in what they call.*: rank 0: collective 1, allReduce sum of float32\[2\] at train\.ts:3:1$/,
    });
    assert.deepEqual(nccl.log.at(-1), "abort 0");
    assert.throws(start, /differ in what they call/, "it stays broken");
  }));

test("NCCL: past the deadline the communicator is aborted, and stays broken", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1, 20), own = range(device, [1, 2]);
    const work = rank.start({ kind: "allGather" }, [own], [range(device, [0, 0])], AGREED);
    fake.set("late", 1e9);
    assert.throws(() => work.wait(), {
      name: "CollectiveError",
      message:
        /allGather of float32\[2\], collective 1 of rank 0 of 1: it was not done after 0\.02 s: a rank is late or gone/,
    });
    fake.set("late", 0);
    assert.deepEqual(nccl.log.filter((l) => l === "abort 0"), ["abort 0"]);
    assert.throws(() => rank.agree("anything", ""), /it was not done after 0\.02 s/);
  }));

test("NCCL: an error of the library is told with its text", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1), own = range(device, [1]);
    nccl.asyncError = 6;
    const start = () => rank.start({ kind: "allReduce", op: "sum" }, [own], [own], AGREED);
    assert.throws(start, /allReduce sum of float32\[1\].*what the fake was told to say/);
  }));

test("NCCL: ranks that do not come are told at the deadline, slow ones are waited for", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake);
    nccl.inProgress = 300;
    assert.equal(ranksOn(device, nccl, 1)[0].size, 1);
    nccl.inProgress = 1e9;
    assert.throws(
      () => ranksOn(device, nccl, 2, 20),
      /Cannot join the other ranks by NCCL: not all of them came in 0\.02 s/,
    );
    assert.equal(nccl.log.at(-1), "abort 0");
  }));

test("NCCL: what a program leaves open ends with it, and once", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), [rank, failed] = ranksOn(device, nccl, 2);
    rank.finish(true);
    rank.finish(true);
    failed.finish(false);
    assert.equal(nccl.log.filter((l) => /^(destroy|abort)/.test(l)).join(), "abort 0,abort 1");
  }));

test("NCCL: a rank that fails ends its communicators before the process, and waits for the library's thread that does it", () =>
  withDevice((device) => {
    const nccl = new FakeNccl(fake), [rank] = ranksOn(device, nccl, 1);
    nccl.abortCode = NcclResult.IN_PROGRESS;
    const start = performance.now();
    for (const end of endings) end();
    assert.ok(performance.now() - start > 300);
    assert.deepEqual(nccl.log.filter((l) => /^(destroy|abort)/.test(l)), ["abort 0"]);
    assert.throws(() => rank.agree("anything", ""), /the program has ended/);
  }));

test("NCCL: a communicator ends once, in order, and with the card", async () => {
  const nccl = new FakeNccl(fake);
  await withDevice((device) => {
    const [rank] = ranksOn(device, nccl, 1);
    rank.destroy();
    rank.destroy();
    assert.equal(nccl.log.filter((l) => /^(destroy|abort)/.test(l)).join(), "destroy 0");
    ranksOn(device, nccl, 1);
  });
  assert.equal(nccl.log.at(-1), "abort 0");
});

test("NCCL: dtypes that it lacks, and memory of others, are errors that say what to do", () =>
  withDevice((device) => {
    const [rank] = ranksOn(device, new FakeNccl(fake), 1), sum: Collective = { kind: "allReduce", op: "sum" };
    const small = new Buffer(device, dtypes.int16, 2);
    assert.throws(() => rank.start(sum, [small], [small], AGREED), /int16.*cast to float32 or int32/);
    rank.start({ kind: "allGather" }, [small], [new Buffer(device, dtypes.int16, 2)], AGREED).wait(); // it moves them
    assert.throws(() => rank.split([-1]), /one color, a whole number from 0 on/);
  }));

test("NCCL: without the library the error names packages", () => {
  const open = () => context({ NCCL_PATH: "/nowhere/libnccl.so.2" }, openNccl);
  assert.throws(open, /Cannot open the NCCL library: .*\/nowhere\/libnccl\.so\.2.*; install libnccl2, or the wheel/);
});

test("NCCL: the config asks for calls that return at once", () => {
  const view = new DataView(nonblockingConfig().buffer);
  assert.deepEqual([view.getBigUint64(0, true), view.getUint32(8, true), view.getInt32(16, true)], [
    48n,
    0xcafebeef,
    0,
  ]);
  assert.equal(NcclResult.IN_PROGRESS, 7);
});
