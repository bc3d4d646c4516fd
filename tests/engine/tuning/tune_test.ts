/**
 * Tuning: what is found by measuring replaces the chooser's opts where it is faster for certain and right, and is kept on
 * disk. Devices of made-up times stand for machines.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { makeJsDevice } from "../../../backends/js/js.ts";
import {
  ArgumentError,
  type CompiledKernel,
  context,
  Device,
  DeviceError,
  jit,
  schedule,
  Tensor,
  tune,
  type TuneEvent,
} from "../../../mod.ts";
import { optsText, parseOpts } from "../../../src/codegen/opt/opt.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import type { Device as OpenDevice } from "../../../src/device/device.ts";
import type { Launch, Program } from "../../../src/device/program.ts";
import { terminal } from "../../../src/engine/progress.ts";
import { searchKernel, tunedKey, tunedStore, whyNotTuned } from "../../../src/engine/tuning/search.ts";
import { TunedStore } from "../../../src/engine/tuning/tuned_store.ts";
import { getDevice } from "../../../src/device/device.ts";
import { CAPS } from "../../codegen/harness.ts";
import { KERNELS } from "../../codegen/kernels.ts";

Device.get(); // at the top: libraries stay open
Device.get("WASM");

const KEY = "0123456789abcdef0123456789abcdef";

/** Runs `fn` with a cache folder of its own, which is removed. */
async function inFolder<T>(fn: (folder: string) => T | Promise<T>): Promise<T> {
  const folder = Deno.makeTempDirSync();
  try {
    return await context({ CACHEDIR: folder, NOOPT: 0, BEAM: 0 }, () => fn(folder));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/**
 * A device with vectors whose programs take what `msOf` says of their opts, and do what `onRun` does besides; the
 * chooser's, which it made first, take 1 ms.
 */
function machine(
  msOf: (opts: string) => number,
  onRun: (launch: Launch, isChosen: boolean) => void = () => {},
): OpenDevice {
  const device = makeJsDevice(CAPS.small, "MACHINE");
  let ms = 0, chosen: string | undefined;
  const run = (launches: readonly Launch[]): void => {
    for (const l of launches) {
      const { opts = "" } = l.program.linear;
      device.run([l]);
      onRun(l, opts === (chosen ??= opts));
      ms += opts === chosen ? 1 : msOf(opts);
    }
  };
  return {
    name: device.name,
    renderer: device.renderer,
    compiler: device.compiler,
    allocator: device.allocator,
    run,
    graph: (launches) => ({ ...device.graph([]), run: () => run(launches), dispose() {} }),
    synchronize: () => device.synchronize(),
    timeSync(queue) {
      ms = 0;
      queue();
      return ms;
    },
    info: () => device.info(),
    close() {},
  };
}

function search(device: OpenDevice, ast = KERNELS.sum_columns) {
  const [chosen] = device.compiler.compile([toProgram(ast, device.renderer)]);
  return { chosen, outcome: () => searchKernel(device, ast, chosen, { width: 6 }) };
}

Deno.test("tune: the store keeps what was found over processes, and nothing else", () =>
  inFolder((folder) => {
    const opts = parseOpts("VECTOR:0:4 STAGE:1:loops=1")!, first = new TunedStore(folder);
    first.set(KEY, { opts: undefined, ratio: 1, tried: 4 });
    first.set(KEY, { opts, ratio: 0.5, tried: 8 });
    assertEquals(new TunedStore(folder).get(KEY), { opts, ratio: 0.5, tried: 8 });
    // torn by a process that was killed, damaged, and of another version
    const text = Deno.readTextFileSync(`${folder}/tuned`), line = text.trim().split("\n").at(-1)!;
    for (
      const bad of [
        line.slice(0, -9),
        line.replace("VECTOR", "UPCAST"),
        line.replace(/^./, (c) => c === "0" ? "1" : "0"),
      ]
    ) {
      Deno.writeTextFileSync(`${folder}/tuned`, bad.replaceAll(KEY, KEY.replace("0", "f")), { append: true });
      const again = new TunedStore(folder);
      assertEquals(again.get(KEY)?.ratio, 0.5);
      assertEquals(again.get(KEY.replace("0", "f")), undefined);
    }
    // the next line does not suffer
    new TunedStore(folder).set(KEY.replace("0", "e"), { opts: [], ratio: 0.9, tried: 1 });
    assertEquals(new TunedStore(folder).get(KEY.replace("0", "e")), { opts: [], ratio: 0.9, tried: 1 });
  }));

Deno.test("tune: without a folder, or where it cannot be written, this process knows it all the same", () => {
  for (const folder of [undefined, "/proc/no such folder"]) {
    const store = new TunedStore(folder);
    store.set(KEY, { opts: [], ratio: 0.9, tried: 1 });
    assertEquals(store.get(KEY)?.ratio, 0.9);
  }
});

Deno.test("tune: a candidate that ended the process is known to the next one", () =>
  inFolder((folder) => {
    const [good, bad] = ["UPCAST:0:2", "UPCAST:0:4"].map((t) => parseOpts(t)!), store = new TunedStore(folder);
    store.note(KEY, good, true);
    store.note(KEY, good, false);
    store.note(KEY, bad, true);
    assertEquals([...new TunedStore(folder).crashed(KEY)], ["UPCAST:0:4"]);
    store.set(KEY, { opts: good, ratio: 0.5, tried: 2 });
    assertEquals([...new TunedStore(folder).crashed(KEY)], []);
  }));

Deno.test("tune: the fastest that is right wins, here a neighbor of the best one drawn, and is known from then on", () =>
  inFolder(() => {
    let runs = 0;
    const device = machine((o) => o.includes("UNROLL:0:8") ? 0.4 : o.includes("UNROLL:0:4") ? 0.5 : 1, () => runs++);
    const { chosen, outcome } = search(device), found = outcome();
    assert(optsText(found.opts ?? []).includes("UNROLL:0:8"), optsText(found.opts ?? []));
    assertEquals([found.ratio, found.isKnown, found.problems.length], [0.4, false, 0]);
    assert(found.program !== chosen && runs > 20);
    runs = 0;
    const again = outcome();
    assertEquals([again.isKnown, optsText(again.opts!), runs], [true, optsText(found.opts!), 0]);
  }));

Deno.test("tune: less than 3 % is no reason to change anything", () =>
  inFolder(() => {
    const { chosen, outcome } = search(machine((o) => o.includes("UNROLL") ? 0.98 : 1));
    const { opts, program, ratio, isKnown } = outcome();
    assertEquals([opts, program, ratio, isKnown], [undefined, chosen, 1, false]);
    assertEquals(outcome().isKnown, true);
  }));

Deno.test("tune: what is wrong or fails is told of and left out, however fast it is", () =>
  inFolder(() => {
    const isOf = ({ program }: { program: Program }, op: string): boolean => program.linear.opts?.includes(op) === true;
    const device = machine(
      (o) => /UNROLL|THREAD/.test(o) ? 0.1 : o.includes("UPCAST") ? 0.6 : 1,
      (launch, isChosen) => {
        if (isChosen) return;
        if (isOf(launch, "UNROLL")) launch.buffers[0].copyIn(new Uint8Array(launch.buffers[0].nbytes));
        if (isOf(launch, "THREAD")) throw new DeviceError("run a kernel", { device: "MACHINE", reason: "it traps" });
      },
    );
    const { problems, opts } = search(device).outcome();
    assert(!/UNROLL|THREAD/.test(optsText(opts ?? [])), optsText(opts ?? []));
    assert(problems.some((p) => p.opts.includes("UNROLL") && /of float32 is 0, not/.test(p.reason)));
    assert(problems.some((p) => p.opts.includes("THREAD") && p.reason.includes("it traps")));
    for (const p of problems) assert(/UNROLL|THREAD/.test(p.opts), p.opts);
  }));

Deno.test("tune: a device that is lost ends it with its error; what was found before stays", () =>
  inFolder((folder) => {
    let left = Infinity;
    const device = machine((o) => o.includes("UPCAST") ? 0.5 : 1, () => {
      if (left-- <= 0) throw new DeviceError("run a kernel", { device: "MACHINE", reason: "the device is lost" });
    });
    search(device).outcome();
    left = 12;
    assertThrows(() => search(device, KERNELS.sum_all).outcome(), DeviceError, "the device is lost");
    const store = new TunedStore(folder);
    assert(store.get(tunedKey(device, KERNELS.sum_columns)) !== undefined);
    assertEquals(store.get(tunedKey(device, KERNELS.sum_all)), undefined);
  }));

Deno.test("tune: what cannot be measured, and why", () => {
  const js = getDevice("JS");
  assertEquals(context({ NOOPT: 0 }, () => whyNotTuned(js, KERNELS.matmul)), undefined);
  assertEquals(whyNotTuned(getDevice("NULL"), KERNELS.matmul), "NULL has no clock");
  assertEquals(context({ NOOPT: 1 }, () => whyNotTuned(js, KERNELS.matmul)), "NOOPT turns all opts off");
});

/** The opts of the only kernel of a tensor. */
function optsOf(t: Tensor): string | undefined {
  return (schedule([t])[0].runner as CompiledKernel).program.linear.opts;
}

/** A sum on WASM, another one for each test, and opts that the chooser would not take. */
function sums(rows: number): { x: Tensor; fn: () => Tensor; key: () => string } {
  const x = Tensor.rand([rows, 40], { device: "WASM" }).realize(), fn = () => x.sum(1);
  return { x, fn, key: () => tunedKey(getDevice("WASM"), schedule([fn()])[0].ast!) };
}
const ODD = "UPCAST:0:3 UNROLL:0:2";

Deno.test("tune: functions use what was found, those under jit too; without a budget what was found before", () =>
  inFolder(async () => {
    const { x, fn, key } = sums(33), step = jit((y: Tensor) => y.sum(1));
    const want = await fn().tolist(), before = optsOf(fn());
    for (let i = 0; i < 3; i++) step(x);
    tunedStore().set(key(), { opts: parseOpts(ODD), ratio: 0.5, tried: 9 });
    assertEquals(optsOf(fn()), before);
    const events: TuneEvent[] = [];
    const { timeMs, ...result } = await tune(() => fn().realize(), { budgetMs: 0, progress: (e) => events.push(e) });
    assertEquals(result, { kernels: 1, improved: 1, known: 1, skipped: 0, problems: [] });
    assert(timeMs >= 0);
    assertEquals(events.map(({ total, done, device, opts, ratio }) => [total, done, device, opts, ratio]), [
      [1, 1, "WASM", ODD, 0.5],
    ]);
    assertEquals(optsOf(fn()), ODD);
    const { captures } = step.stats;
    for (let i = 0; i < 3; i++) {
      const got = await step(x).tolist() as number[];
      got.forEach((v, k) => assert(Math.abs(v - (want as number[])[k]) < 1e-4));
    }
    assertEquals(step.stats.captures, captures + 1);
  }));

Deno.test("tune: a budget is kept, and one of zero measures nothing", () =>
  inFolder(async () => {
    const { fn } = sums(35), none = await tune(() => fn().realize(), { budgetMs: 0 });
    assertEquals([none.kernels, none.improved, none.known, none.skipped], [1, 0, 0, 1]);
    const { now } = performance;
    let ms = now.call(performance);
    performance.now = () => ms++; // each look takes a millisecond
    try {
      for (const budgetMs of [60, 600]) {
        const { problems, timeMs } = await tune(() => sums(35 + budgetMs).fn().realize(), { budgetMs });
        assertEquals(problems, []);
        assert(timeMs > budgetMs && timeMs < budgetMs + 100, `${timeMs} ms of ${budgetMs}`);
      }
    } finally {
      performance.now = now;
    }
    const empty = await tune(() => {}, { budgetMs: 60 });
    assertEquals([empty.kernels, empty.improved], [0, 0]);
  }));

Deno.test("tune: async functions, and errors of the function", () =>
  inFolder(async () => {
    const { fn } = sums(37);
    const { kernels } = await tune(async () => {
      await fn().data();
    }, { budgetMs: 0 });
    assertEquals(kernels, 1);
    await assertRejects(
      () =>
        tune(() => {
          throw new RangeError("mine");
        }),
      RangeError,
      "mine",
    );
    // the next one is not in its way
    assertEquals((await tune(() => fn().realize(), { budgetMs: 0 })).kernels, 1);
  }));

Deno.test("tune: BEAM uses what was found, without asking; NULL has no clock and takes the chooser's", () =>
  inFolder(async () => {
    const { fn, key } = sums(39), want = await fn().tolist() as number[], before = optsOf(fn());
    tunedStore().set(key(), { opts: parseOpts(ODD), ratio: 0.5, tried: 9 });
    const got = context({ BEAM: 4 }, () => {
      assertEquals(optsOf(fn()), ODD);
      return fn().tolistSync() as number[];
    });
    got.forEach((v, k) => assert(Math.abs(v - want[k]) < 1e-4));
    assertEquals(optsOf(fn()), before);
    const nothing = (): Tensor => Tensor.empty([64, 64], { device: "NULL" }).sum(0);
    assertEquals(context({ BEAM: 4 }, () => optsOf(nothing())), optsOf(nothing()));
    await assertRejects(() => tune(() => nothing().realize()), DeviceError, "NULL has no clock");
  }));

Deno.test("tune: BEAM measures what is not known, once", () =>
  inFolder((folder) => {
    const x = Tensor.rand([9, 6], { device: "JS" }).realize();
    const value = (): unknown => context({ BEAM: 1 }, () => x.mul(2).sum(0).tolistSync());
    const got = value() as number[], size = Deno.statSync(`${folder}/tuned`).size;
    (x.mul(2).sum(0).tolistSync() as number[]).forEach((v, k) => assert(Math.abs(v - got[k]) < 1e-4));
    assert(size > 0);
    value();
    assertEquals(Deno.statSync(`${folder}/tuned`).size, size);
  }));

Deno.test("tune: a line on a terminal where it takes long", () =>
  inFolder(async () => {
    const lines: string[] = [], { isThere, write } = terminal, { fn, key } = sums(41);
    tunedStore().set(key(), { opts: undefined, ratio: 1, tried: 9 });
    Object.assign(terminal, { isThere: () => true, write: (text: string) => void lines.push(text) });
    try {
      await tune(() => fn().realize(), { budgetMs: 20_000 });
    } finally {
      Object.assign(terminal, { isThere, write });
    }
    assert(lines.some((l) => l.includes("tuning 1 kernel, 0 done")), lines.join("|"));
    assertEquals(lines.at(-1), "\r\x1b[K");
  }));

Deno.test("tune: what is no argument of it", async () => {
  await assertRejects(() => tune(3 as never), ArgumentError, "fn must be a function");
  await assertRejects(() => tune(() => {}, { budgetMs: -1 }), ArgumentError, "at least 0, not -1");
  await assertRejects(() => tune(() => {}, { budgetMs: NaN }), ArgumentError, "not NaN");
  await assertRejects(() => tune(() => {}, { width: 0 }), ArgumentError, "width");
  await assertRejects(() => tune(() => {}, { budget: 1 } as never), ArgumentError, 'unknown option "budget"');
  await assertRejects(() => tune(() => {}, { progress: 1 as never }), ArgumentError, "progress must be a function");
});
