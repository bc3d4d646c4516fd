/**
 * Writes docs/coverage.md from the tests: runs every golden case on each device, notes which methods its program calls and
 * on what dtypes, and counts those whose values are right. Rows of tests/pages/parity.ts that no case computes are
 * looked up in the table of random programs, whose values are compared, and in what recorder.ts noted while tests ran: a
 * member by its name, a rule by the name of a test. The tests found go to asserted.json, which tests/run.ts holds true:
 * each must have passed. A row keeps its test: those that rows have are run again, and all others only where a row is new
 * or its test no longer says so. `deno task coverage`, or with `--record FILE` to reuse what the recorder wrote.
 *
 * @module
 */
import { Device, dtypes, nn, state, Tensor } from "../../mod.ts";
import * as library from "../../mod.ts";
import { type DType, DTYPES } from "../../src/dtype/dtype.ts";
import { ALL_ROWS } from "../fuzz/parts/op_rows_more.ts";
import { batches, build, cases, checkAll, readAll } from "../golden/golden.ts";
import { TIMED } from "../timed.ts";
import { listen } from "./listen.ts";
import { PARITY } from "./parity.ts";

/** The devices that every machine has; others run the same cases where they open. */
const DEVICES = ["JS", "WASM", "CLANG"] as const;
const ROOT = new URL("../../", import.meta.url);
/** The tests that rows name. */
const ASSERTED = new URL("asserted.json", import.meta.url);

/** Methods that a program calls itself, by the dtypes they are called on. */
const calls = new Set<string>();
let listening = false;

function note(name: string, self: unknown, args: readonly unknown[]): void {
  const { dtype } = (self instanceof Tensor ? self : args.slice(1).flat()[0] ?? {}) as { readonly dtype?: DType };
  if (listening && dtype !== undefined) calls.add(`${name} ${dtype}`);
}

/** Cases, and dtypes by device, of each method. */
interface Covered {
  cases: number;
  readonly on: Map<string, Set<DType>>;
}

async function cover(): Promise<Map<string, Covered>> {
  listen(Tensor.prototype, "", note, false);
  listen(Tensor, "", (name, self, args) => name === "einsum" && note(name, self, args), false);
  const byCase: string[][] = [];
  for (const c of cases) {
    calls.clear();
    await build(c, "JS", (on) => listening = on);
    byCase.push([...calls]);
  }
  const covered = new Map<string, Covered>();
  for (const device of DEVICES) {
    Device.get(device);
    const get = batches(device);
    for (const [i, c] of cases.entries()) {
      const built = await get(i), read = await readAll(built);
      checkAll(c, built, (t) => read.get(t)!);
      for (const call of byCase[i]) {
        const [name, dtype] = call.split(" ");
        const entry = covered.get(name) ?? { cases: 0, on: new Map() };
        covered.set(name, entry);
        if (device === DEVICES[0]) entry.cases++;
        const set = entry.on.get(device) ?? new Set();
        entry.on.set(device, set.add((dtypes as unknown as Record<string, DType>)[dtype]));
      }
    }
  }
  return covered;
}

/** Where the recorder listens: the rest of the suite is about other things, or repeats these on more devices. */
const RECORDED = [
  ...["tensor", "nn", "state", "dtype", "helpers", "engine", "gradient_test.ts", "errors_test.ts"],
  ...[
    "schedule/schedule_test.ts",
    "device/device_test.ts",
    "programs/user_programs_test.ts",
    "system/processes_test.ts",
  ],
];

/** A test, by file and name. */
type Test = readonly [file: string, name: string];

type Recorded = ReadonlyMap<string, readonly Test[]>;

/**
 * What the recorder noted: tests by what reached their assertions; those of "" are all that passed. Of the tests of
 * asserted.json alone, or of all.
 */
async function recorded(all: boolean): Promise<Recorded> {
  const given = Deno.args.indexOf("--record"), path = given < 0 ? await Deno.makeTempFile() : Deno.args[given + 1];
  if (given < 0) {
    const files = all ? RECORDED : [...new Set([...asserted.values()].map(([file]) => file))];
    if (files.length === 0) return new Map();
    await new Deno.Command(Deno.execPath(), {
      args: [
        ...["test", "-A", "--no-check", "--preload=tests/pages/recorder.ts", `--ignore=${TIMED}`],
        ...files.map((f) => `tests/${f}`),
      ],
      cwd: ROOT,
      env: { RECORD: path, ...all ? {} : { ONLY: ASSERTED.href } },
      stdout: "null",
    }).output();
  }
  const tests = new Map<string, Test[]>(), members = new Map<string, number>();
  const rows = (await Deno.readTextFile(path)).trim().split("\n").map((l) => JSON.parse(l) as [string, string, string]);
  for (const [, file, name] of rows) members.set(`${file}\0${name}`, (members.get(`${file}\0${name}`) ?? 0) + 1);
  // tests that every machine runs
  for (const [member, ...test] of rows.filter(([, , name]) => !/\b(CLANG|WEBGPU|CUDA)\b/.test(name))) {
    tests.set(member, [...tests.get(member) ?? [], test]);
  }
  // first the tests that are about the fewest members, last those of mistakes
  const size = (test: Test): number =>
    members.get(test.join("\0"))! + (/errors_test|hostile|refuse/.test(test.join()) ? 1000 : 0);
  for (const list of tests.values()) list.sort((a, b) => size(a) - size(b) || (a.join() < b.join() ? -1 : 1));
  return tests;
}

/** Whether the library has a member of that name. */
function exists(name: string): boolean {
  const [scope, ...rest] = name.split(".");
  const owner: unknown = scope === "Tensor"
    ? Tensor
    : scope === "nn"
    ? nn
    : scope === "state"
    ? state
    : scope === "dtypes"
    ? dtypes
    : undefined;
  if (scope === "Symbol") return (Symbol as unknown as Record<string, symbol>)[rest[0]] in Tensor.prototype;
  if (owner !== undefined && rest.length > 0) {
    let at: unknown = owner;
    for (const part of rest) at = (at as Record<string, unknown> | undefined)?.[part];
    return at !== undefined;
  }
  return name in Tensor.prototype || name in Tensor || name in library || ["dtype", "shape", "grad"].includes(name);
}

function short(d: DType): string {
  return d.name.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i");
}

const asserted = new Map<string, Test>(Object.entries(JSON.parse(await Deno.readTextFile(ASSERTED).catch(() => "{}"))));
const [covered, again] = await Promise.all([cover(), recorded(false)]);
const random = new Set(ALL_ROWS.flatMap(([, rows]) => rows.map((r) => r.name)));

/** The tests of a row, best first. */
function candidates(tests: Recorded, name: string, word: string | undefined): Test[] {
  const member = tests.get(name) ?? [], named = new RegExp(word ?? `\\b${name.split(".").pop()}\\b`);
  // a member by what was traced, first where a test is named for it; what cannot be traced by the name of a test
  return [
    ...member.filter(([, test]) => named.test(test)),
    ...member,
    ...(tests.get("") ?? []).filter(([, t]) => named.test(t)),
  ];
}

let all: Recorded | undefined;

/** The test of a row: the one that it had while that is still recorded, else the one of all that is most about it. */
async function testOf(name: string, word: string | undefined): Promise<Test | undefined> {
  const before = asserted.get(name)?.join(), kept = candidates(again, name, word).find((t) => t.join() === before);
  return kept ?? candidates(all ??= await recorded(true), name, word)[0];
}

const used: Record<string, Test> = {};
const lines: string[] = [];
let computed = 0, byTests = 0, later = 0, missing = 0;
for (const { number, title, rows } of PARITY) {
  lines.push(`\n### ${number} ${title}\n`, "| what | values checked in | dtypes |", "|---|---|---|");
  for (const [name, word, note = ""] of rows) {
    const method = name.replace("Tensor.", ""), found = number.startsWith("1") ? covered.get(method) : undefined;
    const text = note === "" ? "" : ` (${note})`;
    if (found !== undefined) {
      const lists = DEVICES.map((d) => DTYPES.filter((x) => found.on.get(d)?.has(x)).map(short).join(" "));
      const same = lists.every((l) => l === lists[0]);
      const where = same ? lists[0] : DEVICES.map((d, i) => `${d}: ${lists[i]}`).join("; ");
      lines.push(`| \`${name}\`${text} | ${found.cases} golden cases on ${DEVICES.join(", ")} | ${where} |`);
      computed++;
      continue;
    }
    if (note.startsWith("later") || note.startsWith("differs")) {
      lines.push(`| \`${name}\` | ${note} | |`);
      later++;
      continue;
    }
    if (random.has(name)) {
      lines.push(`| \`${name}\`${text} | random programs, against the reference | |`);
      byTests++;
      continue;
    }
    const stored = golden(name, word);
    if (stored > 0) {
      lines.push(`| \`${name}\`${text} | ${stored} golden cases on ${DEVICES.join(", ")} | |`);
      byTests++;
      continue;
    }
    const test = await testOf(name, word);
    const known = /^[\w.]+$/.test(name) && number !== "1.16" && number < "3.2" && number !== "1.17";
    if (test === undefined || (known && !exists(name))) {
      lines.push(`| \`${name}\`${text} | not yet | |`);
      missing++;
    } else {
      lines.push(`| \`${name}\`${text} | ${test[0]}: ${test[1].replaceAll("|", "\\|")} | |`);
      used[name] = test;
      byTests++;
    }
  }
}

/** How many golden cases a row has: those of a dtype, or of a word in their names. */
function golden(name: string, word: string | undefined): number {
  if (/^dtypes\.[a-z]+\d\w*$/.test(name)) {
    return cases.filter((c) => c.outputs.some(([dtype]) => dtype === name.slice("dtypes.".length))).length;
  }
  return word === undefined ? 0 : cases.filter((c) => new RegExp(word).test(c.name)).length;
}

/** How a device has a dtype. */
function support(device: string, d: DType): string {
  const { caps } = Device.get(device).renderer;
  return caps.computeDTypes.includes(d) ? "native" : "emulated";
}

const known = new Set(PARITY.flatMap((s) => s.rows.map(([n]) => n.replace("Tensor.", ""))));
const beyond = [...covered].filter(([name]) => !known.has(name)).sort(([a], [b]) => a < b ? -1 : 1);
const scalars = DTYPES.filter((d) => d !== dtypes.void);
const document = `# Coverage

<!-- Generated by \`deno task coverage\` from the tests, as they ran: only those whose assertions values reach count. -->

Of what tinygrad's package offers (tests/pages/parity.ts), ${computed} rows are computed by golden cases from PyTorch on every
device below, ${byTests} are asserted in other tests, ${later} come later or do not apply, ${missing} are not there yet.
There are ${cases.length} golden cases; most check gradients too. WEBGPU and CUDA run the same cases where they open. Random
programs give each row its turn on JS and WASM, and one row in eleven on CLANG, WEBGPU and CUDA. A row with the name of a
test: what the member gave, or was made of it, reached an assertion there; the suite fails if that test does not pass.

## Dtypes

A dtype that a device cannot compute in is stored as bits and computed in float32, rounded after each operation. complex64
and complex128 are pairs of float32 and float64 ([complex.md](complex.md)).

| dtype | ${DEVICES.join(" | ")} |
|---|${DEVICES.map(() => "---").join("|")}|
${scalars.map((d) => `| ${d} | ${DEVICES.map((x) => support(x, d)).join(" | ")} |`).join("\n")}

## By section
${lines.join("\n")}

### Beyond tinygrad

| what | golden cases | dtypes |
|---|---|---|
${
  beyond.map(([name, { cases: n, on }]) =>
    `| \`${name}\` | ${n} | ${DTYPES.filter((d) => on.get(DEVICES[0])?.has(d)).map(short).join(" ")} |`
  ).join("\n")
}
`;
const path = new URL("docs/coverage.md", ROOT);
await Deno.writeTextFile(path, document);
await Deno.writeTextFile(
  ASSERTED,
  `{\n${Object.entries(used).map((e) => e.map((x) => JSON.stringify(x)).join(": ")).join(",\n")}\n}\n`,
);
await new Deno.Command(Deno.execPath(), { args: ["fmt", "-q", path.pathname, ASSERTED.pathname] }).output();
console.log(`${computed} rows by golden cases, ${byTests} by other tests, ${later} later, ${missing} missing`);
Deno.exit(0);
