/**
 * The MPI engine in programs that its launchers start: every collective on every dtype, and what each rank is told when one
 * dies, leaves, is late or calls something else. `DIST_TESTS=1` (deno task test:dist) runs all of it under both launchers.
 */
import assert from "node:assert/strict";
import { clangBackend } from "../../backends/clang/clang.ts";
import { mpiPlaces, openMpi } from "../../src/collectives/mpi_library.ts";
import { LAUNCHERS, runRanks } from "./mpirun.ts";

const PROGRAM = "tests/fixtures/mpi_ranks.ts", isWhole = Deno.env.get("DIST_TESTS") === "1";

for (const launcher of LAUNCHERS) {
  const rows = [["JS", "0"], ["CLANG", "3"], ["WASM", "3"], ["CLANG", "0"]];
  for (const [device, most] of isWhole ? rows : rows.slice(0, launcher.name === "Open MPI" ? 2 : 1)) {
    const name = `mpi: ${launcher.name}: collectives of 4 ranks on ${device}${most === "0" ? "" : ", in pieces"}`;
    const isAbsent = device === "CLANG" && clangBackend.unavailable() !== undefined;
    Deno.test({ name, ignore: launcher.command === undefined || isAbsent }, async () => {
      const { code, stdout, stderr } = await runRanks(launcher, 4, [PROGRAM, "checks", device], { MOST: most });
      assert.equal(code, 0, stderr);
      const ranks = stdout.trim().split("\n").map((line) => JSON.parse(line) as { rank: number });
      ranks.sort((a, b) => a.rank - b.rank);
      assert.deepEqual(ranks, [0, 1, 2, 3].map((rank) => ({ rank, size: 4, wrong: [] })));
    });
  }
}

for (const launcher of LAUNCHERS) {
  const name = `mpi: ${launcher.name}: data moves while a rank computes, by a thread of its own`;
  Deno.test({ name, ignore: launcher.command === undefined }, async () => {
    const run = async (progress: string): Promise<{ isDone: boolean; isRight: boolean }[]> => {
      const { code, stdout, stderr } = await runRanks(launcher, 2, [PROGRAM, "beside", "3000"], {
        DIST_PROGRESS: progress,
      });
      assert.equal(code, 0, stderr);
      return stdout.trim().split("\n").map((line) => JSON.parse(line));
    };
    for (const { isDone, isRight } of await run("1")) assert.deepEqual([isDone, isRight], [true, true]);
    for (const { isRight } of await run("0")) assert.ok(isRight);
  });
}

Deno.test("mpi: the launcher says which library is opened, and the user before it", () => {
  const places = (env: Record<string, string>) => mpiPlaces((name) => env[name])[0];
  assert.equal(places({ OMPI_COMM_WORLD_SIZE: "2" }), "libmpi.so.40");
  assert.equal(places({ PMI_SIZE: "2", PMI_RANK: "0" }), "libmpich.so.12");
  assert.equal(places({ PMI_SIZE: "2", MPI_PATH: "/opt/libmpi_abi.so" }), "/opt/libmpi_abi.so");
});

Deno.test("mpi: without a library the error says which package has one", () => {
  assert.throws(() => openMpi(["libnone.so.0"]), {
    name: "DeviceError",
    message: /there is none of libnone\.so\.0 .*; install openmpi-bin or mpich \(Debian\)/,
  });
});

/** By fault: the code that the launcher ends with, and what is printed. */
const FAULTS: Readonly<Record<string, readonly [code: number | readonly number[], text: RegExp]>> = {
  killed: [[137, 9], /signal 9/i],
  exits: [3, /rank 2: the program ends with code 3\n[^]*rank 2: what its device joins is ended/],
  throws: [1, /rank 2: Error: a mistake of the user\n\s+at .*mpi_ranks\.ts[^]*rank 2: what its device joins is ended/],
  late: [
    1,
    /Cannot complete allReduce sum of float32\[4\], collective 2 of rank [01] of 3 at train\.ts:31:7: .*no word from rank 2/,
  ],
  stuck: [1, /it was not done after 1 s: ranks 0, 1: collective 2, allReduce .*train\.ts:31:7; no word from rank 2/],
  other: [
    1,
    /differ in .*ranks 0, 1: .*allReduce sum .*train\.ts:31:7; rank 2: .*broadcast from rank 0 .*other\.ts:2:1/,
  ],
  dtype: [
    1,
    /ranks 0, 1: collective 2, allReduce sum of float32\[4\]; rank 2: collective 2, allReduce sum of int32\[4\]/,
  ],
  shape: [1, /rank 2: collective 2, allReduce sum of float32\[5\]/],
  ends: [1, /rank 2: collective 2, the end of the program/],
  schedule: [
    1,
    /ranks 0, 1: .*train\.ts:31:7 \(hash \w+\); rank 2: collective 2, the schedule of train\.ts:31:7 \(hash/,
  ],
  caught: [1, /rank \d goes on after a CollectiveError/],
};
/** What MPICH runs by default. */
const FEW = ["late", "other", "exits"];

for (const launcher of LAUNCHERS) {
  for (const [fault, [codes, text]] of Object.entries(FAULTS)) {
    if (launcher.name !== "Open MPI" && !isWhole && !FEW.includes(fault)) continue;
    const name = `mpi: ${launcher.name}: a fault of the last rank: ${fault}`;
    Deno.test({ name, ignore: launcher.command === undefined }, async () => {
      const outcome = await runRanks(launcher, 3, [PROGRAM, fault], { DIST_TIMEOUT: "1000" });
      assert.match(outcome.stdout + outcome.stderr, text);
      assert.ok([codes].flat().includes(outcome.code), `it ended with ${outcome.code}`);
    });
  }
}
