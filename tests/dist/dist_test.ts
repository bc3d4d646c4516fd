/**
 * Programs of several processes on tensors: collectives, data-parallel training against one process, what launchers say,
 * and meeting by TCP where no MPI library joins the ranks.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { type RankPlace, rankPlace } from "../../src/collectives/rank_place.ts";
import * as dist from "../../src/dist/dist.ts";
import { meetAtMaster } from "../../src/dist/meeting.ts";
import { LAUNCHERS, runRanks } from "../collectives/mpirun.ts";
import { runDeno } from "../system/subprocess.ts";

Device.default = "JS";
const PROGRAM = "tests/fixtures/dist_ranks.ts", isWhole = Deno.env.get("DIST_TESTS") === "1";

interface Printed {
  readonly rank: number;
  readonly size: number;
  readonly wrong?: readonly string[];
  readonly losses?: readonly number[];
}

function parse(stdout: string): Printed[] {
  return stdout.trim().split("\n").map((line) => JSON.parse(line) as Printed).sort((a, b) => a.rank - b.rank);
}

let losses: Promise<readonly number[]> | undefined;
/** Those of one process with the whole batch. */
function lossesAlone(): Promise<readonly number[]> {
  return losses ??= runDeno(["run", "-A", "--no-check", PROGRAM, "train"], { env: { DEV: "JS" } })
    .then(({ stdout }) => parse(stdout)[0].losses!);
}

for (const launcher of LAUNCHERS) {
  const ignore = launcher.command === undefined;
  const run = async (ranks: number, args: readonly string[], device: string, seconds?: number): Promise<Printed[]> => {
    const { code, stdout, stderr } = await runRanks(launcher, ranks, [PROGRAM, ...args], { DEV: device }, seconds);
    assert.equal(code, 0, stderr);
    const all = parse(stdout);
    assert.deepEqual(all.map((p) => [p.rank, p.size]), all.map((_, rank) => [rank, ranks]));
    assert.equal(all.length, ranks);
    return all;
  };
  const test = (what: string, fn: () => Promise<void>): void =>
    Deno.test({ name: `mpi: ${launcher.name}: ${what}`, ignore }, fn);
  // by default the half of it under one launcher: test:dist runs the rest
  if (!isWhole && launcher.name !== "Open MPI") continue;
  for (const device of isWhole ? ["WASM", "JS", "CLANG"] : ["WASM"]) {
    test(`collectives of tensors on ${device}`, async () => {
      for (const { wrong } of await run(3, ["tensors"], device, isWhole ? 180 : 60)) assert.deepEqual(wrong, []);
    });
  }
  const ways: readonly (readonly [ranks: number, args: readonly string[], about: string])[] = [
    [4, ["train"], "averaged gradients"],
    [4, ["sharded", '{"data":2,"model":2}'], "batch and weights divided"],
    [2, ["train"], "averaged gradients"],
    [4, ["sharded", '{"data":4}'], "the batch divided"],
  ];
  for (const [ranks, args, about] of isWhole ? ways : ways.slice(0, 2)) {
    test(`${ranks} ranks train as one process: ${about}`, async () => {
      const want = await lossesAlone(), all = await run(ranks, args, "JS");
      assert.ok(want.at(-1)! < 0.5 * want[0], `it learns: ${want}`);
      for (const { losses } of all) {
        assert.deepEqual(losses, all[0].losses, "all ranks have the same losses");
        losses!.forEach((x, i) =>
          assert.ok(Math.abs(x - want[i]) <= 1e-5 * Math.abs(want[i]), `step ${i}: ${x} ${want[i]}`)
        );
      }
    });
  }
  for (const how of isWhole ? ["", "jit"] : [""]) {
    test(`a rank that runs other steps is told by name, and so is what the others run${how && ", captured"}`, async () => {
      const { code, stderr } = await runRanks(launcher, 3, [PROGRAM, "differ", how], { DEV: "JS", DIST_TESTS: "" });
      assert.equal(code, 1, stderr);
      assert.match(
        stderr,
        /differ in what they call, .*ranks 0, 1: collective \d+, a schedule of \d+ steps with allReduce data\(3\) of float32\[1\]/,
      );
      assert.match(stderr, /rank 2: collective \d+, a schedule of \d+ steps with allReduce data\(3\) of float32\[3\]/);
    });
  }
  test("random programs on divided tensors give what they give in one process", async () => {
    for (const { wrong } of await run(4, ["programs", isWhole ? "60" : "6"], "JS", isWhole ? 300 : 120)) {
      assert.deepEqual(wrong, []);
    }
  });
  test("ops on divided tensors give what they give in one process", async () => {
    for (const { wrong } of await run(4, ["ops", isWhole ? "1" : "24"], "JS", isWhole ? 300 : 60)) {
      assert.deepEqual(wrong, []);
    }
  });
}

Deno.test("dist: alone, collectives are those of one rank", async () => {
  await dist.init();
  assert.deepEqual([dist.rank, dist.size, dist.localRank], [0, 1, 0]);
  const t = new Tensor([[1, 2], [3, 4]]);
  for (
    const got of [await dist.allReduce(t), await dist.allGather(t, 1), await dist.allToAll(t), await dist.broadcast(t)]
  ) {
    assert.deepEqual(await got.tolist(), [[1, 2], [3, 4]]);
  }
  assert.deepEqual(await (await dist.sendReceive(t, [])).tolist(), [[0, 0], [0, 0]]);
  await dist.barrier();
});

Deno.test("dist: bad input is an error that names what to do", async () => {
  await dist.init();
  const t = new Tensor([1, 2, 3]), bad = (x: unknown) => x as never;
  const rows: readonly (readonly [() => Promise<unknown>, RegExp])[] = [
    [() => dist.allReduce(bad(3)), /Cannot all-reduce a tensor: it takes a tensor, not 3/],
    [() => dist.allReduce(t, { op: bad("avg") }), /unknown op "avg"; known are .*mean/],
    [() => dist.allReduce(t, bad({ group: 3 })), /group must be one of dist\.split, not 3/],
    [() => dist.allReduce(t, bad({ ops: "sum" })), /unknown option "ops"/],
    [() => dist.allGather(t, 1), /\[3\]: there is no axis 1/],
    [() => dist.allReduce(new Tensor([1]).cast("complex64")), /give t\.viewAsReal\(\)/],
    [() => dist.broadcast(t, { root: 1 }), /rank 1 is none of 0 to 0/],
    [() => dist.sendReceive(t, [[0, 0], [0, 0]]), /rank 0 gives twice/],
    [() => dist.averageGradients(bad(t)), /it takes a list of parameters/],
    [() => dist.init({ timeout: 0 }), /timeout must be above 0, not 0/],
  ];
  for (const [act, message] of rows) await assert.rejects(act, { message });
});

/** By launcher, the variables that it sets, and the place that they mean. */
const PLACES: readonly (readonly [Record<string, string>, Partial<RankPlace>])[] = [
  [{}, { launcher: "", rank: 0, size: 1, localRank: 0 }],
  [
    { OMPI_COMM_WORLD_RANK: "5", OMPI_COMM_WORLD_SIZE: "8", OMPI_COMM_WORLD_LOCAL_RANK: "1", SLURM_PROCID: "0" },
    { launcher: "Open MPI", rank: 5, size: 8, localRank: 1, hasMpi: true },
  ],
  [{ PMI_RANK: "1", PMI_SIZE: "2", MPI_LOCALRANKID: "1" }, { launcher: "MPICH", rank: 1, size: 2, localRank: 1 }],
  [{ PMI_RANK: "3", PMI_SIZE: "4", SLURM_LOCALID: "1" }, { launcher: "MPICH", rank: 3, localRank: 1, hasMpi: true }],
  [
    { RANK: "3", WORLD_SIZE: "4", LOCAL_RANK: "1", MASTER_ADDR: "host", MASTER_PORT: "4321" },
    { launcher: "torchrun", rank: 3, size: 4, hasMpi: false, master: { hostname: "host", port: 4321 } },
  ],
  [{ SLURM_PROCID: "2", SLURM_STEP_NUM_TASKS: "4", SLURM_LOCALID: "0" }, { launcher: "Slurm", rank: 2, hasMpi: true }],
  [{ SLURM_PROCID: "0", SLURM_NTASKS: "4" }, { launcher: "", size: 1 }], // a batch script, not a step
  [
    { JOB_COMPLETION_INDEX: "1", WORLD_SIZE: "2", MASTER_ADDR: "job-0.job" },
    { launcher: "Kubernetes", rank: 1, size: 2, localRank: 0, master: { hostname: "job-0.job", port: 29500 } },
  ],
];
for (const [env, want] of PLACES) {
  Deno.test(`dist: the place of ${JSON.stringify(env)}`, () => {
    const place: Record<string, unknown> = { ...rankPlace((name) => env[name]) };
    for (const [name, value] of Object.entries(want)) assert.deepEqual(place[name], value, name);
  });
}

Deno.test("dist: variables of launchers that contradict each other are named", () => {
  const place = (env: Record<string, string>) => () => rankPlace((name) => env[name]);
  assert.throws(place({ PMI_RANK: "4", PMI_SIZE: "4" }), /PMI_RANK is 4, and PMI_SIZE is 4/);
  assert.throws(place({ RANK: "0" }), /torchrun: WORLD_SIZE must be a whole number from 1 on, and is not set/);
  assert.throws(place({ RANK: "a", WORLD_SIZE: "2" }), /RANK must be a whole number from 0 on, and is "a"/);
});

/** The place of a rank that meets the others by TCP. */
function placeAt(rank: number, size: number, port: number): RankPlace {
  const master = { hostname: "127.0.0.1", port };
  return { launcher: "torchrun", rank, size, localRank: 0, localSize: undefined, hasMpi: false, master };
}
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}

Deno.test("dist: ranks meet at rank 0, which may come last, and all have its bytes", async () => {
  const port = freePort(), id = crypto.getRandomValues(new Uint8Array(128));
  const others = [1, 2].map((rank) => meetAtMaster(placeAt(rank, 3, port), new Uint8Array(128), 5000));
  const all = await Promise.all([meetAtMaster(placeAt(0, 3, port), id, 5000), ...others]);
  for (const bytes of all) assert.deepEqual(bytes, id);
});

Deno.test("dist: a rank that never comes is named", async () => {
  const port = freePort(),
    meet = (rank: number, size: number) => meetAtMaster(placeAt(rank, size, port), new Uint8Array(4), 300);
  const [first, second] = await Promise.allSettled([meet(0, 3), meet(1, 3)]);
  assert.match(String((first as PromiseRejectedResult).reason), /ranks 2 have not come to 127\.0\.0\.1:\d+ in time/);
  assert.equal(second.status, "fulfilled");
  await assert.rejects(meet(1, 2), /rank 1 could not reach it in time/);
});

Deno.test("dist: ranks without MPI on a device without an engine are told how to start", async () => {
  const env = { RANK: "0", WORLD_SIZE: "2", MASTER_ADDR: "127.0.0.1", DEV: "JS" };
  const { code, stderr } = await runDeno(["run", "-A", "--no-check", PROGRAM], { env });
  assert.equal(code, 1);
  assert.match(stderr, /Cannot join the other processes of torchrun: ranks on JS are joined by MPI: start .* mpirun/);
});

Deno.test({
  name: "mpi: Open MPI: another library than the launcher's is an error, not worlds of one rank",
  ignore: LAUNCHERS.some((l) => l.command === undefined),
}, async () => {
  const { code, stderr } = await runRanks(LAUNCHERS[0], 2, [PROGRAM], { MPI_PATH: "libmpich.so.12", DEV: "JS" });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /the launcher started 2 ranks, and MPICH .* knows 1: start with the mpirun or srun of that library/,
  );
});
