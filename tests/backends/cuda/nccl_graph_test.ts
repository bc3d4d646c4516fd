/**
 * Collectives in graphs of kernels, on the driver that records its calls: captured once, repeated by one call, in the order
 * of the streams; and the ends of graphs and communicators, in either order.
 */
import assert from "node:assert/strict";
import type { CudaDevice } from "../../../backends/cuda/cuda_device.ts";
import type { NcclCommunicator } from "../../../backends/cuda/nccl/nccl.ts";
import { ID_BYTES } from "../../../backends/cuda/nccl/nccl_library.ts";
import type { Work } from "../../../src/collectives/communicator.ts";
import { Buffer } from "../../../src/device/buffer.ts";
import type { Graph, Insertion, Launch } from "../../../src/device/program.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { int, variable } from "../../../src/uop/core/uop.ts";
import { addressText, fake, gridProgram, launchOf, test, withDevice } from "./cuda_harness.ts";
import { FakeNccl } from "./fake_nccl.ts";

interface Case {
  readonly device: CudaDevice;
  readonly nccl: FakeNccl;
  readonly rank: NcclCommunicator;
  /** A kernel, an all-reduce of what it writes, a kernel beside it, then one after it, which takes its groups from a variable. */
  readonly graph: Graph;
  readonly launches: readonly Launch[];
  /** Calls of the insertions. */
  readonly started: { count: number };
}

/** Runs `fn` with a graph of three kernels and an all-reduce. */
function withGraph(fn: (c: Case) => void): Promise<void> {
  return withDevice((device) => {
    const nccl = new FakeNccl(fake), started = { count: 0 };
    const rank = device.join({ rank: 0, size: 1, id: new Uint8Array(ID_BYTES), timeoutMs: 20 }, nccl.symbols);
    const first = launchOf(device, gridProgram("E_first", int(2))),
      second = launchOf(device, gridProgram("E_beside", int(2)));
    const third = launchOf(device, gridProgram("E_after", variable("v0", 0, 8)), [2]),
      launches = [first, second, third];
    const [range] = first.buffers;
    let works: readonly Work[] = [];
    const start = (): void => {
      started.count++;
      works = [
        rank.start({ kind: "allReduce", op: "sum" }, [range], [range], { isAgreed: true, line: "train.ts:3:1" }),
      ];
    };
    const insertions: Insertion[] = [{ at: 1, queue: start }, { at: 2, queue: () => works.forEach((w) => w.join()) }];
    const graph = device.graph(launches, insertions);
    for (const { buffers } of launches) for (const b of buffers) void b.memory;
    fake.log();
    nccl.log.length = 0;
    fn({ device, nccl, rank, graph, launches, started });
  });
}
const namesOf = (lines: readonly string[]): string[] => lines.map((l) => l.split(" ")[0].replace(/_v\d$/, ""));

test("a graph with a collective is captured in the order of its streams, and each run is one call", () =>
  withGraph(({ device, graph, nccl, started }) => {
    const main = device["context"].stream.toString(16);
    graph.run();
    const lines = fake.log().filter((l) => /Capture\w* |Launch|Wait|Record|Instantiate/.test(l) && !/Info/.test(l));
    const [begin, first, ready, fork, end, beside, joined, after, ended, made, before, order, run, done] = lines;
    assert.match(begin, new RegExp(`^cuStreamBeginCapture_v2 ${main} 2$`));
    assert.match(first, /^cuLaunchKernel E_first /);
    const [, readyEvent, readyOn] = ready.split(" "), [, forked, forkedBy] = fork.split(" ");
    assert.deepEqual([readyOn, forkedBy], [main, readyEvent]);
    assert.notEqual(forked, main);
    assert.equal(end.split(" ")[2], forked);
    assert.match(beside, /^cuLaunchKernel E_beside /);
    assert.deepEqual(joined.split(" ").slice(1, 3), [main, end.split(" ")[1]]);
    assert.match(after, /^cuLaunchKernel E_after /);
    assert.deepEqual(namesOf([ended, made]), ["cuStreamEndCapture", "cuGraphInstantiateWithFlags"]);
    // before it what is under way on the stream of collectives, after it an event that tells of its end
    assert.deepEqual([before.split(" ")[2], order.split(" ").slice(1, 3)], [forked, [main, before.split(" ")[1]]]);
    assert.deepEqual([namesOf([run]), done.split(" ")[2]], [["cuGraphLaunch"], main]);
    assert.equal(lines.length, 14);
    graph.run();
    const again = namesOf(fake.log()).filter((n) => n !== "cuEventCreate");
    assert.deepEqual(again, ["cuEventRecord", "cuStreamWaitEvent", "cuGraphLaunch", "cuEventRecord"]);
    assert.deepEqual([started.count, nccl.log], [1, ["allReduce 0"]]);
  }));

test("a captured graph takes other buffers and numbers; where a kernel has no groups, all of it runs one by one", () =>
  withGraph(({ device, graph, launches, started }) => {
    graph.run();
    const input = new Buffer(device, dtypes.float32, 64).copyIn(new Uint8Array(256));
    fake.log();
    graph.setBuffer(1, 1, input);
    graph.setVar(2, 0, 4);
    graph.run();
    const set = fake.log().filter((l) => l.startsWith("cuGraphExecKernelNodeSetParams"));
    const [[, beside], [, after]] = set.map((l) => l.split(" "));
    assert.ok(set[0].includes("E_beside") && set[0].endsWith(addressText(launches[1].buffers[0]) + addressText(input)));
    assert.ok(set[1].includes("E_after 4,1,1 32,1,1 0 ") && set[1].endsWith("04000000") && beside !== after);
    graph.setVar(2, 0, 0);
    graph.run();
    assert.deepEqual(namesOf(fake.log()).filter((n) => /Launch/.test(n)), ["cuLaunchKernel", "cuLaunchKernel"]);
    assert.equal(started.count, 2);
  }));

test("a hung graph is told at the deadline, by the collectives in it", () =>
  withGraph(({ device, graph, rank, launches, nccl }) => {
    graph.run();
    fake.set("late", 1e9);
    const read = () => launches[2].buffers[0].copyOut(new Uint8Array(256));
    assert.throws(read, {
      name: "CollectiveError",
      message:
        /Cannot complete a graph with allReduce sum of float32\[64\], collective 1 of rank 0 of 1 at train\.ts:3:1: it was not done/,
    });
    fake.set("late", 0);
    assert.equal(nccl.log.at(-1), "abort 0");
    assert.equal(fake.alive().executables, undefined, "the graph ended before the communicator");
    assert.throws(() => graph.run(), /it was not done after 0\.02 s/);
    assert.throws(() => rank.agree("anything", ""), /it was not done after 0\.02 s/);
    device["context"].synchronize();
  }));

test("a communicator that is destroyed ends the graphs of its collectives first; graphs that end leave it alone", () =>
  withGraph(({ device, graph, rank, nccl }) => {
    graph.run();
    graph.dispose();
    assert.deepEqual([fake.alive().executables, fake.alive().graphs], [undefined, undefined]);
    const other = device.graph([], []);
    other.run();
    rank.agree("what follows", "is as before").wait();
    rank.destroy();
    graph.dispose();
    assert.equal(nccl.log.at(-1), "destroy 0");
  }));

test("a capture that fails leaves the stream as it was", () =>
  withGraph(({ device, graph, nccl, rank }) => {
    fake.fail("cuLaunchKernel", 1, 1);
    assert.throws(() => graph.run(), /launch kernel E_beside/);
    assert.equal(device["context"].capture, undefined);
    assert.deepEqual([fake.alive().executables, fake.alive().graphs], [undefined, undefined]);
    assert.deepEqual(namesOf(fake.log()).filter((n) => /Capture$/.test(n)), [
      "cuStreamBeginCapture",
      "cuStreamEndCapture",
    ]);
    nccl.asyncError = 6;
    assert.throws(() => graph.run(), /allReduce sum of float32\[64\].*what the fake was told to say/);
    assert.deepEqual([device["context"].capture, fake.alive().executables], [undefined, undefined]);
    assert.throws(() => rank.agree("anything", ""), /what the fake was told to say/);
  }));
