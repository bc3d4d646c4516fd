/** Profiles: what ran, how often and for how long, on which device; of functions and of whole programs. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ArgumentError, Device, jit, Tensor } from "../../mod.ts";
import { profile, Profiler } from "../../src/story/profile.ts";
import { spans } from "../../src/helpers/spans.ts";
import { runDeno } from "../system/subprocess.ts";

const devices = Device.list().filter((d) => d.available && ["CLANG", "WASM", "JS"].includes(d.name)).map((d) => d.name);

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
      const p = profiler.profile(undefined), launches = p.kernels.reduce((sum, k) => sum + k.launches, 0);
      assertEquals(launches, 5 * f.stats.kernels);
      return { off, on, kernels: f.stats.kernels };
    });
    assert(many.kernels >= few.kernels + 10);
    // a stack is taken where a tensor is disposed of
    assertEquals([few.off, many.off], [[0, 5], [0, 5]]);
    assertEquals(many.on, few.on);
    assert(many.on[0] <= 5 * 4 && many.on[1] <= 5 * 2, String(many.on));
  });
}

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

Deno.test("profile: what throws ends it; what is no function is refused", async () => {
  await assertRejects(() => profile(() => Promise.reject(new Error("no"))), Error, "no");
  assertEquals(spans.listener, undefined);
  await assertRejects(() => profile(3 as never), ArgumentError, "profile");
});

Deno.test("profile: PROFILE=name on a program that throws", async () => {
  const folder = await Deno.makeTempDir(), mod = new URL("../../mod.ts", import.meta.url).href;
  try {
    await Deno.writeTextFile(
      `${folder}/program.ts`,
      `import { Tensor } from "${mod}";
Tensor.ones([64], { device: "WASM" }).contiguous().add(2).realize();
throw new Error("halfway");`,
    );
    const args = ["run", "-A", "--no-check", "program.ts"];
    const { code, stderr } = await runDeno(args, { cwd: folder, env: { PROFILE: "sub/trace.pftrace" } });
    assertEquals(code, 1);
    assertMatch(
      stderr,
      /^PROFILE: sub\/trace\.pftrace\nprofile: [^]*WASM: \d+ launch[^]*program\.ts:2:\d+\n[^]*halfway/m,
    );
    assert((await Deno.stat(`${folder}/sub/trace.pftrace`)).size > 500);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
