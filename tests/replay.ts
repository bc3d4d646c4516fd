/**
 * Whether two versions of the compiler make the same kernels of a program.
 *
 *     CAPTURE_KERNELS=old.json deno run -A program.ts     in the tree as it was
 *     deno task replay old.json program.ts                in the present one: runs it, captured, and compares
 *     deno task replay old.json new.json [--all]          the same of two files; --all prints differences in full
 *
 * Kernels are matched by device and AST. Of those that differ opts and source are compared; of those that only one has the
 * scheduler decided otherwise. Exits with 1 where anything differs. What needs no program to run is snapshot.ts.
 *
 * @module
 */
import { type CapturedKernel, parseKernels } from "../src/story/kernel_capture.ts";
import { diffLines } from "../src/story/viz/page_text.ts";

const USAGE = "deno task replay OLD NEW [--all]: files of CAPTURE_KERNELS; NEW may be a program";
/** Lines of a difference that are printed. */
const MAX_LINES = 40;

/** Lines that tell how two lists of kernels differ; none where they do not. */
export function compareKernels(
  old: readonly CapturedKernel[],
  now: readonly CapturedKernel[],
  limit: number = MAX_LINES,
): string[] {
  const keyOf = (k: CapturedKernel): string => `${k.device}\n${k.ast}`, lines: string[] = [];
  const before = Map.groupBy(old, keyOf), after = Map.groupBy(now, keyOf);
  for (const [key, list] of before) {
    const twins = after.get(key);
    list.forEach((was, i) => {
      const is = twins?.find((t) => t.opts === was.opts) ?? twins?.[i];
      if (is === undefined) return void lines.push(`- ${was.device} ${was.name}: no kernel has its AST now`);
      if (is.opts !== was.opts) {
        lines.push(`! ${was.device} ${was.name}: opts ${was.opts || "none"} -> ${is.opts || "none"}`);
      }
      if (is.source === was.source) return;
      lines.push(`! ${was.device} ${was.name}: source differs${is.name === was.name ? "" : `, now ${is.name}`}`);
      const changed = diffLines(was.source.split("\n"), is.source.split("\n")).filter((l) => l.sign !== " ");
      for (const { sign, text } of changed.slice(0, limit)) lines.push(`    ${sign} ${text}`);
      if (changed.length > limit) lines.push(`    ${changed.length - limit} lines more`);
    });
  }
  for (const [key, list] of after) {
    if (!before.has(key)) lines.push(...list.map((k) => `+ ${k.device} ${k.name}: no kernel had its AST before`));
  }
  return lines;
}

/** The kernels of a file, or of a run of a program with this tree. */
async function kernelsOf(path: string): Promise<readonly CapturedKernel[]> {
  if (!/\.[cm]?[jt]s$/.test(path)) return parseKernels(await Deno.readTextFile(path), path);
  const file = await Deno.makeTempFile({ suffix: ".json" });
  try {
    const env = { CAPTURE_KERNELS: file }, stdout = "null", stderr = "inherit";
    const { code } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", path],
      env,
      stdout,
      stderr,
    })
      .output();
    if (code !== 0) console.log(`${path} ended with code ${code}: its kernels so far are compared`);
    return parseKernels(await Deno.readTextFile(file), path);
  } finally {
    await Deno.remove(file);
  }
}

async function main(args: readonly string[]): Promise<number> {
  const paths = args.filter((a) => !a.startsWith("--")), all = args.includes("--all");
  if (paths.length !== 2 || args.some((a) => a.startsWith("--") && a !== "--all" && a !== "--")) {
    console.error(USAGE);
    return 2;
  }
  try {
    const [old, now] = [await kernelsOf(paths[0]), await kernelsOf(paths[1])];
    const lines = compareKernels(old, now, all ? Infinity : MAX_LINES);
    for (const line of lines) console.log(line);
    const differ = lines.filter((l) => !l.startsWith(" ")).length;
    console.log(`${old.length} kernels before, ${now.length} now: ${differ === 0 ? "equal" : `${differ} differences`}`);
    return differ === 0 ? 0 : 1;
  } catch (error) {
    console.error((error as Error).message);
    return 2;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
