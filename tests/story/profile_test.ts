/** Profiles: what ran, how often and for how long, on which device; of functions and of whole programs. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ArgumentError, context, Device, jit, Tensor } from "../../mod.ts";
import { Profile, profile } from "../../src/story/profile.ts";
import { Profiler } from "../../src/story/profiler.ts";
import { listen, spans } from "../../src/helpers/spans.ts";
import { opensHere } from "../fixtures/devices.ts";
import { runDeno } from "../system/subprocess.ts";
import { withProgram } from "./program_folder.ts";

const devices = Device.list().filter((d) => d.available && ["CLANG", "WASM", "JS"].includes(d.name)).map((d) => d.name);

Device.get();
for (const device of devices) Device.get(device);
for (const device of devices) {
  Deno.test(`profile ${device}: counts launches, eager and replayed, and nothing after its end`, async () => {
    const x = Tensor.rand([33, 17], { device }).realize(), step = jit((t: Tensor) => t.exp().sum(0).mul(2));
    step(x), step(x);
    const want = await step(x).tolist();
    const p = await profile(async () => {
      for (let i = 0; i < 7; i++) step(x);
      x.add(1.5).realize();
      return await step(x).tolist();
    });
    assertEquals([p.result, spans.listener], [want, undefined]);
    assertEquals(p.devices.map((d) => d.name), [device]);
    const [{ launches, busyMs, idleMs }] = p.devices;
    assertEquals(p.kernels.map((k) => k.launches).sort().join(), p.kernels.length === 2 ? "1,8" : "1,8,8");
    assertEquals(launches, p.kernels.reduce((n, k) => n + k.launches, 0));
    assert(busyMs > 0 && idleMs >= 0 && busyMs + idleMs <= p.timeMs);
    assert(p.kernels.every((k) => k.device === device && k.timeMs > 0 && k.flops >= 0 && k.bytes > 0));
    assert((p.host.replay ?? 0) > 0 && (p.host.schedule ?? 0) > 0 && (p.host.read ?? 0) > 0);
    assert(p.kernels.some((k) => /^tests\/story\/profile_test\.ts:\d+:\d+$/.test(k.line ?? "")));
    assert(p.peakBytes[device] > 0 && p.trace().length > 500);
    const text = p.summary(1);
    assertMatch(
      text,
      new RegExp(`^profile: [^]*\n${device}: \\d+ launches, 0 copies, busy [^]*\n +\\d+ .* (r|E)_\\w+`),
    );
    if (p.kernels.length > 1) assertMatch(text, /and \d kernels? more$/);
    assert(JSON.stringify(p).includes('"overlapMs":0'));
  });
}

/** Clocks that are read, and stacks that are taken, while a function runs so often. */
function costs(times: number, fn: () => void): readonly [clocks: number, stacks: number] {
  const { now } = performance, original = globalThis.Error;
  let clocks = 0, stacks = 0;
  performance.now = () => (clocks++, now.call(performance));
  globalThis.Error = new Proxy(original, { construct: (T, args) => (stacks++, new T(...args)) });
  try {
    for (let i = 0; i < times; i++) fn();
  } finally {
    delete (performance as { now?: unknown }).now;
    globalThis.Error = original;
  }
  return [clocks, stacks];
}

for (const device of devices.filter((d) => d === "CLANG")) {
  Deno.test(`profile ${device}: a replay costs nothing while nobody listens, and as much for many kernels as for few`, () => {
    const x = Tensor.rand([8, 8], { device }).realize();
    const chain = (n: number) =>
      jit((t: Tensor) => {
        for (let i = 0; i < n; i++) t = t.add(i).sum(0, { keepdim: true }).expand([8, 8]).contiguous();
        return t;
      });
    const [few, many] = [2, 12].map((n) => {
      const f = chain(n), step = () => f(x).dispose();
      step(), step(), step();
      const off = costs(5, step), profiler = new Profiler();
      let on;
      try {
        on = costs(5, step);
      } finally {
        profiler.stop();
      }
      const p = new Profile(undefined, profiler.collected()),
        launches = p.kernels.reduce((sum, k) => sum + k.launches, 0);
      assertEquals(launches, 5 * f.stats.kernels);
      return { off, on, kernels: f.stats.kernels };
    });
    assert(many.kernels >= few.kernels + 10);
    // a stack is taken where a tensor is disposed of
    assertEquals([few.off, many.off], [[0, 5], [0, 5]]);
    assertEquals(many.on, few.on);
    // clocks of a replay: its beginning and end; one stack for the result, of the first call
    assertEquals(many.on, [5 * 2, 5 + 1]);
  });
}

Deno.test({
  name: "profile CLANG: threads, their cores, and counters as far as the system has them",
  ignore: !devices.includes("CLANG"),
  fn: async () => {
    const x = Tensor.rand([256, 256], { device: "CLANG" }).realize(),
      step = jit((t: Tensor) => t.matmul(t).relu().sum(0));
    step(x), step(x);
    const plain = await profile(() => step(x).realize());
    assert(plain.kernels.every((k) => k.counts === undefined) && !plain.summary().includes("counters"));
    const p = await profile(async () => {
      for (let i = 0; i < 5; i++) step(x);
      return await x.exp().sum().item();
    }, { counters: true });
    for (const { threads, devices: [{ launches, busyMs }] } of [plain, p]) {
      assert(threads.length >= 1 && threads.every((t, i) => t.device === "CLANG" && (i === 0 || t.thread > 0)));
      // each launch is of one thread at least; no thread works longer than all launches take
      assert(threads.reduce((n, t) => n + t.launches, 0) >= launches);
      for (const t of threads) {
        assert(t.busyMs > 0 && t.busyMs <= busyMs * 1.01 && t.launches <= launches, String(t.busyMs));
      }
      if (Deno.build.os === "linux") assert(threads.every((t) => t.cores.length > 0 && t.cores.every((c) => c >= 0)));
    }
    assertMatch(p.summary(), /^threads of CLANG: \d+ [\d.]+ m?s of \d+ launch/m);
    const missing = Device.get("CLANG").threadTimes!.uncounted();
    for (const { counts = {} } of p.kernels) {
      const names = Object.entries({
        "page faults": counts.pageFaults,
        "context switches": counts.contextSwitches,
        "time on cores": counts.cpuMs,
        "cycles": counts.cycles,
        "instructions": counts.instructions,
        "cache misses": counts.cacheMisses,
      });
      for (const [name, n] of names) {
        assertEquals(n === undefined, missing?.includes(name) === true, `${name}: ${missing}`);
      }
    }
    // a thread is on a core at most as long as it works, and has the pages of new memory found for it when it writes them
    for (const { counts, launches, timeMs } of p.kernels) {
      if (counts?.cpuMs === undefined) continue;
      assert(counts.cpuMs > 0 && counts.cpuMs <= timeMs * p.threads.length + 0.1 * launches, `${counts.cpuMs} ms`);
    }
    if (Deno.build.os === "linux") {
      const { kernels: [{ counts }] } = await profile(
        () => Tensor.arange(1 << 25, { device: "CLANG" }).mul(3).realize(),
        { counters: true },
      );
      // of pages as large as this system has: 4 kB to 1 GB
      assert(counts!.pageFaults! > 0, `${counts!.pageFaults} page faults of 128 MB`);
      assert(counts!.contextSwitches! >= 0 && counts!.cpuMs! > 0);
    }
    if (missing !== undefined) {
      assertMatch(missing, /^this system does not count [\w ,]+: \S/);
      assertEquals(p.summary().split(`\ncounters: ${missing}\n`).length, 2, "it is said once");
    }
    const text = new TextDecoder("latin1").decode(p.trace());
    for (const { thread } of p.threads) assert(text.includes(`CLANG thread ${thread}`));
    const watch = Device.get("CLANG").threadTimes!.start(false), { list } = watch;
    watch.stop();
    step(x);
    assertEquals(watch.list, list, "nobody watches any more");
  },
});

Deno.test({
  name: "profile CLANG: threads are told whoever else watches, and where kernels are launched one by one",
  ignore: !devices.includes("CLANG"),
  fn: async () => {
    const x = Tensor.rand([256, 256], { device: "CLANG" }).realize(), step = jit((t: Tensor) => t.matmul(t).sum(0));
    const work = (): void => [1, 2, 3].forEach(() => step(x)),
      launchesOf = (p: Profile<unknown>): number[] => [
        p.devices[0].launches,
        p.threads.reduce((n, t) => Math.max(n, t.launches), 0),
      ];
    work();
    const heard: string[] = [],
      stop = listen(({ kind, name, deviceMs }) => {
        if (kind === "launch" && deviceMs! > 0) heard.push(name);
      });
    const inner: Profile<unknown>[] = [], { error } = console, printed: string[] = [];
    try {
      const outer = await profile(async () => void inner.push(await profile(work)));
      const [launches, most] = launchesOf(outer);
      assertEquals(launchesOf(inner[0]), [launches, most]);
      assert(launches > 0 && most > 0 && most <= launches, `${most} of ${launches}`);
      assertEquals(heard.length, launches);
      console.error = (...text: unknown[]) => printed.push(text.join(" "));
      const alone = await context({ DEBUG: 2 }, () => profile(work));
      assertEquals(alone.devices[0].launches, launches);
      assert(launchesOf(alone)[1] > 0 && printed.some((line) => line.includes("CLANG")), alone.summary());
    } finally {
      console.error = error;
      stop();
    }
  },
});

Deno.test("profile: what counters of the processor say stands with the kernel", () => {
  const kernel = { name: "r_4_4", device: "CLANG", launches: 0, timeMs: 0, flops: 8, bytes: 4, line: undefined };
  const part = { kernel, thread: 0, core: 1, startMs: 0, endMs: 1 };
  const counts = { cycles: 1000, instructions: 2500, cacheMisses: 7, pageFaults: 0, contextSwitches: 1, cpuMs: 0.5 };
  const profile = new Profile(undefined, {
    startMs: 0,
    endMs: 2,
    spans: [],
    kernels: [{ ...kernel, launches: 2, timeMs: 2, counts }],
    samples: new Map(),
    parts: [{ ...part, counts }],
    uncounted: undefined,
    dropped: 0,
  });
  const said = "  (2.50 instructions a cycle, 3.5 cache misses, 0.5 context switches, 250 µs on cores a launch)";
  assert(profile.summary().endsWith(said), profile.summary());
  const trace = new TextDecoder("latin1").decode(profile.trace());
  for (const name of Object.keys(counts)) assert(trace.includes(name), name);
});

Deno.test("profile: threads that cannot be told apart are said to be so", async () => {
  const threads = Number(Device.get("WASM").info().threads);
  const p = await profile(() => Tensor.ones([8], { device: "WASM" }).contiguous().add(0.75).realize());
  const said = `threads of WASM: ${threads}, not told apart: their code has no clock, and is not told its core`;
  assertEquals([p.threads.length, p.summary().includes(said)], [0, threads > 1]);
});

Deno.test("profile: what ranks do together is told apart from copies", async () => {
  const x = Tensor.rand([16, 8], { device: "WASM" }).realize();
  const p = await profile(() => x.shard(["WASM", "WASM:1"], { axis: 0 }).sum(0).sum().item());
  assert(p.devices.some((d) => d.collectives > 0), JSON.stringify(p.devices));
  assertMatch(p.summary(), /^WASM,WASM:1: .* collectives?, busy /m);
  assert(new TextDecoder("latin1").decode(p.trace()).includes("collective"));
});

Deno.test({
  name: "profile WEBGPU: launches have the times of the device's clock",
  ignore: !await opensHere("WEBGPU"),
  fn: async () => {
    const gpu = await Device.open("WEBGPU"), before = performance.now();
    const x = await Promise.resolve(Tensor.rand([64, 64], { device: "WEBGPU" }).realize());
    const p = await profile(async () => {
      for (let i = 0; i < 3; i++) x.matmul(x).relu().realize();
      return await x.sum().item();
    });
    const launches = p.kernels.reduce((n, k) => n + k.launches, 0), hasClock = gpu.info().timestamps === true;
    assert(launches >= 4);
    assertEquals(p.summary().includes("only queued, not timed"), !hasClock);
    if (hasClock) {
      const [{ busyMs }] = p.devices.filter((d) => d.name === "WEBGPU");
      assert(p.kernels.every((k) => k.timeMs > 0) && busyMs > 0 && busyMs <= performance.now() - before);
    }
  },
});

Deno.test("profile: copies, compiling and captures are told", async () => {
  const p = await profile(() => {
    const f = jit((t: Tensor) => t.mul(0.3791).add(t.sqrt()));
    const x = new Tensor([1, 4, 9], { device: "WASM" });
    f(x), f(x);
    return f(x.to("JS")).realize();
  });
  assert(p.devices.some((d) => d.copies > 0));
  for (const kind of ["trace", "schedule", "lower", "compile", "pass"] as const) assert((p.host[kind] ?? 0) > 0, kind);
});

Deno.test("profile: lines of the user's are taken as long as they do not take too much of the time", () => {
  const run = (n: number): number => {
    const before = spans.lines;
    for (let i = 0; i < n; i++) new Tensor([i], { device: "JS" }).add(0.25).realize();
    return spans.lines - before;
  };
  assertEquals([run(50), spans.wantsLines], [0, true], "nobody listens");
  const profiler = new Profiler();
  try {
    const first = run(200), all = first + run(20_000), each = first / 200;
    assert(each >= 2, "each operation has its line");
    assert(all < 20_200 * each / 2, `${all} lines`);
    assertEquals(spans.wantsLines, false);
    const stop = listen(() => {}), isWanted = spans.wantsLines, more = run(50);
    stop();
    assert(isWanted && more >= 100, "who listens beside it has them all");
    assertEquals([spans.wantsLines, run(20_000)], [false, 0], "all kernels have theirs: no line tells more");
  } finally {
    profiler.stop();
  }
  assertEquals(spans.wantsLines, true);
  const { kernels } = profiler.collected();
  assert(kernels.every((k) => k.launches > 0 && /^tests\/story\/profile_test\.ts:\d+:\d+$/.test(k.line ?? "")));
});

Deno.test("profile: a batch that is copied is told by one call, and is what several calls tell beside another listener", () => {
  const told = (beside: boolean): unknown[] => {
    const stop = beside ? listen(() => {}) : () => {}, profiler = new Profiler();
    try {
      const x = new Tensor([1, 2, 3], { device: "JS" }).to("WASM").realize();
      x.add(1).realize();
    } finally {
      profiler.stop();
      stop();
    }
    const { spans, samples } = profiler.collected(),
      isOwn = (k: string) => ["schedule", "copy", "run", "launch"].includes(k);
    assert(spans.every((s) => s.startMs <= s.endMs));
    const named = spans.filter((s) => isOwn(s.kind)).map((s) => [s.kind, s.name, s.device, s.flows.length]);
    return [...named, [...samples.keys()].sort()];
  };
  told(true); // compiles
  const alone = told(false);
  assertEquals(alone, told(true));
  assertEquals(alone.slice(0, 3), [
    ["schedule", "schedule", undefined, 1],
    ["copy", "copy 12 bytes, WASM <- JS", "WASM", 1],
    ["run", "run", undefined, 2],
  ]);
});

Deno.test("profile: a kernel that first ran without a line has that of a later launch", async () => {
  const profiler = new Profiler(), step = (y: number) => new Tensor([1, 2, 3], { device: "JS" }).mul(y).realize();
  try {
    for (let i = 0; i < 1e5 && spans.wantsLines; i++) step(0.5);
    step(0.7391);
    const lines = profiler.collected().kernels.map((k) => k.line !== undefined);
    assertEquals(lines, [true, false]);
    for (let i = 0; i < 100 && !spans.wantsLines; i++) {
      await new Promise((done) => setTimeout(done, 50));
      step(0.5);
    }
    step(0.7391);
  } finally {
    profiler.stop();
  }
  const { kernels } = profiler.collected();
  assertEquals(kernels[1].launches, 2);
  assertMatch(kernels[1].line ?? "", /profile_test\.ts:\d+/);
});

Deno.test("profile: what throws ends it; what is no function is refused", async () => {
  await assertRejects(() => profile(() => Promise.reject(new Error("no"))), Error, "no");
  assertEquals(spans.listener, undefined);
  await assertRejects(() => profile(3 as never), ArgumentError, "profile");
  await assertRejects(() => profile(() => 1, { counters: 3 } as never), ArgumentError, "counters");
  await assertRejects(() => profile(() => 1, { counts: true } as never), ArgumentError, "counts");
});

Deno.test("profile: PROFILE=name on a program that throws", () =>
  withProgram(
    `Tensor.ones([64], { device: "WASM" }).contiguous().add(2).realize();
throw new Error("halfway");`,
    async (folder) => {
      const args = ["run", "-A", "--no-check", "program.ts"];
      const { code, stderr } = await runDeno(args, { cwd: folder, env: { PROFILE: "sub/trace.pftrace" } });
      assertEquals(code, 1);
      assertMatch(
        stderr,
        /^PROFILE: sub\/trace\.pftrace\nprofile: [^]*WASM: \d+ launch[^]*program\.ts:2:\d+\n[^]*halfway/m,
      );
      assert((await Deno.stat(`${folder}/sub/trace.pftrace`)).size > 500);
    },
  ));
