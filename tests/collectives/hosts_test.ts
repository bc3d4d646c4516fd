/**
 * Ranks on two hosts, which are network namespaces of this one joined by cables: collectives go by TCP, and where a cable
 * is cut, the ranks that wait are told so at their deadline. Needs root, as making namespaces does.
 */
import assert from "node:assert/strict";
import { inFolder } from "../support/folder.ts";
import { ROOT, runCommand } from "../system/subprocess.ts";
import { LAUNCHERS } from "./mpirun.ts";

const PROGRAM = "tests/fixtures/mpi_ranks.ts", [{ command }] = LAUNCHERS;
/** Of this process alone, so that two runs of the tests do not meet. */
const NET = `10.${100 + Deno.pid % 100}.${Deno.pid % 250}`, BRIDGE = `dino${Deno.pid % 1e6}`;
const HOSTS = [`${NET}.10`, `${NET}.11`];

async function ip(...args: string[]): Promise<void> {
  const { code, stderr } = await runCommand("ip", args);
  if (code !== 0) throw new Error(`ip ${args.join(" ")}: ${stderr}`);
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch { /* it has ended meanwhile */ }
}

/** Whether namespaces can be made here. */
function canSeparate(): boolean {
  try {
    const run = (...args: string[]) =>
      new Deno.Command("ip", { args, stdout: "null", stderr: "null" }).outputSync().code;
    return Deno.uid() === 0 && run("netns", "add", BRIDGE) === 0 && run("netns", "del", BRIDGE) === 0;
  } catch {
    return false;
  }
}

/** Runs `body` while there are two hosts: namespaces named by their addresses. */
async function withHosts(body: (agent: string) => Promise<void>): Promise<void> {
  try {
    await ip("link", "add", BRIDGE, "type", "bridge");
    await ip("addr", "add", `${NET}.1/24`, "dev", BRIDGE);
    await ip("link", "set", BRIDGE, "up");
    for (const [i, host] of HOSTS.entries()) {
      const cable = `${BRIDGE}-${i}`;
      await ip("netns", "add", host);
      await ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", host);
      await ip("link", "set", cable, "master", BRIDGE, "up");
      await ip("-n", host, "addr", "add", `${host}/24`, "dev", "eth0");
      for (const link of ["eth0", "lo"]) await ip("-n", host, "link", "set", link, "up");
    }
    await inFolder(async (folder) => {
      const agent = `${folder}/agent`, named = 'hostname "host-${0##*.}"; eval "$1"';
      const enter = `exec ip netns exec $host unshare --uts bash -c '${named}' "$host" "$*"`;
      await Deno.writeTextFile(agent, `#!/bin/bash\nhost=$1; shift\n${enter}\n`);
      await Deno.chmod(agent, 0o755);
      await body(agent);
    });
  } finally {
    for (const [i, host] of HOSTS.entries()) {
      await runCommand("ip", ["link", "del", `${BRIDGE}-${i}`]); // with its namespace it would go later
      // what has lost its cable does not end by itself
      const { stdout } = await runCommand("ip", ["netns", "pids", host]);
      for (const pid of stdout.split("\n").filter((line) => line !== "")) kill(Number(pid));
      await runCommand("ip", ["netns", "del", host]);
    }
    await runCommand("ip", ["link", "del", BRIDGE]);
  }
}

/** The arguments of mpirun for one rank on each host. */
function hostArgs(agent: string, mode: string): string[] {
  const settings = {
    plm_rsh_agent: agent,
    plm_rsh_no_tree_spawn: "1",
    oob_tcp_if_include: `${NET}.0/24`,
    btl_tcp_if_include: `${NET}.0/24`,
    btl: "tcp,self",
    pml: "ob1",
  };
  const mca = Object.entries(settings).flatMap(([name, value]) => ["--mca", name, value]);
  const deno = [Deno.execPath(), "run", "-A", "--no-check", PROGRAM, mode];
  return [...command!, "--allow-run-as-root", ...mca, "-x", "DIST_TIMEOUT", "-host", HOSTS.join(","), ...deno];
}

const ignore = command === undefined || !canSeparate();

Deno.test({ name: "mpi: two hosts: collectives go between them", ignore }, () =>
  withHosts(async (agent) => {
    const env = { DIST_TIMEOUT: "10000" };
    const { code, stdout, stderr } = await runCommand("timeout", ["-k", "2", "40", ...hostArgs(agent, "checks")], {
      env,
    });
    assert.equal(code, 0, stderr);
    const ranks = stdout.trim().split("\n").map((line) => JSON.parse(line) as { rank: number });
    ranks.sort((a, b) => a.rank - b.rank);
    assert.deepEqual(ranks, [0, 1].map((rank) => ({ rank, size: 2, wrong: [] })));
  }));

Deno.test({ name: "mpi: two hosts: a cut cable is told at the deadline", ignore }, () =>
  withHosts(async (agent) => {
    const [launcher, ...args] = ["timeout", "-k", "2", "12", ...hostArgs(agent, "loop")];
    const child = new Deno.Command(launcher, {
      args,
      cwd: ROOT,
      env: { DIST_TIMEOUT: "1500", NO_COLOR: "1" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const errors = new Response(child.stderr).text(), reader = child.stdout.getReader();
    await reader.read(); // it goes
    await ip("-n", HOSTS[1], "link", "set", "eth0", "down");
    while (!(await reader.read()).done);
    const { code } = await child.status;
    assert.notEqual(code, 0);
    assert.match(
      await errors,
      /collective \d+ of rank 0 of 2 at train\.ts:31:7: it was not done after 1\.5 s: .*no word from rank 1/,
    );
  }));
