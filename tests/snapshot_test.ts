/**
 * The snapshot of generated kernels (snapshot.ts) on a few small programs: they are what the data says, a change is told by
 * its name, and what ran before changes nothing.
 */
import assert from "node:assert/strict";
import { differenceOf, formatSnapshot, parseSnapshot, report, type Snapshot } from "./snapshot.ts";
import { decode, encode, type MadeNow, make, show, SNAPSHOT_PROGRAMS } from "./support/snapshot_cases.ts";
import { WRITER_NAMES } from "./support/snapshot_writers.ts";
import { runDeno } from "./system/subprocess.ts";

const PROGRAMS = [
  "golden/add broadcast",
  "golden/softmax",
  "golden/matmul odd",
  "golden/conv2d padded",
  "golden/at tensor",
  "golden/cumsum",
  "golden/sum half",
  "golden/floorDiv ints",
  "golden/matmul double",
  "golden/attention causal",
  "golden/maxPool2d indices",
  "golden/setAt",
];

const kept = parseSnapshot(Deno.readTextFileSync(new URL("fixtures/snapshot.tsv", import.meta.url)));

type MadeByProgram = ReadonlyMap<string, ReadonlyMap<string, MadeNow>>;

const made = new Map<string, Promise<MadeByProgram>>();

/** What a writer makes for the programs; made once. */
function madeBy(writer: string): Promise<MadeByProgram> {
  const known = made.get(writer);
  if (known !== undefined) return known;
  const making = (async () => {
    const out = new Map<string, Map<string, MadeNow>>();
    for (const name of PROGRAMS) out.set(name, new Map([[writer, await make(writer, name)]]));
    return out;
  })();
  made.set(writer, making);
  return making;
}

for (const writer of WRITER_NAMES) {
  Deno.test(`snapshot: ${writer} makes what the data says`, async () => {
    const lines: string[] = [];
    const differing = report(await madeBy(writer), kept, [writer], (line) => lines.push(line));
    assert.equal(differing, 0, `${lines.join("\n")}\nmeant? deno task snapshot --write`);
    assert.match(lines.join("\n"), new RegExp(`^${writer} +golden +12 programs, \\d\\d kernels: equal$`));
  });
}

Deno.test("snapshot: what ran before changes nothing", async () => {
  for (const writer of ["JS", "CLANG", "WEBGPU"]) {
    const first = await madeBy(writer);
    for (const name of PROGRAMS.toReversed()) {
      assert.deepEqual(await make(writer, name), first.get(name)!.get(writer), `${name} on ${writer}`);
    }
  }
});

Deno.test("snapshot: differences are told with the names of programs and kernels", async () => {
  const now = await madeBy("CLANG"), name = "golden/softmax", was = kept.get(name)!.get("CLANG")!;
  const { kernels, names } = now.get(name)!.get("CLANG")!, n = kernels.length, other = { whole: "------" };
  const first = [{ kernels: ["---", ...kernels.slice(1)] }, `1 of ${n} kernels differ: ${names[0]}`] as const;
  const all = [
    first,
    [{ kernels: [...kernels, "---"] }, `${n} kernels, were ${n + 1}; 1 of ${n + 1} kernels are gone`],
    [{ kernels: kernels.slice(1) }, `${n} kernels, were ${n - 1}; 1 of ${n} kernels differ: ${names[0]}`],
    [{ planned: was.planned + 256 }, `${was.planned} bytes planned, were ${was.planned + 256}`],
    [{ error: "DTypeError" }, "no error, was DTypeError"],
    [{}, `${n} kernels are the same, launched in another order or with other arguments`],
  ] as const;
  for (const [change, text] of all) {
    assert.equal(differenceOf(now.get(name)!.get("CLANG")!, { ...was, ...other, ...change }), text);
  }
  const changed: Snapshot = new Map([...kept, [name, new Map([["CLANG", { ...was, ...other, ...first[0] }]])]]);
  const lines: string[] = [];
  assert.equal(report(now, changed, ["CLANG"], (line) => lines.push(line)), 1);
  assert.match(lines[0], /12 programs, \d\d kernels: 1 programs differ$/);
  assert.equal(lines[1], `    ${name}: ${first[1]}`);
});

Deno.test("snapshot: the data is written as it is read, and is of the programs that there are", () => {
  const text = formatSnapshot(kept);
  assert.equal(text, Deno.readTextFileSync(new URL("fixtures/snapshot.tsv", import.meta.url)));
  assert.deepEqual([...kept.keys()].sort(), [...SNAPSHOT_PROGRAMS.keys()].sort());
  for (const m of [...kept.get("model/gpt2 backward")!.values()]) assert.deepEqual(decode(encode(m)), m);
});

Deno.test("snapshot: what a device cannot run is kept as its error", () => {
  const error = (name: string): unknown => kept.get(name)!.get("WEBGPU")!.error;
  assert.deepEqual([error("golden/matmul double"), error("golden/softmax")], ["DTypeError", ""]);
});

Deno.test("snapshot: a program is shown in the language of each writer", async () => {
  const texts = await Promise.all(WRITER_NAMES.map((w) => show(w, "golden/add broadcast")));
  const wants = [
    /^void r?_?\w+\(void \*\*bufs/m,
    /local\.get/,
    /__global__/,
    /\.visible \.entry/,
    /@compute/,
    /Math|bufs/,
  ];
  texts.forEach((text, i) => {
    assert.match(text, wants[i], WRITER_NAMES[i]);
    assert.match(text, /^=== \w+#0: threads 1/, WRITER_NAMES[i]);
    assert.match(text, /^=== \d launches, \d+ bytes planned$/m, WRITER_NAMES[i]);
  });
});

Deno.test("snapshot: the command compares some programs as it does all, and exits with 1 where one differs", async () => {
  const data = await Deno.makeTempFile({ suffix: ".tsv" });
  try {
    const args = ["run", "-A", "--no-check", "tests/snapshot.ts", "--only=^golden/softmax (half|large)$", "--jobs=2"];
    const same = await runDeno([...args, "--compare"]);
    assert.deepEqual([same.code, same.stderr], [0, ""], same.stdout);
    assert.match(same.stdout, /^0 of 2 programs differ; /m);
    const changed: Snapshot = new Map(kept);
    const of = new Map(kept.get("golden/softmax half")), was = of.get("PTX")!;
    of.set("PTX", { ...was, whole: "------", kernels: was.kernels.map(() => "---") });
    changed.set("golden/softmax half", of);
    await Deno.writeTextFile(data, formatSnapshot(changed));
    const other = await runDeno([...args, "--compare", `--data=${data}`]);
    assert.equal(other.code, 1, other.stdout + other.stderr);
    assert.match(other.stdout, /^PTX .* 1 programs differ\n {4}golden\/softmax half: \d of \d kernels differ: \w/m);
    assert.match(other.stdout, /^1 of 2 programs differ; /m);
    const written = await runDeno([...args, "--write", `--data=${data}`]);
    assert.equal(written.code, 0, written.stdout + written.stderr);
    assert.equal(await Deno.readTextFile(data), formatSnapshot(kept));
  } finally {
    await Deno.remove(data);
  }
});
