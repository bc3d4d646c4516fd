/**
 * Pipelines: the table of who does what when, and gradients of both schedules against the whole batch at once, on devices of
 * one process and among MPI ranks.
 */
import assert from "node:assert/strict";
import { Device, nn, Tensor } from "../../mod.ts";
import { Pipeline, type PipelineSchedule, pipelineTable } from "../../src/dist/dist.ts";
import { LAUNCHERS, runRanks } from "../collectives/mpirun.ts";
import { assertClose } from "../support/assert.ts";

Device.default = "JS";
const SCHEDULES: readonly PipelineSchedule[] = ["GPipe", "1F1B"];

/** A table as text: F and B with the number of the micro-batch, by stage. */
function text(schedule: PipelineSchedule, stages: number, count: number): string[] {
  const rows = pipelineTable(schedule, stages, count);
  return Array.from(
    { length: stages },
    (_, s) =>
      rows.map((row) => row[s] === undefined ? "--" : `${row[s].kind[0].toUpperCase()}${row[s].microBatch}`).join(" "),
  );
}

Deno.test("pipeline: what stages do when", () => {
  assert.deepEqual(text("GPipe", 3, 3), [
    "F0 F1 F2 -- -- -- -- B0 B1 B2",
    "-- F0 F1 F2 -- -- B0 B1 B2 --",
    "-- -- F0 F1 F2 B0 B1 B2 -- --",
  ]);
  assert.deepEqual(text("1F1B", 3, 4), [
    "F0 F1 F2 -- -- B0 F3 B1 -- B2 -- B3",
    "-- F0 F1 -- B0 F2 B1 F3 B2 -- B3 --",
    "-- -- F0 B0 F1 B1 F2 B2 F3 B3 -- --",
  ]);
  assert.deepEqual(text("1F1B", 1, 2), ["F0 B0 F1 B1"]);
});

for (const stages of [1, 2, 3, 4]) {
  for (const count of [1, 2, 5, 8]) {
    Deno.test(`pipeline: ${stages} stages and ${count} micro-batches, each once, after what it needs`, () => {
      for (const schedule of SCHEDULES) {
        const rows = pipelineTable(schedule, stages, count), when = new Map<string, number>();
        rows.forEach((row, t) => row.forEach((op, s) => op && when.set(`${op.kind} ${s} ${op.microBatch}`, t)));
        assert.equal(when.size, 2 * stages * count);
        for (let i = 0; i < count; i++) {
          for (let s = 0; s < stages; s++) {
            const forward = when.get(`forward ${s} ${i}`)!, backward = when.get(`backward ${s} ${i}`)!;
            assert.ok(forward < backward);
            if (s + 1 < stages) {
              assert.ok(forward < when.get(`forward ${s + 1} ${i}`)!);
              assert.ok(backward > when.get(`backward ${s + 1} ${i}`)!);
            }
          }
        }
        assert.equal(rows.length, 2 * (count + stages - 1), "no time is wasted but to fill and to drain");
      }
    });
  }
}

/** Three stages with the same weights each time, on the devices given. */
function stagesOn(devices: readonly string[]): { call(x: Tensor): Tensor; layer: nn.Linear }[] {
  Tensor.manualSeed(8);
  return [[4, 6], [6, 6], [6, 3]].map(([from, to], i) => {
    const layer = new nn.Linear(from, to);
    for (const p of [layer.weight, layer.bias!]) p.replace(p.to(devices[i]).realize());
    return { layer, call: (x: Tensor) => i < 2 ? layer.call(x).gelu() : layer.call(x) };
  });
}
function batch(): [x: Tensor, y: Tensor] {
  Tensor.manualSeed(9);
  return [Tensor.randn([12, 4]).realize(), Tensor.randint([12], { high: 3 }).realize()];
}
const lossOf = (out: Tensor, y: Tensor) => out.crossEntropy(y);

Deno.test("pipeline: both schedules give the gradients of the whole batch, and 1F1B holds fewer micro-batches", async () => {
  const [x, y] = batch(), whole = stagesOn(["JS", "JS", "JS"]);
  for (const s of whole) for (const p of [s.layer.weight, s.layer.bias!]) p.requiresGrad = true;
  const want = lossOf(whole.reduce((t, s) => s.call(t), x), y).backward(), exact: number[][] = [];
  const held: Record<string, number[]> = { GPipe: [6, 6, 6], "1F1B": [3, 2, 1] };
  for (const schedule of SCHEDULES) {
    const stages = stagesOn(["JS", "JS:1", "JS:2"]), pipeline = new Pipeline(stages, { microBatches: 6, schedule });
    const loss = await pipeline.step(x, y, lossOf), all: number[] = [];
    assertClose(await loss.item(), await want.item());
    for (let i = 0; i < 3; i++) {
      for (const name of ["weight", "bias"] as const) {
        const got = await stages[i].layer[name]!.grad!.data();
        assertClose(got, await whole[i].layer[name]!.grad!.data());
        all.push(...got);
      }
    }
    assert.deepEqual(pipeline.mostHeld, held[schedule]);
    exact.push(all);
  }
  assert.deepEqual(exact[1], exact[0], "the order of micro-batches is the same, and so are the bits");
});

Deno.test("pipeline: training steps are those of one device", async () => {
  const run = async (microBatches: number): Promise<number[]> => {
    const [x, y] = batch(),
      stages = stagesOn(["JS", "JS:1", "JS:2"]),
      pipeline = new Pipeline(stages, { microBatches });
    const optimizers = stages.map((s) => new nn.optim.Adam([s.layer.weight, s.layer.bias!], { lr: 0.05 }));
    const out: number[] = [];
    for (let i = 0; i < 8; i++) {
      for (const o of optimizers) o.zeroGrad();
      out.push(await (await pipeline.step(x, y, lossOf)).item() as number);
      Tensor.train(() => optimizers.forEach((o) => o.step()));
    }
    return out;
  };
  const want = await run(1);
  assert.ok(want[7] < 0.8 * want[0]);
  assertClose(await run(4), want);
});

Deno.test("pipeline: bad input is told", async () => {
  const [x, y] = batch(), stages = stagesOn(["JS", "JS", "JS"]);
  assert.throws(() => new Pipeline([], { microBatches: 1 }), /it takes stages that have a call\(\)/);
  assert.throws(() => new Pipeline(stages, { microBatches: 0 }), /microBatches/);
  assert.throws(() => new Pipeline(stages, { microBatches: 1, schedule: "2F" as never }), /known are .*GPipe/);
  await assert.rejects(
    new Pipeline(stages, { microBatches: 5 }).step(x, y, lossOf),
    /does not divide into 5 micro-batches/,
  );
});

for (const launcher of LAUNCHERS.slice(0, Deno.env.get("DIST_TESTS") === "1" ? 2 : 1)) {
  Deno.test({ name: `mpi: ${launcher.name}: a stage a rank`, ignore: launcher.command === undefined }, async () => {
    const program = "tests/fixtures/dist_pipeline.ts";
    const { code, stdout, stderr } = await runRanks(launcher, 3, [program], { DEV: "JS" });
    assert.equal(code, 0, stderr);
    const lines = stdout.trim().split("\n").map((l) => JSON.parse(l)).sort((a, b) => a.rank - b.rank);
    assert.deepEqual(lines.map((l) => l.rank), [0, 1, 2]);
    for (const { losses, want, wrong } of lines) {
      assertClose(losses, want);
      assert.match(
        wrong,
        /among processes the shape of what goes from stage to stage must be known: give \{ activation/,
      );
    }
  });
}
