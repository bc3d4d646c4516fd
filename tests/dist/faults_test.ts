/**
 * What ends or refuses a whole job: Ctrl-C at the launcher, root under Open MPI, no library, more ranks than cards. What
 * single ranks do wrong is in collectives/mpi_test.ts, cut cables in collectives/hosts_test.ts.
 */
import assert from "node:assert/strict";
import { cudaBackend } from "../../backends/cuda/cuda.ts";
import { LAUNCHERS, runRanks } from "../collectives/mpirun.ts";
import { ROOT, runCommand, runDeno } from "../system/subprocess.ts";

const PROGRAM = "tests/fixtures/mpi_ranks.ts", TENSORS = "tests/fixtures/dist_ranks.ts", [openMpi] = LAUNCHERS;

for (const { name, command } of LAUNCHERS) {
  Deno.test({ name: `faults: ${name}: Ctrl-C ends all ranks`, ignore: command === undefined }, async () => {
    const [program, ...options] = command!, root = { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" };
    const child = new Deno.Command(program, {
      args: [...options, "-n", "2", Deno.execPath(), "run", "-A", "--no-check", PROGRAM, "loop"],
      cwd: ROOT,
      env: { THREADS: "1", DIST_TIMEOUT: "60000", ...root },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    assert.match((await reader.read()).value!, /it goes/); // for 30 seconds, if nobody ends it
    child.kill("SIGINT");
    let rest = "";
    for (let part; !(part = await reader.read()).done;) rest += part.value; // a rank that lives holds the pipe
    const { code, signal } = await child.status;
    assert.doesNotMatch(rest, /its end/, "they were ended, and did not end by themselves");
    // of MPICH's launcher, which may hear of the ranks' ends before it knows why, the status is 2 or 0
    if (name !== "MPICH") assert.ok(code !== 0 || signal !== null, "it does not look like a success");
  });
}

const isRoot = Deno.build.os !== "windows" && Deno.uid() === 0;
Deno.test({
  name: "faults: Open MPI: root is told which option allows it",
  ignore: !isRoot || openMpi.command === undefined,
}, async () => {
  const env = { OMPI_ALLOW_RUN_AS_ROOT: "", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "" };
  const { code, stdout, stderr } = await runCommand("env", [
    ...Object.keys(env).flatMap((name) => ["-u", name]),
    ...openMpi.command!,
    "-n",
    "1",
    Deno.execPath(),
    "--version",
  ]);
  assert.notEqual(code, 0);
  assert.match(stdout + stderr, /--allow-run-as-root/);
});

for (const launcher of LAUNCHERS) {
  const name = `faults: ${launcher.name}: a library that is not there is named, with its package, by each rank`;
  Deno.test({ name, ignore: launcher.command === undefined }, async () => {
    const { code, stderr } = await runRanks(launcher, 2, [TENSORS], { MPI_PATH: "/nowhere/libmpi.so", DEV: "JS" });
    assert.notEqual(code, 0);
    assert.match(
      stderr,
      /Cannot open the MPI library: there is none of \/nowhere\/libmpi\.so .*install openmpi-bin or mpich/,
    );
  });
}

Deno.test({
  name: "faults: a rank without a card of its own is told its number on the host",
  ignore: cudaBackend.unavailable() === undefined,
}, async () => {
  const env = { RANK: "1", WORLD_SIZE: "2", LOCAL_RANK: "1", MASTER_ADDR: "127.0.0.1", DEV: "CUDA" };
  const { code, stderr } = await runDeno(["run", "-A", "--no-check", TENSORS], { env });
  assert.equal(code, 1);
  assert.match(
    stderr,
    /on CUDA:1: rank 1 is number 1 of its host, and needs a card of its own \(Cannot open device CUDA:1/,
  );
});
