/**
 * examples/train_gpt.ts: ranks that share batches and layers take the steps of one process; a run whose rank dies goes on from
 * its last whole checkpoint, by other ranks.
 */
import assert from "node:assert/strict";
import { LAUNCHERS, runRanks } from "../collectives/mpirun.ts";
import { runDeno } from "../system/subprocess.ts";

const PROGRAM = "examples/train_gpt.ts", isWhole = Deno.env.get("DIST_TESTS") === "1";
const SMALL = "--steps 6 --every 2 --context 8 --width 16 --heads 2 --layers 1 --batch 4".split(" ");

/** Losses by step, as printed. */
function lossesOf(stdout: string): Map<number, number> {
  return new Map(
    [...stdout.matchAll(/^step (\d+) {2}loss ([\d.]+)$/gm)].map(([, step, loss]) => [Number(step), Number(loss)]),
  );
}

for (const launcher of LAUNCHERS.slice(0, isWhole ? 2 : 1)) {
  const ignore = launcher.command === undefined;
  Deno.test({ name: `mpi: ${launcher.name}: a GPT is trained, a rank dies, and others go on`, ignore }, async () => {
    const folder = await Deno.makeTempDir(), text = `${folder}/text.txt`;
    try {
      await Deno.writeTextFile(text, "the quick brown fox jumps over the lazy dog. ".repeat(20));
      const alone = await runDeno(["run", "-A", "--no-check", PROGRAM, text, ...SMALL, "--out", `${folder}/alone`], {
        env: { DEV: "JS" },
      });
      assert.equal(alone.code, 0, alone.stderr);
      const want = lossesOf(alone.stdout), out = ["--out", `${folder}/run`];
      assert.deepEqual([...want.keys()], [0, 5]);
      assert.ok(want.get(5)! < want.get(0)!);
      const [ranks, model] = isWhole ? [4, 2] : [2, 2];
      const dies = await runRanks(launcher, ranks, [
        PROGRAM,
        text,
        ...SMALL,
        ...out,
        "--model",
        String(model),
        "--crash",
        "3",
      ], {
        DEV: "JS",
      });
      assert.notEqual(dies.code, 0);
      assert.match(dies.stdout + dies.stderr, /the program ends with code 3/);
      assert.equal(lossesOf(dies.stdout).get(0), want.get(0));
      assert.equal(await Deno.readTextFile(`${folder}/run/latest`), "2");
      const goesOn = await runRanks(launcher, 2, [PROGRAM, text, ...SMALL, ...out, "--zero", "2"], { DEV: "JS" });
      assert.equal(goesOn.code, 0, goesOn.stderr);
      assert.match(goesOn.stdout, /2 ranks, data 2 x model 1, from step 2/);
      assert.ok(Math.abs(lossesOf(goesOn.stdout).get(5)! - want.get(5)!) <= 2e-4, `${goesOn.stdout} ${alone.stdout}`);
      const parts = [...Deno.readDirSync(`${folder}/run/step-2`)].map((e) => e.name).sort();
      assert.deepEqual(parts.at(-1), "model.safetensors.index.json");
      assert.equal(parts.length, ranks + 1, "each rank has written what it has");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}
