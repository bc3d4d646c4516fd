/**
 * Whether two versions of the compiler make the same kernels of a program.
 *
 *     CAPTURE_KERNELS=old.json deno run -A program.ts     in the tree as it was
 *     deno task replay old.json                           in the present one: compiles the ASTs of the file, and compares
 *     deno task replay old.json program.ts                runs the program, captured: what the scheduler asks for, too
 *     deno task replay old.json new.json [--all]          the same of two files; --all prints differences in full
 *
 * Kernels are matched by device and AST. Of those that differ opts and source are compared; of those that only one has the
 * scheduler decided otherwise. Exits with 1 where anything differs. ASTs are compiled for a device that can do what the
 * captured one could: that of this machine, else one that is not there (support/snapshot_writers.ts); kernels of others
 * are left out, and counted. What needs no program to run is snapshot.ts, and the digest of kernels (kernel_digest.ts).
 *
 * @module
 */
import { context, Device } from "../mod.ts";
import { toProgram } from "../src/codegen/to_program.ts";
import { getDevice } from "../src/device/device.ts";
import type { LinearProgram, Renderer } from "../src/renderer/renderer.ts";
import {
  capsData,
  type CapturedDevice,
  type CapturedKernel,
  type KernelCapture,
  parseKernels,
} from "../src/story/kernel_capture.ts";
import { diffLines } from "../src/story/viz/page_text.ts";
import { WRITERS } from "./support/snapshot_writers.ts";

const USAGE = "deno task replay OLD [NEW] [--all]: OLD a file of CAPTURE_KERNELS; NEW another one, or a program";
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

/** What makes kernels of linear programs again: source by source. */
interface Maker {
  readonly renderer: Renderer;
  sources(programs: readonly LinearProgram[]): readonly string[];
}

/** In what two devices differ; "" where they make the same kernels. */
function differenceOf(was: CapturedDevice, { name, caps }: { name: string; caps: Record<string, unknown> }): string {
  if (was.language !== name) return `it compiles ${name}, and compiled ${was.language}`;
  const keys = [...new Set([...Object.keys(was.caps), ...Object.keys(caps)])];
  const [a, b] = [was.caps, caps].map((c) => keys.map((k) => JSON.stringify(c[k])));
  return keys.flatMap((k, i) => a[i] === b[i] ? [] : [`${k} is ${b[i]}, was ${a[i]}`]).join("; ");
}

/** What makes kernels as those of a captured device were made, or why nothing here does. */
async function makerFor(name: string, was: CapturedDevice): Promise<Maker | string> {
  let reason: string;
  try {
    await Device.open(name);
    const { renderer, compiler } = getDevice(name);
    reason = differenceOf(was, { name: renderer.name, caps: capsData(renderer) });
    if (reason === "") return { renderer, sources: (programs) => compiler.compile(programs).map((p) => p.source) };
  } catch (error) {
    reason = (error as Error).message;
  }
  const writer = Object.values(WRITERS).find(({ renderer: r }) => (
    differenceOf(was, { name: r.name, caps: capsData(r) }) === ""
  ));
  return writer === undefined
    ? reason
    : { renderer: writer.renderer, sources: (programs) => programs.map(writer.text) };
}

/** A kernel as the present tree makes it; where it cannot, the error is its source. */
function madeAgain({ device, name, ast, root, settings = {} }: CapturedKernel, maker: Maker): CapturedKernel {
  const unmade = { device, name, ast, opts: "" };
  try {
    return context(settings, () => {
      const linear = toProgram(root!, maker.renderer), [source] = maker.sources([linear]);
      return { ...unmade, name: linear.name, opts: linear.opts ?? "", source };
    });
  } catch (error) {
    return { ...unmade, source: `${(error as Error).name}: ${(error as Error).message}` };
  }
}

/** The kernels of a capture made again, in its order; of those that cannot be, `left` tells why, a line a device. */
export async function compileAgain(
  { devices, kernels }: KernelCapture,
): Promise<{ readonly was: CapturedKernel[]; readonly now: CapturedKernel[]; readonly left: string[] }> {
  const was: CapturedKernel[] = [], now: CapturedKernel[] = [], left: string[] = [];
  for (const [device, list] of Map.groupBy(kernels, (k) => k.device)) {
    const maker = devices[device] === undefined ? "it is not in the file" : await makerFor(device, devices[device]);
    const kept = list.filter((k) => k.root !== undefined), lost = list.length - kept.length;
    if (typeof maker === "string") left.push(`? ${device}: ${list.length} kernels are left out: ${maker}`);
    else {
      if (lost > 0) left.push(`? ${device}: ${lost} kernels are left out: their ASTs could not be kept`);
      was.push(...kept);
      now.push(...kept.map((k) => madeAgain(k, maker)));
    }
  }
  return { was, now, left };
}

/** The capture of a file, or of a run of a program with this tree. */
async function captureOf(path: string): Promise<KernelCapture> {
  if (!/\.[cm]?[jt]s$/.test(path)) return parseKernels(await Deno.readTextFile(path), path);
  const file = await Deno.makeTempFile({ suffix: ".json" });
  try {
    const env = { CAPTURE_KERNELS: file }, stdout = "null", stderr = "inherit";
    const args = ["run", "-A", "--no-check", path];
    const { code } = await new Deno.Command(Deno.execPath(), { args, env, stdout, stderr }).output();
    if (code !== 0) console.log(`${path} ended with code ${code}: its kernels so far are compared`);
    return parseKernels(await Deno.readTextFile(file), path);
  } finally {
    await Deno.remove(file);
  }
}

async function main(args: readonly string[]): Promise<number> {
  const paths = args.filter((a) => !a.startsWith("--")), all = args.includes("--all");
  if (paths.length < 1 || paths.length > 2 || args.some((a) => a.startsWith("--") && a !== "--all" && a !== "--")) {
    console.error(USAGE);
    return 2;
  }
  try {
    const old = await captureOf(paths[0]);
    const { was, now, left } = paths.length === 1
      ? await compileAgain(old)
      : { was: old.kernels, now: (await captureOf(paths[1])).kernels, left: [] };
    const lines = compareKernels(was, now, all ? Infinity : MAX_LINES);
    for (const line of [...lines, ...left]) console.log(line);
    const differ = lines.filter((l) => !l.startsWith(" ")).length;
    console.log(`${was.length} kernels before, ${now.length} now: ${differ === 0 ? "equal" : `${differ} differences`}`);
    return differ === 0 && (was.length > 0 || left.length === 0) ? 0 : 1;
  } catch (error) {
    console.error((error as Error).message);
    return 2;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
