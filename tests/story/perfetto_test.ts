/** Traces are read back by a protobuf library with Perfetto's schema: all slices nest, and nothing is lost. */
import { assert, assertEquals } from "@std/assert";
import { perfettoTrace } from "../../src/story/perfetto.ts";
import { Random } from "../support/random.ts";
import { readMessages } from "../fixtures/protobuf.ts";

interface Packet {
  readonly timestamp?: number;
  readonly trustedPacketSequenceId: number;
  readonly sequenceFlags?: number;
  readonly trackDescriptor?: {
    uuid: number;
    name: string;
    parentUuid?: number;
    process?: { pid: number; processName: string };
    counter?: { unit: string };
  };
  readonly trackEvent?: {
    type: string;
    trackUuid: number;
    name?: string;
    categories?: string[];
    counterValue?: number;
    flowIds?: number[];
    debugAnnotations?: { name: string; doubleValue?: number; stringValue?: string }[];
  };
}

/** The packets of a trace; undefined where the library cannot be fetched. */
async function read(trace: Uint8Array): Promise<Packet[] | undefined> {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeFile(file, trace);
    return (await readMessages("perfetto.proto", "perfetto.protos.Trace", file, false))?.packet;
  } finally {
    await Deno.remove(file);
  }
}

Deno.test("perfetto: slices, notes, flows and counters are read back", async () => {
  const trace = perfettoTrace("a program", [
    {
      name: "host",
      slices: [
        { name: "inner π", category: "pass", startMs: 1, endMs: 2.5, notes: { line: "a.ts:1:2", gflop: 0.125 } },
        { name: "outer", category: "schedule", startMs: 0.25, endMs: 3, flows: [1, 2 ** 40 + 5] },
      ],
    },
    { name: "CLANG", slices: [{ name: "k", category: "launch", startMs: 3, endMs: 4_000_000, flows: [1] }] },
  ], [{ name: "memory of CLANG", samples: [[0, 0], [2, 2 ** 40], [3, 17]] }]);
  const packets = await read(trace);
  if (packets === undefined) return assert(trace.length > 100);
  assert(packets.every((p) => p.trustedPacketSequenceId === 1));
  assertEquals(packets.map((p) => p.sequenceFlags ?? 0), [1, ...packets.slice(1).map(() => 0)]);
  const tracks = packets.flatMap((p) => p.trackDescriptor ?? []);
  assertEquals(tracks.map((t) => [t.uuid, t.name, t.parentUuid]), [
    [1, "a program", undefined],
    [2, "host", 1],
    [3, "CLANG", 1],
    [4, "memory of CLANG", 1],
  ]);
  assertEquals([tracks[0].process, tracks[3].counter], [{ pid: 1, processName: "a program" }, {
    unit: "UNIT_SIZE_BYTES",
  }]);
  const events = packets.flatMap(({ timestamp, trackEvent: e }) => e === undefined ? [] : [{ timestamp, ...e }]);
  assertEquals(events.map((e) => [e.timestamp, e.trackUuid, e.type.slice(5), e.name ?? e.counterValue]), [
    [250_000, 2, "SLICE_BEGIN", "outer"],
    [1_000_000, 2, "SLICE_BEGIN", "inner π"],
    [2_500_000, 2, "SLICE_END", undefined],
    [3_000_000, 2, "SLICE_END", undefined],
    [3_000_000, 3, "SLICE_BEGIN", "k"],
    [4e12, 3, "SLICE_END", undefined],
    [0, 4, "COUNTER", 0],
    [2_000_000, 4, "COUNTER", 2 ** 40],
    [3_000_000, 4, "COUNTER", 17],
  ]);
  assertEquals([events[0].flowIds, events[4].flowIds, events[1].categories], [[1, 2 ** 40 + 5], [1], ["pass"]]);
  assertEquals(events[1].debugAnnotations, [
    { name: "line", stringValue: "a.ts:1:2" },
    { name: "gflop", doubleValue: 0.125 },
  ]);
});

Deno.test("perfetto: slices that overlap go to tracks of their own, so that all nest", async () => {
  const random = new Random(3);
  const slices = Array.from({ length: 300 }, (_, i) => {
    const startMs = random.below(1000);
    return { name: `s${i}`, category: "read", startMs, endMs: startMs + 1 + random.below(40) };
  });
  const packets = await read(perfettoTrace("overlap", [{ name: "reads", slices }], []));
  if (packets === undefined) return assert(slices.length === 300);
  const open = new Map<number, { name: string; at: number }[]>(), found = new Map<string, [number, number]>();
  let last = new Map<number, number>();
  for (const { timestamp = 0, trackEvent: e } of packets) {
    if (e === undefined) continue;
    assert((last.get(e.trackUuid) ?? 0) <= timestamp, "times of a track do not go back");
    last = last.set(e.trackUuid, timestamp);
    const stack = open.get(e.trackUuid) ?? [];
    open.set(e.trackUuid, stack);
    if (e.type === "TYPE_SLICE_BEGIN") stack.push({ name: e.name!, at: timestamp });
    else {
      const { name, at } = stack.pop()!;
      found.set(name, [at / 1e6, timestamp / 1e6]);
    }
  }
  assert([...open.values()].every((s) => s.length === 0));
  assertEquals(slices.map((s) => found.get(s.name)), slices.map((s) => [s.startMs, s.endMs]));
});
