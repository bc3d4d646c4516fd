/**
 * `deno task test:bare`: the suite on a bare machine, twice: with gcc alone, then without any compiler. There is no clang,
 * no Vulkan, no browser, no HOME that can be written, no network, and nothing in Deno's cache. Closes with
 * `N passed, N failed, N skipped` of both. Arguments are handed to tests/run.ts: files, `--filter=...`; `--with=gcc` and
 * `--with=nothing` run one of the two.
 *
 * @module
 */
const ROOT = new URL("../", import.meta.url);

/** Programs that a bare machine lacks, compilers among them. */
const MISSING = /^(clang|llvm|lld|chrom|google-chrome|firefox|python|ptxas|nvcc|bun)/;
const COMPILERS = /^(.*-)?(gcc|g\+\+|cc|c\+\+|c89|c99|cpp|tcc)(-[\w.]+)?$/;

/** What hides the drivers of Vulkan, and so adapters of WEBGPU, from a process. */
export const NO_VULKAN: Readonly<Record<string, string>> = {
  VK_DRIVER_FILES: "/dev/null",
  VK_ICD_FILENAMES: "/dev/null",
};

/** A folder of links to the programs of this machine, but for some. */
async function programs(folder: string, isThere: (name: string) => boolean): Promise<string> {
  await Deno.mkdir(folder);
  for (const from of (Deno.env.get("PATH") ?? "/usr/bin:/bin").split(":")) {
    let names: string[] = [];
    try {
      names = [...Deno.readDirSync(from)].map((e) => e.name);
    } catch { /* a folder that is not there */ }
    for (const name of names.filter(isThere)) {
      await Deno.symlink(`${from}/${name}`, `${folder}/${name}`).catch(() => {});
    }
  }
  return folder;
}

/** How to start a program without a network but its own: nothing where this user may not. */
async function isolated(): Promise<string[]> {
  const up = 'ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null; exec "$0" "$@"';
  const local =
    "const s = Deno.listen({ port: 0, hostname: '127.0.0.1' }); await Deno.connect({ port: s.addr.port }); Deno.exit()";
  for (const how of [["unshare", "-n"], ["unshare", "-r", "-n"]]) {
    const command = [...how, "/bin/sh", "-c", up];
    try {
      const args = [...command.slice(1), Deno.execPath(), "eval", local];
      if ((await new Deno.Command(command[0], { args, stdout: "null", stderr: "null" }).output()).success) {
        return command;
      }
    } catch { /* no such program */ }
  }
  console.log("bare: this user may not go without a network; downloads end at a proxy that is none");
  return [];
}

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/**
 * What is wrong with a run whatever its tests say: that none passed, that it used what a bare machine lacks, or, where it
 * was whole, not the one compiler that is there. `text` is what tests/run.ts printed.
 */
export function wrongWith(text: string, kind: "gcc" | "nothing", passed: number, isWhole: boolean): string[] {
  const used = [...text.matchAll(/^used: (\w+):/gm)].map((m) => m[1]), wrong: string[] = [];
  if (passed === 0) wrong.push("no test passed");
  const missing = ["clang", "vulkan", "chromium", "bun", ...kind === "nothing" ? ["gcc"] : []];
  for (const name of missing) if (used.includes(name)) wrong.push(`${name} was used, which was to be hidden`);
  if (isWhole && kind === "gcc" && !used.includes("gcc")) wrong.push("gcc was not used");
  return wrong;
}

/** Runs the suite with what is in PATH. */
async function run(
  path: string,
  folder: string,
  args: readonly string[],
  kind: "gcc" | "nothing",
): Promise<Counts> {
  const command = [...await isolated(), Deno.execPath(), "run", "-A", "--no-check", "tests/run.ts", ...args];
  const proxy: Record<string, string> = command[0] === Deno.execPath()
    ? { HTTPS_PROXY: "http://127.0.0.1:9", HTTP_PROXY: "" }
    : {};
  const child = new Deno.Command(command[0], {
    args: command.slice(1),
    cwd: ROOT,
    env: {
      PATH: path,
      HOME: "/proc/nowhere",
      XDG_CACHE_HOME: "",
      CACHEDIR: "",
      DENO_DIR: `${folder}/deno`,
      TMPDIR: folder,
      ...NO_VULKAN,
      CHROMIUM: "no-browser",
      ...proxy,
      CC: kind === "gcc" ? "gcc" : "",
    },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let text = "";
  for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
    await Deno.stdout.write(new TextEncoder().encode(part));
    text += part;
  }
  const { code } = await child.status;
  const [, passed, failed, skipped] = /(\d+) passed, (\d+) failed, (\d+) skipped\s*$/.exec(text) ?? [0, 0, 1, 0];
  const counts = { passed: Number(passed), failed: Number(failed), skipped: Number(skipped) };
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  const wrong = wrongWith(text, kind, counts.passed, args.length === 0);
  for (const why of wrong) console.log(`failed: ${why}`);
  counts.failed += wrong.length;
  return counts;
}

async function main(args: readonly string[]): Promise<number> {
  const only = args.find((a) => a.startsWith("--with="))?.slice("--with=".length);
  const rest = args.filter((a) => !a.startsWith("--with=") && a !== "--");
  const sum: Counts = { passed: 0, failed: 0, skipped: 0 };
  for (const kind of ["gcc", "nothing"] as const) {
    if (only !== undefined && only !== kind) continue;
    const folder = await Deno.makeTempDir({ prefix: "dinograd-bare-" });
    try {
      const isThere = (name: string): boolean => {
        if (MISSING.test(name)) return false;
        return kind === "gcc" ? !COMPILERS.test(name) || name === "gcc" : !COMPILERS.test(name);
      };
      const path = await programs(`${folder}/bin`, isThere);
      await Deno.mkdir(`${folder}/tmp`);
      console.log(`\n==== a bare machine with ${kind === "gcc" ? "gcc" : "no compiler"}\n`);
      const counts = await run(path, `${folder}/tmp`, rest, kind);
      sum.passed += counts.passed;
      sum.failed += counts.failed;
      sum.skipped += counts.skipped;
      const left = [...Deno.readDirSync(`${folder}/tmp`)].map((e) => e.name).filter((n) =>
        n.startsWith("dinograd-cache")
      );
      if (left.length > 0) console.log(`failed: ${left.join(", ")} stays in TMPDIR`);
      sum.failed += left.length;
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }
  console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
  return sum.failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
