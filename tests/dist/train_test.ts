/**
 * Fifty steps on four devices against one with the whole batch: losses within 1e-5, the same bits on all ranks and again in
 * the next run; by devices of one process that add up in a ring, and by MPI ranks. `DIST_TESTS=1` (deno task test:dist) runs
 * every way under both launchers.
 */
import assert from "node:assert/strict";
import { clangBackend } from "../../backends/clang/clang.ts";
import { LAUNCHERS, runRanks } from "../collectives/mpirun.ts";
import { runDeno } from "../system/subprocess.ts";

const PROGRAM = "tests/fixtures/dist_train.ts", isWhole = Deno.env.get("DIST_TESTS") === "1";
const DEV = clangBackend.unavailable() === undefined ? "CLANG" : "JS";

interface Printed {
  readonly rank: number;
  readonly size: number;
  readonly losses: readonly number[];
  /** Of a weight, of its gradient, and of what the optimizer keeps for it. */
  readonly shardings?: readonly string[];
}
function parse(stdout: string): Printed[] {
  return stdout.trim().split("\n").map((line) => JSON.parse(line) as Printed).sort((a, b) => a.rank - b.rank);
}

let alone: Promise<readonly number[]> | undefined;
function lossesAlone(): Promise<readonly number[]> {
  return alone ??= runDeno(["run", "-A", "--no-check", PROGRAM], { env: { DEV } })
    .then(({ stdout }) => parse(stdout)[0].losses);
}

const WHOLE = "float32[16, 8]", ROWS = "float32[16@data, 8]", SUM = `${WHOLE}{data: sum}`;
/** By way, how a weight, its gradient and its moments are divided. */
const WAYS: Readonly<Record<string, readonly string[]>> = {
  data: [WHOLE, SUM, WHOLE],
  "ZeRO 1": [WHOLE, SUM, ROWS],
  "ZeRO 2": [WHOLE, ROWS, ROWS],
  "ZeRO 3": [ROWS, ROWS, ROWS],
  tensor: ["float32[16@model, 8]", "float32[16@model, 8]{data: sum}", "float32[16@model, 8]"],
  "optimizer first": [ROWS, ROWS, ROWS],
};

async function checkLosses(printed: readonly Printed[], way: string): Promise<void> {
  const want = await lossesAlone();
  assert.equal(want.length, 50);
  assert.ok(want[49] < 0.05 * want[0], `it learns: ${want}`);
  for (const { losses, shardings } of printed) {
    assert.deepEqual(losses, printed[0].losses, "all ranks have the same losses");
    assert.deepEqual(shardings, WAYS[way]);
    losses.forEach((x, i) =>
      assert.ok(Math.abs(x - want[i]) <= 1e-5 * want[i], `step ${i}: ${x} instead of ${want[i]}`)
    );
  }
}

for (const way of Object.keys(WAYS)) {
  const run = async (ring: string): Promise<Printed[]> => {
    const env = { DEV, DEVICES: "4", RING: ring };
    const { code, stdout, stderr } = await runDeno(["run", "-A", "--no-check", PROGRAM, way], { env });
    assert.equal(code, 0, stderr);
    return parse(stdout);
  };
  Deno.test(`train: four devices in a ring take the steps of one: ${way}`, async () => {
    const [first, again] = [await run("2"), isWhole || way === "data" ? await run("2") : undefined];
    await checkLosses(first, way);
    if (again !== undefined) assert.deepEqual(again, first);
    if (isWhole) await checkLosses(await run("0"), way);
  });
  for (const launcher of LAUNCHERS) {
    if (!isWhole && (launcher.name !== "Open MPI" || !["tensor", "ZeRO 2"].includes(way))) continue;
    const ignore = launcher.command === undefined;
    Deno.test({ name: `mpi: ${launcher.name}: four ranks take the steps of one process: ${way}`, ignore }, async () => {
      const runs: Printed[][] = [];
      for (let i = 0; i < (isWhole || way === "tensor" ? 2 : 1); i++) {
        const { code, stdout, stderr } = await runRanks(launcher, 4, [PROGRAM, way], { DEV }, 240);
        assert.equal(code, 0, stderr);
        runs.push(parse(stdout));
        assert.deepEqual(runs[i].map((p) => [p.rank, p.size]), [0, 1, 2, 3].map((rank) => [rank, 4]));
        await checkLosses(runs[i], way);
      }
      assert.deepEqual(runs.at(-1), runs[0], "the next run gives the same bits");
    });
  }
}
