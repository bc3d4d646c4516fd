/**
 * Lowered kernels on disk: what is read is what was written, whatever else differs has another name, and what is damaged or
 * cannot be written costs time alone.
 *
 * @module
 */
import assert from "node:assert/strict";
import { clangBackend } from "../../../backends/clang/clang.ts";
import { getDevice } from "../../../src/device/device.ts";
import { context, Device, record, Tensor } from "../../../mod.ts";
import { forgetKernels } from "../../../src/engine/compile_cache.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { KernelInfo } from "../../../src/codegen/opt/opt.ts";
import { envNumber, setEnv } from "../../../src/helpers/env.ts";
import { LOWERING_FLAGS, WATCHING_FLAGS } from "../../../src/engine/lowered/disk_store.ts";
import {
  loweredKey,
  programFrom,
  type ProgramText,
  programText,
  storeStats,
} from "../../../src/engine/lowered/lowered_store.ts";
import { kernelsOfText, kernelText, sameKernelsOfText } from "../../../src/engine/lowered/kernel_data.ts";
import { capsText, libraryText, LOWERING_FOLDERS } from "../../../src/engine/lowered/library_text.ts";
import { type LinearProgram, type Renderer, SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { clearScheduleCache, scheduleNodes } from "../../../src/schedule/schedule.ts";
import { type Arg, AxisKind, Int64, RangeArg } from "../../../src/uop/core/args.ts";
import { CarrierArg, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import {
  constant,
  index,
  load,
  param,
  range,
  rotateInternTable,
  sink,
  store,
  type UOp,
  uop,
} from "../../../src/uop/core/uop.ts";
import { Draw, FAMILIES } from "../../fuzz/kernels.ts";
import { inFolder } from "../../support/folder.ts";
import { ROOT, runDeno } from "../../system/subprocess.ts";
import { modulesOf, otherFlags, outsideOf } from "./source_facts.ts";

/** Kernels of random programs of every family, as a device schedules them. */
function randomKernels(device: string, count: number): UOp[] {
  const kernels = new Set<UOp>(), names = Object.keys(FAMILIES);
  for (let seed = 0; seed < count; seed++) {
    const d = new Draw(seed * 7919 + 3, 1 << 16), family = FAMILIES[names[seed % names.length]];
    const { results } = family(d, (...shape) => Tensor.empty(shape, { device }).realize());
    for (const { ast } of scheduleNodes(results.map((t) => t.uop)).variant.items) {
      if (ast !== undefined) kernels.add(ast);
    }
  }
  return [...kernels];
}

const read = ({ head, list }: ProgramText): LinearProgram => programFrom(head, () => kernelsOfText(list));

/** All of a program but its nodes. */
const rest = ({ uops: _u, vars: _v, params, ...others }: LinearProgram): unknown => ({
  ...others,
  params: params.map((p) => ({ ...p, dtype: String(p.dtype) })),
});

for (const name of ["CLANG", "WASM", "JS"] as const) {
  Deno.test({
    name:
      `${name}: lowered kernels of random programs read back as the same, in this generation of nodes and in another`,
    sanitizeResources: false, // the device stays open
    ignore: name === "CLANG" && clangBackend.unavailable() !== undefined,
    async fn() {
      await Device.open(name);
      const { renderer } = getDevice(name), kernels = randomKernels(name, 60);
      let kept = 0;
      for (const ast of kernels) {
        const made = toProgram(ast, renderer), text = programText(made);
        if (text === undefined) continue;
        kept++;
        const same = read(text);
        assert.deepEqual(rest(same), rest(made));
        assert.equal(kernelText(same.uops), kernelText(made.uops));
        assert.deepEqual(renderer.render(same), renderer.render(made));
        rotateInternTable();
        rotateInternTable();
        const later = read(text);
        assert.notEqual(later.uops.at(-1), made.uops.at(-1)); // nodes of its own
        assert.deepEqual(renderer.render(later), renderer.render(made));
        assert.deepEqual(programText(later), text);
      }
      assert.ok(kernels.length > 80, String(kernels.length));
      assert.equal(kept, kernels.length); // there is none that must be lowered in each process
    },
  });
}

Deno.test("graphs have one text each, and read back", () => {
  const f = dtypes.float32, x = param(0, f, 8), r = range(8, 0, AxisKind.LOOP), i = dtypes.int64;
  const of = (value: UOp, arg?: Arg): UOp => sink([store(index(x, r), value)], arg), l = load(index(x, r));
  const graphs = [
    of(l),
    of(constant(0, f)),
    of(constant(-0, f)),
    of(constant(NaN, f)),
    of(constant(Infinity, f)),
    of(constant(-Infinity, f)),
    of(constant(1, f)),
    of(constant(1, f).cast(dtypes.float16)),
    of(constant(Math.fround(0.1), f)),
    of(constant(0.1, f)),
    of(constant(1, i)),
    of(constant(Int64.fromBigInt(2n ** 53n + 1n), i)),
    of(constant(Int64.fromBigInt(2n ** 53n + 3n), i)),
    of(l.add(l)),
    of(uop(Ops.ADD, f, [l, constant(1, f)])),
    of(uop(Ops.ADD, f, [constant(1, f), l])),
    of(uop(Ops.EXP2, f, [l])),
    of(uop(Ops.EXP2, f, [l], "rounded")),
    sink([store(index(param(0, f, 9), r), l)]),
    sink([store(index(param(1, f, 8), r), l)]),
    sink([store(index(x, range(8, 1, AxisKind.LOOP)), l)]),
    sink([
      store(index(x, uop(Ops.RANGE, dtypes.int32, [constant(8, dtypes.int32)], new RangeArg(0, AxisKind.LOOP, 1))), l),
    ]),
    of(l, new KernelInfo("k")),
    of(l, new KernelInfo("k", [])),
    of(l, new KernelInfo("k", [{ op: "TC", unit: 1 }])),
    of(l, new KernelInfo("k", [{ op: "TC", unit: 2 }])),
  ];
  const texts = graphs.map((g) => kernelText([g])!);
  assert.equal(new Set(texts).size, graphs.length);
  for (const [k, g] of graphs.entries()) assert.equal(sameKernelsOfText(texts[k])![0], g);
  // two nodes that are equal become one
  const { nodes, roots, ...rest } = JSON.parse(texts[0]);
  const twice = JSON.stringify({ ...rest, nodes: [...nodes, nodes.at(-1)], roots: [...roots, nodes.length] });
  assert.equal(new Set(kernelsOfText(twice)).size, 1);
  assert.equal(sameKernelsOfText(twice), undefined);
});

/** A sum by a carrier, which `combine` is of. */
function summed(combine: (a: UOp, b: UOp) => UOp, identity = 0): UOp {
  const f = dtypes.float32, r = range(8, 0, AxisKind.REDUCE);
  const arg = new CarrierArg("MINE", [f], [identity], ([a], [b]) => [combine(a, b)]);
  const total = reduce(arg, [load(index(param(1, f, 8), r))], [r]);
  return sink([store(index(param(0, f, 1), constant(0, dtypes.int32)), total)]);
}

Deno.test("another kernel, carrier, device or flag is another key", () => {
  const caps = { ...SCALAR_CAPS }, of = (c: typeof caps, name = "C"): Renderer => ({ name, caps: c, render: () => "" });
  const plain = summed((a, b) => a.add(b)), key = loweredKey(plain, of(caps));
  assert.match(key!, /^[0-9a-f]{32}$/);
  assert.equal(loweredKey(summed((a, b) => a.add(b)), of({ ...caps })), key);
  // carriers that have one key within two programs
  const others = [
    () => summed((a, b) => a.mul(b)),
    () => summed((a, b) => b.add(a)),
    () => summed((a, b) => a.add(b), 1),
  ];
  for (const other of others) {
    rotateInternTable();
    rotateInternTable();
    assert.notEqual(loweredKey(other(), of(caps)), key);
  }
  assert.notEqual(loweredKey(plain, of(caps, "D")), key);
  for (const [name, value] of Object.entries(caps)) {
    const others: unknown[] = typeof value === "number"
      ? [value + 1]
      : typeof value === "boolean"
      ? name === "hasGrid" ? [] : [!value]
      : typeof value === "function"
      ? [() => 4]
      : [(value as unknown[]).slice(1)];
    for (const other of others) {
      assert.notEqual(loweredKey(plain, of({ ...caps, [name]: other })), key, name);
    }
  }
  for (const extra of [{ selectWork: 2 }, { hasDots: true }, { streamedBytes: 4 }, { streamedBytes: Infinity }]) {
    assert.notEqual(loweredKey(plain, of({ ...caps, ...extra })), key, JSON.stringify(extra));
  }
  assert.equal(capsText("C", { ...caps, own: () => 1 } as typeof caps), undefined); // nobody knows what it says
  for (const flag of LOWERING_FLAGS) {
    const before = envNumber(flag);
    setEnv(flag, 3);
    try {
      assert.notEqual(loweredKey(plain, of(caps)), key, flag);
    } finally {
      setEnv(flag, before);
    }
  }
});

Deno.test("each flag that is read where kernels are lowered is part of the key, or has kernels lowered anew", () => {
  // what is read there of what is printed and recorded, and by what makes tensors' graphs
  const others = ["DEBUG", "GRAD", "TRACEMETA"],
    known = new Set<string>([...LOWERING_FLAGS, ...WATCHING_FLAGS, ...others]);
  assert.deepEqual(["codegen", "uop", "renderer"].flatMap((folder) => otherFlags(`src/${folder}/`, known)), []);
});

function forgetAll(): void {
  clearScheduleCache();
  forgetKernels();
}

Deno.test("what is recorded, or explained, is lowered and not read", async () => {
  await inFolder((folder) =>
    context({ CACHEDIR: folder, SPEC: 0 }, () => {
      const run = (): Tensor => Tensor.arange(37).mul(3).add(0.25).sum().realize(), before = { ...storeStats };
      run();
      const { written } = storeStats;
      assert.ok(written > before.written);
      forgetAll();
      run();
      assert.ok(storeStats.read > before.read);
      const { read } = storeStats;
      forgetAll();
      const { passes } = record(run);
      assert.ok(passes.some((p) => p.name === "linearize"));
      assert.deepEqual([storeStats.read, storeStats.written], [read, written]);
    })
  );
});

/** What a process computes, and how many kernels it read and wrote. */
interface Said {
  readonly values: unknown;
  readonly read: number;
  readonly written: number;
  readonly damaged: number;
  /** Lists of kernels that were read. */
  readonly lists: number;
  /** On CLANG: sources rendered, and compilers started. */
  readonly rendered: number;
  readonly compilers: number;
  readonly sources: readonly string[];
  readonly stderr: string;
}
const PROGRAM = (root: string): string => `
  import { Tensor } from "${root}mod.ts";
  import * as lowered from "${root}src/engine/lowered/lowered_store.ts";
  import { clangCounters } from "${root}backends/clang/clang.ts";
  import { CompiledKernel, schedule } from "${root}mod.ts";
  const x = Tensor.arange(64).reshape([8, 8]).float();
  const values = [await x.matmul(x).sum(0).tolist(), await x.softmax().max().item(), await x.cumsum(1).sum().item()];
  const said = { values, ...lowered.storeStats, ...clangCounters };
  const sources = Deno.env.get("SHOWS") === undefined
    ? []
    : schedule([x.matmul(x).sum(0)]).flatMap(({ runner: r }) => r instanceof CompiledKernel ? [r.program.source] : []);
  console.log(JSON.stringify({ ...said, sources }));
`;
async function ran(cache: string, env: Record<string, string> = {}, root: string = ROOT.href): Promise<Said> {
  const { code, stdout, stderr } = await runDeno(["eval", "--no-check", PROGRAM(root)], {
    env: { DEV: "JS", CACHEDIR: cache, SPEC: "0", NOOPT: "0", ...env },
  });
  assert.equal(code, 0, stderr);
  return { ...JSON.parse(stdout.trim().split("\n").at(-1)!), stderr };
}
const counts = ({ read, written, damaged }: Said): number[] => [read, written, damaged];

Deno.test("another process reads what one has lowered; flags, damage, other sources and a folder that cannot be written", async () => {
  await inFolder(async (folder) => {
    const cache = `${folder}/cache`, first = await ran(cache), n = first.written;
    assert.ok(n > 3, String(n));
    assert.deepEqual(counts(first), [0, n, 0]);
    const again = await ran(cache);
    assert.deepEqual([again.values, counts(again)], [first.values, [n, 0, 0]]);
    const [library] = [...Deno.readDirSync(`${cache}/lowered`)], place = `${cache}/lowered/${library.name}`;
    const names = [...Deno.readDirSync(place)].map((e) => e.name).filter((name) => !name.endsWith(".schedule"));
    assert.deepEqual(counts(await ran(cache, { NOOPT: "1" })).slice(0, 1), [0]);
    assert.deepEqual(counts(await ran(cache, { SPEC: "1" })), [0, 0, 0]);
    // damage: other bytes, a file that ends early, an empty one
    let whole = 0; // what it takes to run a kernel is whole, and its list is not
    for (const [k, name] of names.entries()) {
      const path = `${place}/${name}`, bytes = Deno.readFileSync(path);
      const at = k % 4 < 2 ? bytes.length >> 1 : bytes.indexOf(10, 1) + 9; // in the list; in what stands before it
      if (k % 2 === 0) bytes[at] = bytes[at] === 48 ? 49 : 48;
      if (k % 4 < 2) whole++;
      Deno.writeFileSync(path, k === 5 ? new Uint8Array() : k % 2 === 0 ? bytes : bytes.subarray(0, at));
    }
    const damaged = await ran(cache, { DEBUG: "1" });
    assert.deepEqual([damaged.values, counts(damaged)], [first.values, [whole - 1, n, n]]);
    assert.match(damaged.stderr, /is damaged; its kernel is made again/);
    const mended = await ran(cache); // written once more, behind what is damaged
    assert.deepEqual([mended.values, counts(mended)], [first.values, [n, 0, 0]]);
    // beyond CACHE_SIZE those go that were not used for longest
    const old = `${place}/${"0".repeat(32)}`;
    Deno.writeFileSync(old, new Uint8Array(3 << 19));
    Deno.utimeSync(old, 1e9, 1e9);
    for (const name of names) Deno.utimeSync(`${place}/${name}`, 1e9 + 1, 1e9 + 1);
    assert.deepEqual(counts(await ran(cache, { CACHE_SIZE: "1" })), [n, 0, 0]);
    assert.ok(names.every((name) => Deno.statSync(`${place}/${name}`).mtime!.getTime() > 1e12 + 1e9)); // they are used
    const some = await ran(cache, { CACHE_SIZE: "1", ALLOW_TF32: "1" });
    assert.deepEqual(counts(some), [0, n, 0]);
    assert.ok(![...Deno.readDirSync(place)].some((e) => old.endsWith(e.name)));
    assert.ok(names.every((name) => Deno.statSync(`${place}/${name}`).isFile));
    // a file where the folder would be
    Deno.writeTextFileSync(`${folder}/file`, "");
    const none = await ran(`${folder}/file`, { DEBUG: "1" });
    assert.deepEqual([none.values, counts(none)], [first.values, [0, 0, 0]]);
    assert.equal([...none.stderr.matchAll(/kernels are lowered in each process/g)].length, 1, none.stderr);
    // a copy of the library, of which one source is another one
    const copy = `${folder}/copy`;
    for (const part of ["src", "backends", "mod.ts", "deno.json"]) await copied(new URL(part, ROOT), `${copy}/${part}`);
    const root = `file://${copy}/`, own = await ran(cache, {}, root);
    assert.deepEqual([own.values, counts(own)], [first.values, [0, n, 0]]);
    assert.deepEqual(counts(await ran(cache, {}, root)), [n, 0, 0]);
    Deno.writeTextFileSync(`${copy}/src/codegen/passes.ts`, "\n", { append: true });
    assert.deepEqual(counts(await ran(cache, {}, root)), [0, n, 0]);
    // what only says which kernels there are
    Deno.writeTextFileSync(`${copy}/src/tensor/tensor.ts`, "\n", { append: true });
    assert.deepEqual(counts(await ran(cache, {}, root)), [n, 0, 0]);
    // a source that changed after the process began: what runs may be what was there before
    Deno.utimeSync(`${copy}/src/codegen/passes.ts`, new Date(), new Date(Date.now() + 3600e3));
    assert.deepEqual(counts(await ran(cache, {}, root)), [0, 0, 0]);
  });
});

Deno.test({
  name: "on CLANG another process lowers, renders and compiles nothing; what is missing is made anew",
  ignore: clangBackend.unavailable() !== undefined,
  fn: () =>
    inFolder(async (folder) => {
      const cache = `${folder}/cache`,
        on = (env = {}): Promise<Said> => ran(cache, { DEV: "CLANG", SHOWS: "1", ...env });
      const made = ({ rendered, lists, ...said }: Said): number[] => [...counts(said as Said), rendered, lists];
      const first = await on(), n = first.written;
      assert.ok(n > 3, String(n));
      assert.deepEqual(made(first), [0, n, 0, n, 0]);
      const again = await on();
      assert.deepEqual([made(again), again.compilers], [[n, 0, 0, 0, 0], 0]);
      // a source is the same, when somebody asks for it
      assert.ok(first.sources.length > 0);
      assert.deepEqual([again.values, again.sources], [first.values, first.sources]);
      // other flags, and another compiler
      const [plain] = [await on({ NOOPT: "1" })];
      assert.deepEqual([plain.values, plain.read, plain.rendered], [first.values, 0, plain.written]);
      // compiled kernels that are gone are compiled, of the lists
      for (const { name } of [...Deno.readDirSync(`${cache}/clang`)]) {
        if (name !== "runtime") Deno.removeSync(`${cache}/clang/${name}`, { recursive: true });
      }
      const compiled = await on();
      assert.deepEqual([compiled.values, made(compiled)], [first.values, [n, 0, 0, n, n]]);
      assert.ok(compiled.compilers > 0);
      // lists that are damaged are not missed, and made anew with what was compiled of them
      const [library] = [...Deno.readDirSync(`${cache}/lowered`)], place = `${cache}/lowered/${library.name}`;
      for (const { name } of Deno.readDirSync(place)) {
        Deno.truncateSync(`${place}/${name}`, Deno.statSync(`${place}/${name}`).size - 9);
      }
      const torn = await on();
      assert.deepEqual([torn.values, torn.sources], [first.values, first.sources]);
      assert.deepEqual([torn.read, torn.written, torn.rendered], [n, 0, 0]);
      for (const { name } of [...Deno.readDirSync(`${cache}/clang`)]) {
        if (name !== "runtime") {
          Deno.removeSync(`${cache}/clang/${name}`, { recursive: true });
        }
      }
      const anew = await on();
      assert.deepEqual([anew.values, made(anew)], [first.values, [n, n, n, n, 0]]);
      assert.deepEqual(made(await on()), [n, 0, 0, 0, 0]);
    }),
});

Deno.test("all that lowered kernels are made by is in the folders that name the library", () => {
  const filesOf = (folder: string): string[] =>
    [...Deno.readDirSync(new URL(`.${folder}`, ROOT))].flatMap(({ name, isDirectory }) =>
      isDirectory ? filesOf(`${folder}${name}/`) : [folder + name]
    );
  const backends = filesOf("/backends/");
  const seen = modulesOf([...backends, "/src/codegen/to_program.ts", "/src/engine/lowered/kernel_data.ts"]);
  assert.ok(seen.size > 200, String(seen.size));
  assert.deepEqual(outsideOf(LOWERING_FOLDERS, seen), []);
});

async function copied(from: URL, to: string): Promise<void> {
  if (Deno.statSync(from).isFile) {
    await Deno.mkdir(to.slice(0, to.lastIndexOf("/")), { recursive: true });
    return await Deno.copyFile(from, to);
  }
  for await (const { name } of Deno.readDir(from)) await copied(new URL(`${from.href}/${name}`), `${to}/${name}`);
}

Deno.test("a library is named by its version, its sources or its files; what is neither is not known", async () => {
  assert.equal(
    libraryText("https://jsr.io/@some/dinograd/1.2.3/src/engine/lowered/lowered_store.ts"),
    "https://jsr.io/@some/dinograd/1.2.3",
  );
  for (const url of [undefined, "https://host.org/main/src/engine/lowered/lowered_store.ts", "file:///app/main.js"]) {
    assert.equal(libraryText(url), undefined);
  }
  await inFolder((folder) => {
    const url = `file://${folder}/dinograd-engine-x1.js`;
    Deno.writeTextFileSync(`${folder}/dinograd-engine-x1.js`, "1");
    const one = libraryText(url);
    Deno.writeTextFileSync(`${folder}/dinograd.js`, "2");
    const two = libraryText(url);
    Deno.writeTextFileSync(`${folder}/dinograd.js`, "3");
    assert.equal(new Set([one, two, libraryText(url), undefined]).size, 4);
  });
});
