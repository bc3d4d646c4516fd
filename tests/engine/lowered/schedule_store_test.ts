/**
 * Schedules on disk: what is read is what was written, whatever else differs has another name, a second process makes none
 * of those that a first one made, and what is damaged or cannot be written costs time alone.
 *
 * @module
 */
import assert from "node:assert/strict";
import { context, Device, Tensor } from "../../../mod.ts";
import type { Program } from "../../../src/device/program.ts";
import { forgetKernels } from "../../../src/engine/compile_cache.ts";
import { LOWERING_FOLDERS, SCHEDULING_FOLDERS } from "../../../src/engine/lowered/library_text.ts";
import { WATCHING_FLAGS } from "../../../src/engine/lowered/disk_store.ts";
import { scheduleLines, scheduleOf, wantedText } from "../../../src/engine/lowered/schedule_data.ts";
import { scheduleStats, SCHEDULING_FLAGS } from "../../../src/engine/lowered/schedule_store.ts";
import { graphKey } from "../../../src/schedule/cache/graph_key.ts";
import { clearScheduleCache, scheduleCacheStats, scheduleNodes, type Variant } from "../../../src/schedule/schedule.ts";
import type { TemplateItem } from "../../../src/schedule/order/template.ts";
import type { Arguments } from "../../../src/schedule/stored_schedules.ts";
import { Draw, FAMILIES } from "../../fuzz/kernels.ts";
import { inFolder } from "../../support/folder.ts";
import { ROOT, runDeno } from "../../system/subprocess.ts";
import { modulesOf, otherFlags, outsideOf } from "./source_facts.ts";

const NONE: ReadonlyMap<TemplateItem, Program> = new Map();

/** All of a template, its kernels as nodes. */
const plain = (
  { entries, items, becomes, plan }: Pick<Variant, "entries" | "items" | "becomes" | "plan">,
): unknown => ({
  entries: entries.map((e) => ({ ...e })),
  items: items.map(({ kind, device, entries, vars, at }) => ({ kind, device, entries, vars, at })),
  becomes,
  plan: { ...plan, places: Array.from(plan.places) },
});

Deno.test("schedules of random programs read back as the same", () => {
  Device.default = "JS";
  const names = Object.keys(FAMILIES);
  let steps = 0;
  for (let seed = 0; seed < 120; seed++) {
    const d = new Draw(seed * 7919 + 3, 1 << 12), family = FAMILIES[names[seed % names.length]];
    const { results } = family(d, (...shape) => Tensor.empty(shape, { device: "JS" }).realize());
    const { variant } = scheduleNodes(results.map((t) => t.uop)), lines = scheduleLines(variant, NONE);
    assert.ok(lines !== undefined, `seed ${seed}`); // there is none that must be made in each process
    const same = scheduleOf(...lines);
    assert.deepEqual(plain(same), plain(variant), `seed ${seed}`);
    variant.items.forEach((item, i) => assert.equal(same.items[i].ast, item.ast)); // nodes are interned
    steps += variant.items.length;
  }
  assert.ok(steps > 300, String(steps));
});

const NOTHING: Arguments = { constants: new Set(), offsets: new Map() };
const textOf = (t: Tensor, free = NOTHING, views = true): string | undefined =>
  wantedText({ key: graphKey([t.uop]), free, views });

Deno.test("a graph on other memory has the same text, any other graph another one", () => {
  const of = (shape = [4, 6], dtype: "float32" | "int32" = "float32", device = "JS"): Tensor =>
    Tensor.empty(shape, { dtype, device }).realize();
  const made: Record<string, () => Tensor> = {
    plain: () => of().mul(2.5).add(1),
    "another constant": () => of().mul(3.5).add(1),
    "a constant that is never an argument": () => of().mul(2.5).add(0.5),
    "-0": () => of().mul(2.5).maximum(-0),
    "0": () => of().mul(2.5).maximum(0),
    "infinity": () => of().mul(2.5).maximum(Infinity),
    "constants the other way round": () => of().gt(0).where(1, 2.5),
    "and back": () => of().gt(0).where(2.5, 1),
    shape: () => of([6, 4]).mul(2.5).add(1),
    dtype: () => of([4, 6], "int32").mul(2.5).add(1),
    device: () => of([4, 6], "float32", "WASM").mul(2.5).add(1),
    op: () => of().mul(2.5).sub(1),
    slice: () => of().shrink([[0, 4], [0, 3]]).mul(2.5).add(1),
    "slice elsewhere": () => of().shrink([[0, 4], [1, 4]]).mul(2.5).add(1),
    sum: () => of().mul(2.5).sum(0),
    "sum over another axis": () => of().mul(2.5).sum(1),
    "one twice": () => {
      const x = of();
      return x.mul(x);
    },
    two: () => of().mul(of()),
    "a gradient of its own": () => of().softmax(),
    kept: () => of().mul(2.5).contiguous().add(1),
  };
  const texts = new Map<string, string>();
  for (const [name, make] of Object.entries(made)) {
    const text = textOf(make());
    assert.ok(text !== undefined, name);
    assert.equal(textOf(make()), text, name);
    assert.equal(texts.get(text), undefined, `${name} and ${texts.get(text)}`);
    texts.set(text, name);
  }
  const free = { constants: new Set([0]), offsets: new Map() };
  assert.equal(textOf(made.plain(), free), textOf(made["another constant"](), free)); // it is an argument
  assert.notEqual(textOf(made.plain(), free), textOf(made.plain()));
  assert.notEqual(textOf(made.plain(), NOTHING, false), textOf(made.plain()));
  const at = (unit: number): Arguments => ({ constants: new Set(), offsets: new Map([[0, { unit, first: 0 }]]) });
  assert.equal(textOf(made.slice(), at(1)), textOf(made["slice elsewhere"](), at(1)));
  assert.notEqual(textOf(made.slice(), at(1)), textOf(made.slice(), at(2)));
});

Deno.test("each flag that is read where schedules are made is part of the key, or has them made anew", () => {
  // with FUSE and SCACHE 0 nothing is kept
  const known = new Set<string>([...SCHEDULING_FLAGS, ...WATCHING_FLAGS, "FUSE", "SCACHE"]);
  assert.deepEqual(otherFlags("src/schedule/", known), []);
});

Deno.test("all that schedules are made by is in the folders that name the library and the scheduler", () => {
  const seen = modulesOf(["/src/schedule/schedule.ts"]);
  assert.ok(seen.size > 100, String(seen.size));
  assert.deepEqual(outsideOf([...LOWERING_FOLDERS, ...SCHEDULING_FOLDERS], seen), []);
});

/** How many schedules are made and read, and written, while `fn` runs with nothing in memory. */
async function counted(
  fn: () => Promise<unknown>,
): Promise<[made: number, read: number, written: number, value: unknown]> {
  clearScheduleCache();
  forgetKernels();
  const { misses, read } = scheduleCacheStats, { written } = scheduleStats, value = await fn();
  const found = scheduleCacheStats.read - read;
  return [scheduleCacheStats.misses - misses - found, found, scheduleStats.written - written, value];
}

Deno.test("what was scheduled is read: under the same flags, for the same shapes, dtypes, devices and constants", async () => {
  await inFolder((folder) =>
    context({ CACHEDIR: folder, SPEC: 0, NOOPT: 0 }, async () => {
      const x = (n: number, dtype: "float32" | "float64" = "float32", device = "JS"): Tensor =>
        new Tensor(Array.from({ length: n }, (_, i) => i / 4), { dtype, device }).realize();
      const a = x(24), b = x(25), c = x(24, "float64"), w = x(24, "float32", "WASM");
      const run = (t: Tensor, k = 1.25) => () => t.mul(k).sin().sum().tolist();
      const [made, , written, value] = await counted(run(a));
      assert.deepEqual([made > 0, written], [true, made]);
      assert.deepEqual(await counted(run(a)), [0, made, 0, value]);
      for (const other of [run(a, 1.75), run(b), run(c), run(w)]) {
        const [made, read, written, value] = await counted(other);
        assert.ok(made > 0 && written === made, `${made} made, ${read} read, ${written} written`);
        assert.deepEqual(await counted(other), [0, made + read, 0, value]);
      }
      for (const flag of SCHEDULING_FLAGS) {
        if (flag === "BEAM") continue; // it measures
        const [again, read] = await context({ [flag]: 1 << 20 }, () => counted(run(a)));
        assert.deepEqual([again, read], [made, 0], flag);
      }
      for (const flag of [...WATCHING_FLAGS, "SCACHE", "FUSE"] as const) {
        const [, read, written] = await context({ [flag]: flag === "SCACHE" || flag === "FUSE" ? 0 : 1 }, () =>
          counted(run(a)));
        assert.deepEqual([read, written], [0, 0], flag);
      }
      // what of a graph is an argument: the second and third value are served by one schedule, which is read, too
      const three = async (): Promise<unknown[]> => [await run(a, 2.25)(), await run(a, 2.5)(), await run(a, 2.75)()];
      const [, , , values] = await counted(three);
      const [none, , , again] = await counted(three);
      assert.deepEqual([none, again], [0, values]);
    })
  );
});

/** Random programs, run by a process of its own: their values, and how many schedules were made, read and written. */
const RANDOM = `
  import { Tensor } from "${ROOT.href}mod.ts";
  import { programOf } from "${ROOT.href}tests/fuzz/programs.ts";
  import { runLines } from "${ROOT.href}tests/fuzz/parts/program_maker.ts";
  import { scheduleCacheStats } from "${ROOT.href}src/schedule/schedule.ts";
  import { scheduleStats } from "${ROOT.href}src/engine/lowered/schedule_store.ts";
  const values = [], count = Number(Deno.env.get("COUNT"));
  for (let at = 0; at < count; at++) {
    const { lines, outputs } = programOf(77, at);
    Tensor.manualSeed(1);
    const names = runLines(lines, true), list = outputs.map((name) => names[name]);
    Tensor.realize(list);
    for (const t of list) values.push(String(await t.flatten().tolist()));
  }
  console.log(JSON.stringify({ values, ...scheduleStats, made: scheduleCacheStats.misses - scheduleCacheStats.read }));
`;
interface Said {
  readonly values: readonly string[];
  readonly made: number;
  readonly read: number;
  readonly written: number;
  readonly damaged: number;
  readonly stderr: string;
}
async function ran(cache: string, env: Record<string, string> = {}, flags: readonly string[] = ["-A"]): Promise<Said> {
  const config = new URL("deno.json", ROOT).pathname, script = `${cache}.ts`;
  Deno.writeTextFileSync(script, RANDOM);
  const { code, stdout, stderr } = await runDeno(["run", "--no-check", "--config", config, ...flags, script], {
    env: { DEV: "JS", CACHEDIR: cache, SPEC: "0", NOOPT: "0", COUNT: "12", ...env },
  });
  assert.equal(code, 0, stderr);
  return { ...JSON.parse(stdout.trim().split("\n").at(-1)!), stderr };
}
const counts = ({ made, read, written, damaged }: Said): number[] => [made, read, written, damaged];

Deno.test("random programs: a second process makes no schedule, and computes the same; damage, and what cannot be written", async () => {
  await inFolder(async (folder) => {
    const cache = `${folder}/cache`, env = { COUNT: "60" }, first = await ran(cache, env), n = first.made;
    assert.ok(n > 40, String(n));
    assert.deepEqual(counts(first), [n, 0, n, 0]);
    const again = await ran(cache, env);
    assert.deepEqual([again.values, counts(again)], [first.values, [0, n, 0, 0]]);
    const [library] = [...Deno.readDirSync(`${cache}/lowered`)], place = `${cache}/lowered/${library.name}`;
    const files = [...Deno.readDirSync(place)].map((e) => `${place}/${e.name}`);
    const own = files.filter((f) => f.endsWith(".schedule"));
    assert.equal(own.length, n);
    // every second one is damaged somewhere, or ends early
    for (const [k, file] of own.entries()) {
      if (k % 2 === 1) continue;
      const bytes = Deno.readFileSync(file), at = (bytes.length * (k % 7 + 1)) >> 3;
      bytes[at] = bytes[at] === 48 ? 49 : 48;
      Deno.writeFileSync(file, k % 4 === 0 ? bytes : bytes.subarray(0, at));
    }
    const bad = (n + 1) >> 1, torn = await ran(cache, { ...env, DEBUG: "1" });
    assert.deepEqual([torn.values, counts(torn)], [first.values, [bad, n - bad, bad, bad]]);
    assert.match(torn.stderr, /is damaged; its schedule is made again/);
    assert.deepEqual(counts(await ran(cache, env)), [0, n, 0, 0]);
    // kernels that are gone are lowered of what the schedules say
    for (const file of files) if (!file.endsWith(".schedule")) Deno.removeSync(file);
    const lone = await ran(cache, env);
    assert.deepEqual([lone.values, counts(lone)], [first.values, [0, n, 0, 0]]);
    // no folder to write to, no permission to read it
    Deno.writeTextFileSync(`${folder}/file`, "");
    const none = await ran(`${folder}/file`, env);
    assert.deepEqual([none.values, counts(none)], [first.values, [n, 0, 0, 0]]);
    const closed = await ran(cache, env, ["--allow-env"]);
    assert.deepEqual([closed.values, counts(closed)], [first.values, [n, 0, 0, 0]]);
  });
});
