/**
 * What code generation makes, kept as hashes: a net under changes that are meant to change no kernel.
 *
 *     deno task snapshot --compare [--only REGEX] [--device D] [--jobs N]   what differs from the data; exits with 1
 *     deno task snapshot --write [--only REGEX]                            the data anew
 *     deno task snapshot --show CASE [--device D]                          kernels and launches of a program as text
 *     deno task snapshot --out DIR [--only REGEX] [--device D]             the same of all, a file each
 *
 * Golden cases, workloads of the benches and models, for each writer of kernels: text or bytes of every kernel with the
 * size of its launch, the launches with their buffers and values, and the bytes planned for intermediates. Nothing is
 * executed, and no compiler or device is needed (snapshot_writers.ts). `--data FILE` is other data to write or compare.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { decode, encode, type Made, type MadeNow, SNAPSHOT_PROGRAMS } from "./support/snapshot_cases.ts";
import type { Done, Job } from "./support/snapshot_worker.ts";
import { WRITER_NAMES } from "./support/snapshot_writers.ts";

/** What was made, by program, then by writer. */
export type Snapshot = Map<string, Map<string, Made>>;

const DATA = new URL("fixtures/snapshot.tsv", import.meta.url);

/** The data as kept: a line of names, then a line a program. */
export function formatSnapshot(snapshot: Snapshot): string {
  const names = [...snapshot.keys()].sort((a, b) => a < b ? -1 : 1);
  const lines = names.map((name) => {
    const cells = WRITER_NAMES.map((w) => snapshot.get(name)!.get(w)).map((m) => m === undefined ? "-" : encode(m));
    return [name, ...cells].join("\t");
  });
  return `${[["program", ...WRITER_NAMES].join("\t"), ...lines].join("\n")}\n`;
}

/** {@linkcode formatSnapshot} read back. */
export function parseSnapshot(text: string): Snapshot {
  const [head, ...lines] = text.trimEnd().split("\n").map((line) => line.split("\t"));
  return new Map(
    lines.map(([name, ...cells]) => {
      const made = cells.flatMap((cell, i) => cell === "-" ? [] : [[head[i + 1], decode(cell)] as const]);
      return [name, new Map(made)];
    }),
  );
}

/** The data of a file; nothing where there is none. */
function readSnapshot(path: string | URL): Snapshot {
  try {
    return parseSnapshot(Deno.readTextFileSync(path));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return new Map();
  }
}

/** What is of one list and not of the other, as often as it is there; positions in `list`. */
function without(list: readonly string[], other: readonly string[]): number[] {
  const left = new Map<string, number>();
  for (const x of other) left.set(x, (left.get(x) ?? 0) + 1);
  return list.flatMap((x, i) => {
    const n = left.get(x) ?? 0;
    if (n > 0) left.set(x, n - 1);
    return n > 0 ? [] : [i];
  });
}

/** In what a program of now differs from the data; undefined where it does not. */
export function differenceOf(now: MadeNow, kept: Made | undefined): string | undefined {
  if (kept === undefined) return "is not in the data";
  if (now.whole === kept.whole) return undefined;
  const parts: string[] = [];
  if (now.error !== kept.error) parts.push(`${now.error || "no error"}, was ${kept.error || "none"}`);
  const [n, was] = [now.kernels.length, kept.kernels.length];
  const fresh = without(now.kernels, kept.kernels), gone = without(kept.kernels, now.kernels);
  if (n !== was) parts.push(`${n} kernels, were ${was}`);
  if (fresh.length > 0) {
    const names = [...new Set(fresh.map((i) => now.names[i]))];
    parts.push(`${fresh.length} of ${n} kernels differ: ${names.join(", ")}`);
  } else if (gone.length > 0) parts.push(`${gone.length} of ${was} kernels are gone`);
  if (now.planned !== kept.planned) parts.push(`${now.planned} bytes planned, were ${kept.planned}`);
  return parts.join("; ") || `${n} kernels are the same, launched in another order or with other arguments`;
}

/** Programs that one message to a worker names. */
const BATCH = 24;

/** Programs in batches: those that take long alone. */
function* batches(programs: readonly string[], writers: readonly string[], texts: boolean): Generator<Job> {
  const large = programs.filter((p) => !p.startsWith("golden/")),
    small = programs.filter((p) => p.startsWith("golden/"));
  for (const name of large) for (const writer of writers) yield { writer, programs: [name], texts };
  for (let i = 0; i < small.length; i += BATCH) {
    for (const writer of writers) yield { writer, programs: small.slice(i, i + BATCH), texts };
  }
}

/** Gives each job to a worker, as many at a time as `count`. */
async function runJobs(jobs: Iterator<Job>, count: number, take: (job: Job, done: Done) => void): Promise<void> {
  const lane = async (): Promise<void> => {
    let worker: Worker | undefined;
    try {
      for (let next = jobs.next(); next.done !== true; next = jobs.next()) {
        worker ??= new Worker(new URL("support/snapshot_worker.ts", import.meta.url), { type: "module" });
        const answer = Promise.withResolvers<Done>();
        worker.onmessage = ({ data }) => answer.resolve(data);
        worker.onerror = (event) => {
          event.preventDefault();
          answer.reject(new Error(event.message));
        };
        worker.postMessage(next.value);
        take(next.value, await answer.promise);
      }
    } finally {
      worker?.terminate();
    }
  };
  await Promise.all(Array.from({ length: count }, lane));
}

interface Options {
  readonly programs: readonly string[];
  readonly writers: readonly string[];
  readonly jobs: number;
}

async function makeAll({ programs, writers, jobs }: Options): Promise<Map<string, Map<string, MadeNow>>> {
  const out = new Map(programs.map((p) => [p, new Map<string, MadeNow>()]));
  await runJobs(batches(programs, writers, false), jobs, ({ writer, programs }, { made }) => {
    programs.forEach((p, i) => out.get(p)!.set(writer, made[i]!));
  });
  return out;
}

/** The name of the file of a program's text. */
function fileOf(program: string): string {
  return program.replace(/[^\w .,=+-]/g, (c) => c === "/" ? "/" : `%${c.charCodeAt(0).toString(16)}`);
}

type TakeText = (program: string, writer: string, text: string) => void;

async function makeTexts({ programs, writers, jobs }: Options, take: TakeText): Promise<void> {
  await runJobs(batches(programs, writers, true), jobs, ({ writer, programs }, { texts }) => {
    programs.forEach((p, i) => take(p, writer, texts[i]));
  });
}

/** Prints what differs, by writer and kind of program; how many programs do. */
export function report(
  now: ReadonlyMap<string, ReadonlyMap<string, MadeNow>>,
  kept: Snapshot,
  writers: readonly string[],
  print: (line: string) => void,
): number {
  const differing = new Set<string>();
  const kinds = new Set([...now.keys()].map((name) => name.slice(0, name.indexOf("/"))));
  for (const writer of writers) {
    for (const kind of kinds) {
      let kernels = 0, programs = 0;
      const lines: string[] = [];
      for (const [name, made] of now) {
        if (!name.startsWith(`${kind}/`)) continue;
        const m = made.get(writer)!, why = differenceOf(m, kept.get(name)?.get(writer));
        programs++;
        kernels += m.kernels.length;
        if (why === undefined) continue;
        lines.push(`    ${name}: ${why}`);
        differing.add(name);
      }
      const result = lines.length === 0 ? "equal" : `${lines.length} programs differ`;
      print(`${writer.padEnd(7)} ${kind.padEnd(7)} ${programs} programs, ${kernels} kernels: ${result}`);
      lines.forEach(print);
    }
  }
  return differing.size;
}

const USAGE = "deno task snapshot --compare | --write | --show CASE | --out DIR [--only REGEX] [--device D] [--jobs N]";

function fail(reason: string): number {
  console.error(`${reason}\n${USAGE}`);
  return 2;
}

async function main(args: readonly string[]): Promise<number> {
  const given = parseArgs(args.filter((a) => a !== "--"), {
    boolean: ["write", "compare"],
    string: ["only", "device", "show", "out", "data"],
  });
  const start = performance.now(), data = given.data ?? DATA, all = [...SNAPSHOT_PROGRAMS.keys()];
  const writers = given.device === undefined ? WRITER_NAMES : (given.device as string).toUpperCase().split(",");
  const strange = writers.find((w) => !WRITER_NAMES.includes(w));
  if (strange !== undefined) return fail(`no device ${strange}; known are ${WRITER_NAMES.join(", ")}`);
  const isMeant = (p: string): boolean =>
    given.show === undefined ? new RegExp(given.only ?? "").test(p) : p === given.show || p.endsWith(`/${given.show}`);
  const programs = all.filter(isMeant), jobs = Number(given.jobs ?? navigator.hardwareConcurrency);
  if (programs.length === 0) return fail(`no program ${given.show ?? given.only}; they are named as golden/softmax`);
  const options = { programs, writers, jobs };
  const seconds = (): string => `${((performance.now() - start) / 1000).toFixed(1)} s`;
  if (given.show !== undefined) {
    await makeTexts({ ...options, jobs: 1 }, (p, writer, text) => console.log(`##### ${p} on ${writer}\n${text}`));
    return 0;
  }
  if (given.out !== undefined) {
    await makeTexts(options, (p, writer, text) => {
      const path = `${given.out}/${writer}/${fileOf(p)}.txt`;
      Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
      Deno.writeTextFileSync(path, text);
    });
    return 0;
  }
  if (given.write === given.compare) return fail("one of --compare and --write");
  const now = await makeAll(options);
  const isWhole = programs.length === all.length && writers === WRITER_NAMES;
  const snapshot: Snapshot = given.write && isWhole ? new Map() : readSnapshot(data);
  if (given.write) {
    for (const [name, made] of now) snapshot.set(name, new Map([...snapshot.get(name) ?? [], ...made]));
    Deno.writeTextFileSync(data, formatSnapshot(snapshot));
    console.log(`${now.size} programs written in ${seconds()}`);
    return 0;
  }
  const differ = report(now, snapshot, writers, (line) => console.log(line));
  const gone = [...snapshot.keys()].filter((name) => isMeant(name) && !now.has(name));
  for (const name of gone) console.log(`${name} is in the data and no program`);
  console.log(`${differ + gone.length} of ${now.size} programs differ; ${seconds()}`);
  return differ + gone.length === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
