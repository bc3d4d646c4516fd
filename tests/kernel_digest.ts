/**
 * Kernels of the suite as their ASTs, and a digest of what code generation makes of them: a net under refactorings.
 *
 *     deno task digest --compare [--writer W]   which kernels are others now; exits with 1 where one is
 *     deno task digest --write                  the digest anew, after a change that was meant
 *     deno task digest --show NUMBER [--writer W]   a kernel: its AST, opts and source
 *     deno task digest --collect                the kernels anew, of the golden cases of today; then the digest
 *
 * The ASTs are kept as data (src/uop/graph/graph_data.ts), so that no program is run and nothing is scheduled. Of all
 * kernels of the golden cases those are kept that show something which the others do not: an op of a dtype on what another
 * op makes, a carrier, a number of ranges. Loops are those that the scheduler makes for CLANG, grids those for CUDA. What
 * the scheduler makes is seen by snapshot.ts.
 *
 * @module
 */
import { context } from "../mod.ts";
import { parseArgs } from "@std/cli/parse-args";
import { toProgram } from "../src/codegen/to_program.ts";
import { listen } from "../src/helpers/spans.ts";
import { kernelGraph, kernelsOfGraph } from "../src/engine/lowered/kernel_data.ts";
import { carrierOf } from "../src/uop/core/carrier.ts";
import { opName, Ops } from "../src/uop/core/ops.ts";
import { printUOp } from "../src/uop/core/print.ts";
import type { Work } from "../src/uop/core/recording.ts";
import { toposort, type UOp } from "../src/uop/core/uop.ts";
import type { GraphData } from "../src/uop/graph/graph_data.ts";
import { make, SNAPSHOT_PROGRAMS } from "./support/snapshot_cases.ts";
import { hashOf, WRITERS } from "./support/snapshot_writers.ts";

const KERNELS = new URL("fixtures/kernel_digest.json.gz", import.meta.url);
const DIGEST = new URL("fixtures/kernel_digest.tsv", import.meta.url);

/** Whose scheduler makes the kernels of a family, how many of them are kept, and who writes them. */
const FAMILIES = {
  loops: { scheduler: "CLANG", count: 400, writers: ["CLANG", "WASM", "JS"] },
  grids: { scheduler: "CUDA", count: 100, writers: ["CUDA", "PTX", "WEBGPU"] },
} as const;
type Family = keyof typeof FAMILIES;
const FAMILY_NAMES = Object.keys(FAMILIES) as Family[];

/** Nodes of the largest kernel that is kept. */
const MOST_NODES = 400;
/** Characters that are kept of the hash of a kernel. */
const CHARACTERS = 6;

/** A kernel of the data. */
export interface KeptKernel {
  readonly family: Family;
  /** Its number in the family. */
  readonly number: number;
  readonly ast: UOp;
}

/** What a writer makes of a kernel. */
export interface WrittenKernel {
  readonly name: string;
  readonly opts: string;
  /** Of opts and code; of an error its text. */
  readonly hash: string;
}

/** By writer, then by number of the kernel. */
export type KernelDigest = Map<string, string[]>;

/** The kernels of the data. */
export async function keptKernels(): Promise<KeptKernel[]> {
  const unpacked = new Response(
    new Blob([await Deno.readFile(KERNELS)]).stream().pipeThrough(new DecompressionStream("gzip")),
  );
  const data: Record<Family, GraphData> = await unpacked.json();
  return FAMILY_NAMES.flatMap((family) => kernelsOfGraph(data[family]).map((ast, number) => ({ family, number, ast })));
}

/** What a writer makes of an AST now, whatever NOOPT says. */
export function writtenKernel(writer: string, ast: UOp): WrittenKernel {
  const { renderer, image } = WRITERS[writer];
  try {
    const linear = context({ NOOPT: 0 }, () => toProgram(ast, renderer)),
      code = image(linear),
      { name, opts = "" } = linear;
    return { name, opts, hash: hashOf(`${opts}\n${typeof code === "string" ? code : hashOf(code, 43)}`, CHARACTERS) };
  } catch (error) {
    const text = `${(error as Error).name}: ${(error as Error).message}`;
    return { name: text, opts: "", hash: hashOf(text, CHARACTERS) };
  }
}

/** The kernels that a writer writes, and what it makes of each. */
export function written(writer: string, kernels: readonly KeptKernel[]): WrittenKernel[] {
  const meant = kernels.filter((k) => (FAMILIES[k.family].writers as readonly string[]).includes(writer));
  return meant.map((k) => writtenKernel(writer, k.ast));
}

/** The digest as kept: a line a writer, its hashes one after the other. */
export function formatDigest(digest: KernelDigest): string {
  return [...digest].map(([writer, hashes]) => `${writer}\t${hashes.join("")}\n`).join("");
}

/** {@linkcode formatDigest} read back. */
export function parseDigest(text: string): KernelDigest {
  return new Map(
    text.trimEnd().split("\n").map((line) => {
      const [writer, hashes = ""] = line.split("\t");
      return [writer, hashes.match(new RegExp(`.{${CHARACTERS}}`, "g")) ?? []];
    }),
  );
}

/** The digest of the data. */
export function keptDigest(): KernelDigest {
  return parseDigest(Deno.readTextFileSync(DIGEST));
}

/** A line a kernel that a writer makes otherwise than the digest says. */
export function differences(writer: string, now: readonly WrittenKernel[], kept: KernelDigest): string[] {
  const was = kept.get(writer) ?? [];
  const lines = now.flatMap(({ name, hash }, i) =>
    hash === was[i] ? [] : [`${writer} kernel ${i}: ${name} is another one`]
  );
  return now.length === was.length ? lines : [...lines, `${writer}: ${now.length} kernels, were ${was.length}`];
}

/** What a kernel shows: ops by dtype on what they take, carriers, how many loops there are. */
function featuresOf(ast: UOp): Set<string> {
  const nodes = toposort(ast), features = new Set<string>();
  for (const u of nodes) {
    const own = `${opName[u.op]} ${u.dtype}`;
    for (const s of u.src) features.add(`${own} of ${opName[s.op]} ${s.dtype}`);
    if (u.op === Ops.REDUCE) features.add(`${carrierOf(u)} over ${u.src.length - carrierOf(u).lanes}`);
  }
  const count = (op: Ops): number => nodes.filter((u) => u.op === op).length;
  features.add(`${count(Ops.RANGE)} loops, ${count(Ops.REDUCE)} reduces, ${count(Ops.STORE)} results`);
  features.add(`${count(Ops.PARAM)} buffers, ${count(Ops.STAGE)} stages`);
  return features;
}

/** Of all kernels a few that show most of what all show: each time the one that shows most more for its nodes. */
function chosen(asts: readonly UOp[], most: number): UOp[] {
  const left = asts.map((ast) => ({ ast, size: toposort(ast).length, features: featuresOf(ast) }))
    .filter(({ size }) => size <= MOST_NODES);
  const out: UOp[] = [], shown = new Set<string>();
  while (out.length < most) {
    let best = -1, bestGain = 0;
    left.forEach(({ size, features }, i) => {
      let fresh = 0;
      for (const f of features) if (!shown.has(f)) fresh++;
      const gain = fresh / (20 + size);
      if (gain > bestGain) [best, bestGain] = [i, gain];
    });
    if (best < 0) break;
    const [{ ast, features }] = left.splice(best, 1);
    for (const f of features) shown.add(f);
    out.push(ast);
  }
  return out;
}

/** All kernels that the golden cases have for a writer. */
async function suiteKernels(writer: string): Promise<UOp[]> {
  const asts = new Map<string, UOp>();
  const stop = listen(({ kind, subject }) => {
    const ast = kind === "lower" ? (subject as Work).ast : undefined;
    if (ast !== undefined) asts.set(printUOp(ast, Infinity), ast);
  });
  try {
    for (const name of SNAPSHOT_PROGRAMS.keys()) if (name.startsWith("golden/")) await make(writer, name);
  } finally {
    stop();
  }
  return [...asts].sort(([a], [b]) => a < b ? -1 : 1).map(([, ast]) => ast);
}

async function collect(): Promise<void> {
  const data: Partial<Record<Family, GraphData>> = {};
  for (const family of FAMILY_NAMES) {
    const { scheduler, count } = FAMILIES[family], all = await suiteKernels(scheduler), some = chosen(all, count);
    data[family] = kernelGraph(some);
    console.log(`${family}: ${some.length} of ${all.length} kernels`);
  }
  const packed = new Blob([JSON.stringify(data)]).stream().pipeThrough(new CompressionStream("gzip"));
  await Deno.writeFile(KERNELS, packed);
}

const USAGE = "deno task digest --compare | --write | --show NUMBER | --collect [--writer W]";

async function main(args: readonly string[]): Promise<number> {
  const given = parseArgs(args.filter((a) => a !== "--"), {
    boolean: ["compare", "write", "collect"],
    string: ["show", "writer"],
  });
  const known = FAMILY_NAMES.flatMap((f) => [...FAMILIES[f].writers] as string[]);
  const writers = given.writer === undefined ? known : known.filter((w) => w === given.writer);
  const modes = [given.compare, given.write, given.collect, given.show !== undefined].filter(Boolean).length;
  if (modes !== 1 || writers.length === 0) {
    console.error(
      `${writers.length === 0 ? `no writer ${given.writer}; known are ${known.join(", ")}\n` : ""}${USAGE}`,
    );
    return 2;
  }
  if (given.collect) await collect();
  const kernels = await keptKernels();
  if (given.show !== undefined) return show(kernels, Number(given.show), writers);
  if (given.compare) {
    const kept = keptDigest(), lines = writers.flatMap((w) => differences(w, written(w, kernels), kept));
    for (const line of lines) console.log(line);
    console.log(lines.length === 0 ? "all kernels are as before" : `${lines.length} differences; meant? --write`);
    return lines.length === 0 ? 0 : 1;
  }
  const digest: KernelDigest = new Map(known.map((w) => [w, written(w, kernels).map((k) => k.hash)]));
  await Deno.writeTextFile(DIGEST, formatDigest(digest));
  console.log(`${kernels.length} kernels written`);
  return 0;
}

/** Prints a kernel as each writer makes it. */
function show(kernels: readonly KeptKernel[], number: number, writers: readonly string[]): number {
  for (const { family, ast } of kernels.filter((k) => k.number === number)) {
    const meant = writers.filter((w) => (FAMILIES[family].writers as readonly string[]).includes(w));
    if (meant.length > 0) console.log(`##### ${family} ${number}\n${printUOp(ast, Infinity)}`);
    for (const w of meant) {
      const { name, opts } = writtenKernel(w, ast), { renderer, text } = WRITERS[w];
      console.log(`=== ${w} ${name} ${opts}\n${text(toProgram(ast, renderer))}`);
    }
  }
  return 0;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
