/**
 * Writes docs/coverage.md from the tests: runs every golden case on each device, notes which methods its program calls and
 * on what dtypes, and counts those whose values are right. Rows of tests/pages/parity.ts that no case computes are
 * looked up in the table of random programs, whose values are compared, and in the tests that assert.
 * `deno task coverage`
 *
 * @module
 */
import { Device, dtypes, nn, state, Tensor } from "../../mod.ts";
import * as library from "../../mod.ts";
import { type DType, DTYPES } from "../../src/dtype/dtype.ts";
import { ALL_ROWS } from "../fuzz/parts/op_rows_more.ts";
import { batches, build, cases, checkAll, readAll } from "../golden/golden.ts";
import { PARITY } from "./parity.ts";

/** The devices that every machine has; others run the same cases where they open. */
const DEVICES = ["JS", "WASM", "CLANG"] as const;
const ROOT = new URL("../../", import.meta.url);

/** Methods that a program calls itself, by the dtypes they are called on. */
const calls = new Set<string>();
let depth = 0, listening = false;

/** Replaces each method by one that notes its outermost calls. */
function listen(): void {
  const chain: object[] = [];
  for (let p: object | null = Tensor.prototype; p !== null && p !== Object.prototype; p = Object.getPrototypeOf(p)) {
    chain.push(p);
  }
  for (const owner of chain) {
    for (const [name, own] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      const method: unknown = own.value;
      if (typeof method !== "function" || name === "constructor" || !own.writable) continue;
      const listened = function (this: Tensor, ...args: unknown[]): unknown {
        if (listening && depth === 0) calls.add(`${name} ${this.dtype}`);
        depth++;
        try {
          return Reflect.apply(method, this, args);
        } finally {
          depth--;
        }
      };
      Object.defineProperty(owner, name, { ...own, value: listened });
    }
  }
  const einsum = Tensor.einsum as (formula: string, ...rest: unknown[]) => Tensor;
  Tensor.einsum = ((formula: string, ...rest: unknown[]) => {
    const [first] = rest.flat();
    if (listening) calls.add(`einsum ${(first as Tensor).dtype}`);
    return einsum.call(Tensor, formula, ...rest);
  }) as typeof Tensor.einsum;
}

/** Cases, and dtypes by device, of each method. */
interface Covered {
  cases: number;
  readonly on: Map<string, Set<DType>>;
}

async function cover(): Promise<Map<string, Covered>> {
  listen();
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

/** Tests that name much and assert other things. */
const NO_VALUES = /fuzz\/|coverage_test|doc_test|layers_test|publish_test|import_test|web\//;

/** Tests that assert, by path. */
async function testFiles(): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const walk = async (dir: string): Promise<void> => {
    for await (const e of Deno.readDir(new URL(dir, ROOT))) {
      if (e.isDirectory) await walk(`${dir}${e.name}/`);
      else if (/(_test|errors_\w+)\.ts$/.test(e.name) && !NO_VALUES.test(dir + e.name)) {
        files.set(`${dir}${e.name}`, await Deno.readTextFile(new URL(dir + e.name, ROOT)));
      }
    }
  };
  await walk("tests/");
  // tests of single files before those of mistakes
  const order = (path: string): string => `${path.includes("fixtures/") ? 1 : 0}${path}`;
  return new Map([...files].sort(([a], [b]) => order(a) < order(b) ? -1 : 1));
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

const covered = await cover(), files = await testFiles();
const random = new Set(ALL_ROWS.flatMap(([, rows]) => rows.map((r) => r.name)));
/** The tests that the page names for rows: they stay as long as they assert, whatever tests come to be beside them. */
const page = await Deno.readTextFile(new URL("docs/coverage.md", ROOT)).catch(() => "");
const listed = new Map(
  [...page.matchAll(/^\| `([^`]+)`[^|]*\| (\S+\.ts) +\|/gm)].map(([, name, file]) => [name, file]),
);
const lines: string[] = [];
let computed = 0, asserted = 0, later = 0, missing = 0;
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
      lines.push(`| \`${name}\`${text} | random programs, against the reference, on every device | |`);
      asserted++;
      continue;
    }
    const last = name.split(".").pop()!;
    const pattern = new RegExp(word ?? `[.\\s]${last}\\(|new (nn\\.)?(optim\\.)?${last}\\b|\\.${last}\\b`);
    const named = word === undefined ? 0 : cases.filter((c) => pattern.test(c.name)).length;
    if (named > 0) {
      lines.push(`| \`${name}\`${text} | ${named} golden cases on ${DEVICES.join(", ")} | |`);
      asserted++;
      continue;
    }
    const before = listed.get(name);
    const first = before !== undefined && pattern.test(files.get(`tests/${before}`) ?? "")
      ? before
      : [...files].find(([, source]) => pattern.test(source))?.[0].replace("tests/", "");
    const known = /^[\w.]+$/.test(name) && number !== "1.16" && number < "3.2" && number !== "1.17";
    if (first === undefined || (known && !exists(name))) {
      lines.push(`| \`${name}\`${text} | not yet | |`);
      missing++;
    } else {
      lines.push(`| \`${name}\`${text} | ${first} | |`);
      asserted++;
    }
  }
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

<!-- Generated by \`deno task coverage\` from the tests: only those that assert values count. -->

Of what tinygrad's package offers (tests/pages/parity.ts), ${computed} rows are computed by golden cases from PyTorch on every
device below, ${asserted} are asserted in other tests, ${later} come later or do not apply, ${missing} are not there yet.
There are ${cases.length} golden cases; most check gradients too. WEBGPU and CUDA run the same cases where they open.

## Dtypes

A dtype that a device cannot compute in is stored as bits and computed in float32, rounded after each operation.

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
await new Deno.Command(Deno.execPath(), { args: ["fmt", "-q", path.pathname] }).output();
console.log(`${computed} rows by golden cases, ${asserted} by other tests, ${later} later, ${missing} missing`);
Deno.exit(0);
